//! Which proxy the environment names for a host.
use crate::settings::Environment;

/// A proxy, and who named it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) variable: &'static str,
    pub(super) address: &'a str,
}

/// The proxy for requests to `origin` (scheme, host, port): `HTTPS_PROXY` or `HTTP_PROXY` by its scheme, else
/// `ALL_PROXY`, unless `NO_PROXY` names the host. Lower-case names count before upper-case ones, as in curl.
pub(super) fn for_origin<'a>(origin: &str, environment: &'a Environment) -> Option<Named<'a>> {
    let (scheme, authority) = origin.split_once("://")?;
    let value = |name: &str| environment.get(&name.to_lowercase()).or_else(|| environment.get(name));
    let own = if scheme.eq_ignore_ascii_case("https") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let named = [own, "ALL_PROXY"]
        .into_iter()
        .find_map(|variable| Some(Named { variable, address: value(variable)?.trim() }))?;
    let excepted = value("NO_PROXY").is_some_and(|list| is_excepted(authority, list));
    (!excepted).then_some(named)
}

/// Whether a list of `host`, `.domain`, `*.domain`, each with or without a port, or `*` names this host. A name
/// covers what is below it.
fn is_excepted(authority: &str, list: &str) -> bool {
    let authority = authority.to_lowercase();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => &authority,
    };
    list.split([',', ' ']).any(|entry| {
        let entry = entry.to_lowercase();
        let domain = entry.trim_start_matches('*').trim_start_matches('.');
        let covers = |name: &str| {
            let rest = name.strip_suffix(domain);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        entry == "*" || !domain.is_empty() && (covers(host) || covers(&authority))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(origin: &str, variables: &[(&str, &str)], expected: Option<(&'static str, &str)>) {
        let environment: Environment = variables.iter().copied().collect();
        let expected = expected.map(|(variable, address)| Named { variable, address });
        assert_eq!(for_origin(origin, &environment), expected, "{origin} {variables:?}");
    }

    #[test]
    fn the_scheme_chooses_the_variable() {
        let both = [("HTTP_PROXY", "http://a"), ("HTTPS_PROXY", "http://b"), ("all_proxy", "http://c")];
        check("http://h", &both, Some(("HTTP_PROXY", "http://a")));
        check("https://h:1", &both, Some(("HTTPS_PROXY", "http://b")));
        check("https://h", &both[2..], Some(("ALL_PROXY", "http://c")));
        check("https://h", &both[..1], None);
        check(
            "http://h",
            &[("HTTP_PROXY", "http://a"), ("http_proxy", "http://l")],
            Some(("HTTP_PROXY", "http://l")),
        );
        check("http://h", &[("HTTP_PROXY", " ")], None);
    }

    #[test]
    fn a_list_excepts_hosts_and_what_is_below_them() {
        for (authority, list, excepted) in [
            ("example.com", "example.com", true),
            ("a.example.com:80", "a.b, .Example.com", true),
            ("example.com:81", "example.com:80", false),
            ("example.com:80", "example.com:80", true),
            ("badexample.com", "example.com", false),
            ("h", "*", true),
            ("h", "*.h, ,", true),
            ("h", "", false),
            ("[::1]:80", "[::1]", true),
        ] {
            assert_eq!(is_excepted(authority, list), excepted, "{authority} {list}");
        }
    }
}

//! URLs: what of them may be shown, where a redirect leads, whether two are one origin.
use ureq::http::Uri;

/// A URL to show: without user name and password, query and fragment.
pub(super) fn plain_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

/// Scheme, host and port of a URL, to show.
pub(super) fn origin(url: &str) -> String {
    let plain = plain_url(url);
    let path = plain.match_indices('/').nth(2).map_or(plain.len(), |(at, _)| at);
    plain.get(..path).unwrap_or_default().to_owned()
}

/// Whether it is called over TLS.
pub(super) fn is_https(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("https"))
}

/// Where a `Location` leads, seen from `base`; `None`: to nothing that HTTP reaches.
pub(super) fn redirected(base: &str, location: &str) -> Option<String> {
    let location = location.trim().split('#').next().unwrap_or_default();
    let (scheme, _) = base.split_once("://")?;
    let (path, _) = base.split_once(['?', '#']).unwrap_or((base, ""));
    if is_http(location) {
        Some(location.to_owned())
    } else if location.is_empty() || names_scheme(location) {
        None
    } else if location.starts_with("//") {
        Some(format!("{scheme}:{location}"))
    } else if location.starts_with('/') {
        Some(format!("{}{location}", origin(base)))
    } else if location.starts_with('?') {
        Some(format!("{path}{location}"))
    } else {
        let folder = path.strip_prefix(&origin(base))?.rsplit_once('/').map_or("", |(folder, _)| folder);
        Some(format!("{}{folder}/{location}", origin(base)))
    }
}

fn is_http(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https"))
}

fn names_scheme(url: &str) -> bool {
    let first = url.split(['/', '?']).next().unwrap_or_default();
    first.contains(':')
}

/// Whether scheme, host and port are the same. What can't be taken apart is nobody's origin.
pub(super) fn same_origin(one: &str, other: &str) -> bool {
    let parts = |url: &str| {
        let uri: Uri = url.parse().ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let default = if scheme == "https" { 443 } else { 80 };
        Some((scheme, uri.host()?.to_ascii_lowercase(), uri.port_u16().unwrap_or(default)))
    };
    parts(one).is_some_and(|one| parts(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_where_a_browser_would_go() {
        let base = "http://h:1/v1/models?a=1";
        for (location, expected) in [
            ("https://o/x", Some("https://o/x")),
            ("//o/x", Some("http://o/x")),
            ("/x#part", Some("http://h:1/x")),
            ("x?b", Some("http://h:1/v1/x?b")),
            ("?b", Some("http://h:1/v1/models?b")),
            ("file:///etc/passwd", None),
            ("javascript:x", None),
            ("", None),
        ] {
            assert_eq!(redirected(base, location).as_deref(), expected, "{location}");
        }
        assert_eq!(redirected("http://h", "x").as_deref(), Some("http://h/x"));
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        for (one, other, same) in [
            ("http://h/a", "http://H:80/b?c", true),
            ("https://h:443", "https://h", true),
            ("http://h", "https://h", false),
            ("https://h", "https://h:444", false),
            ("http://h", "http://h.evil", false),
            ("http://h", "http://h@evil/", false),
            ("http://h", "http://u:p@h/", true),
            ("not a url", "not a url", false),
        ] {
            assert_eq!(same_origin(one, other), same, "{one} {other}");
        }
    }
}

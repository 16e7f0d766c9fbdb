//! MCP servers, as a client names them in `session/new`.
use crate::wire::params::{ParamError, array, members, non_empty, optional, string, typed};
use serde_json::value::RawValue;

/// Checks an `mcpServers` array and gives the servers' names. `built_in` says which names are taken.
///
/// # Errors
/// Names the member: `mcpServers[i].field`.
pub fn check_servers(raw: &RawValue, built_in: &[&str]) -> Result<Vec<String>, ParamError> {
    let servers = array("mcpServers", raw)?;
    servers
        .into_iter()
        .enumerate()
        .map(|(i, raw)| check(&format!("mcpServers[{i}]"), raw, built_in))
        .collect()
}

fn check(at: &str, raw: &RawValue, built_in: &[&str]) -> Result<String, ParamError> {
    let field = |name: &str| format!("{at}.{name}");
    let [name, kind, command, args, env, url, headers] =
        members(raw, ["name", "type", "command", "args", "env", "url", "headers"])
            .map_err(|_| ParamError::new(at, "must be an object"))?;
    let name = non_empty(&field("name"), name)?;
    if built_in.contains(&name.as_str()) {
        return Err(ParamError::new(field("name"), "is a built-in tool's"));
    }
    // A null type is no absent one: whoever sends it means something we don't know.
    let kind =
        kind.map(|kind| typed::<String>(&field("type"), kind, "`stdio`, `http` or `sse`")).transpose()?;
    match kind.as_deref() {
        None if optional(command).is_none() && optional(url).is_some() => {
            return Err(ParamError::new(field("type"), "a url needs a type, `http` or `sse`"));
        }
        None | Some("stdio") => {
            non_empty(&field("command"), command)?;
            if let Some(args) = optional(args) {
                typed::<Vec<String>>(&field("args"), args, "an array of strings")?;
            }
            check_pairs(&field("env"), env)?;
        }
        Some("http" | "sse") => {
            non_empty(&field("url"), url)?;
            check_pairs(&field("headers"), headers)?;
        }
        Some(_) => return Err(ParamError::new(field("type"), "must be `stdio`, `http` or `sse`")),
    }
    Ok(name)
}

/// A list of `{name, value}`.
fn check_pairs(at: &str, raw: Option<&RawValue>) -> Result<(), ParamError> {
    let Some(raw) = optional(raw) else { return Ok(()) };
    for (i, pair) in array(at, raw)?.into_iter().enumerate() {
        let at = format!("{at}[{i}]");
        let [name, value] =
            members(pair, ["name", "value"]).map_err(|_| ParamError::new(&at, "must be {name, value}"))?;
        non_empty(&format!("{at}.name"), name)?;
        string(&format!("{at}.value"), value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of(servers: &str) -> Result<Vec<String>, String> {
        let raw = RawValue::from_string(servers.into()).unwrap();
        check_servers(&raw, &["bash"]).map_err(|e| e.field)
    }

    #[test]
    fn each_entry_is_checked_and_the_member_named() {
        let ok = r#"[{"name":"a","command":"x","args":["b"],"env":[{"name":"K","value":""}]},
            {"type":"http","name":"b","url":"http://x","headers":[]},{"type":"stdio","name":"c","command":"x"}]"#;
        assert_eq!(field_of(ok), Ok(vec!["a".into(), "b".into(), "c".into()]));
        for (servers, field) in [
            ("{}", "mcpServers"),
            ("[3]", "mcpServers[0]"),
            (r#"[{"command":"x"}]"#, "mcpServers[0].name"),
            (r#"[{"name":"","command":"x"}]"#, "mcpServers[0].name"),
            (r#"[{"name":"bash","command":"x"}]"#, "mcpServers[0].name"),
            (r#"[{"name":"a"}]"#, "mcpServers[0].command"),
            (r#"[{"name":"a","command":""}]"#, "mcpServers[0].command"),
            (r#"[{"name":"a","command":"x","args":[1]}]"#, "mcpServers[0].args"),
            (r#"[{"name":"a","command":"x","env":{"K":"v"}}]"#, "mcpServers[0].env"),
            (r#"[{"name":"a","command":"x","env":[{"name":"K"}]}]"#, "mcpServers[0].env[0].value"),
            (r#"[{"name":"a","command":"x"},{"name":"a","type":null,"command":"x"}]"#, "mcpServers[1].type"),
            (r#"[{"name":"a","type":"ws","url":"x"}]"#, "mcpServers[0].type"),
            (r#"[{"name":"a","url":"http://x"}]"#, "mcpServers[0].type"),
            (r#"[{"name":"a","type":"sse"}]"#, "mcpServers[0].url"),
            (
                r#"[{"name":"a","type":"http","url":"x","headers":[{"value":"v"}]}]"#,
                "mcpServers[0].headers[0].name",
            ),
        ] {
            assert_eq!(field_of(servers), Err(field.into()), "{servers}");
        }
    }
}

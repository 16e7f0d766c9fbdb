//! Comparing a message with what was expected of it: globs in strings, names for what only Bob knows.
use serde_json::Value;
use std::collections::BTreeMap;

/// What has been named so far: `$NAME` → value.
pub type Names = BTreeMap<String, String>;

/// Whether members that are not named may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// No: the objects hold the same members.
    Exact,
    /// Yes: the members named are there.
    Subset,
}

/// Compares; the error says where and why. In `expected` the string `*` fits any value, `*` in a string any run of
/// characters, and a string `$NAME` takes the name for the value the first time and stands for it afterwards.
pub fn matches(how: How, expected: &Value, got: &Value, names: &mut Names) -> Result<(), String> {
    // What a failed try has named is forgotten.
    let mut tried = names.clone();
    at("", how, expected, got, &mut tried)?;
    *names = tried;
    Ok(())
}

fn at(path: &str, how: How, expected: &Value, got: &Value, names: &mut Names) -> Result<(), String> {
    match (expected, got) {
        (Value::String(pattern), _) if pattern == "*" => Ok(()),
        (Value::String(pattern), Value::String(text)) => match_text(path, pattern, text, names),
        (Value::Object(wanted), Value::Object(members)) => {
            for (name, expected) in wanted {
                let path = format!("{path}.{name}");
                let got = members.get(name).ok_or_else(|| format!("`{path}` is missing"))?;
                at(&path, how, expected, got, names)?;
            }
            match members.keys().find(|name| !wanted.contains_key(*name)) {
                Some(name) if how == How::Exact => Err(format!("`{path}.{name}` was not expected")),
                _ => Ok(()),
            }
        }
        (Value::Array(wanted), Value::Array(items)) if wanted.len() == items.len() => {
            wanted.iter().zip(items).enumerate().try_for_each(|(index, (expected, got))| {
                at(&format!("{path}[{index}]"), how, expected, got, names)
            })
        }
        _ if expected == got => Ok(()),
        _ => Err(format!("`{path}` is {got}, expected {expected}")),
    }
}

fn match_text(path: &str, pattern: &str, text: &str, names: &mut Names) -> Result<(), String> {
    if is_name(pattern) && !names.contains_key(pattern) {
        names.insert(pattern.into(), text.into());
        return Ok(());
    }
    let filled = fill(pattern, names);
    if glob(&filled, text) { Ok(()) } else { Err(format!("`{path}` is {text:?}, expected {filled:?}")) }
}

fn is_name(text: &str) -> bool {
    text.strip_prefix('$').is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    })
}

/// Puts the value of each name in its place, the longest name first.
pub fn fill(text: &str, names: &Names) -> String {
    names.iter().rev().fold(text.to_owned(), |text, (name, value)| text.replace(name.as_str(), value))
}

/// Whether `pattern`, in which `*` stands for any run of characters, fits all of `text`.
pub fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = pattern.contains('*').then(|| parts.next_back().unwrap_or_default()) else {
        return rest.is_empty();
    };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

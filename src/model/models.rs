//! Which models an endpoint says it has.
use crate::cancel::CancelToken;
use crate::model::Failure;
use crate::model::complaint::Complaint;
use crate::model::endpoint::dialect_of;
use crate::model::failure::Trouble;
use crate::model::http::{Client, Get};
use crate::model::json;
use crate::settings::Environment;
use crate::settings::config::Net;
use crate::settings::llm::Endpoint;
use serde_json::Value;
use std::collections::HashSet;
use std::time::Duration;

/// A list, in bytes of its body. The longest known one has half a megabyte.
const LIST_LIMIT: usize = 8 << 20;
/// A longer name, in bytes, is none.
const NAME_LIMIT: usize = 256;

/// Asks the endpoint for its models, in its own order, each once. `limit` is for all of it.
///
/// # Errors
/// [`Failure`]: no answer within `limit`, an error status, something else than a list. Its message never holds the
/// key. After a cancel it says so.
pub fn list_models(
    endpoint: &Endpoint,
    net: &Net,
    environment: &Environment,
    cancel: &CancelToken,
    limit: Duration,
) -> Result<Vec<String>, Failure> {
    let dialect = dialect_of(endpoint);
    let get = Get {
        url: url(dialect.url()),
        headers: vec![("accept", "application/json".into())],
        credentials: dialect.headers(endpoint.api_key.as_ref()),
        within: limit,
    };
    let key = endpoint.api_key.as_ref();
    let mut listed = fetch(&mut Client::new(net, environment), &get, cancel)
        .map_err(|trouble| trouble.into_failure(key))?;
    listed.retain(|name| !key.is_some_and(|key| key.is_in(name)));
    Ok(listed)
}

fn fetch(client: &mut Client, get: &Get, cancel: &CancelToken) -> Result<Vec<String>, Trouble> {
    let answer = client.get(get, cancel)?;
    let status = answer.status;
    if !(200..300).contains(&status) {
        let complaint = Complaint::from_body(&answer.error_body()?);
        return Err(Trouble::Status { status, complaint, retry_after: None });
    }
    let body = answer.whole_body(LIST_LIMIT)?.ok_or(Trouble::TooLarge("8 MiB"))?;
    let names = std::str::from_utf8(&body).ok().and_then(|text| names(&json::value(text).ok()?));
    names.ok_or_else(|| {
        let words = "the endpoint's answer is no list of models".to_owned();
        Trouble::Told(Complaint { words, status: Some(status), ..Complaint::default() })
    })
}

/// The list lies beside what requests are sent to.
fn url(request_url: &str) -> String {
    let base = ["/chat/completions", "/responses", "/messages"]
        .iter()
        .find_map(|path| request_url.strip_suffix(path));
    format!("{}/models", base.unwrap_or(request_url))
}

/// `{"data": [{"id": …}]}` as nearly all write it, `{"models": [{"name": …}]}`, or the bare list.
fn names(list: &Value) -> Option<Vec<String>> {
    let entries = [&list["data"], &list["models"], list].into_iter().find_map(Value::as_array)?;
    let mut seen = HashSet::new();
    let names = entries.iter().filter_map(name).filter(|name| seen.insert(*name));
    Some(names.map(str::to_owned).collect())
}

fn name(entry: &Value) -> Option<&str> {
    let name = [entry, &entry["id"], &entry["name"], &entry["model"]].into_iter().find_map(Value::as_str)?;
    let is_name = !name.trim().is_empty() && name.len() <= NAME_LIMIT && !name.chars().any(char::is_control);
    is_name.then_some(name)
}

#[cfg(test)]
mod tests;

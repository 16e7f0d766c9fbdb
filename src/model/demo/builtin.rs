//! What the demo model says without a script: it greets, and calls a tool when the prompt begins with a word it
//! knows.
use super::reply;
use super::script::{ScriptedReply, Step, words};
use crate::model::{Arguments, Message, Request, ToolResult};
use crate::text::clean;
use serde_json::{Value, json};

const GREETING: &str = "Hello! I am Bob's demo model. I am no real model: I only follow a small script, so that \
you can see Bob at work without a key or a network.\n\n\
Try one of these:\n\
- `list` lists the files here\n\
- `read FILE` reads a file\n\
- `write FILE TEXT` writes one\n\
- `edit FILE` changes its first line\n\
- `run COMMAND` runs a command\n\n\
To talk to a real model, run `bob --login` in a terminal, or set LLM_PROVIDER and that provider's key, URL \
and model.\n";

/// What may stand around a file's name in a prompt.
const QUOTES: [char; 5] = ['`', '"', '\'', ',', ';'];

/// The reply to a conversation.
pub(super) fn reply_to(request: &Request<'_>) -> ScriptedReply {
    let prompt = request.messages.iter().rev().find(|message| matches!(message, Message::User(_)));
    let prompt = prompt.map(words).unwrap_or_default();
    match request.messages.last() {
        Some(Message::ToolResult(result)) => after(result, &prompt),
        _ => begin(&prompt),
    }
}

/// The answer to a prompt.
fn begin(prompt: &str) -> ScriptedReply {
    let (verb, rest) = split_word(prompt);
    let (file, text) = split_word(rest);
    let file = file.trim_matches(QUOTES);
    match (verb.to_lowercase().trim_end_matches([':', ',']), file) {
        ("list" | "ls", _) => call("I list the files here.", "bash", json!({"command": "ls -la"})),
        ("run", "") => say("Which command? Say `run COMMAND`.\n"),
        ("run", _) => call("I run that.", "bash", json!({"command": rest.trim().trim_matches('`')})),
        (verb @ ("read" | "edit" | "write"), "") => say(&format!("Which file? Say `{verb} FILE`.\n")),
        ("read", _) => call("I read that file.", "read_file", json!({"path": file})),
        ("edit", _) => call("I look at the file first.", "read_file", json!({"path": file})),
        ("write", _) => {
            let text = if text.is_empty() { "Hello from Bob's demo model." } else { text };
            call("I write that file.", "write_file", json!({"path": file, "content": format!("{text}\n")}))
        }
        _ => say(GREETING),
    }
}

/// What is said, or done, about a tool's result.
fn after(result: &ToolResult, prompt: &str) -> ScriptedReply {
    let first = result.output.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    let first = first.trim().replace('\t', " "); // `read_file` has one behind each number
    let first = clean(&first);
    if result.failed {
        return say(&format!(
            "`{}` did not work out: {first}\n\nA real model would now try something else; this demo stops here.\n",
            clean(&result.name)
        ));
    }
    let (verb, rest) = split_word(prompt);
    if verb.eq_ignore_ascii_case("edit") && result.name == "read_file" {
        return edit(split_word(rest).0.trim_matches(QUOTES), &result.output);
    }
    let lines = result.output.lines().count();
    say(&format!(
        "`{}` gave {lines} {}, beginning with:\n\n> {first}\n\nA real model would now make something of it; this \
         demo only shows that it came.\n",
        clean(&result.name),
        if lines == 1 { "line" } else { "lines" },
    ))
}

/// Edits the first line that says something.
fn edit(file: &str, numbered: &str) -> ScriptedReply {
    match numbered.lines().map(without_number).find(|line| !line.trim().is_empty()) {
        Some(line) => call(
            "I change its first line.",
            "edit_file",
            json!({"path": file, "old_string": line, "new_string": format!("{line} (edited by the demo)")}),
        ),
        None => say("There is nothing in that file to edit.\n"),
    }
}

/// A line of `read_file`'s output without what it is numbered with.
fn without_number(line: &str) -> &str {
    let digits = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    digits.strip_prefix(['\t', '→', '|', ':']).unwrap_or(line)
}

fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    (word, rest.trim_start())
}

fn say(text: &str) -> ScriptedReply {
    reply(vec![text_step(text)])
}

fn call(say: &str, name: &str, arguments: Value) -> ScriptedReply {
    let Value::Object(arguments) = arguments else { return self::say(say) };
    let call = Step::Call { id: None, name: name.to_owned(), arguments: Arguments::Object(arguments) };
    reply(vec![text_step(say), call])
}

/// Word by word, as models speak.
fn text_step(text: &str) -> Step {
    Step::Text(text.split_inclusive(' ').map(str::to_owned).collect())
}

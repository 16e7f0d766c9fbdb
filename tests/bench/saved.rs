//! Long conversations, made with the library's own types so that their files are what Bob writes.
use bob::model::{Arguments, AssistantMessage, Call, Part};
use bob::session::history::History;
use bob::session::history::record::{CallReference, CallResult, Status};
use bob::session::ids::new_session_id;
use bob::session::store::{Head, Index, Place, Store};
use bob::tools::Kind;
use bob::wire::acp::SessionId;
use serde_json::json;
use serde_json::value::to_raw_value;
use std::path::{Path, PathBuf};

/// So many turns; in each a question, a call with its result, and an answer.
pub(crate) fn history(turns: usize) -> History {
    let mut history = History::default();
    (1..=turns).for_each(|turn| add_turn(&mut history, turn));
    history
}

fn add_turn(history: &mut History, turn: usize) {
    let number = u64::try_from(turn).expect("it is small");
    let question = format!("What does src/part_{turn}.rs do, and who calls it? Say it \"in short\".");
    let block = to_raw_value(&json!({"type": "text", "text": question})).expect("it is JSON");
    history.push_user(vec![block], String::new(), vec![Part::Text(question)]);
    history.push_assistant(call(turn), || CallReference::new(number));
    history.push_result(result(turn, CallReference::new(number)));
    history.push_assistant(answer(turn), || unreachable!("it has no calls"));
}

fn call(turn: usize) -> AssistantMessage {
    let command = json!(format!("grep -rn part_{turn} src | head -20"));
    let arguments = Arguments::Object([("command".to_owned(), command)].into_iter().collect());
    let (id, name) = (format!("call_abcdef{turn}"), "bash".to_owned());
    let calls = vec![Call { id, name, arguments, extra: serde_json::Map::new() }];
    AssistantMessage { text: "I'll look who names it.".to_owned(), calls, ..AssistantMessage::default() }
}

fn result(turn: usize, reference: CallReference) -> CallResult {
    let line = |at| format!("src/part_{at}.rs:{at}:    let part = part_{turn}::make(\"{at}\")?;\n");
    CallResult {
        reference,
        status: Status::Completed,
        title: format!("bash: grep -rn part_{turn} src | head -20"),
        kind: Kind::Execute,
        locations: Vec::new(),
        output: (0..10).map(line).collect(),
        exit_code: Some(0),
        change: None,
        images: Vec::new(),
        plan: None,
    }
}

/// An answer of a few lines.
pub(crate) fn answer(turn: usize) -> AssistantMessage {
    let text =
        format!("`part_{turn}` makes one part of the whole.\n\nIt is called at ten places:\n").repeat(4);
    AssistantMessage { text, ..AssistantMessage::default() }
}

/// Saves a conversation as a session of `cwd`, in the index of the user whose folder `home` is.
pub(crate) fn save(cwd: &Path, home: &Path, history: &History) -> (Store, SessionId) {
    let id = new_session_id(|_| true);
    let place = Place::new(cwd.to_owned(), Path::new(".bob/sessions")).expect("it is below");
    let head = Head::new(id.clone(), cwd.to_owned(), "m", "ask");
    let mut store = Store::create(place, head, Some(Index::of_user(home))).expect("the id is new");
    store.head.title = Some("What does it do?".to_owned());
    store.save(history);
    (store, id)
}

/// Where [`save`] puts it.
pub(crate) fn path(cwd: &Path, id: &SessionId) -> PathBuf {
    cwd.join(format!(".bob/sessions/{id}.json"))
}

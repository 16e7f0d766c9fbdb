//! A reply, put together from its output items
//! (<https://platform.openai.com/docs/api-reference/responses-streaming>).
use super::CAME;
use crate::model::call::{PartialArguments, arguments, arguments_text, make_ids_unique};
use crate::model::complaint::Complaint;
use crate::model::failure::Trouble;
use crate::model::json::Room;
use crate::model::reply::{self, Assembly, Borrowed, Draft, Ear, number, one_more};
use crate::model::sse::Event;
use crate::model::{Arguments, Call, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The events with more of a message.
const TEXT_DELTA: &str = "response.output_text.delta";
const REFUSAL_DELTA: &str = "response.refusal.delta";
/// The event with more of a call's arguments.
const ARGUMENTS_DELTA: &str = "response.function_call_arguments.delta";

/// A reply while its events come.
#[derive(Default)]
pub(super) struct Items {
    draft: Draft,
    items: Vec<Item>,
}

/// One output item.
struct Item {
    index: u64,
    /// No event told the index.
    index_guessed: bool,
    /// As it began; when it is whole, all of it.
    came: Value,
    whole: bool,
    /// The text or refusal so far.
    text: String,
    /// The reasoning so far.
    reasoning: String,
    /// A call's arguments so far.
    arguments: PartialArguments,
}

/// The event that nearly all of a stream consists of.
#[derive(Deserialize)]
struct ItemDelta<'a> {
    #[serde(borrow)]
    r#type: Borrowed<'a>,
    output_index: Option<u64>,
    #[serde(borrow)]
    item_id: Option<Borrowed<'a>>,
    #[serde(borrow)]
    delta: Borrowed<'a>,
}

/// Which item an event is about, as far as it says.
#[derive(Clone, Copy)]
struct Place<'a> {
    index: Option<u64>,
    /// Empty where there is none. Copilot's change from event to event.
    id: &'a str,
}

impl<'a> Place<'a> {
    fn of(event: &'a Value) -> Self {
        Self { index: event["output_index"].as_u64(), id: event["item_id"].as_str().unwrap_or_default() }
    }
}

impl Assembly for Items {
    fn event(&mut self, event: Event<'_>, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        if let Ok(event) = serde_json::from_str::<ItemDelta<'_>>(event.data) {
            let place = Place { index: event.output_index, id: Borrowed::text(&event.item_id) };
            return self.delta(event.r#type.as_str(), place, event.delta.as_str(), ear);
        }
        match reply::value(event.data)? {
            Some(value) => self.rare(&value, ear),
            None => Ok(()),
        }
    }

    fn whole(&mut self, value: &Value, ear: &mut Ear<'_>) -> Result<bool, Trouble> {
        if !value["output"].is_array() && value["status"] != "failed" {
            return Ok(false);
        }
        self.end(value, ear)?;
        Ok(true)
    }

    fn finish(&mut self) -> (Vec<Call>, Option<Value>) {
        self.items.sort_by_key(|item| item.index);
        let mut calls = Vec::new();
        let mut kept = Vec::new();
        for item in std::mem::take(&mut self.items) {
            calls.extend(item.call(&mut self.draft.room));
            kept.extend(item.kept());
        }
        make_ids_unique(&mut calls);
        (calls, CAME.keep(kept))
    }

    fn draft(&mut self) -> &mut Draft {
        &mut self.draft
    }
}

impl Items {
    fn delta(&mut self, kind: &str, place: Place<'_>, delta: &str, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        match kind {
            TEXT_DELTA => {
                self.item(place, "message")?.text.push_str(delta);
                self.draft.text(delta, ear)?;
            }
            REFUSAL_DELTA => {
                self.item(place, "message")?.text.push_str(delta);
                self.draft.refusal(delta, ear)?;
            }
            ARGUMENTS_DELTA => self.item(place, CAME.call)?.arguments.push(delta),
            "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning_summary.delta"
            | "response.reasoning.delta" => {
                self.item(place, "reasoning")?.reasoning.push_str(delta);
                self.draft.reasoning(delta, ear)?;
            }
            _ => {} // other tools' and those that may be invented
        }
        Ok(())
    }

    /// Any other event.
    fn rare(&mut self, event: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        if let Some(complaint) = Complaint::in_value(event) {
            return Err(Trouble::Told(complaint));
        }
        let place = Place::of(event);
        match event["type"].as_str().unwrap_or_default() {
            "response.output_item.added" => self.add(place.index, &event["item"], ear)?,
            "response.output_item.done" => self.complete(place.index, &event["item"], ear)?,
            kind if kind == ARGUMENTS_DELTA || event["delta"].is_string() => {
                self.delta(kind, place, &arguments_text(&event["delta"]), ear)?;
            }
            "response.function_call_arguments.done" => {
                if let Some(arguments) = event["arguments"].as_str() {
                    let item = self.item(place, CAME.call)?;
                    item.arguments = PartialArguments::default();
                    item.arguments.push(arguments);
                }
            }
            "response.output_text.done" => self.part_done(TEXT_DELTA, place, &event["text"], ear)?,
            "response.refusal.done" => self.part_done(REFUSAL_DELTA, place, &event["refusal"], ear)?,
            "response.reasoning_summary_part.added" => self.part(place, ear)?,
            "response.failed" => return Err(failed(&event["response"])),
            "response.completed" | "response.done" | "response.incomplete" => {
                return self.end(&event["response"], ear);
            }
            "" if event["object"] == "response" => return self.end(event, ear),
            _ => {} // created, in_progress, parts; other tools'; what may be invented
        }
        Ok(())
    }

    /// A message's part is whole: heard now if it came without deltas.
    fn part_done(
        &mut self,
        delta: &str,
        place: Place<'_>,
        text: &Value,
        ear: &mut Ear<'_>,
    ) -> Result<(), Trouble> {
        match text.as_str() {
            Some(text) if self.item(place, "message")?.text.is_empty() => self.delta(delta, place, text, ear),
            _ => Ok(()),
        }
    }

    /// An item begins.
    fn add(&mut self, index: Option<u64>, came: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        let kept = self.draft.room.keep(came)?;
        self.push(index, kept)?;
        if came["type"] == CAME.call {
            ear.begun(came["name"].as_str())?;
        }
        Ok(())
    }

    /// An item is whole. What was not heard of it before is told now.
    fn complete(&mut self, index: Option<u64>, came: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        if !came.is_object() {
            return Ok(());
        }
        let found = self.items.iter().rposition(|item| item.is_same(index, came));
        if found.is_none() {
            self.add(index, came, ear)?;
        }
        self.complete_at(found.unwrap_or(self.items.len() - 1), came, ear)
    }

    fn complete_at(&mut self, at: usize, came: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        let item = &mut self.items[at];
        let (text, refusal) = (texts(&came["content"], "text"), texts(&came["content"], "refusal"));
        let summary = texts(&came["summary"], "text");
        let was_told = item.kind() == CAME.call && word(&item.came, "name").is_some();
        item.came = completed(&item.came, self.draft.room.keep(came)?);
        item.whole = true;
        match item.kind() {
            kind if kind == CAME.call && !was_told => ear.begun(word(&item.came, "name"))?,
            "message" => {
                let refusal = if item.text.is_empty() { refusal } else { String::new() };
                let rest = text.strip_prefix(item.text.as_str()).unwrap_or_default();
                item.text.push_str(rest);
                item.text.push_str(&refusal);
                self.draft.text(rest, ear)?;
                self.draft.refusal(&refusal, ear)?;
            }
            "reasoning" if item.reasoning.is_empty() => {
                item.reasoning = if summary.is_empty() { text } else { summary };
                self.draft.reasoning(&item.reasoning, ear)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Another part of a summary: a paragraph of its own.
    fn part(&mut self, place: Place<'_>, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        let item = self.item(place, "reasoning")?;
        if !item.reasoning.is_empty() {
            item.reasoning.push_str("\n\n");
            self.draft.reasoning("\n\n", ear)?;
        }
        Ok(())
    }

    /// The response as a whole: what was not heard of it, how it ended, what it cost.
    fn end(&mut self, response: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        if response["status"] == "failed" || response["error"].is_object() {
            return Err(failed(response));
        }
        self.restated(response["output"].as_array().map_or(&[], Vec::as_slice), ear)?;
        let reason = response["incomplete_details"]["reason"].as_str();
        if let Some(reason) = reason.or(response["status"].as_str()) {
            self.draft.end(reason);
        }
        if response["usage"].is_object() {
            self.draft.usage = Some(usage_of(&response["usage"]));
        }
        self.draft.done = true;
        Ok(())
    }

    /// All items once more, not always by the same ids and places: the first message is the first that came, and so on.
    /// What is more than came is new, unless it is text: that may only be divided otherwise.
    fn restated(&mut self, output: &[Value], ear: &mut Ear<'_>) -> Result<(), Trouble> {
        self.items.sort_by_key(|item| item.index);
        let came: Vec<(String, bool)> =
            self.items.iter().map(|item| (item.kind().to_owned(), item.whole)).collect();
        for (index, item) in output.iter().enumerate() {
            one_more(index)?;
            let kind = item["type"].as_str().unwrap_or_default();
            let before = output[..index].iter().filter(|other| other["type"] == kind).count();
            let mut same_kind = (0..came.len()).filter(|at| came[*at].0 == kind);
            match same_kind.clone().nth(before) {
                Some(at) if came[at].1 => {}
                Some(at) => self.complete_at(at, item, ear)?,
                None if kind == CAME.call || same_kind.next().is_none() => {
                    self.add(Some(index as u64), item, ear)?;
                    self.complete_at(self.items.len() - 1, item, ear)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    fn push(&mut self, index: Option<u64>, came: Value) -> Result<(), Trouble> {
        one_more(self.items.len())?;
        let next = || self.items.last().map_or(0, |item| item.index.saturating_add(1));
        let mut item = Item::new(index.unwrap_or_else(next), came);
        item.index_guessed = index.is_none();
        self.items.push(item);
        Ok(())
    }

    /// The item at this place, else the last of its kind. One that was never begun begins here.
    fn item(&mut self, place: Place<'_>, kind: &str) -> Result<&mut Item, Trouble> {
        let last = |fits: &dyn Fn(&Item) -> bool| {
            self.items.iter().rposition(|item| item.kind() == kind && fits(item))
        };
        let found = match place.index {
            Some(index) => last(&|item| item.sits_at(index)),
            None => last(&|item| word(&item.came, "id") == Some(place.id)).or_else(|| last(&|_| true)),
        };
        let at = found.unwrap_or(self.items.len());
        if found.is_none() {
            self.push(place.index, json!({"type": kind}))?;
        }
        Ok(&mut self.items[at])
    }
}

impl Item {
    fn new(index: u64, came: Value) -> Self {
        let (text, reasoning, arguments) = Default::default();
        Self { index, index_guessed: false, came, whole: false, text, reasoning, arguments }
    }

    fn sits_at(&self, index: u64) -> bool {
        self.index == index || self.index_guessed && !self.whole
    }

    fn kind(&self) -> &str {
        self.came["type"].as_str().unwrap_or_default()
    }

    /// Whether `came` is this item again, whole.
    fn is_same(&self, index: Option<u64>, came: &Value) -> bool {
        let both = |name: &str| word(&self.came, name).zip(word(came, name));
        let same = |name: &str| both(name).is_some_and(|(own, other)| own == other);
        let other_call = both("call_id").is_some_and(|(own, other)| own != other);
        let same_place = match index {
            Some(index) => self.sits_at(index),
            None => !self.whole && !other_call,
        };
        same("id") || same("call_id") || same_place && self.kind() == came["type"]
    }

    /// The call that it is.
    fn call(&self, room: &mut Room) -> Option<Call> {
        let member = |name: &str| word(&self.came, name);
        let call = || Call {
            id: member("call_id").or(member("id")).unwrap_or_default().to_owned(),
            name: member("name").unwrap_or_default().to_owned(),
            arguments: self.arguments(room),
            extra: Map::new(),
        };
        (self.kind() == CAME.call).then(call)
    }

    /// Those of the whole item, else what came in pieces. Nothing at all is no arguments only if the item is whole.
    fn arguments(&self, room: &mut Room) -> Arguments {
        let whole = arguments_text(&self.came["arguments"]);
        match &self.arguments {
            _ if self.whole && !whole.trim().is_empty() => arguments(&whole, room),
            pieces if self.whole || !pieces.is_blank() => pieces.read(room),
            _ => Arguments::Invalid(String::new()),
        }
    }

    /// What goes back of it: a call, a message that says something, reasoning that can be read without being stored.
    fn kept(self) -> Option<Value> {
        let said = |name: &str| !texts(&self.came["content"], name).trim().is_empty();
        match self.kind() {
            kind if kind == CAME.call => Some(CAME.call(&self.came)),
            "message" if said("text") || said("refusal") => Some(without_nulls(self.came)),
            "message" if self.text.trim().is_empty() => None,
            // In parts it would need an id.
            "message" => Some(json!({"type": "message", "role": "assistant", "content": self.text})),
            "reasoning" if self.whole && (self.came["encrypted_content"].is_string() || said("text")) => {
                Some(without_nulls(self.came))
            }
            _ => None,
        }
    }
}

/// A whole item. Whose call it is may have been told at its beginning alone.
fn completed(began: &Value, mut whole: Value) -> Value {
    for name in ["type", "call_id", "name"] {
        if let (Some(told), None, true) = (word(began, name), word(&whole, name), whole.is_object()) {
            whole[name] = json!(told);
        }
    }
    whole
}

/// A member that is text and says something.
fn word<'v>(item: &'v Value, name: &str) -> Option<&'v str> {
    item[name].as_str().filter(|word| !word.is_empty())
}

fn failed(response: &Value) -> Trouble {
    Trouble::Told(Complaint::of_object(&response["error"]))
}

/// A member of all parts of a content or summary, joined: parts of a summary as paragraphs.
fn texts(parts: &Value, member: &str) -> String {
    let parts = parts.as_array().into_iter().flatten();
    let between = |part: &Value| if part["type"] == "summary_text" { "\n\n" } else { "" };
    let mut joined = String::new();
    for part in parts {
        let Some(text) = part[member].as_str() else { continue };
        if !joined.is_empty() {
            joined.push_str(between(part));
        }
        joined.push_str(text);
    }
    joined
}

/// A member that is null is in replies, but not taken in requests.
fn without_nulls(mut item: Value) -> Value {
    if let Value::Object(members) = &mut item {
        members.retain(|_, value| !value.is_null());
    }
    item
}

fn usage_of(usage: &Value) -> Usage {
    let input = &usage["input_tokens_details"];
    Usage {
        input: number(&usage["input_tokens"]).unwrap_or_default(),
        output: number(&usage["output_tokens"]).unwrap_or_default(),
        cached_read: number(&input["cached_tokens"]),
        cached_write: number(&input["cache_write_tokens"]),
        reasoning: number(&usage["output_tokens_details"]["reasoning_tokens"]),
    }
}

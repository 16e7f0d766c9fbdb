//! A reply, put together from its chunks.
use super::calls::Calls;
use super::details::Details;
use crate::cancel::Cancelled;
use crate::model::complaint::Complaint;
use crate::model::failure::Trouble;
use crate::model::reply::{self, Assembly, Borrowed, Draft, Ear, number};
use crate::model::sse::Event;
use crate::model::{Call, Usage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

/// How servers call the reasoning; where they send it twice the first counts.
const REASONING_FIELDS: [&str; 4] = ["reasoning_content", "reasoning", "thinking", "reasoning_text"];

/// Reasons of providers for which a reply is broken off: any, Zhipu's, DeepSeek's.
const FAILURES: [&str; 3] = ["error", "network_error", "insufficient_system_resource"];

/// Member of a message's `opaque`: the name of its reasoning field.
pub(super) const REASONING_FIELD: &str = "reasoning_field";

/// Member of a delta, of a message that is sent, and of its `opaque`: OpenRouter's signed or encrypted reasoning
/// (<https://openrouter.ai/docs/use-cases/reasoning-tokens>).
pub(super) const REASONING_DETAILS: &str = "reasoning_details";

/// A reply while its chunks come.
#[derive(Default)]
pub(super) struct Chunks {
    draft: Draft,
    reasoning_field: Option<&'static str>,
    details: Details,
    calls: Calls,
    /// What came in whole messages instead of deltas.
    text_of_messages: String,
}

/// The chunk that nearly all of a stream consists of: a piece of text or reasoning and nothing else.
#[derive(Deserialize)]
struct PlainChunk<'a> {
    #[serde(borrow)]
    choices: [PlainChoice<'a>; 1],
    usage: Option<IgnoredAny>,
    x_groq: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
    error_message: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct PlainChoice<'a> {
    #[serde(borrow)]
    delta: PlainDelta<'a>,
    finish_reason: Option<IgnoredAny>,
    usage: Option<IgnoredAny>,
    message: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct PlainDelta<'a> {
    #[serde(borrow)]
    content: Option<Borrowed<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Borrowed<'a>>,
    reasoning: Option<IgnoredAny>,
    thinking: Option<IgnoredAny>,
    reasoning_text: Option<IgnoredAny>,
    reasoning_details: Option<IgnoredAny>,
    refusal: Option<IgnoredAny>,
    tool_calls: Option<IgnoredAny>,
    function_call: Option<IgnoredAny>,
}

impl<'a> PlainChunk<'a> {
    /// `None` if it is of any other shape.
    fn parse(data: &'a str) -> Option<PlainDelta<'a>> {
        let chunk: Self = serde_json::from_str(data).ok()?;
        let Self { choices: [choice], usage: None, x_groq: None, error: None, error_message: None } = chunk
        else {
            return None;
        };
        let PlainChoice { delta, finish_reason: None, usage: None, message: None, error: None } = choice
        else {
            return None;
        };
        let reasoning = [&delta.reasoning, &delta.thinking, &delta.reasoning_text, &delta.reasoning_details];
        let rest = [&delta.refusal, &delta.tool_calls, &delta.function_call];
        reasoning.iter().chain(&rest).all(|member| member.is_none()).then_some(delta)
    }
}

impl Assembly for Chunks {
    fn event(&mut self, event: Event<'_>, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        if let Some(delta) = PlainChunk::parse(event.data) {
            self.reasoning(REASONING_FIELDS[0], Borrowed::text(&delta.reasoning_content), ear)?;
            return Ok(self.draft.text(Borrowed::text(&delta.content), ear)?);
        }
        match reply::value(event.data)? {
            Some(value) => self.chunk(&value, ear),
            None => Ok(()),
        }
    }

    fn whole(&mut self, value: &Value, ear: &mut Ear<'_>) -> Result<bool, Trouble> {
        self.chunk(value, ear)?;
        Ok(value["choices"].is_array())
    }

    fn finish(&mut self) -> (Vec<Call>, Option<Value>) {
        let field = self.reasoning_field.map(|field| (REASONING_FIELD.to_owned(), json!(field)));
        let details = std::mem::take(&mut self.details).finish();
        let details = details.map(|details| (REASONING_DETAILS.to_owned(), details));
        let opaque: Map<String, Value> = field.into_iter().chain(details).collect();
        let calls = std::mem::take(&mut self.calls).finish(&mut self.draft.room);
        (calls, (!opaque.is_empty()).then_some(Value::Object(opaque)))
    }

    fn draft(&mut self) -> &mut Draft {
        &mut self.draft
    }
}

impl Chunks {
    /// A chunk of any shape, or a whole answer.
    fn chunk(&mut self, value: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        let groq = &value["x_groq"];
        if let Some(complaint) = Complaint::in_value(value).or_else(|| Complaint::in_value(groq)) {
            return Err(Trouble::Told(complaint));
        }
        self.count(&groq["usage"]);
        for choice in value["choices"].as_array().into_iter().flatten() {
            self.choice(choice, ear)?;
        }
        self.count(&value["usage"]);
        Ok(())
    }

    fn choice(&mut self, choice: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        if let Some(complaint) = Complaint::in_value(choice) {
            return Err(Trouble::Told(complaint));
        }
        self.count(&choice["usage"]);
        self.delta(&choice["delta"], ear)?;
        self.message(&choice["message"], ear)?;
        match choice["finish_reason"].as_str() {
            None | Some("" | "null") => Ok(()),
            Some(reason) if FAILURES.contains(&reason) => Err(Trouble::Told(failure(reason, choice))),
            Some(reason) => {
                self.draft.end(reason);
                Ok(())
            }
        }
    }

    fn delta(&mut self, delta: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        self.think(delta, ear)?;
        self.say(delta, ear)?;
        self.call(delta, ear)
    }

    /// A message beside the deltas restates them. Without deltas each holds what is new, or all so far.
    fn message(&mut self, message: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        let spoke_in_deltas = self.draft.has_spoken() && self.text_of_messages.is_empty();
        let called = !self.calls.is_empty();
        match message["content"].as_str() {
            _ if spoke_in_deltas => {}
            Some(text) => {
                self.think_once(message, ear)?;
                let rest = text.strip_prefix(self.text_of_messages.as_str()).unwrap_or(text);
                self.text_of_messages.push_str(rest);
                self.draft.text(rest, ear)?;
            }
            None if self.draft.has_spoken() => {}
            None => {
                self.think_once(message, ear)?;
                self.say(message, ear)?;
            }
        }
        if called { Ok(()) } else { self.call(message, ear) }
    }

    fn think_once(&mut self, message: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        if self.draft.has_thought() { Ok(()) } else { self.think(message, ear) }
    }

    fn think(&mut self, delta: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        let said = |name: &&str| delta[*name].as_str().is_some_and(|text| !text.is_empty());
        let details = &delta[REASONING_DETAILS];
        if let Some(field) = REASONING_FIELDS.iter().copied().find(said) {
            self.reasoning(field, delta[field].as_str().unwrap_or_default(), ear)?;
        } else if self.reasoning_field.is_none() {
            self.draft.reasoning(&texts(details), ear)?;
        }
        self.details.push(details, &mut self.draft.room)
    }

    fn say(&mut self, delta: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        match &delta["content"] {
            Value::String(text) => self.draft.text(text, ear)?,
            Value::Array(parts) => parts.iter().try_for_each(|part| self.part(part, ear))?,
            part => self.part(part, ear)?,
        }
        Ok(self.draft.refusal(delta["refusal"].as_str().unwrap_or_default(), ear)?)
    }

    fn call(&mut self, delta: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            ear.begun(self.calls.push(call, &mut self.draft.room)?)?;
        }
        if delta["function_call"].is_object() {
            ear.begun(self.calls.push_function(&delta["function_call"], &mut self.draft.room)?)?;
        }
        Ok(())
    }

    /// Mistral's and Databricks' reasoning models send content as parts.
    fn part(&mut self, part: &Value, ear: &mut Ear<'_>) -> Result<(), Cancelled> {
        match part["type"].as_str() {
            Some("thinking" | "reasoning" | "reasoning_text" | "redacted_thinking") => {
                self.draft.reasoning(&texts(part), ear)
            }
            _ => {
                self.draft.text(part["text"].as_str().unwrap_or_default(), ear)?;
                self.draft.refusal(part["refusal"].as_str().unwrap_or_default(), ear)
            }
        }
    }

    fn reasoning(&mut self, field: &'static str, text: &str, ear: &mut Ear<'_>) -> Result<(), Cancelled> {
        if !text.is_empty() {
            self.reasoning_field.get_or_insert(field);
        }
        self.draft.reasoning(text, ear)
    }

    /// The last count is the one that counts: some servers restate it in every chunk.
    fn count(&mut self, usage: &Value) {
        if usage["prompt_tokens"].is_number() || usage["completion_tokens"].is_number() {
            self.draft.usage = Some(usage_of(usage));
        }
    }
}

/// The text in a piece of reasoning, or in a list of them, wherever it is kept.
fn texts(piece: &Value) -> String {
    match piece {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(texts).collect(),
        Value::Object(members) => ["text", "thinking", "summary", "reasoning"]
            .iter()
            .filter_map(|name| members.get(*name))
            .map(texts)
            .collect(),
        _ => String::new(),
    }
}

/// What a reason that is a failure says.
fn failure(reason: &str, choice: &Value) -> Complaint {
    let native = choice["native_finish_reason"].as_str().filter(|native| !native.is_empty());
    Complaint::of_reason(native.unwrap_or(reason))
}

fn usage_of(usage: &Value) -> Usage {
    let input = &usage["prompt_tokens_details"];
    Usage {
        input: number(&usage["prompt_tokens"]).unwrap_or_default(),
        output: number(&usage["completion_tokens"]).unwrap_or_default(),
        cached_read: number(&input["cached_tokens"])
            .or_else(|| number(&usage["prompt_cache_hit_tokens"]))
            .or_else(|| number(&usage["cached_tokens"])),
        cached_write: number(&input["cache_write_tokens"]),
        reasoning: number(&usage["completion_tokens_details"]["reasoning_tokens"]),
    }
}

//! A reply, put together from its chunks.
use super::calls::Calls;
use crate::cancel::Cancelled;
use crate::model::failure::{Complaint, Trouble};
use crate::model::reply::{self, Assembly, Borrowed, Draft, Ear, number};
use crate::model::sse::Event;
use crate::model::{Call, Usage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// How servers call the reasoning; where they send it twice the first counts.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Member of a message's `opaque`: the name of its reasoning field.
pub(super) const REASONING_FIELD: &str = "reasoning_field";

/// A reply while its chunks come.
#[derive(Default)]
pub(super) struct Chunks {
    draft: Draft,
    reasoning_field: Option<&'static str>,
    calls: Calls,
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
}

#[derive(Deserialize)]
struct PlainDelta<'a> {
    #[serde(borrow)]
    content: Option<Borrowed<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Borrowed<'a>>,
    reasoning: Option<IgnoredAny>,
    thinking: Option<IgnoredAny>,
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
        let PlainChoice { delta, finish_reason: None, usage: None } = choice else { return None };
        let rest =
            [&delta.reasoning, &delta.thinking, &delta.refusal, &delta.tool_calls, &delta.function_call];
        rest.iter().all(|member| member.is_none()).then_some(delta)
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
        let opaque = self.reasoning_field.map(|field| json!({REASONING_FIELD: field}));
        (std::mem::take(&mut self.calls).finish(&mut self.draft.room), opaque)
    }

    fn draft(&mut self) -> &mut Draft {
        &mut self.draft
    }
}

impl Chunks {
    /// A chunk of any shape, or a whole answer.
    fn chunk(&mut self, value: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        if let Some(complaint) = Complaint::in_value(value) {
            return Err(Trouble::Told(complaint));
        }
        self.count(&value["x_groq"]["usage"]);
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
        let delta = match (&choice["delta"], &choice["message"]) {
            (delta @ Value::Object(_), _) => delta,
            (_, message) if self.is_empty() => message,
            _ => &Value::Null, // a restatement of what was streamed
        };
        self.delta(delta, ear)?;
        match choice["finish_reason"].as_str() {
            None | Some("" | "null") => Ok(()),
            Some("error") => Err(Trouble::Told(Complaint::default())),
            Some(reason) => {
                self.draft.end(reason);
                Ok(())
            }
        }
    }

    fn delta(&mut self, delta: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        let said = |name: &&str| delta[*name].as_str().is_some_and(|text| !text.is_empty());
        if let Some(field) = REASONING_FIELDS.iter().copied().find(said) {
            self.reasoning(field, delta[field].as_str().unwrap_or_default(), ear)?;
        }
        match &delta["content"] {
            Value::String(text) => self.draft.text(text, ear)?,
            Value::Array(parts) => parts.iter().try_for_each(|part| self.part(part, ear))?,
            _ => {}
        }
        self.draft.refusal(delta["refusal"].as_str().unwrap_or_default(), ear)?;
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            ear.begun(self.calls.push(call, &mut self.draft.room)?)?;
        }
        if delta["function_call"].is_object() {
            ear.begun(self.calls.push_function(&delta["function_call"], &mut self.draft.room)?)?;
        }
        Ok(())
    }

    /// Mistral's reasoning models send content as parts.
    fn part(&mut self, part: &Value, ear: &mut Ear<'_>) -> Result<(), Cancelled> {
        if let Some(text) = part["text"].as_str() {
            self.draft.text(text, ear)?;
        }
        for thought in part["thinking"].as_array().into_iter().flatten() {
            self.draft.reasoning(thought["text"].as_str().unwrap_or_default(), ear)?;
        }
        Ok(())
    }

    fn reasoning(&mut self, field: &'static str, text: &str, ear: &mut Ear<'_>) -> Result<(), Cancelled> {
        if !text.is_empty() {
            self.reasoning_field.get_or_insert(field);
        }
        self.draft.reasoning(text, ear)
    }

    /// The last count is the one that counts: some servers restate it in every chunk.
    fn count(&mut self, usage: &Value) {
        if usage.is_object() {
            self.draft.usage = Some(usage_of(usage));
        }
    }

    fn is_empty(&self) -> bool {
        self.draft.is_silent() && self.calls.is_empty()
    }
}

fn usage_of(usage: &Value) -> Usage {
    let input = &usage["prompt_tokens_details"];
    Usage {
        input: number(&usage["prompt_tokens"]).unwrap_or_default(),
        output: number(&usage["completion_tokens"]).unwrap_or_default(),
        cached_read: number(&input["cached_tokens"]).or_else(|| number(&usage["prompt_cache_hit_tokens"])),
        cached_write: number(&input["cache_write_tokens"]),
        reasoning: number(&usage["completion_tokens_details"]["reasoning_tokens"]),
    }
}

//! A reply, put together from its content blocks
//! (<https://docs.anthropic.com/en/docs/build-with-claude/streaming>).
use super::CAME;
use crate::model::call::{arguments, arguments_text, make_ids_unique};
use crate::model::failure::{Complaint, Trouble};
use crate::model::reply::{Assembly, Borrowed, Draft, begun, number};
use crate::model::sse::Event;
use crate::model::{Arguments, Call, Listener, Usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A reply while its events come.
#[derive(Default)]
pub(super) struct Blocks {
    draft: Draft,
    blocks: Vec<Block>,
    counts: Counts,
}

/// One content block.
struct Block {
    index: u64,
    /// As it began.
    came: Value,
    /// The text or thinking so far.
    text: String,
    signature: String,
    /// A call's input so far.
    input: String,
    whole: bool,
}

/// Tokens so far. Each count grows, and is left out or 0 where a server does not know it.
#[derive(Default)]
struct Counts {
    input: u64,
    output: u64,
    cached_read: Option<u64>,
    cached_write: Option<u64>,
}

/// The event that nearly all of a stream consists of.
#[derive(Deserialize)]
struct BlockDelta<'a> {
    #[serde(borrow)]
    r#type: Borrowed<'a>,
    index: Option<u64>,
    #[serde(borrow)]
    delta: Piece<'a>,
}

/// More of a block: one of these.
#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow)]
    text: Option<Borrowed<'a>>,
    #[serde(borrow)]
    thinking: Option<Borrowed<'a>>,
    #[serde(borrow)]
    signature: Option<Borrowed<'a>>,
    #[serde(borrow)]
    partial_json: Option<Borrowed<'a>>,
}

impl Assembly for Blocks {
    fn event(&mut self, event: Event<'_>, listener: &mut dyn Listener) -> Result<(), Trouble> {
        match serde_json::from_str::<BlockDelta<'_>>(event.data) {
            Ok(event) if event.r#type.as_str() == "content_block_delta" => {
                self.delta(event.index, &event.delta, listener);
                return Ok(());
            }
            _ => {}
        }
        match serde_json::from_str(event.data) {
            Ok(value) => self.rare(&value, listener),
            Err(_) => Ok(()), // comments wrapped as data, and the like
        }
    }

    fn whole(&mut self, value: &Value, listener: &mut dyn Listener) -> Result<bool, Trouble> {
        let Some(content) = value["content"].as_array() else { return Ok(false) };
        for (index, block) in (0..).zip(content) {
            self.start(index, block, listener);
        }
        self.end(value);
        self.count(&value["usage"]);
        Ok(true)
    }

    fn finish(&mut self, _: &mut dyn Listener) -> (Vec<Call>, Option<Value>) {
        // The limit may cut thinking off before its signature; whole thinking without one is other servers'.
        let cut_off = self.draft.is_cut_off_by_limit();
        let ended = self.draft.finish.is_some();
        let mut calls = Vec::new();
        let mut kept = Vec::new();
        for block in std::mem::take(&mut self.blocks) {
            calls.extend(block.call(ended));
            kept.extend(block.kept(cut_off));
        }
        make_ids_unique(&mut calls);
        (calls, CAME.keep(kept))
    }

    fn draft(&mut self) -> &mut Draft {
        &mut self.draft
    }
}

impl Blocks {
    /// Any other event.
    fn rare(&mut self, event: &Value, listener: &mut dyn Listener) -> Result<(), Trouble> {
        if let Some(complaint) = Complaint::in_value(event) {
            return Err(Trouble::Told(complaint));
        }
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.count(&event["message"]["usage"]),
            "content_block_start" => {
                let next = self.blocks.len() as u64;
                self.start(event["index"].as_u64().unwrap_or(next), &event["content_block"], listener);
            }
            "content_block_stop" => {
                let block = self.blocks.iter_mut().rfind(|block| event["index"] == block.index);
                block.into_iter().for_each(|block| block.whole = true);
            }
            "message_delta" => {
                self.end(&event["delta"]);
                self.count(&event["usage"]);
            }
            "message_stop" => self.draft.done = true,
            _ => {} // ping, what may be invented
        }
        Ok(())
    }

    /// A block begins, sometimes with all of its content.
    fn start(&mut self, index: u64, came: &Value, listener: &mut dyn Listener) {
        self.blocks.push(Block::new(index, came.clone()));
        if came["type"] == CAME.call {
            begun(came["name"].as_str(), listener);
        }
        let member = |name: &str| came[name].as_str().map(Borrowed::from);
        let (text, thinking) = (member("text"), member("thinking"));
        let content = Piece { text, thinking, signature: member("signature"), partial_json: None };
        self.delta(Some(index), &content, listener);
    }

    fn delta(&mut self, index: Option<u64>, piece: &Piece<'_>, listener: &mut dyn Listener) {
        let (text, thinking) = (Borrowed::text(&piece.text), Borrowed::text(&piece.thinking));
        let (input, signature) = (Borrowed::text(&piece.partial_json), Borrowed::text(&piece.signature));
        let block = self.block(index, piece);
        block.text.push_str(text);
        block.text.push_str(thinking);
        block.input.push_str(input);
        block.signature.push_str(signature);
        self.draft.reasoning(thinking, listener);
        self.draft.text(text, listener);
    }

    /// The block with this index, else the last. One that was never begun begins here.
    fn block(&mut self, index: Option<u64>, piece: &Piece<'_>) -> &mut Block {
        let found = match index {
            Some(index) => self.blocks.iter().rposition(|block| block.index == index),
            None => self.blocks.len().checked_sub(1),
        };
        let at = found.unwrap_or_else(|| {
            let kind = match piece {
                Piece { partial_json: Some(_), .. } => CAME.call,
                Piece { thinking: None, signature: None, .. } => "text",
                _ => "thinking",
            };
            self.blocks.push(Block::new(index.unwrap_or_default(), json!({"type": kind})));
            self.blocks.len() - 1
        });
        &mut self.blocks[at]
    }

    fn end(&mut self, delta: &Value) {
        if let Some(reason) = delta["stop_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.draft.finish = Some(reason.to_owned());
        }
    }

    /// Here `input_tokens` are those that have nothing to do with the cache.
    fn count(&mut self, usage: &Value) {
        if !usage.is_object() {
            return;
        }
        let counts = &mut self.counts;
        counts.input = counts.input.max(number(&usage["input_tokens"]).unwrap_or_default());
        counts.output = counts.output.max(number(&usage["output_tokens"]).unwrap_or_default());
        counts.cached_read = counts.cached_read.max(number(&usage["cache_read_input_tokens"]));
        counts.cached_write = counts.cached_write.max(number(&usage["cache_creation_input_tokens"]));
        let cached = [counts.cached_read, counts.cached_write].into_iter().flatten();
        self.draft.usage = Some(Usage {
            input: cached.fold(counts.input, u64::saturating_add),
            output: counts.output,
            cached_read: counts.cached_read,
            cached_write: counts.cached_write,
            reasoning: None,
        });
    }
}

impl Block {
    fn new(index: u64, came: Value) -> Self {
        let (text, signature, input) = Default::default();
        Self { index, came, text, signature, input, whole: false }
    }

    fn kind(&self) -> &str {
        self.came["type"].as_str().unwrap_or_default()
    }

    /// The call that it is; `ended`: the reply said why it stopped.
    fn call(&self, ended: bool) -> Option<Call> {
        let word = |name: &str| self.came[name].as_str().unwrap_or_default().to_owned();
        let call =
            || Call { id: word("id"), name: word("name"), arguments: self.input(ended), extra: Map::new() };
        (self.kind() == CAME.call).then(call)
    }

    /// What came in pieces, else what stood at the beginning: `{}`, also where more was to come.
    fn input(&self, ended: bool) -> Arguments {
        let began = arguments_text(&self.came["input"]);
        match &self.input {
            pieces if !pieces.trim().is_empty() => arguments(pieces),
            _ if ended || self.whole || !matches!(began.as_str(), "" | "{}") => arguments(&began),
            pieces => Arguments::Invalid(pieces.clone()),
        }
    }

    /// What goes back of it.
    fn kept(self, cut_off: bool) -> Option<Value> {
        match self.kind() {
            "text" if self.text.trim().is_empty() => None,
            "text" => Some(json!({"type": "text", "text": self.text})),
            "thinking" if !self.signature.is_empty() => {
                Some(json!({"type": "thinking", "thinking": self.text, "signature": self.signature}))
            }
            "thinking" if cut_off || self.text.is_empty() => None,
            "thinking" => Some(json!({"type": "thinking", "thinking": self.text})),
            kind if kind == CAME.call => Some(CAME.call(&self.came)),
            _ => Some(self.came).filter(Value::is_object),
        }
    }
}

//! A reply, put together from its content blocks
//! (<https://docs.anthropic.com/en/docs/build-with-claude/streaming>).
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
    input: PartialArguments,
    /// What of the text at its beginning may come again in deltas.
    restated: String,
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

impl<'a> Piece<'a> {
    /// Of a value that holds a call's input under `input`, as text or not.
    fn of(value: &'a Value, input: &str) -> Self {
        let member = |name: &str| value[name].as_str().map(Borrowed::from);
        let (text, thinking, signature) = (member("text"), member("thinking"), member("signature"));
        let partial_json = value.get(input).map(|input| Borrowed::from(arguments_text(input)));
        Self { text, thinking, signature, partial_json }
    }

    /// The kind of block that it is of.
    fn kind(&self) -> &'static str {
        match self {
            Self { partial_json: Some(_), .. } => CAME.call,
            Self { thinking: None, signature: None, .. } => "text",
            _ => "thinking",
        }
    }
}

impl Assembly for Blocks {
    fn event(&mut self, event: Event<'_>, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        match serde_json::from_str::<BlockDelta<'_>>(event.data) {
            Ok(event) if event.r#type.as_str() == "content_block_delta" => {
                return self.delta(event.index, &event.delta, ear);
            }
            _ => {}
        }
        match reply::value(event.data)? {
            Some(value) => self.rare(&value, ear),
            None => Ok(()),
        }
    }

    fn whole(&mut self, value: &Value, ear: &mut Ear<'_>) -> Result<bool, Trouble> {
        let Some(content) = value["content"].as_array() else { return Ok(false) };
        for (index, block) in (0..).zip(content) {
            self.start(index, block, ear)?;
        }
        self.end(value);
        self.count(&value["usage"]);
        Ok(true)
    }

    fn finish(&mut self) -> (Vec<Call>, Option<Value>) {
        // The limit may cut thinking off before its signature; whole thinking without one is other servers'.
        let cut_off = self.draft.is_cut_off_by_limit();
        let ended = self.draft.is_ended();
        let mut calls = Vec::new();
        let mut kept = Vec::new();
        for block in std::mem::take(&mut self.blocks) {
            calls.extend(block.call(ended, &mut self.draft.room));
            kept.extend(block.kept(cut_off, &mut self.draft.room));
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
    fn rare(&mut self, event: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        if let Some(complaint) = Complaint::in_value(event) {
            return Err(Trouble::Told(complaint));
        }
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.count(&event["message"]["usage"]),
            "content_block_start" => {
                let next = self.blocks.len() as u64;
                self.start(event["index"].as_u64().unwrap_or(next), &event["content_block"], ear)?;
            }
            "content_block_delta" => {
                let piece = Piece::of(&event["delta"], "partial_json");
                self.delta(event["index"].as_u64(), &piece, ear)?;
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
            // Some end with the whole message, or send nothing else.
            "message" if self.blocks.is_empty() => drop(self.whole(event, ear)?),
            _ => {} // ping, what may be invented
        }
        Ok(())
    }

    /// A block begins, sometimes with all of its content. One without a type is of the kind that it holds: as it is,
    /// it would not be taken back. What is no object is no block, and its deltas begin one.
    fn start(&mut self, index: u64, came: &Value, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        if !came.is_object() {
            return Ok(());
        }
        let mut kept = self.draft.room.keep(came)?;
        if came["type"].as_str().is_none_or(str::is_empty) {
            kept["type"] = json!(Piece::of(came, "input").kind());
        }
        if kept["type"] == CAME.call {
            ear.begun(came["name"].as_str())?;
        }
        self.push(Block::new(index, kept))?;
        self.delta(Some(index), &Piece::of(came, ""), ear)?;
        if let Some(block) = self.blocks.last_mut() {
            block.restated.clone_from(&block.text);
        }
        Ok(())
    }

    fn push(&mut self, block: Block) -> Result<(), Trouble> {
        one_more(self.blocks.len())?;
        self.blocks.push(block);
        Ok(())
    }

    fn delta(&mut self, index: Option<u64>, piece: &Piece<'_>, ear: &mut Ear<'_>) -> Result<(), Trouble> {
        let (text, thinking) = (Borrowed::text(&piece.text), Borrowed::text(&piece.thinking));
        let (input, signature) = (Borrowed::text(&piece.partial_json), Borrowed::text(&piece.signature));
        let block = self.block(index, piece)?;
        let (text, thinking) = (block.not_restated(text), block.not_restated(thinking));
        block.text.push_str(text);
        block.text.push_str(thinking);
        block.input.push(input);
        block.signature.push_str(signature);
        self.draft.reasoning(thinking, ear)?;
        Ok(self.draft.text(text, ear)?)
    }

    /// The block with this index, else the last. One that was never begun begins here; so does thinking in a block that
    /// was begun as text.
    fn block(&mut self, index: Option<u64>, piece: &Piece<'_>) -> Result<&mut Block, Trouble> {
        let found = match index {
            Some(index) => self.blocks.iter().rposition(|block| block.index == index),
            None => self.blocks.len().checked_sub(1),
        };
        match found.filter(|at| !self.blocks[*at].is_mistaken_for(piece)) {
            Some(at) => Ok(&mut self.blocks[at]),
            None => {
                let index = index.or(self.blocks.last().map(|block| block.index));
                self.push(Block::new(index.unwrap_or_default(), json!({"type": piece.kind()})))?;
                let last = self.blocks.len() - 1;
                Ok(&mut self.blocks[last])
            }
        }
    }

    fn end(&mut self, delta: &Value) {
        if let Some(reason) = delta["stop_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.draft.end(reason);
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
        let (text, signature, input, restated) = Default::default();
        Self { index, came, text, signature, input, restated, whole: false }
    }

    /// Whether it is text and the piece is thinking, or the other way round.
    fn is_mistaken_for(&self, piece: &Piece<'_>) -> bool {
        let other = match self.kind() {
            "text" => &piece.thinking,
            "thinking" => &piece.text,
            _ => return false,
        };
        !Borrowed::text(other).is_empty()
    }

    /// What is new in `text`: MiniMax begins a block with its first text, and then sends that as a delta too.
    fn not_restated<'t>(&mut self, text: &'t str) -> &'t str {
        if text.is_empty() {
            return text;
        }
        match std::mem::take(&mut self.restated) {
            restated if restated.is_empty() => text,
            restated => text.strip_prefix(restated.as_str()).unwrap_or(text),
        }
    }

    fn kind(&self) -> &str {
        self.came["type"].as_str().unwrap_or_default()
    }

    /// The call that it is; `ended`: the reply said why it stopped.
    fn call(&self, ended: bool, room: &mut Room) -> Option<Call> {
        let word = |name: &str| self.came[name].as_str().unwrap_or_default().to_owned();
        let call = || Call {
            id: word("id"),
            name: word("name"),
            arguments: self.input(ended, room),
            extra: Map::new(),
        };
        (self.kind() == CAME.call).then(call)
    }

    /// What came in pieces, else what stood at the beginning: `{}`, also where more was to come.
    fn input(&self, ended: bool, room: &mut Room) -> Arguments {
        let began = arguments_text(&self.came["input"]);
        match began.as_str() {
            _ if !self.input.is_blank() => self.input.read(room),
            "" | "{}" if !ended && !self.whole => Arguments::Invalid(String::new()),
            _ => arguments(&began, room),
        }
    }

    /// What goes back of it.
    fn kept(self, cut_off: bool, room: &mut Room) -> Option<Value> {
        match self.kind() {
            "text" if self.text.trim().is_empty() => None,
            "text" => Some(json!({"type": "text", "text": self.text})),
            "thinking" if !self.signature.is_empty() => {
                Some(json!({"type": "thinking", "thinking": self.text, "signature": self.signature}))
            }
            "thinking" if cut_off || self.text.is_empty() => None,
            "thinking" => Some(json!({"type": "thinking", "thinking": self.text})),
            kind if kind == CAME.call => Some(CAME.call(&self.came)),
            _ => Some(self.with_input(room)).filter(Value::is_object),
        }
    }

    /// As it began, with the input of a call that the provider ran itself.
    fn with_input(mut self, room: &mut Room) -> Value {
        if let (false, Arguments::Object(input)) = (self.input.is_blank(), self.input.read(room)) {
            self.came["input"] = Value::Object(input);
        }
        self.came
    }
}

//! A request's body: the conversation in this format's form.
use super::CAME;
use crate::model::call::{fit, object};
use crate::model::came::Piece;
use crate::model::learnt::Learnt;
use crate::model::picture::NO_IMAGE;
use crate::model::{Image, Message, Part, Request, ToolResult, ToolSpec, schema};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Turns of the user whose end is marked for the cache: the last for the next call, the one before for this one.
const CACHED_TURNS: usize = 2;

/// The body: the conversation, and what was `learnt` to put beside it. With `cache`, marks for the prompt cache; four
/// are accepted.
pub(super) fn body(request: &Request<'_>, learnt: &Learnt, cache: bool) -> Vec<u8> {
    let mut turns = turns(request, learnt);
    let mut system: Vec<Block<'_>> = text(request.system).into_iter().collect();
    if cache {
        let users = turns.iter_mut().rev().filter(|turn| turn.role == Role::User);
        users.take(CACHED_TURNS).for_each(|turn| mark_last(&mut turn.content));
        mark_last(&mut system);
    }
    let body = Body {
        model: request.model,
        system,
        messages: turns,
        tools: tools(request, learnt, cache),
        options: &learnt.options,
    };
    serde_json::to_vec(&body).expect("maps with text keys, and no I/O")
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(flatten)]
    options: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum CacheControl {
    Ephemeral,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Ours(Ours<'a>),
    ToolUse {
        #[serde(flatten)]
        beside: Cow<'a, Map<String, Value>>,
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, Map<String, Value>>,
    },
    AsItCame(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Ours<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

impl<'a> From<Content<'a>> for Block<'a> {
    fn from(content: Content<'a>) -> Self {
        Self { content, cache_control: None }
    }
}

impl<'a> From<Ours<'a>> for Block<'a> {
    fn from(ours: Ours<'a>) -> Self {
        Content::Ours(ours).into()
    }
}

fn mark_last(blocks: &mut [Block<'_>]) {
    if let Some(last) = blocks.last_mut() {
        last.cache_control = Some(CacheControl::Ephemeral);
    }
}

fn tools(request: &Request<'_>, learnt: &Learnt, cache: bool) -> Vec<Value> {
    let tool = |tool: &ToolSpec| {
        json!({
            "name": tool.name,
            "description": tool.description,
            "input_schema": schema::of(tool, learnt.plain_schemas),
        })
    };
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    if let Some(last) = tools.last_mut().filter(|_| cache) {
        last["cache_control"] = json!({"type": "ephemeral"});
    }
    tools
}

/// The conversation as it has to be: roles alternate, no turn says nothing, results stand before all else.
fn turns<'a>(request: &Request<'a>, learnt: &Learnt) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    for (at, message) in request.messages.iter().enumerate() {
        let (role, blocks) = match message {
            Message::User(parts) => (Role::User, user(parts, learnt)),
            Message::ToolResult(result) => (Role::User, vec![tool_result(result, learnt)]),
            Message::Assistant(message) => {
                let pieces = CAME.pieces(message, at >= learnt.reasoning_from);
                (Role::Assistant, pieces.into_iter().map(block).collect())
            }
        };
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some(turn) if turn.role == role => turn.content.extend(blocks),
            _ => turns.push(Turn { role, content: blocks }),
        }
    }
    for turn in &mut turns {
        turn.content.sort_by_key(|block| !matches!(block.content, Content::Ours(Ours::ToolResult { .. })));
    }
    turns
}

fn user<'a>(parts: &'a [Part], learnt: &Learnt) -> Vec<Block<'a>> {
    let block = |part: &'a Part| match part {
        Part::Text(said) => text(said),
        Part::Image(image) => Some(picture(image, learnt)),
    };
    parts.iter().filter_map(block).collect()
}

/// Text that is blank is refused.
fn text(text: &str) -> Option<Block<'_>> {
    (!text.trim().is_empty()).then(|| Ours::Text { text }.into())
}

fn picture<'a>(image: &'a Image, learnt: &Learnt) -> Block<'a> {
    if learnt.no_images {
        return Ours::Text { text: NO_IMAGE }.into();
    }
    let Image { mime_type, base64 } = image;
    Ours::Image { source: Source { r#type: "base64", media_type: mime_type, data: base64 } }.into()
}

fn tool_result<'a>(result: &'a ToolResult, learnt: &Learnt) -> Block<'a> {
    let pictures = result.images.iter().map(|image| picture(image, learnt));
    Ours::ToolResult {
        tool_use_id: fit(&result.call_id),
        content: text(&result.output).into_iter().chain(pictures).collect(),
        is_error: result.failed,
    }
    .into()
}

fn block(piece: Piece<'_>) -> Block<'_> {
    match piece {
        Piece::Text(text) => Ours::Text { text }.into(),
        Piece::Call(beside, call) => Content::ToolUse {
            beside,
            id: fit(&call.id),
            name: fit(&call.name),
            input: object(&call.arguments),
        }
        .into(),
        Piece::AsItCame(value) => Content::AsItCame(value).into(),
    }
}

//! A request's body: the conversation in this format's form.
use super::CAME;
use crate::model::call::{fit, object_text};
use crate::model::came::Piece;
use crate::model::learnt::Learnt;
use crate::model::picture::{self, NO_IMAGE};
use crate::model::{Image, Message, Part, Request, ToolResult, ToolSpec, schema};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The body: the conversation, and what was `learnt` to put beside it.
pub(super) fn body(request: &Request<'_>, learnt: &Learnt) -> Vec<u8> {
    let body = Body {
        model: request.model,
        instructions: request.system,
        input: items(request, learnt),
        tools: request.tools.iter().map(|tool| function(tool, learnt)).collect(),
        options: &learnt.options,
    };
    serde_json::to_vec(&body).expect("maps with text keys, and no I/O")
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(flatten)]
    options: &'a Map<String, Value>,
}

/// Schemas are not strict: not every one can be.
fn function(tool: &ToolSpec, learnt: &Learnt) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": schema::of(tool, learnt.plain_schemas),
        "strict": false,
    })
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Ours(Ours<'a>),
    Call {
        #[serde(flatten)]
        beside: Cow<'a, Map<String, Value>>,
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: String,
    },
    AsItCame(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Ours<'a> {
    Message { role: &'static str, content: Said<'a> },
    FunctionCallOutput { call_id: Cow<'a, str>, output: &'a str },
}

/// What a message says. The model's in parts would need an id, which only the provider can give.
#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    User(Vec<Content<'a>>),
    Assistant(&'a str),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText {
        text: Cow<'a, str>,
    },
    InputImage {
        #[serde(serialize_with = "picture::data_url")]
        image_url: &'a Image,
        /// `auto`, what it is by itself: servers that check bodies by the official types demand it.
        detail: &'static str,
    },
}

/// The conversation. Pictures of tools' results come behind all results of a reply: not every server takes them inside.
fn items<'a>(request: &Request<'a>, learnt: &Learnt) -> Vec<Item<'a>> {
    let mut items = Vec::new();
    let mut pictures = Vec::new();
    for (at, message) in request.messages.iter().enumerate() {
        if !matches!(message, Message::ToolResult(_)) {
            items.extend(user(std::mem::take(&mut pictures)));
        }
        match message {
            Message::User(parts) => {
                items.extend(user(parts.iter().map(|part| content(part, learnt)).collect()));
            }
            Message::Assistant(message) => {
                items.extend(CAME.pieces(message, at >= learnt.reasoning_from).into_iter().map(item));
            }
            Message::ToolResult(result) => {
                let call_id = fit(&result.call_id);
                items.push(Item::Ours(Ours::FunctionCallOutput { call_id, output: &result.output }));
                pictures.extend(result_pictures(result, learnt));
            }
        }
    }
    items.extend(user(pictures));
    items
}

fn user(content: Vec<Content<'_>>) -> Option<Item<'_>> {
    let says_something = !content.is_empty();
    says_something.then_some(Item::Ours(Ours::Message { role: "user", content: Said::User(content) }))
}

fn content<'a>(part: &'a Part, learnt: &Learnt) -> Content<'a> {
    match part {
        Part::Text(text) => Content::InputText { text: text.into() },
        Part::Image(image) => picture(image, learnt),
    }
}

fn picture<'a>(image: &'a Image, learnt: &Learnt) -> Content<'a> {
    match learnt.no_images {
        true => Content::InputText { text: NO_IMAGE.into() },
        false => Content::InputImage { image_url: image, detail: "auto" },
    }
}

fn result_pictures<'a>(result: &'a ToolResult, learnt: &Learnt) -> Vec<Content<'a>> {
    let head = picture::heading(result).map(|text| Content::InputText { text: text.into() });
    head.into_iter().chain(result.images.iter().map(|image| picture(image, learnt))).collect()
}

fn item(piece: Piece<'_>) -> Item<'_> {
    match piece {
        Piece::Text(text) => Item::Ours(Ours::Message { role: "assistant", content: Said::Assistant(text) }),
        Piece::Call(beside, call) => Item::Call {
            beside,
            call_id: fit(&call.id),
            name: fit(&call.name),
            arguments: object_text(&call.arguments),
        },
        Piece::AsItCame(value) => Item::AsItCame(value),
    }
}

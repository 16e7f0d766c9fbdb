//! A request's body: the conversation in this format's form.
use super::stream::{REASONING_DETAILS, REASONING_FIELD};
use crate::model::call::{fit, object_text};
use crate::model::learnt::Learnt;
use crate::model::picture::{self, NO_IMAGE};
use crate::model::{AssistantMessage, Call, Image, Message, Part, Request, ToolResult, ToolSpec, schema};
use serde::Serialize;
use serde::ser::SerializeSeq;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// When reasoning goes back to the server, on messages with calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reasoning {
    /// When it came, by the name it had.
    #[default]
    AsItCame,
    /// Always, as `reasoning_content`.
    Always,
    Never,
}

/// The body: the conversation, and what was `learnt` to put beside it.
pub(super) fn body(request: &Request<'_>, reasoning: Reasoning, learnt: &Learnt) -> Vec<u8> {
    let body = Body {
        model: request.model,
        messages: Conversation { request, reasoning, no_images: learnt.no_images },
        tools: request.tools.iter().map(|tool| function(tool, learnt)).collect(),
        options: &learnt.options,
    };
    serde_json::to_vec(&body).expect("maps with text keys, and no I/O")
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Conversation<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(flatten)]
    options: &'a Map<String, Value>,
}

fn function(tool: &ToolSpec, learnt: &Learnt) -> Value {
    json!({"type": "function", "function": {
        "name": tool.name,
        "description": tool.description,
        "parameters": schema::of(tool, learnt.plain_schemas),
    }})
}

/// The messages, written one after the other without a copy of them all.
struct Conversation<'a> {
    request: &'a Request<'a>,
    reasoning: Reasoning,
    no_images: bool,
}

impl Serialize for Conversation<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        if !self.request.system.is_empty() {
            list.serialize_element(&Wire::System { content: self.request.system })?;
        }
        let mut pictures = Vec::new();
        for message in self.request.messages {
            match message {
                Message::ToolResult(result) => {
                    list.serialize_element(&tool_message(result))?;
                    pictures.extend(result_pictures(result));
                    continue;
                }
                other => self.flush(&mut pictures, &mut list, other)?,
            }
        }
        self.flush_pictures(&mut pictures, &mut list)?;
        list.end()
    }
}

/// Pictures of tools' results: they wait until the last result is written, since nothing may stand between those.
type Pictures<'a> = Vec<Piece<'a>>;

impl<'a> Conversation<'a> {
    fn flush<S: SerializeSeq>(
        &self,
        pictures: &mut Pictures<'a>,
        list: &mut S,
        message: &'a Message,
    ) -> Result<(), S::Error> {
        self.flush_pictures(pictures, list)?;
        match message {
            Message::User(parts) => {
                list.serialize_element(&Wire::User { content: self.content(parts.iter().map(piece)) })
            }
            // Servers refuse a message that says nothing.
            Message::Assistant(message) if message.text.is_empty() && message.calls.is_empty() => Ok(()),
            Message::Assistant(message) => list.serialize_element(&self.assistant(message)),
            Message::ToolResult(_) => Ok(()),
        }
    }

    fn flush_pictures<S: SerializeSeq>(
        &self,
        pictures: &mut Pictures<'a>,
        list: &mut S,
    ) -> Result<(), S::Error> {
        if pictures.is_empty() {
            return Ok(());
        }
        list.serialize_element(&Wire::User { content: self.content(pictures.drain(..)) })
    }

    /// Text alone is a string: some servers know no list.
    fn content<'p>(&self, pieces: impl Iterator<Item = Piece<'p>>) -> Content<'p> {
        let replace = |piece| match piece {
            Piece::ImageUrl { .. } if self.no_images => Piece::Text { text: Cow::Borrowed(NO_IMAGE) },
            other => other,
        };
        let mut pieces: Vec<Piece<'p>> = pieces.map(replace).collect();
        if pieces.iter().any(|piece| matches!(piece, Piece::ImageUrl { .. })) {
            return Content::Pieces(pieces);
        }
        match pieces.len() {
            1 => Content::Text(text_of(pieces.remove(0))),
            _ => Content::Text(pieces.into_iter().map(text_of).collect::<Vec<_>>().join("\n\n").into()),
        }
    }

    fn assistant<'m>(&self, message: &'m AssistantMessage) -> Wire<'m> {
        Wire::Assistant {
            content: (!message.text.is_empty()).then_some(&message.text),
            tool_calls: message.calls.iter().map(wire_call).collect(),
            reasoning: self.reasoning(message),
        }
    }

    fn reasoning(&self, message: &AssistantMessage) -> Map<String, Value> {
        let came = |name: &str| message.opaque.as_ref().map(|opaque| &opaque[name]);
        let came_as = came(REASONING_FIELD).and_then(Value::as_str);
        let (field, details) = match self.reasoning {
            _ if message.calls.is_empty() => (None, None),
            Reasoning::Never => (None, None),
            Reasoning::AsItCame => (came_as, came(REASONING_DETAILS).filter(|details| details.is_array())),
            Reasoning::Always => (Some("reasoning_content"), None),
        };
        let field = field.map(|field| (field.to_owned(), json!(message.reasoning)));
        let details = details.map(|details| (REASONING_DETAILS.to_owned(), details.clone()));
        field.into_iter().chain(details).collect()
    }
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Wire<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<&'a String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
        #[serde(flatten)]
        reasoning: Map<String, Value>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Pieces(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    #[serde(serialize_with = "picture::data_url")]
    url: &'a Image,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: WireFunction<'a>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: Cow<'a, str>,
    arguments: String,
}

fn tool_message(result: &ToolResult) -> Wire<'_> {
    Wire::Tool { tool_call_id: &result.call_id, content: &result.output }
}

fn result_pictures(result: &ToolResult) -> impl Iterator<Item = Piece<'_>> {
    let head = picture::heading(result).map(text_piece);
    head.into_iter().chain(result.images.iter().map(image_piece))
}

fn piece(part: &Part) -> Piece<'_> {
    match part {
        Part::Text(text) => text_piece(text.as_str()),
        Part::Image(image) => image_piece(image),
    }
}

fn text_piece<'a>(text: impl Into<Cow<'a, str>>) -> Piece<'a> {
    Piece::Text { text: text.into() }
}

fn image_piece(image: &Image) -> Piece<'_> {
    Piece::ImageUrl { image_url: ImageUrl { url: image } }
}

fn text_of(piece: Piece<'_>) -> Cow<'_, str> {
    match piece {
        Piece::Text { text } => text,
        Piece::ImageUrl { .. } => Cow::Borrowed(NO_IMAGE),
    }
}

fn wire_call(call: &Call) -> WireCall<'_> {
    WireCall {
        id: &call.id,
        r#type: "function",
        function: WireFunction { name: fit(&call.name), arguments: object_text(&call.arguments) },
        extra: &call.extra,
    }
}

/// Names of the reasoning fields that [`Reasoning::AsItCame`] sends.
pub(super) fn reasoning_fields<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a str> {
    let opaque = request.messages.iter().filter_map(|message| match message {
        Message::Assistant(message) if !message.calls.is_empty() => message.opaque.as_ref(),
        _ => None,
    });
    opaque.flat_map(|opaque| {
        let details = opaque[REASONING_DETAILS].is_array().then_some(REASONING_DETAILS);
        opaque[REASONING_FIELD].as_str().into_iter().chain(details)
    })
}

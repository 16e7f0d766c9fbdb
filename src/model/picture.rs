//! Pictures in a conversation, as the wire formats share them.
use crate::model::{Image, Message, Part, Request, ToolResult};

/// What stands in for a picture that the model does not take.
pub(super) const NO_IMAGE: &str = "[an image stood here, but this model takes no images]";

/// Whether some picture is in the conversation.
pub(super) fn any_in(request: &Request<'_>) -> bool {
    request.messages.iter().any(|message| match message {
        Message::User(parts) => parts.iter().any(|part| matches!(part, Part::Image(_))),
        Message::Assistant(_) => false,
        Message::ToolResult(result) => !result.images.is_empty(),
    })
}

/// What is said before a result's pictures, where they can't be inside the result.
pub(super) fn heading(result: &ToolResult) -> Option<String> {
    (!result.images.is_empty()).then(|| format!("What `{}` returned as an image:", result.name))
}

/// A picture as a `data:` URL, written straight into the body: it is the largest thing in it.
pub(super) fn data_url<S: serde::Serializer>(image: &Image, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("data:{};base64,{}", image.mime_type, image.base64))
}

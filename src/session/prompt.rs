//! The blocks of a `session/prompt`, checked and turned into what the model reads.
//!
//! Nothing here touches the disk: the reader calls it before the session is known.
use super::image;
use super::links::{FileUri, attached, named};
use crate::model::{Image, Part};
use crate::text::{clean, fenced};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

/// Most pictures of one prompt.
const IMAGES_AT_MOST: usize = 16;

/// A checked prompt.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// What the model gets, in order; neighbouring text is one part.
    pub parts: Vec<Part>,
    /// The blocks as the client sent them, for saving and replay.
    pub blocks: Vec<Box<RawValue>>,
    /// The `text` blocks alone, joined: for the title, slash commands and mentions.
    pub text: String,
}

/// A block that is not taken (`-32602`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockError {
    /// The member at fault: `prompt[2].data`.
    pub field: String,
    /// What is wrong with it, as the rest of a sentence.
    pub why: String,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.why)
    }
}

impl std::error::Error for BlockError {}

impl Prompt {
    /// Checks the blocks in their order.
    ///
    /// # Errors
    /// The first block that is not taken, or an empty prompt.
    pub fn check<'a>(blocks: impl IntoIterator<Item = &'a RawValue>) -> Result<Self, BlockError> {
        let mut prompt = Self { parts: Vec::new(), blocks: Vec::new(), text: String::new() };
        for (index, raw) in blocks.into_iter().enumerate() {
            let at = Field(format!("prompt[{index}]"));
            prompt.take(&at, raw)?;
            prompt.blocks.push(raw.to_owned());
        }
        if prompt.blocks.is_empty() {
            return Err(Field("prompt".to_owned()).error("is empty"));
        }
        Ok(prompt)
    }

    /// Adds text for the model that is not the client's, behind the rest.
    pub fn add(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    fn take(&mut self, at: &Field, raw: &RawValue) -> Result<(), BlockError> {
        let block: Block<'_> = at.object(raw)?;
        match at.member("type").required(block.kind)?.as_str() {
            "text" => {
                let text = at.member("text").required(block.text)?;
                self.add(&text);
                self.text.push_str(&text);
            }
            "resource_link" => self.add(&link(at, &block)?),
            "resource" => {
                let field = at.member("resource");
                let raw = block.resource.ok_or_else(|| field.error("is missing"))?;
                self.add(&embedded(&field, raw)?);
            }
            "image" => {
                at.parse::<ImageMembers>(raw, "has a member that an image has not")?;
                let image = self.image(at, &block)?;
                self.parts.push(Part::Image(image));
            }
            "audio" => return Err(at.member("type").error("is `audio`, which is not supported")),
            _ => return Err(at.member("type").error("is not text, resource_link, resource or image")),
        }
        Ok(())
    }

    fn image(&self, at: &Field, block: &Block<'_>) -> Result<Image, BlockError> {
        if self.parts.iter().filter(|part| matches!(part, Part::Image(_))).count() == IMAGES_AT_MOST {
            return Err(at.error(format_args!("is one image too many: at most {IMAGES_AT_MOST} a prompt")));
        }
        let declared = at.member("mimeType").required(block.mime_type)?;
        if declared.strip_prefix("image/").is_none_or(str::is_empty) {
            return Err(at.member("mimeType").error("is not image/…"));
        }
        let field = at.member("data");
        let base64 = field.required(block.data)?;
        let mime_type = image::mime_type(&base64).map_err(|why| field.error(why))?;
        Ok(Image { mime_type, base64: base64.into() })
    }
}

/// The members of all kinds of blocks, unread: a member of another kind's is nobody's business.
#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    title: Option<&'a RawValue>,
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow, rename = "mimeType")]
    mime_type: Option<&'a RawValue>,
}

/// All that ACP's `ImageContent` may have, and nothing else.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only their names are checked")]
struct ImageMembers {
    r#type: serde::de::IgnoredAny,
    data: Option<serde::de::IgnoredAny>,
    #[serde(rename = "mimeType")]
    mime_type: Option<serde::de::IgnoredAny>,
    uri: Option<serde::de::IgnoredAny>,
    annotations: Option<serde::de::IgnoredAny>,
    _meta: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    blob: Option<&'a RawValue>,
}

fn link(at: &Field, block: &Block<'_>) -> Result<String, BlockError> {
    let uri = at.member("uri").not_empty(block.uri)?;
    let title = at.member("title").optional(block.title)?;
    let name = at.member("name").optional(block.name)?;
    if let Some(file) = FileUri::parse(&uri) {
        return Ok(attached("file", &file.path, file.lines));
    }
    let called = [title, name].into_iter().flatten().find(|name| !name.trim().is_empty());
    let called = called.as_deref().unwrap_or(&uri);
    Ok(format!("\n[Resource: {}]({})", clean(called), named(&uri)))
}

fn embedded(at: &Field, raw: &RawValue) -> Result<String, BlockError> {
    let resource: Resource<'_> = at.object(raw)?;
    let uri = at.member("uri").not_empty(resource.uri)?;
    if resource.blob.is_some() {
        return Err(at.member("blob").error("is not supported: only text can be embedded"));
    }
    let text = at.member("text").required(resource.text)?;
    let head = match FileUri::parse(&uri) {
        Some(FileUri { path, lines }) => {
            named(&path).into_owned() + &lines.map(|l| l.to_string()).unwrap_or_default()
        }
        None => named(&uri).into_owned(),
    };
    Ok(format!("\n{head}\n{}\n", fenced("", &text)))
}

/// Where in the params we are.
struct Field(String);

impl Field {
    fn member(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    fn error(&self, why: impl fmt::Display) -> BlockError {
        BlockError { field: self.0.clone(), why: why.to_string() }
    }

    fn parse<'a, T: Deserialize<'a>>(&self, raw: &'a RawValue, otherwise: &str) -> Result<T, BlockError> {
        serde_json::from_str(raw.get()).map_err(|_| self.error(otherwise))
    }

    /// A list of the members' values would do for serde.
    fn object<'a, T: Deserialize<'a>>(&self, raw: &'a RawValue) -> Result<T, BlockError> {
        let broken = "is not an object whose members come once each";
        if raw.get().starts_with('{') { self.parse(raw, broken) } else { Err(self.error(broken)) }
    }

    fn optional(&self, raw: Option<&RawValue>) -> Result<Option<String>, BlockError> {
        raw.map(|raw| self.parse(raw, "is not a string")).transpose()
    }

    fn required(&self, raw: Option<&RawValue>) -> Result<String, BlockError> {
        self.optional(raw)?.ok_or_else(|| self.error("is missing"))
    }

    fn not_empty(&self, raw: Option<&RawValue>) -> Result<String, BlockError> {
        let text = self.required(raw)?;
        if text.trim().is_empty() { Err(self.error("is empty")) } else { Ok(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const PNG: &str = "iVBORw0KGgo=";

    fn prompt(blocks: &Value) -> Result<Prompt, BlockError> {
        let text = blocks.to_string();
        let raw: Vec<&RawValue> = serde_json::from_str(&text).unwrap();
        Prompt::check(raw)
    }

    /// All text parts, pictures as their type.
    #[track_caller]
    fn reads(blocks: &Value) -> String {
        let parts = prompt(blocks).unwrap().parts;
        let read = parts.into_iter().map(|part| match part {
            Part::Text(text) => text,
            Part::Image(image) => format!("<{}>", image.mime_type),
        });
        read.collect()
    }

    #[track_caller]
    fn refused(block: &Value, field: &str) {
        let error = prompt(&json!([{"type": "text", "text": "a"}, block])).unwrap_err();
        assert_eq!(error.field, format!("prompt[1]{field}"), "{error}");
        assert!(!error.why.contains("prompt["), "the field is named once: {error}");
    }

    #[test]
    fn blocks_read_as_they_come() {
        let text = |text: &str| json!({"type": "text", "text": text});
        for (blocks, read) in [
            (json!([text("a "), text("b")]), "a b"),
            (
                json!([{"type": "resource_link", "uri": "file:///a%20b.rs#L10-20", "name": "x"}]),
                "\n[attached file: /a b.rs (lines 10-20)]",
            ),
            (
                json!([text("see"), {"type": "resource_link", "uri": "https://x/y", "name": "n", "title": "t"}]),
                "see\n[Resource: t](https://x/y)",
            ),
            (
                json!([{"type": "resource_link", "uri": "https://x/y", "name": "n", "title": " "}]),
                "\n[Resource: n](https://x/y)",
            ),
            (
                json!([{"type": "resource_link", "uri": "zed:///t", "title": null}]),
                "\n[Resource: zed:///t](zed:///t)",
            ),
            (
                json!([{"type": "resource_link", "uri": "file://host/a", "name": "n"}]),
                "\n[Resource: n](file://host/a)",
            ),
            (
                json!([{"type": "resource", "resource": {"uri": "file:///a%20b.rs#L2", "text": "x\n```\ny"}}, text("z")]),
                "\n/a b.rs (line 2)\n````\nx\n```\ny\n````\nz",
            ),
            (json!([{"type": "resource", "resource": {"uri": "x:y", "text": ""}}]), "\nx:y\n```\n```\n"),
            (
                json!([text("a"), {"type": "image", "data": PNG, "mimeType": "image/jpeg", "uri": "file:///x", "_meta": {}, "annotations": null}, text("b")]),
                "a<image/png>b",
            ),
            (
                json!([{"type": "text", "text": "a", "annotations": null, "_meta": {"x": [1]}, "data": 5}]),
                "a",
            ),
        ] {
            assert_eq!(reads(&blocks), read, "{blocks}");
        }
    }

    #[test]
    fn a_block_that_is_wrong_names_its_member() {
        for (block, field) in [
            (json!(5), ""),
            (json!([]), ""),
            (json!(["text", "a", null, null, null, null, null, null]), ""),
            (json!({}), ".type"),
            (json!({"type": 5}), ".type"),
            (json!({"type": "video"}), ".type"),
            (json!({"type": "audio", "data": "", "mimeType": "audio/wav"}), ".type"),
            (json!({"type": "text"}), ".text"),
            (json!({"type": "text", "text": null}), ".text"),
            (json!({"type": "text", "text": ["a"]}), ".text"),
            (json!({"type": "resource_link", "name": "n"}), ".uri"),
            (json!({"type": "resource_link", "uri": " "}), ".uri"),
            (json!({"type": "resource_link", "uri": 1}), ".uri"),
            (json!({"type": "resource_link", "uri": "x:y", "title": 1}), ".title"),
            (json!({"type": "resource_link", "uri": "x:y", "name": {}}), ".name"),
            (json!({"type": "resource"}), ".resource"),
            (json!({"type": "resource", "resource": "x"}), ".resource"),
            (json!({"type": "resource", "resource": ["x:y", "a", null]}), ".resource"),
            (json!({"type": "resource", "resource": {"text": "a"}}), ".resource.uri"),
            (json!({"type": "resource", "resource": {"uri": "x:y"}}), ".resource.text"),
            (json!({"type": "resource", "resource": {"uri": "x:y", "text": 1}}), ".resource.text"),
            (json!({"type": "resource", "resource": {"uri": "x:y", "blob": "AA=="}}), ".resource.blob"),
            (json!({"type": "image", "mimeType": "image/png"}), ".data"),
            (json!({"type": "image", "mimeType": "image/png", "uri": "file:///a.png"}), ".data"),
            (json!({"type": "image", "mimeType": "image/png", "data": ""}), ".data"),
            (json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo"}), ".data"),
            (json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}), ".data"),
            (json!({"type": "image", "data": PNG}), ".mimeType"),
            (json!({"type": "image", "data": PNG, "mimeType": "text/plain"}), ".mimeType"),
            (json!({"type": "image", "data": PNG, "mimeType": "image/"}), ".mimeType"),
            (json!({"type": "image", "data": PNG, "mimeType": "image/png", "url": "http://x"}), ""),
        ] {
            refused(&block, field);
        }
    }

    #[test]
    fn a_text_that_is_no_unicode_is_refused() {
        let raw: Vec<&RawValue> = serde_json::from_str(r#"[{"type": "text", "text": "\ud800"}]"#).unwrap();
        assert_eq!(Prompt::check(raw).unwrap_err().field, "prompt[0].text");
    }

    #[test]
    fn a_member_that_comes_twice_is_refused() {
        let raw: Vec<&RawValue> =
            serde_json::from_str(r#"[{"type": "text", "text": "a", "text": "b"}]"#).unwrap();
        assert_eq!(Prompt::check(raw).unwrap_err().field, "prompt[0]");
    }

    #[test]
    fn an_empty_prompt_is_refused() {
        let error = prompt(&json!([])).unwrap_err();
        assert_eq!((error.field.as_str(), error.why.as_str()), ("prompt", "is empty"));
    }

    #[test]
    fn the_17th_image_is_refused() {
        let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
        assert!(prompt(&json!(vec![image.clone(); 16])).is_ok());
        assert_eq!(prompt(&json!(vec![image; 17])).unwrap_err().field, "prompt[16]");
    }

    #[test]
    fn an_escaped_slash_is_base64_too() {
        let data = "R0lGODlhAA//";
        let text = format!(
            r#"[{{"type": "image", "mimeType": "image/gif", "data": "{}"}}]"#,
            data.replace('/', "\\/")
        );
        let raw: Vec<&RawValue> = serde_json::from_str(&text).unwrap();
        let image = Image { mime_type: "image/gif", base64: data.into() };
        assert_eq!(Prompt::check(raw).unwrap().parts, [Part::Image(image)]);
    }

    #[test]
    fn blocks_are_kept_as_sent_and_text_alone_is_the_users() {
        let sent = r#"{"type":"text",  "text":"/n\u0065w ", "x": 1.0e3}"#;
        let link = r#"{"type":"resource_link","uri":"file:///a"}"#;
        let whole = format!("[{sent},{link}]");
        let raw: Vec<&RawValue> = serde_json::from_str(&whole).unwrap();
        let mut prompt = Prompt::check(raw).unwrap();
        let kept: Vec<&str> = prompt.blocks.iter().map(|block| block.get()).collect();
        assert_eq!(kept, [sent, link]);
        assert_eq!(prompt.text, "/new ");
        prompt.add("\n[attached file: /b]");
        assert_eq!(prompt.parts, [Part::Text("/new \n[attached file: /a]\n[attached file: /b]".into())]);
    }

    #[test]
    fn a_member_repeated_a_million_times_costs_nothing() {
        let text =
            format!("[{{\"type\": \"text\", {}\"text\": \"a\"}}]", "\"x\": {\"a\":0}, ".repeat(1_000_000));
        let raw: Vec<&RawValue> = serde_json::from_str(&text).unwrap();
        assert_eq!(Prompt::check(raw).unwrap().text, "a");
    }
}

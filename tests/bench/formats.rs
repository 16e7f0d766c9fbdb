//! Rows of the wire formats of models, without a connection.
use crate::saved;
use crate::support::openai::{event, finish, text};
use crate::table::{Row, Times};
use bob::cancel::Cancelled;
use bob::model::{Codec, Delta, Listener, Request};
use bob::settings::llm::{Endpoint, Format};
use serde_json::{Value, json};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

const DELTAS: usize = 20_000;
/// Bytes that one read brings.
const READ: usize = 16 << 10;

fn codec(format: Format) -> Codec {
    Codec::new(&Endpoint {
        provider: "LOCAL".into(),
        format,
        api_key: None,
        base_url: "http://127.0.0.1:9/v1".into(),
        model: "m".into(),
        temperature: None,
        max_tokens: None,
        thinking: None,
        extra_body: serde_json::Map::new(),
    })
}

/// Counts deltas.
struct Count(usize);

impl Listener for Count {
    fn delta(&mut self, _: Delta<'_>) {
        self.0 += 1;
    }

    fn pause(&mut self, _: &str, _: Duration) -> Result<(), Cancelled> {
        unreachable!("nothing is asked twice")
    }
}

/// Streams of 20,000 deltas decoded; the floor splits the same bytes into lines.
pub(crate) fn decode(_: &Path) -> Vec<Row> {
    Format::ALL.into_iter().map(decode_one).collect()
}

fn decode_one(format: Format) -> Row {
    let (codec, stream) = (codec(format), stream(format));
    let (floor, times) = Times::beside(
        21,
        |_| {
            let since = Instant::now();
            let data = stream.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"data: "));
            assert!(black_box(data.count()) > DELTAS);
            since.elapsed()
        },
        |_| {
            let mut count = Count(0);
            let since = Instant::now();
            codec.reply(stream.chunks(READ), &mut count).expect("it is whole");
            assert_eq!(count.0, DELTAS);
            since.elapsed()
        },
    );
    let count = f64::from(u32::try_from(DELTAS).expect("it is small"));
    Row::rate(format!("deltas decoded, {}", format.name()), count, "", &times, &floor, 0.1)
}

/// A text of so many deltas as this format streams it.
fn stream(format: Format) -> Vec<u8> {
    let named =
        |value: Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default());
    let [begin, delta, end] = match format {
        Format::OpenAiCompletions => {
            [String::new(), event(&text("word ")), event(&finish("stop")) + "data: [DONE]\n\n"]
        }
        Format::AnthropicMessages => [
            named(
                json!({"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": {"input_tokens": 9}}}),
            ) + &named(
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            ),
            named(
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}),
            ),
            named(json!({"type": "content_block_stop", "index": 0}))
                + &named(
                    json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}),
                )
                + &named(json!({"type": "message_stop"})),
        ],
        Format::OpenAiResponses => [
            named(
                json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "msg_1"}}),
            ),
            named(
                json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "word "}),
            ),
            named(json!({"type": "response.completed", "response": {"status": "completed", "output": []}})),
        ],
    };
    (begin + &delta.repeat(DELTAS) + &end).into_bytes()
}

/// Requests that carry 250, 500 and 1,000 turns: twice the turns, twice the time.
pub(crate) fn request(_: &Path) -> Vec<Row> {
    let histories = [250, 500, 1_000].map(saved::history);
    let tools = bob::tools::built_in_specs();
    let row = |format: Format| {
        let codec = codec(format);
        let times = histories.each_ref().map(|history| {
            let messages = history.messages();
            let request = Request { model: "m", thinking: None, system: "Be good.", messages, tools: &tools };
            Times::of(21, |_| {
                let since = Instant::now();
                black_box(codec.request(&request));
                since.elapsed()
            })
        });
        Row::growth(format!("250, 500, 1,000 turns, {}", format.name()), &times, 5.0)
    };
    Format::ALL.into_iter().map(row).collect()
}

//! Tokens: what a turn has cost, and how full the model's context is.
use crate::model::{Message, Part, Request, ToolSpec, Usage};
use crate::settings::prices::Price;
use crate::wire::acp;

/// Of a model whose window nobody told.
const DEFAULT_WINDOW: u64 = 128_000;
/// A token is about four bytes of text; the one estimate there is, for when nothing was counted.
pub const BYTES_PER_TOKEN: u64 = 4;
/// About what a picture counts, whatever its size: providers scale it down.
const IMAGE_TOKENS: u64 = 1_500;

/// The tokens of all model calls of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent(Option<acp::Usage>);

impl Spent {
    /// One more call.
    pub fn add(&mut self, call: Usage) {
        // Saturating: an endpoint may say whatever it likes.
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                let sum = sum.get_or_insert(0);
                *sum = sum.saturating_add(more);
            }
        };
        let sum = self.0.get_or_insert_default();
        sum.input_tokens = sum.input_tokens.saturating_add(call.input);
        sum.output_tokens = sum.output_tokens.saturating_add(call.output);
        sum.total_tokens = sum.input_tokens.saturating_add(sum.output_tokens);
        add(&mut sum.thought_tokens, call.reasoning);
        add(&mut sum.cached_read_tokens, call.cached_read);
        add(&mut sum.cached_write_tokens, call.cached_write);
    }

    /// The sum; `None` if no call reported anything.
    pub fn sum(self) -> Option<acp::Usage> {
        self.0
    }
}

/// What the session has cost with one more call of a model of this price; `None` while no price is known. Another currency
/// begins anew.
pub fn add_cost(so_far: Option<acp::Cost>, price: Option<&Price>, call: Usage) -> Option<acp::Cost> {
    let Some(price) = price else { return so_far };
    let before = so_far.filter(|cost| cost.currency == price.currency).map_or(0.0, |cost| cost.amount);
    let amount = before + price.of(call.input, call.cached_read.unwrap_or(0), call.output);
    Some(acp::Cost { amount, currency: price.currency.clone() })
}

/// The model's context: how much fits, and what the last call took of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Tokens.
    pub size: u64,
    /// The share of it from which on the history is compacted.
    threshold: f64,
    /// Input tokens of the last call that reported them.
    counted: Option<u64>,
}

impl Window {
    /// `size` as it is set, in tokens, if it is.
    pub fn new(size: Option<usize>, threshold: f64) -> Self {
        let size = size.map_or(DEFAULT_WINDOW, |size| u64::try_from(size).unwrap_or(u64::MAX));
        Self { size, threshold, counted: None }
    }

    /// What a call of the conversation reported.
    pub fn count(&mut self, usage: Usage) {
        self.counted = Some(usage.input);
    }

    /// The history is another one: nothing is known of it.
    pub fn forget(&mut self) {
        self.counted = None;
    }

    /// Tokens of `request`: as last counted, else estimated.
    pub fn used(&self, request: &Request<'_>) -> u64 {
        self.counted.unwrap_or_else(|| estimate(request))
    }

    /// `request` is past the threshold.
    pub fn is_full(&self, request: &Request<'_>) -> bool {
        self.used(request) as f64 > self.threshold * self.size as f64
    }
}

/// About how many tokens a request has.
pub fn estimate(request: &Request<'_>) -> u64 {
    let messages: u64 = request.messages.iter().map(of_message).sum();
    let tools: u64 = request.tools.iter().map(of_tool).sum();
    of_text(request.system) + tools + messages
}

fn of_message(message: &Message) -> u64 {
    match message {
        Message::User(parts) => parts.iter().map(of_part).sum(),
        Message::Assistant(reply) => {
            let calls = reply.calls.iter().map(|call| {
                let arguments = match &call.arguments {
                    crate::model::Arguments::Object(members) => written(members),
                    crate::model::Arguments::Invalid(text) => of_text(text),
                };
                of_text(&call.name) + arguments
            });
            of_text(&reply.text) + of_text(&reply.reasoning) + calls.sum::<u64>()
        }
        Message::ToolResult(result) => of_text(&result.output) + IMAGE_TOKENS * result.images.len() as u64,
    }
}

fn of_part(part: &Part) -> u64 {
    match part {
        Part::Text(text) => of_text(text),
        Part::Image(_) => IMAGE_TOKENS,
    }
}

fn of_tool(tool: &ToolSpec) -> u64 {
    of_text(&tool.name) + of_text(&tool.description) + written(&tool.schema)
}

fn of_text(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

fn written(value: &impl serde::Serialize) -> u64 {
    let length = serde_json::to_vec(value).map_or(0, |json| json.len());
    (length as u64).div_ceil(BYTES_PER_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Image;

    fn request(messages: &[Message]) -> Request<'_> {
        Request { model: "m", thinking: None, system: "four", messages, tools: &[] }
    }

    #[test]
    fn counts_past_all_bounds_stay_at_the_bound() {
        let (most, mut spent) = (u64::MAX, Spent::default());
        let call = Usage { input: most, output: most, cached_read: Some(most), ..Usage::default() };
        for _ in 0..2 {
            spent.add(call);
            let sum = spent.sum().unwrap();
            assert_eq!((sum.input_tokens, sum.output_tokens, sum.total_tokens), (most, most, most));
            assert_eq!((sum.cached_read_tokens, sum.thought_tokens), (Some(most), None));
        }
    }

    #[test]
    fn calls_are_summed_and_nothing_reported_is_no_sum() {
        let mut spent = Spent::default();
        assert_eq!(spent.sum(), None);
        spent.add(Usage { input: 10, output: 1, cached_read: Some(4), ..Usage::default() });
        spent.add(Usage { input: 20, output: 2, reasoning: Some(1), ..Usage::default() });
        let sum = spent.sum().unwrap();
        assert_eq!((sum.input_tokens, sum.output_tokens, sum.total_tokens), (30, 3, 33));
        assert_eq!(
            (sum.cached_read_tokens, sum.thought_tokens, sum.cached_write_tokens),
            (Some(4), Some(1), None)
        );
    }

    #[test]
    fn what_was_counted_comes_before_the_estimate_until_it_is_forgotten() {
        let messages = [Message::User(vec![Part::Text("x".repeat(4000))])];
        let request = request(&messages);
        let mut window = Window::new(Some(1000), 0.5);
        assert_eq!(window.used(&request), 1001);
        assert!(window.is_full(&request));
        window.count(Usage { input: 500, output: 900, ..Usage::default() });
        assert!(!window.is_full(&request), "reached is not passed");
        window.count(Usage { input: 501, ..Usage::default() });
        assert!(window.is_full(&request));
        window.forget();
        assert_eq!(window.used(&request), 1001);
        assert_eq!(Window::new(None, 0.8).size, 128_000);
    }

    #[test]
    fn a_picture_counts_as_a_picture_not_as_its_bytes() {
        let image = Image { mime_type: "image/png", base64: "A".repeat(1 << 20).into() };
        let messages = [Message::User(vec![Part::Image(image)])];
        assert_eq!(estimate(&request(&messages)), 1_501);
    }
}

//! What a model's tokens cost (`prices`), for the client's display.
use serde::{Deserialize, Deserializer, de};

/// Prices of one model, per million tokens.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Price {
    /// Of input that was not read from a cache.
    #[serde(default, deserialize_with = "amount")]
    input: f64,
    /// Of output, reasoning included.
    #[serde(default, deserialize_with = "amount")]
    output: f64,
    /// Of input read from a cache; as `input` where it is not told.
    #[serde(default, deserialize_with = "optional_amount")]
    cached_read: Option<f64>,
    /// ISO 4217.
    #[serde(default = "dollars")]
    pub currency: String,
}

impl Price {
    /// What a call cost: all its input tokens, those of them read from a cache, its output tokens.
    pub fn of(&self, input: u64, cached: u64, output: u64) -> f64 {
        let fresh = input.saturating_sub(cached) as f64 * self.input;
        let cached = input.min(cached) as f64 * self.cached_read.unwrap_or(self.input);
        (fresh + cached + output as f64 * self.output) / 1e6
    }
}

fn dollars() -> String {
    "USD".into()
}

fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let amount = f64::deserialize(deserializer)?;
    if amount < 0.0 { Err(de::Error::custom("a price is not negative")) } else { Ok(amount) }
}

fn optional_amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    amount(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_input_has_its_own_price() {
        let price: Price = serde_json::from_str(r#"{"input": 3, "output": 15, "cachedRead": 0.3}"#).unwrap();
        assert_eq!(price.of(1_000_000, 500_000, 100_000), 1.5 + 0.15 + 1.5);
        assert_eq!(price.currency, "USD");
        let price: Price = serde_json::from_str(r#"{"input": 2, "currency": "EUR"}"#).unwrap();
        assert_eq!(price.of(1_000_000, 1_000_000, 7), 2.0);
        assert!(serde_json::from_str::<Price>(r#"{"input": -1}"#).is_err());
        assert!(serde_json::from_str::<Price>(r#"{"inputs": 1}"#).is_err());
    }
}

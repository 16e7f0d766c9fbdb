//! What a model calls a tool with, read strictly enough to tell it what was expected.
use serde_json::{Map, Value};

/// The arguments of one call. A `null` counts as absent; unknown ones are ignored.
pub(super) struct Arguments<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Arguments<'a> {
    /// A text that must be there, perhaps empty.
    ///
    /// # Errors
    /// Text for the model: missing, or something else.
    pub(super) fn text(&self, name: &str) -> Result<&'a str, String> {
        match self.get(name) {
            Some(Value::String(text)) => Ok(text),
            other => Err(expected(name, "a string", other)),
        }
    }

    /// A whole number from 1, if it is there.
    ///
    /// # Errors
    /// Text for the model: something else.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match whole(value) {
            Some(count) if count > 0 => Ok(Some(count)),
            _ => Err(expected(name, "a whole number from 1", Some(value))),
        }
    }

    /// A yes or no, if it is there.
    ///
    /// # Errors
    /// Text for the model: something else.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            other => Err(expected(name, "true or false", other)),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }
}

/// In JSON `10.0` is a whole number too.
fn whole(value: &Value) -> Option<u64> {
    let exact = |number: &f64| number.fract() == 0.0 && (0.0..9e15).contains(number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and in range"
    )]
    value.as_u64().or_else(|| value.as_f64().filter(exact).map(|number| number as u64))
}

fn expected(name: &str, what: &str, found: Option<&Value>) -> String {
    let found = match found {
        None => return format!("`{name}` is missing: {what} is expected"),
        Some(Value::String(_)) => "a string".into(),
        Some(Value::Array(_)) => "an array".into(),
        Some(Value::Object(_)) => "an object".into(),
        Some(plain) => plain.to_string(),
    };
    format!("`{name}` must be {what}, not {found}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_wrong_argument_is_told_what_was_expected() {
        let map = json!({"n": 0, "f": 2.5, "w": 10.0, "s": "1", "b": true, "a": [], "x": null, "neg": -1});
        let arguments = Arguments(map.as_object().unwrap());
        assert_eq!(arguments.text("s"), Ok("1"));
        assert_eq!(arguments.text("x").unwrap_err(), "`x` is missing: a string is expected");
        assert_eq!(arguments.text("a").unwrap_err(), "`a` must be a string, not an array");
        assert_eq!(arguments.count("w"), Ok(Some(10)));
        assert_eq!((arguments.count("x"), arguments.count("y")), (Ok(None), Ok(None)));
        for wrong in ["n", "f", "s", "b", "neg"] {
            let why = arguments.count(wrong).unwrap_err();
            assert!(why.contains("a whole number from 1"), "{why}");
        }
        assert_eq!((arguments.flag("b"), arguments.flag("x")), (Ok(Some(true)), Ok(None)));
        assert_eq!(arguments.flag("s").unwrap_err(), "`s` must be true or false, not a string");
    }
}

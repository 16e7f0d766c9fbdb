//! Members of one JSON object, still raw: what a method does not ask for is never built.
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// A param that is not as its method wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamError {
    /// The member, as a path: `cwd`, `mcpServers[0].type`.
    pub field: String,
    /// What it must be.
    pub why: String,
}

impl ParamError {
    /// `field` is as `why` says.
    pub fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }
}

/// The raw values of the named members of an object, each the last of its name.
///
/// # Errors
/// `raw` is no object.
pub fn members<'a, const N: usize>(
    raw: &'a RawValue,
    names: [&str; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    members_in(raw.get(), names)
}

/// [`members`] of an object in a text that is JSON.
///
/// # Errors
/// `text` is no object.
pub fn members_in<'a, const N: usize>(
    text: &'a str,
    names: [&str; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_map(Members { names, once: false })
}

/// [`members`] of an answer that must be clear: none of them twice.
///
/// # Errors
/// `raw` is no object, or says two things.
pub fn clear_members<'a, const N: usize>(
    raw: &'a RawValue,
    names: [&str; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    deserializer.deserialize_map(Members { names, once: true })
}

struct Members<'n, const N: usize> {
    names: [&'n str; N],
    once: bool,
}

impl<'de, const N: usize> Visitor<'de> for Members<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(which) = map.next_key_seed(Name(&self.names))? {
            match which.and_then(|i| found.get_mut(i)) {
                Some(Some(_)) if self.once => return Err(serde::de::Error::custom("a member twice")),
                Some(place) => *place = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// Which of the names a key is. Read as bytes: a key may hold a lone surrogate, which no `str` can.
struct Name<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| name.as_bytes() == key))
    }
}

/// The first member of an object that is not among `names`, as it can be shown.
pub fn first_other(raw: &RawValue, names: &[&str]) -> Option<String> {
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    deserializer.deserialize_map(FirstOther(names)).ok().flatten()
}

struct FirstOther<'n>(&'n [&'n str]);

impl<'de> Visitor<'de> for FirstOther<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut other = None;
        while let Some(name) = map.next_key::<Lossy>()? {
            map.next_value::<IgnoredAny>()?;
            if !self.0.contains(&name.0.as_str()) {
                other.get_or_insert(name.0);
            }
        }
        Ok(other)
    }
}

/// A key, which may hold a lone surrogate.
struct Lossy(String);

impl<'de> Deserialize<'de> for Lossy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(LossyVisitor)
    }
}

struct LossyVisitor;

impl Visitor<'_> for LossyVisitor {
    type Value = Lossy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Lossy, E> {
        Ok(Lossy(String::from_utf8_lossy(key).into_owned()))
    }
}

/// The named members of `params`, which must be an object.
///
/// # Errors
/// Absent, or no object; the field is `params`.
pub fn params<'a, const N: usize>(
    raw: Option<&'a RawValue>,
    names: [&str; N],
) -> Result<[Option<&'a RawValue>; N], ParamError> {
    let raw = raw.ok_or_else(|| ParamError::new("params", "missing"))?;
    members(raw, names).map_err(|_| ParamError::new("params", "must be an object"))
}

/// A member that must be there; null counts as absent.
///
/// # Errors
/// Absent.
pub fn required<'a>(field: &str, raw: Option<&'a RawValue>) -> Result<&'a RawValue, ParamError> {
    optional(raw).ok_or_else(|| ParamError::new(field, "missing"))
}

/// Whether it is `null`, which counts as absent.
pub(crate) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// A member that may be there; null counts as absent.
pub fn optional(raw: Option<&RawValue>) -> Option<&RawValue> {
    raw.filter(|raw| !is_null(raw))
}

/// A member as a type of its own.
///
/// # Errors
/// It is not `what`, a noun phrase for the message (`a string`).
pub fn typed<T: DeserializeOwned>(field: &str, raw: &RawValue, what: &str) -> Result<T, ParamError> {
    serde_json::from_str(raw.get()).map_err(|_| ParamError::new(field, format!("must be {what}")))
}

/// Only that it is an object.
///
/// # Errors
/// It is not.
pub fn object(field: &str, raw: &RawValue) -> Result<(), ParamError> {
    members(raw, []).map(|[]| ()).map_err(|_| ParamError::new(field, "must be an object"))
}

/// A required string.
///
/// # Errors
/// Absent, or no string.
pub fn string(field: &str, raw: Option<&RawValue>) -> Result<String, ParamError> {
    typed(field, required(field, raw)?, "a string")
}

/// A required string that is not empty.
///
/// # Errors
/// Absent, no string, or empty.
pub fn non_empty(field: &str, raw: Option<&RawValue>) -> Result<String, ParamError> {
    let text = string(field, raw)?;
    if text.is_empty() { Err(ParamError::new(field, "must not be empty")) } else { Ok(text) }
}

/// The elements of an array, raw.
///
/// # Errors
/// No array.
pub fn array<'a>(field: &str, raw: &'a RawValue) -> Result<Vec<&'a RawValue>, ParamError> {
    Vec::deserialize(&mut serde_json::Deserializer::from_str(raw.get()))
        .map_err(|_| ParamError::new(field, "must be an array"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_taken_the_last_of_its_name() {
        let raw = RawValue::from_string(r#"{"a":1,"\ud800":{"x":[]},"b":null,"a": [2] }"#.into()).unwrap();
        let [a, b, c] = members(&raw, ["a", "b", "c"]).unwrap();
        assert_eq!(a.map(RawValue::get), Some("[2]"));
        assert_eq!((optional(b).is_none(), c.is_none()), (true, true));
        assert_eq!(required("b", b).unwrap_err(), ParamError::new("b", "missing"));
        assert_eq!(first_other(&raw, &["a", "b"]).as_deref(), Some("\u{fffd}\u{fffd}\u{fffd}"));
        let list = RawValue::from_string("[1]".into()).unwrap();
        assert!(members(&list, ["a"]).is_err());
        assert!(clear_members(&raw, ["a"]).is_err() && clear_members(&raw, ["b"]).is_ok());
        assert_eq!(array("x", &list).unwrap().len(), 1);
        assert!(string("x", Some(&list)).is_err());
    }
}

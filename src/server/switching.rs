//! The params of requests that change a session's mode, model or options.
use crate::session::options::{self, Change};
use crate::text::clean;
use crate::wire::params::{ParamError, first_other, non_empty, params, string};
use serde_json::value::RawValue;

/// The members of `session/set_config_option`. No others are taken: a key or an address would be dropped in silence.
const MEMBERS: &[&str] = &["sessionId", "configId", "value", "type", "_meta"];
/// The longest value, in bytes.
const LONGEST: usize = 1024;

/// `modeId`: a mode of ours or of the client's own.
///
/// # Errors
/// It is missing, no string or empty.
pub(super) fn set_mode(raw: Option<&RawValue>) -> Result<Change, ParamError> {
    let [mode] = params(raw, ["modeId"])?;
    non_empty("modeId", mode).map(Change::Mode)
}

/// `configId` and `value`.
///
/// # Errors
/// A member that is none, or one that is missing, no string or too long.
pub(super) fn set_config_option(raw: Option<&RawValue>) -> Result<Change, ParamError> {
    let [id, value] = params(raw, ["configId", "value"])?;
    if let Some(other) = raw.and_then(|raw| first_other(raw, MEMBERS)) {
        let why = "is not taken: an option is set by sessionId, configId and value alone, and credentials never \
                   travel on the wire";
        return Err(ParamError::new(clean(&other), why));
    }
    let (id, value) = (non_empty("configId", id)?, string("value", value)?);
    for (field, text) in [("configId", &id), ("value", &value)] {
        if text.len() > LONGEST {
            return Err(ParamError::new(field, format!("is longer than {LONGEST} bytes")));
        }
    }
    Ok(Change::Option { id, value })
}

/// `model`.
///
/// # Errors
/// It is missing, or can't be a model's name.
pub(super) fn set_model(raw: Option<&RawValue>) -> Result<Change, ParamError> {
    let [model] = params(raw, ["model"])?;
    let model = string("model", model)?;
    options::check_name(&model).map_err(|why| ParamError::new("model", why))?;
    Ok(Change::Model(model))
}

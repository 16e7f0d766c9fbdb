//! Paths a model names: resolved, judged, remembered.

/// What the files were when this session last read or wrote them.
#[derive(Default)]
pub struct Seen;

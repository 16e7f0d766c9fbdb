//! Children: made, watched, ended. The only place with `unsafe` code, and the only one that spawns.

/// Processes that outlived their shell.
pub struct Left;

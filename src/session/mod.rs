//! A session: what the client sends it, what the model is told, what happens in between.
mod image;
pub mod instructions;
mod links;
pub mod mentions;
pub mod prompt;

//! A wire format by itself, without a server: for benches.
use crate::cancel::CancelSource;
use crate::model::dialect::Dialect;
use crate::model::endpoint::dialect_of;
use crate::model::failure::Trouble;
use crate::model::reply::Ear;
use crate::model::{Failure, Listener, Reply, Request};
use crate::settings::llm::Endpoint;

/// What an endpoint's format makes of a conversation, and of the answer.
pub struct Codec(Box<dyn Dialect>);

impl Codec {
    /// As for a server of which nothing was learnt yet.
    pub fn new(endpoint: &Endpoint) -> Self {
        Self(dialect_of(endpoint))
    }

    /// The body of a request, JSON.
    pub fn request(&self, request: &Request<'_>) -> Vec<u8> {
        self.0.body(request)
    }

    /// What the body of a good answer comes to, in whatever pieces it comes.
    ///
    /// # Errors
    /// It tells of an error, is damaged, or has no end.
    pub fn reply<'a>(
        &self,
        pieces: impl IntoIterator<Item = &'a [u8]>,
        listener: &mut dyn Listener,
    ) -> Result<Reply, Failure> {
        let (mut stream, cancel) = (self.0.reply(), CancelSource::new().token());
        let mut ear = Ear::new(listener, &cancel);
        let pushed = pieces.into_iter().try_for_each(|piece| stream.push(piece, &mut ear));
        pushed.and_then(|()| stream.finish(&mut ear)).map_err(|trouble: Trouble| trouble.into_failure(None))
    }
}

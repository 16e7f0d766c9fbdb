//! A compaction told to a client that knows of such: its beginning, and how it ended.
use crate::session::ClientCapabilities;
use crate::session::speaker::Speaker;
use crate::wire::acp::{CompactionStatus, CompactionUpdate, Update};

/// One that is under way. Dropped by a panic, it failed.
pub(super) struct Card<'a> {
    speaker: Speaker<'a>,
    /// Until its end is told; none for a client that does not know of it.
    id: Option<String>,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    /// With a summary, which holds from now on.
    Completed(&'a str),
    /// The history is as it was, and why.
    Failed(&'a str),
    /// The history is as it was.
    Cancelled,
}

impl<'a> Card<'a> {
    /// The client sees it, if it declared that it can.
    pub(super) fn begin(speaker: &Speaker<'a>, client: ClientCapabilities) -> Self {
        let id = client.compaction.then(|| speaker.new_message());
        if let Some(id) = &id {
            let begun = CompactionUpdate::new(id, CompactionStatus::InProgress);
            speaker.update(&Update::CompactionUpdate(begun));
        }
        Self { speaker: *speaker, id }
    }

    /// It is over.
    pub(super) fn end(mut self, end: End<'_>) {
        self.tell(end);
    }

    fn tell(&mut self, end: End<'_>) {
        let Some(id) = self.id.take() else { return };
        let update = match end {
            End::Completed(summary) => CompactionUpdate::completed(&id, summary),
            End::Failed(why) => {
                CompactionUpdate { error: Some(why), ..CompactionUpdate::new(&id, CompactionStatus::Failed) }
            }
            End::Cancelled => CompactionUpdate::new(&id, CompactionStatus::Cancelled),
        };
        self.speaker.update(&Update::CompactionUpdate(update));
    }
}

impl Drop for Card<'_> {
    fn drop(&mut self) {
        self.tell(End::Failed("Internal error"));
    }
}

//! The records of a conversation as bytes, each serialized once, ready to be written.
use super::record::Record;
use serde_json::value::RawValue;
use std::ops::Range;

/// What stands between two records: each has a line of its own.
const BETWEEN: &[u8] = b",\n";

/// Records one behind the other, as they stand between the brackets of `messages`.
#[derive(Debug, Default)]
pub struct Transcript {
    bytes: Vec<u8>,
    /// Where each begins.
    starts: Vec<usize>,
    changes: u64,
}

impl Transcript {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// How often it has changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// All of them, with commas between.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// One more.
    pub fn push(&mut self, record: &Record) {
        self.begin();
        record.write(&mut self.bytes);
    }

    /// One more, as it stands in a file.
    pub fn push_raw(&mut self, raw: &RawValue) {
        self.begin();
        self.bytes.extend_from_slice(raw.get().as_bytes());
    }

    /// Reads one.
    ///
    /// # Errors
    /// There is none; what was pushed raw was no record.
    pub fn get(&self, at: usize) -> Result<Record, &'static str> {
        let text = self.range(at).and_then(|range| self.bytes.get(range)).ok_or("is not there")?;
        Record::parse_again(std::str::from_utf8(text).map_err(|_| "is not JSON")?)
    }

    /// All of them, read one by one.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        (0..self.len()).filter_map(|at| self.get(at).ok())
    }

    /// Keeps the first `count`.
    pub fn truncate(&mut self, count: usize) {
        if let Some(start) = self.starts.get(count) {
            self.bytes.truncate(start.saturating_sub(BETWEEN.len()));
            self.starts.truncate(count);
            self.changes += 1;
        }
    }

    /// Puts one into the place of another. Costs what stands behind it.
    pub fn replace(&mut self, at: usize, record: &Record) {
        if let Some(old) = self.range(at) {
            let mut new = Vec::new();
            record.write(&mut new);
            let (was, is) = (old.len(), new.len());
            self.bytes.splice(old, new);
            self.starts.iter_mut().skip(at + 1).for_each(|start| *start = *start - was + is);
            self.changes += 1;
        }
    }

    /// Puts one before another, or at the end. Costs what stands behind it.
    pub fn insert(&mut self, at: usize, record: &Record) {
        let Some(start) = self.starts.get(at).copied() else { return self.push(record) };
        let mut new = Vec::new();
        record.write(&mut new);
        new.extend_from_slice(BETWEEN);
        let length = new.len();
        self.bytes.splice(start..start, new);
        self.starts.iter_mut().skip(at).for_each(|start| *start += length);
        self.starts.insert(at, start);
        self.changes += 1;
    }

    fn begin(&mut self) {
        if !self.is_empty() {
            self.bytes.extend_from_slice(BETWEEN);
        }
        self.starts.push(self.bytes.len());
        self.changes += 1;
    }

    fn range(&self, at: usize) -> Option<Range<usize>> {
        let start = *self.starts.get(at)?;
        let end = self.starts.get(at + 1).map_or(self.bytes.len(), |next| next.saturating_sub(BETWEEN.len()));
        Some(start..end)
    }
}

//! The program's summary.

fn main() {}

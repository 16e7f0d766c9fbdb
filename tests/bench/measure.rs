//! What Bob costs, beside a plain program that does the least that has to be done, measured in the same run.
//!
//! `make bench` builds the release binary and runs this; `BOB` names the binary. Every row prints what it measured,
//! its target and `miss` where it misses; the exit code is 0 either way, since a busy machine is not a bug.
#![expect(clippy::print_stdout, reason = "a table on stdout is what it makes")]

mod floors;
mod formats;
mod long;
mod peer;
mod rows;
mod saved;
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;
use table::Row;

/// What a group of rows may take before something must be hung.
const LIMIT: Duration = Duration::from_secs(120);

/// A group of rows: measures the binary at this path.
type Group = fn(&Path) -> Vec<Row>;

/// All of them by name: `make bench ROWS='start memory'` runs only these.
const GROUPS: &[(&str, Group)] = &[
    ("start", rows::start),
    ("throughput", rows::throughput),
    ("first_delta", rows::first_delta),
    ("cancel_model", rows::cancel_while_the_model_works),
    ("cancel_elsewhere", rows::cancel_elsewhere),
    ("end_of_input", rows::end_of_input),
    ("shell_turn", rows::shell_turn),
    ("turn", long::turn),
    ("step_saved", long::step_saved),
    ("load", long::load),
    ("list", long::list),
    ("decode", formats::decode),
    ("request", formats::request),
    ("memory", rows::memory),
    ("unread_client", rows::unread_client),
    ("size", rows::size),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("floor", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return floors::run(rest);
    }
    let bob = std::env::var_os("BOB").map_or_else(|| env!("CARGO_BIN_EXE_bob").into(), PathBuf::from);
    println!("{}\n\n{}", bob.display(), table::header());
    let wanted: Vec<String> = arguments.into_iter().filter(|argument| !argument.starts_with('-')).collect();
    for (name, group) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            let watch = watchdog();
            group(&bob).iter().for_each(|row| println!("{row}"));
            drop(watch);
        }
    }
}

/// Ends the program when what it returns is not dropped in time: a hung child is not waited for.
fn watchdog() -> crossbeam_channel::Sender<()> {
    let (watch, done) = crossbeam_channel::bounded(0);
    support::spawn("watchdog", move || {
        if done.recv_timeout(LIMIT) == Err(crossbeam_channel::RecvTimeoutError::Timeout) {
            println!("nothing for {LIMIT:?}: hung");
            #[expect(clippy::exit, clippy::disallowed_methods, reason = "the main thread sits in a read")]
            std::process::exit(1);
        }
    });
    watch
}

//! Children: made, watched, ended; and what else of the process takes system calls. The only place with `unsafe`
//! code, and the only one that spawns.
mod command;
mod left;
mod own;
mod pipe;
mod poll;
mod shell;
mod system;

pub use command::{End, Finished, ShellCommand};
pub use left::Left;
pub use own::{SIGNAL_BYTE, hide_environment, quit_signal_to, signals_to};
pub use own::{share_heaps, survive_file_size_limit, take_stdout};
pub use pipe::Sink;
pub use poll::{Watch, wait};
pub use shell::{Shell, shell};
pub use system::signal_name;

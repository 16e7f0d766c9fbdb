//! `bob`: see [`bob::cli`].
use std::process::ExitCode;

fn main() -> ExitCode {
    bob::cli::run(std::env::args_os()).into()
}

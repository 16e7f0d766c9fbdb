//! Questions to a person, on stdin and stdout. A terminal or not: answers may come from a pipe.
use super::interrupt::Interrupt;
use crate::process::{self, Watch};
use rustix::io::Errno;
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;

/// A longer line, in bytes, is no answer.
const LINE_LIMIT: usize = 64 << 10;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Stop {
    /// A signal came.
    Interrupted,
    /// The input ended.
    EndOfInput,
    /// It can't be read.
    Failed(io::Error),
}

/// Who is asked.
pub(super) struct Terminal<'a> {
    input: BorrowedFd<'a>,
    output: Box<dyn Write + 'a>,
    interrupt: &'a Interrupt,
    /// Read and not yet taken: a pipe gives all answers at once.
    unread: Vec<u8>,
}

impl<'a> Terminal<'a> {
    pub(super) fn new(input: BorrowedFd<'a>, output: impl Write + 'a, interrupt: &'a Interrupt) -> Self {
        Self { input, output: Box::new(output), interrupt, unread: Vec::new() }
    }

    /// Told as it is. Nobody listening is no error: there may still be answers.
    pub(super) fn say(&mut self, text: &str) {
        super::say(&mut self.output, text);
    }

    /// Asks until `check` takes the answer; what it says against one is told. An empty answer is `default`.
    ///
    /// # Errors
    /// [`Stop`].
    pub(super) fn ask<T>(
        &mut self,
        question: &str,
        default: Option<&str>,
        check: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Stop> {
        let brackets = default.map(|default| format!(" [{default}]")).unwrap_or_default();
        loop {
            self.say(&format!("{question}{brackets}: "));
            let line = self.answer()?;
            match check(if line.is_empty() { default.unwrap_or_default() } else { &line }) {
                Ok(answer) => return Ok(answer),
                Err(why) => self.say(&format!("  {why}\n")),
            }
        }
    }

    /// The same, for a secret: a terminal doesn't show what is typed.
    ///
    /// # Errors
    /// [`Stop`].
    pub(super) fn ask_hidden<T>(
        &mut self,
        question: &str,
        check: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Stop> {
        loop {
            let silence = Silence::begin(self.input); // before the question: who sees it may type
            self.say(&format!("{question}: "));
            let line = self.answer()?;
            if let Some(silence) = silence {
                silence.end();
            }
            match check(&line) {
                Ok(answer) => return Ok(answer),
                Err(why) => self.say(&format!("  {why}\n")),
            }
        }
    }

    /// Yes or no; `default` for an empty answer.
    ///
    /// # Errors
    /// [`Stop`].
    pub(super) fn ask_whether(&mut self, question: &str, default: bool) -> Result<bool, Stop> {
        let brackets = if default { "Y/n" } else { "y/N" };
        self.ask(&format!("{question} [{brackets}]"), None, |answer| {
            match answer.to_ascii_lowercase().as_str() {
                "" => Ok(default),
                "y" | "yes" => Ok(true),
                "n" | "no" => Ok(false),
                _ => Err("Please answer yes or no.".into()),
            }
        })
    }

    /// The next line without the blanks around it.
    fn answer(&mut self) -> Result<String, Stop> {
        let line = self.line();
        // Whoever types ends the line himself.
        if line.is_err() || !termios::isatty(self.input) {
            self.say("\n");
        }
        Ok(String::from_utf8_lossy(&line?).trim().to_owned())
    }

    /// The next line; the last one needs no line end.
    fn line(&mut self) -> Result<Vec<u8>, Stop> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                return Ok(self.unread.drain(..=end).collect());
            }
            if self.unread.len() > LINE_LIMIT {
                return Err(Stop::Failed(io::Error::other("a line is longer than 64 KiB")));
            }
            if self.read()? == 0 {
                let rest = std::mem::take(&mut self.unread);
                return if rest.is_empty() { Err(Stop::EndOfInput) } else { Ok(rest) };
            }
        }
    }

    /// Waits for more; 0 is the end.
    fn read(&mut self) -> Result<usize, Stop> {
        loop {
            let watched = [self.interrupt.as_fd(), self.input].map(|fd| Some(Watch::Input(fd)));
            let [interrupted, ready] = process::wait(watched, None).map_err(Stop::Failed)?;
            if interrupted {
                return Err(Stop::Interrupted);
            }
            let mut bytes = [0; 4096];
            match ready.then(|| rustix::io::read(self.input, &mut bytes)) {
                None | Some(Err(Errno::INTR | Errno::AGAIN)) => {}
                Some(Err(error)) => return Err(Stop::Failed(error.into())),
                Some(Ok(length)) => {
                    self.unread.extend_from_slice(&bytes[..length]);
                    return Ok(length);
                }
            }
        }
    }
}

/// A terminal that doesn't show what is typed, until this is dropped: on every way out, a panic's too.
struct Silence<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
    /// What was typed in part is a part of a secret, and not for the shell that reads next.
    discards: bool,
}

impl<'a> Silence<'a> {
    /// `None`: it is no terminal.
    fn begin(terminal: BorrowedFd<'a>) -> Option<Self> {
        let before = termios::tcgetattr(terminal).ok()?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        silent.local_modes.insert(LocalModes::ECHONL);
        // Ctrl-Z and Ctrl-\ would leave the terminal silent: they are characters here, which no key has.
        for key in [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT] {
            silent.special_codes[key] = 0;
        }
        termios::tcsetattr(terminal, OptionalActions::Now, &silent).ok()?;
        Some(Self { terminal, before, discards: true })
    }

    /// The secret was taken whole; what is typed behind it stays.
    fn end(mut self) {
        self.discards = false;
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        let how = if self.discards { OptionalActions::Flush } else { OptionalActions::Now };
        let _ = termios::tcsetattr(self.terminal, how, &self.before); // gone: nothing to restore
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, openpt};
    use std::os::fd::AsFd;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_leaves_no_silent_terminal() {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let echoes = || termios::tcgetattr(&terminal).unwrap().local_modes.contains(LocalModes::ECHO);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _silence = Silence::begin(terminal.as_fd()).expect("it is a terminal");
            assert!(!echoes());
            std::panic::resume_unwind(Box::new("asked to"));
        }));
        assert!(panicked.is_err() && echoes());
    }

    #[test]
    fn a_pipe_is_no_terminal() {
        let (reader, _writer) = io::pipe().unwrap();
        assert!(Silence::begin(reader.as_fd()).is_none());
    }
}

//! `read_file`: a page of a text, or a picture.
mod page;

use self::page::{Shown, Stopped, page};
use super::arguments::Arguments;
use super::paths::{Planned, Purpose, Target, invalid, reason};
use super::{Action, Kind, Outcome, Plan, Run, Tool, Workspace};
use crate::cancel::CancelToken;
use crate::files;
use crate::model::{Image, ToolSpec};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::io::{self, BufRead, BufReader};

/// Files up to this size, in bytes, are taken into memory whole: to remember what they were, and to be edited.
/// Larger ones can only be read, page by page.
pub(super) const WHOLE_FILE: u64 = 16 << 20;

/// Largest picture shown to a model, in bytes: 5 MB as base64, the smallest of the providers' limits.
const IMAGE_BYTES: usize = 3_750_000;

const DEFAULT_LINES: u64 = 2_000;

/// The tool `read_file`.
pub struct ReadFile;

impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_file".into(),
            description:
                "Reads a file. Text comes with line numbers (number, tab, line), up to 2000 lines from \
                          `offset`; long lines are cut. PNG, JPEG, GIF and WEBP come as pictures."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "absolute, ~, or relative to the working directory"},
                    "offset": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
                    "limit": {"type": "integer", "minimum": 1, "description": "number of lines"}
                },
                "required": ["path"]
            }),
        }
    }

    fn plan(&self, arguments: &Map<String, Value>, workspace: &Workspace) -> Plan {
        let reading = |target: &Target, first, count| -> Planned {
            target.open()?; // what can't be opened is told now
            Ok(Box::new(Reading { target: target.clone(), first, count }))
        };
        match parse(arguments, workspace) {
            Err(why) => invalid("read_file", Kind::Read, why),
            Ok((target, first, count)) => {
                let action = reading(&target, first, count);
                target.plan("read_file", Kind::Read, Some(u32::try_from(first).unwrap_or(u32::MAX)), action)
            }
        }
    }
}

fn parse(arguments: &Map<String, Value>, workspace: &Workspace) -> Result<(Target, u64, u64), String> {
    let arguments = Arguments(arguments);
    let target = Target::locate(arguments.text("path")?, workspace, Purpose::Read)?;
    let first = arguments.count("offset")?.unwrap_or(1);
    Ok((target, first, arguments.count("limit")?.unwrap_or(DEFAULT_LINES)))
}

struct Reading {
    target: Target,
    first: u64,
    count: u64,
}

impl Action for Reading {
    fn run(self: Box<Self>, run: &mut Run<'_>) -> Outcome {
        self.read(run).unwrap_or_else(Outcome::failed)
    }
}

impl Reading {
    fn read(&self, run: &mut Run<'_>) -> Result<Outcome, String> {
        let path = self.target.path_again()?;
        let file = self.target.open()?;
        let failed = |error: io::Error| self.target.because(&reason(&error));
        let length = file.metadata().map_err(failed)?.len();
        if length > WHOLE_FILE {
            run.workspace.seen.note_large(path, length);
            return self.show(BufReader::with_capacity(64 << 10, file), length, run.cancel);
        }
        let bytes = files::read_all(file, WHOLE_FILE).map_err(failed)?;
        run.workspace.seen.note(path, &bytes);
        match files::image_type(&bytes) {
            Some(mime_type) => self.picture(&bytes, mime_type),
            None => self.show(&bytes[..], length, run.cancel),
        }
    }

    fn picture(&self, bytes: &[u8], mime_type: &'static str) -> Result<Outcome, String> {
        let size = size(bytes.len() as u64);
        if bytes.len() > IMAGE_BYTES {
            let limit = self::size(IMAGE_BYTES as u64);
            return Err(self
                .target
                .because(&format!("a picture of {size} ({mime_type}); at most {limit} are shown")));
        }
        let image = Image { mime_type, base64: STANDARD.encode(bytes).into() };
        let said = format!("[{}: a picture, {mime_type}, {size}]", self.target.title);
        Ok(Outcome { images: vec![image], ..Outcome::done(said) })
    }

    fn show(&self, mut reader: impl BufRead, length: u64, cancel: &CancelToken) -> Result<Outcome, String> {
        let failed = |error: io::Error| self.target.because(&reason(&error));
        let kind = files::kind_of(reader.fill_buf().map_err(failed)?);
        let shown = match kind {
            Some(_) => Ok(Shown::Binary),
            None => page(reader, self.first, self.count, cancel),
        };
        match shown {
            Ok(Shown::Page(text)) => Ok(Outcome::done(text)),
            Ok(Shown::Empty) => Ok(Outcome::done(format!("[{}: the file is empty]", self.target.title))),
            Ok(Shown::Binary) => {
                let (kind, size) = (kind.unwrap_or("unknown kind"), size(length));
                Ok(Outcome::done(format!(
                    "[{}: a binary file, {kind}, {size}; not shown]",
                    self.target.title
                )))
            }
            Ok(Shown::PastTheEnd { lines }) => {
                let why = format!("offset {} is past the end: the file has {lines} lines", self.first);
                Err(self.target.because(&why))
            }
            Err(Stopped::Cancelled) => Err(self.target.because("cancelled")),
            Err(Stopped::Failed(error)) => Err(failed(error)),
        }
    }
}

/// A size for a reader: `12 bytes`, `3.4 MiB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None if bytes == 1 => "1 byte".into(),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_place::TestPlace;
    use super::super::{Access, Location};
    use super::*;
    use crate::cancel::CancelSource;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn a_call_is_shown_with_file_and_line() {
        let mut place = TestPlace::new();
        place.write("src/a.rs", "one\ntwo\n");
        let plan = place.plan(&ReadFile, json!({"path": "src/a.rs", "offset": 2, "other": 1}));
        assert_eq!((plan.title.as_str(), plan.kind), ("read_file: src/a.rs", Kind::Read));
        assert_eq!(plan.locations, [Location { path: place.at("src/a.rs"), line: Some(2) }]);
        assert!(matches!(&plan.access, Access::File { path, place: p }
            if *path == place.at("src/a.rs") && p.inside_roots && !p.protected));
        assert_eq!(place.run(plan), Outcome::done("2\ttwo\n"));
    }

    #[test]
    fn what_can_not_be_read_is_said_before_a_question() {
        let place = TestPlace::new();
        place.fifo("pipe");
        place.link("loop", "loop");
        place.link("device", "/dev/zero");
        let _socket = std::os::unix::net::UnixListener::bind(place.at("socket")).unwrap();
        for (path, why) in [
            ("missing", "missing: no such file"),
            ("missing/../x", "missing/../x: no such file"),
            ("pipe", "pipe: not a regular file"),
            ("socket", "socket: not a regular file"),
            (".", ".: is a directory, not a file"),
            ("pipe/x", "pipe/x: a part of the path is not a directory"),
            ("loop", "loop: too many links, or a new one"),
        ] {
            let plan = place.plan(&ReadFile, json!({"path": path}));
            assert_eq!(plan.action.err().map(|refusal| refusal.text).as_deref(), Some(why));
        }
        for (arguments, why) in [
            (json!({}), "`path` is missing: a string is expected"),
            (json!({"path": "x", "offset": 0}), "`offset` must be a whole number from 1, not 0"),
            (json!({"path": "x", "limit": "2"}), "`limit` must be a whole number from 1, not a string"),
        ] {
            let plan = place.plan(&ReadFile, arguments);
            assert_eq!(
                (plan.action.err().map(|refusal| refusal.text).as_deref(), plan.access),
                (Some(why), Access::Free)
            );
        }
    }

    #[test]
    fn of_a_file_to_ask_about_nothing_is_said_before_permission() {
        let mut place = TestPlace::new();
        place.link("device", "/dev/zero");
        place.link("wall", "../outside/missing");
        for path in ["device", "wall", "../outside/no", "../outside/no/../x", "/etc/passwd/x", ".env", "~/x"]
        {
            let plan = place.plan(&ReadFile, json!({"path": path}));
            assert!(plan.action.is_ok(), "{path}");
            let outcome = place.run(plan);
            assert!(outcome.failed && !outcome.output.is_empty(), "{path}");
        }
    }

    #[test]
    fn texts_that_have_nothing_to_show_say_so() {
        let mut place = TestPlace::new();
        place.write("empty", "");
        place.write("short", "a\nb\n");
        place.write("program", b"\x7fELF\x02\x01");
        place.write("data", b"\0\x01\x02");
        for (arguments, expected) in [
            (json!({"path": "empty"}), Outcome::done("[empty: the file is empty]")),
            (
                json!({"path": "short", "offset": 9}),
                Outcome::failed("short: offset 9 is past the end: the file has 2 lines"),
            ),
            (
                json!({"path": "program"}),
                Outcome::done("[program: a binary file, ELF program, 6 bytes; not shown]"),
            ),
            (
                json!({"path": "data"}),
                Outcome::done("[data: a binary file, unknown kind, 3 bytes; not shown]"),
            ),
        ] {
            assert_eq!(place.call(&ReadFile, arguments), expected);
        }
    }

    #[test]
    fn pictures_are_shown_by_their_bytes() {
        let mut place = TestPlace::new();
        place.write("shot.txt", b"\x89PNG\r\n\x1a\n");
        let outcome = place.call(&ReadFile, json!({"path": "shot.txt"}));
        assert_eq!(outcome.output, "[shot.txt: a picture, image/png, 8 bytes]");
        assert_eq!(outcome.images, [Image { mime_type: "image/png", base64: "iVBORw0KGgo=".into() }]);
        place.write("large.gif", [&b"GIF89a"[..], &vec![0; IMAGE_BYTES]].concat());
        let outcome = place.call(&ReadFile, json!({"path": "large.gif"}));
        assert!(outcome.failed && outcome.images.is_empty());
    }

    #[test]
    fn a_sparse_file_of_3_gb_shows_its_first_lines() {
        let mut place = TestPlace::new();
        let mut file = File::create(place.at("huge")).unwrap();
        let lines: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        file.write_all(lines.as_bytes()).unwrap();
        file.set_len(3 << 30).unwrap();
        let outcome = place.call(&ReadFile, json!({"path": "huge", "limit": 20}));
        assert!(outcome.output.starts_with("1\tline 1\n") && !outcome.failed);
        assert!(outcome.output.ends_with("20\tline 20\n[the file goes on: offset=21 reads on]\n"));
        let source = CancelSource::new();
        source.cancel();
        let plan = place.plan(&ReadFile, json!({"path": "huge", "offset": 30}));
        assert_eq!(place.run_with(plan, &source), Outcome::failed("huge: cancelled"));
    }

    #[test]
    fn what_was_judged_is_what_is_read() {
        let mut place = TestPlace::new();
        place.write("../outside/secret", "SECRET");
        for swapped in ["file", "folder"] {
            place.write("folder/file", "fine");
            let plan = place.plan(&ReadFile, json!({"path": "folder/file"}));
            if swapped == "file" {
                std::fs::remove_file(place.at("folder/file")).unwrap();
                place.link("folder/file", "../../outside/secret");
            } else {
                std::fs::remove_dir_all(place.at("folder")).unwrap();
                place.link("folder", "../outside");
            }
            let outcome = place.run(plan);
            assert!(outcome.failed && !outcome.output.contains("SECRET"), "{swapped}: {}", outcome.output);
            drop(std::fs::remove_file(place.at("folder/file")));
        }
    }

    #[test]
    fn a_link_that_was_turned_elsewhere_fails() {
        let mut place = TestPlace::new();
        place.write("a", "a");
        place.write("b", "b");
        place.link("link", "a");
        let plan = place.plan(&ReadFile, json!({"path": "link"}));
        std::fs::remove_file(place.at("link")).unwrap();
        place.link("link", "b");
        let outcome = place.run(plan);
        assert!(outcome.failed && outcome.output.contains("leads elsewhere"), "{}", outcome.output);
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(
            [0, 1023, 1024, 1536, 3 << 30].map(size),
            ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "3.0 GiB"]
        );
    }

    #[test]
    fn offered_in_few_words() {
        let tools: [&dyn Tool; 4] = [
            &ReadFile,
            &super::super::write::WriteFile,
            &super::super::edit::EditFile,
            &super::super::skill::ReadSkill,
        ];
        for tool in tools {
            let spec = tool.spec();
            let size = spec.name.len() + spec.description.len() + spec.schema.to_string().len();
            assert!(size < 700, "{}: {size}", spec.name);
        }
    }
}

//! The house as `ARCHITECTURE.md` draws it: imports point down, never up, and stdout and stderr have one owner.
#![expect(
    clippy::unwrap_used,
    clippy::string_slice,
    reason = "a test that can't read the sources has failed"
)]
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms by layer, the lowest first.
const LAYERS: &[&[&str]] = &[
    &["cancel", "files", "logging", "process", "text", "wire"],
    &["settings"],
    &["mcp", "model", "tools"],
    &["session"],
    &["server"],
    &["cli"],
];

fn layer(room: &str) -> usize {
    let found = LAYERS.iter().position(|rooms| rooms.contains(&room));
    found.unwrap_or_else(|| panic!("{room} has no layer"))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(sources(&path)),
            false if path.extension().is_some_and(|e| e == "rs") => files.push(path),
            false => {}
        }
    }
    files
}

/// `server` for `src/server/reader.rs`, `cancel` for `src/cancel.rs`.
fn room(source: &Path, root: &Path) -> String {
    let inside = source.strip_prefix(root).unwrap();
    let first = inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_string()
}

/// All rooms named as `crate::ROOM` in a file.
fn imported(text: &str) -> impl Iterator<Item = &str> {
    text.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

#[test]
fn imports_point_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut checked = 0;
    for source in sources(&root) {
        let from = room(&source, &root);
        if ["main", "lib"].contains(&from.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&source).unwrap();
        assert!(!text.contains("use crate::{"), "{}: one room a `use` line", source.display());
        for to in imported(&text) {
            assert!(layer(to) <= layer(&from), "{}: {from} reaches up to {to}", source.display());
            checked += 1;
        }
    }
    assert!(checked > 50, "only {checked} imports seen: is this test looking at the right place?");
}

#[test]
fn models_and_tools_do_not_know_each_other_in_circles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (room, stranger) in [("model", "tools"), ("model", "mcp"), ("files", "process"), ("wire", "files")] {
        for source in sources(&root.join(room)) {
            let text = fs::read_to_string(&source).unwrap();
            let found = imported(&text).any(|to| to == stranger);
            assert!(!found, "{} imports {stranger}", source.display());
        }
    }
}

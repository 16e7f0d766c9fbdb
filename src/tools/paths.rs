//! Paths a model names: resolved, judged, remembered.
use super::{Access, Action, Kind, Location, Outcome, Place, Plan, Run, Workspace};
use crate::files;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Component, Path, PathBuf};

/// What is to be done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reading: protected is what may hold secrets.
    Read,
    /// Writing: protected is also what decides how others behave.
    Write,
}

/// Why a path leads nowhere.
#[derive(Debug)]
pub struct Unresolved {
    /// Where the walk ended: absolute, without links but perhaps the last component.
    pub at: PathBuf,
    /// What was wrong there.
    pub error: io::Error,
}

/// The absolute path without links at which the kernel would end: `..` counts after links, a dangling link by its
/// target, and what does not exist yet stays as it is written. `path` must be absolute.
///
/// # Errors
/// A `..` behind a missing name, a component that is no folder or can't be read, too many links; and
/// [`io::ErrorKind::PermissionDenied`] for a way through this process's own folder below `/proc` (see
/// [`is_our_own_process`]).
pub fn resolve(path: &Path) -> Result<PathBuf, Unresolved> {
    let mut here = PathBuf::from("/");
    let mut todo = components(path);
    let mut followed = 0;
    while let Some(name) = todo.pop() {
        if name == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&name);
        match look(&next, &todo) {
            Ok(Found::Nothing) => return Ok(next.join(todo.iter().rev().collect::<PathBuf>())),
            Ok(Found::Other) => here = next,
            Ok(Found::Link(target)) if followed < files::LINKS_AT_MOST => {
                followed += 1;
                if target.is_absolute() {
                    here = PathBuf::from("/");
                }
                todo.append(&mut components(&target));
            }
            Ok(Found::Link(_)) => return Err(Unresolved { at: next, error: Errno::LOOP.into() }),
            Err(error) => return Err(Unresolved { at: next, error }),
        }
    }
    Ok(here)
}

enum Found {
    Nothing,
    Link(PathBuf),
    Other,
}

/// What one step of a walk finds, with `todo` still to go.
fn look(path: &Path, todo: &[OsString]) -> io::Result<Found> {
    if is_our_own_process(path) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    match path.symlink_metadata() {
        // The kernel would not go on from what is missing, so a `..` behind it has no meaning.
        Err(e) if e.kind() == io::ErrorKind::NotFound && !todo.iter().any(|name| name == "..") => {
            Ok(Found::Nothing)
        }
        Err(e) => Err(e),
        Ok(found) if found.is_symlink() => Ok(Found::Link(path.read_link()?)),
        Ok(found) if !found.is_dir() && !todo.is_empty() => Err(io::ErrorKind::NotADirectory.into()),
        Ok(_) => Ok(Found::Other),
    }
}

/// The last first, as a stack to walk from.
fn components(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        _ => None,
    });
    names.collect()
}

/// Whether a path without links lies in this process's own folder below `/proc`: its environment and its open files
/// are there. Also by the id of one of its threads: `/proc/<thread>` is listed nowhere, but it is there.
pub fn is_our_own_process(path: &Path) -> bool {
    if path.starts_with("/dev/fd") {
        return true; // a link below /proc on Linux, a folder of its own elsewhere
    }
    let Ok(rest) = path.strip_prefix("/proc") else { return false };
    let Some(Component::Normal(id)) = rest.components().next() else { return false };
    id.as_encoded_bytes().iter().all(u8::is_ascii_digit) && Path::new("/proc/self/task").join(id).exists()
}

/// Judges a resolved path.
///
/// Protected names count without regard to case, since a disk may have none; the roots count exactly, since to take
/// `/Work` for `/work` would let a path in that is outside.
pub fn judge(path: &Path, workspace: &Workspace, purpose: Purpose) -> Place {
    let relative = workspace.roots.iter().filter_map(|root| path.strip_prefix(root).ok());
    // By the outermost of the roots, so that one inside another hides no name.
    let inside = relative.max_by_key(|relative| relative.components().count());
    let protected = has_protected_name(inside.unwrap_or(path), purpose)
        || is_below(path, &resolve(&workspace.user_folder).unwrap_or(workspace.user_folder.clone()));
    Place { inside_roots: inside.is_some(), protected }
}

fn has_protected_name(path: &Path, purpose: Purpose) -> bool {
    const BEHAVIOR: [&str; 6] = [".git", ".bob", ".agents", "agents.md", "bob.md", ".vscode"];
    let names: Vec<String> = path.iter().map(|name| fold(&name.to_string_lossy())).collect();
    let is_secret =
        |name: &String| name.starts_with(".env") || name.ends_with(".pem") || name.ends_with(".key");
    let is_behavior = |name: &String| BEHAVIOR.contains(&name.as_str());
    names.iter().any(is_secret)
        || purpose == Purpose::Write
            && (names.iter().any(is_behavior)
                || names.windows(2).any(|pair| pair == [".github", "workflows"]))
}

fn is_below(path: &Path, folder: &Path) -> bool {
    let mut names = path.iter();
    folder.iter().all(|wanted| {
        names.next().is_some_and(|name| fold(&name.to_string_lossy()) == fold(&wanted.to_string_lossy()))
    })
}

/// Without case as disks see it: up and down again also takes `ſ` for `s`.
fn fold(name: &str) -> String {
    name.to_uppercase().to_lowercase()
}

/// A path that a model named, resolved and judged.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Absolute, as the model named it.
    named: PathBuf,
    /// Without links, or why there is none.
    resolved: Result<PathBuf, String>,
    place: Place,
    /// What permission is about: the resolved path, or where the way ended.
    judged: PathBuf,
    /// Absolute, for the client: below `cwd` as the client calls it.
    shown: PathBuf,
    /// Relative to `cwd`, absolute outside.
    pub(super) title: String,
}

impl Target {
    /// Resolves and judges the `path` argument of a call: absolute, below `~`, or relative to `cwd`.
    ///
    /// # Errors
    /// Text for the model, that tells nothing of the disk: no path, no home, our own process.
    pub(super) fn locate(path: &str, workspace: &Workspace, purpose: Purpose) -> Result<Self, String> {
        let named = absolute(path, workspace)?;
        let (judged, resolved) = match resolve(&named) {
            Ok(path) => (path.clone(), Ok(path)),
            Err(Unresolved { at, .. }) if is_our_own_process(&at) => {
                return Err(format!("{path}: access to Bob's own process is denied"));
            }
            Err(Unresolved { at, error }) => (at, Err(reason(&error))),
        };
        let shown = resolved.as_ref().map_or(&named, |path| path);
        let cwd = workspace.roots.first().unwrap_or(&workspace.cwd);
        let relative = shown.strip_prefix(cwd).or_else(|_| shown.strip_prefix(&workspace.cwd)).ok();
        let title = match relative {
            Some(path) if path == Path::new("") => ".".into(),
            path => path.unwrap_or(shown).to_string_lossy().into_owned(),
        };
        let shown = relative.map_or_else(|| shown.clone(), |relative| workspace.cwd.join(relative));
        let place = judge(&judged, workspace, purpose);
        Ok(Self { named, resolved, place, judged, shown, title })
    }

    /// The path without links.
    ///
    /// # Errors
    /// Text for the model: it leads nowhere.
    pub(super) fn path(&self) -> Result<&Path, String> {
        self.resolved.as_deref().map_err(|why| self.because(why))
    }

    /// Absolute, for the client.
    pub(super) fn shown(&self) -> &Path {
        &self.shown
    }

    /// The same path, if the name still leads there.
    ///
    /// # Errors
    /// Text for the model: it leads elsewhere since it was judged.
    pub(super) fn path_again(&self) -> Result<&Path, String> {
        let path = self.path()?;
        match resolve(&self.named) {
            Ok(now) if now == path => Ok(path),
            _ => Err(self.because("it leads elsewhere than when permission was given; try again")),
        }
    }

    /// Opens it, to read.
    ///
    /// # Errors
    /// Text for the model: missing, no regular file, no permission.
    pub(super) fn open(&self) -> Result<File, String> {
        files::open_resolved(self.path()?).map_err(|error| self.because(&reason(&error)))
    }

    /// An error text that names the file.
    pub(super) fn because(&self, why: &str) -> String {
        format!("{}: {why}", self.title)
    }

    /// The plan of a call about this file. Why it can't be run is told only after permission where the file is one
    /// to ask about: a plan that fails is announced without a question, and even "no such file" is knowledge.
    pub(super) fn plan(self, tool: &str, kind: Kind, line: Option<u32>, action: Planned) -> Plan {
        let ask_first = !self.place.inside_roots || self.place.protected;
        Plan {
            title: format!("{tool}: {}", self.title),
            kind,
            locations: vec![Location { path: self.shown, line }],
            diff: None,
            access: Access::File { path: self.judged, place: self.place },
            action: match action {
                Err(why) if ask_first => Ok(Box::new(Late(why))),
                action => action,
            },
        }
    }
}

/// What a plan would run, or why it can't (text for the model).
pub(super) type Planned = Result<Box<dyn Action>, String>;

/// A call that can't succeed, which may only be told after permission.
struct Late(String);

impl Action for Late {
    fn run(self: Box<Self>, _: &mut Run<'_>) -> Outcome {
        Outcome::failed(self.0)
    }
}

/// The plan of a call whose arguments make no sense.
pub(super) fn invalid(tool: &str, kind: Kind, why: String) -> Plan {
    let (title, locations) = (tool.to_owned(), Vec::new());
    Plan { title, kind, locations, diff: None, access: Access::Free, action: Err(why) }
}

fn absolute(path: &str, workspace: &Workspace) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("`path` is empty: a file's path is expected".into());
    }
    let below_home = if path == "~" { Some("") } else { path.strip_prefix("~/") };
    match (below_home, &workspace.home) {
        (Some(rest), Some(home)) => Ok(home.join(rest.trim_start_matches('/'))),
        (Some(_), None) => Err(format!("{path}: there is no home folder; give an absolute path")),
        (None, _) => Ok(workspace.cwd.join(path)),
    }
}

/// What went wrong with a file, in words for a model.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "is a directory, not a file".into(),
        io::ErrorKind::NotADirectory => "a part of the path is not a directory".into(),
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            "too many links, or a new one".into()
        }
        _ => error.to_string(),
    }
}

/// What the files were when this session last read or wrote them, by resolved path. Contents are not kept.
#[derive(Default)]
pub struct Seen {
    files: HashMap<PathBuf, Print>,
    /// Secret, so that nobody can make two contents with one print.
    keys: RandomState,
}

#[derive(PartialEq, Eq)]
struct Print {
    length: u64,
    /// `None` of a file too large to be edited.
    hash: Option<u64>,
}

impl Seen {
    /// This session has read or written a file: this is all of it.
    pub fn note(&mut self, path: &Path, contents: &[u8]) {
        let print = self.print(contents);
        self.files.insert(path.to_owned(), print);
    }

    /// This session has read from a file too large to be taken in whole.
    pub fn note_large(&mut self, path: &Path, length: u64) {
        self.files.insert(path.to_owned(), Print { length, hash: None });
    }

    /// Whether a file is no longer what this session saw. Not, if it never saw it.
    pub fn is_outdated(&self, path: &Path, contents: &[u8]) -> bool {
        self.files.get(path).is_some_and(|seen| *seen != self.print(contents))
    }

    fn print(&self, contents: &[u8]) -> Print {
        Print { length: contents.len() as u64, hash: Some(self.keys.hash_one(contents)) }
    }
}

//! Paths a model names: resolved, judged, remembered.
use super::{Access, Action, Kind, Location, Outcome, Place, Plan, Refusal, Run, Workspace};
use crate::files;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Linux takes no longer path (`PATH_MAX`), in bytes.
const LONGEST_PATH: usize = 4096;

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
    walk(path, |_| ())
}

/// [`resolve`], telling each place on the way that was looked at, links included.
fn walk(path: &Path, mut visit: impl FnMut(&Path)) -> Result<PathBuf, Unresolved> {
    let mut here = PathBuf::from("/");
    let mut todo = components(path);
    let mut followed = 0;
    while let Some(name) = todo.pop() {
        if name == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&name);
        visit(&next);
        match look(&next, &todo) {
            Ok(Found::Nothing) => return Ok(todo.iter().rev().fold(next, |path, name| path.join(name))),
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
    let users = workspace.user_folder.as_ref().map(|folder| resolve(folder).unwrap_or(folder.clone()));
    let protected = has_protected_name(inside.unwrap_or(path), purpose)
        || users.is_some_and(|folder| is_below(path, &folder));
    Place { inside_roots: inside.is_some(), protected }
}

fn is_inside(path: &Path, workspace: &Workspace) -> bool {
    workspace.roots.iter().any(|root| path.starts_with(root))
}

/// What lies on the ways to the roots, also as the client calls `cwd`: that it is there is no news.
fn known_places(workspace: &Workspace) -> HashSet<PathBuf> {
    let mut known: HashSet<PathBuf> =
        workspace.roots.iter().flat_map(|root| root.ancestors().map(Path::to_owned)).collect();
    // A `cwd` that is gone leads nowhere; what led there is known all the same.
    let _ = walk(&workspace.cwd, |place| known.extend([place.to_owned()]));
    known
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
        let mut strayed = false;
        let known = known_places(workspace);
        let end = walk(&named, |place| strayed |= !known.contains(place) && !is_inside(place, workspace));
        let (judged, resolved) = match end {
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
        let below = |relative| workspace.cwd.join(relative).components().collect(); // of `.`: no trailing slash
        let shown = relative.map_or_else(|| shown.clone(), below);
        // A way that comes back in (`/home/her/project/../../me/…`) tells what there is outside, so it asks too.
        let place = judge(&judged, workspace, purpose);
        let place = Place { inside_roots: place.inside_roots && !strayed, ..place };
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
                Err(why) if ask_first => Ok(Box::new(Late(why.text))),
                action => action,
            },
        }
    }
}

/// What a plan would run, or why it can't.
pub(super) type Planned = Result<Box<dyn Action>, Refusal>;

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
    Plan { title, kind, locations, diff: None, access: Access::Free, action: Err(why.into()) }
}

fn absolute(path: &str, workspace: &Workspace) -> Result<PathBuf, String> {
    if path.len() > LONGEST_PATH {
        return Err(format!("`path` has {} bytes; a path has at most {LONGEST_PATH}", path.len()));
    }
    if path.is_empty() {
        return Err("`path` is empty: a file's path is expected".into());
    }
    if path.ends_with('/') {
        return Err(format!("{path}: a file's path is expected, this one ends with a slash"));
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

    /// Whether this is just what this session saw.
    pub fn is_current(&self, path: &Path, contents: &[u8]) -> bool {
        self.files.get(path).is_some_and(|seen| *seen == self.print(contents))
    }

    fn print(&self, contents: &[u8]) -> Print {
        Print { length: contents.len() as u64, hash: Some(self.keys.hash_one(contents)) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_place::TestPlace;
    use super::*;
    use std::fs;

    /// The kernel says the same of many random trees.
    #[test]
    fn a_path_leads_where_the_kernel_says() {
        let mut seed = 0x2545_F491_4F6C_DD1D_u64;
        let mut random = |n: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed >> 33).unwrap() % n
        };
        let (mut same, mut made) = (0, 0);
        for _ in 0..100 {
            let place = TestPlace::new();
            let mut some_path = |start: PathBuf| {
                let names = ["a", "b", "c", "d", "e", "f", "..", ".", "h", "x"];
                (0..=random(4)).fold(start, |path, _| path.join(names[random(10)]))
            };
            for (i, name) in ["a", "b", "c", "a/d", "a/e", "b/f", "c/g", "a/d/h"].iter().enumerate() {
                let target = some_path(if i % 3 == 0 { place.at("") } else { PathBuf::new() });
                let _ = match target.as_os_str().len() % 3 {
                    0 => fs::create_dir_all(place.at(name)),
                    1 => File::create_new(place.at(name)).map(drop),
                    _ => std::os::unix::fs::symlink(target, place.at(name)),
                };
            }
            for _ in 0..60 {
                let path = some_path(place.at(""));
                match (resolve(&path), path.canonicalize()) {
                    (Ok(ours), Ok(kernels)) => {
                        assert_eq!(ours, kernels, "{path:?}");
                        same += 1;
                    }
                    (Err(_), Err(_)) => {}
                    // Not there: where would the kernel make it?
                    (Ok(ours), Err(_)) => {
                        if File::create_new(&path).is_ok() {
                            assert_eq!(path.canonicalize().unwrap(), ours);
                            fs::remove_file(&ours).unwrap();
                            made += 1;
                        }
                    }
                    (Err(error), Ok(kernels)) => panic!("{path:?}: {error:?}, the kernel {kernels:?}"),
                }
            }
        }
        assert!(same > 100 && made > 20, "{same} {made}");
    }

    #[test]
    fn a_parent_counts_after_a_link_and_not_behind_what_is_missing() {
        let place = TestPlace::new();
        fs::create_dir_all(place.at("../outside/deep")).unwrap();
        place.link("a", "../outside/deep");
        place.link("dangling", "../outside/new");
        assert_eq!(resolve(&place.at("a/../b")).unwrap(), place.root.join("outside/b"));
        assert_eq!(resolve(&place.at("dangling")).unwrap(), place.root.join("outside/new"));
        let error = resolve(&place.at("missing/../b")).unwrap_err();
        assert_eq!((error.at, error.error.kind()), (place.at("missing"), io::ErrorKind::NotFound));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn our_own_process_is_denied_by_every_name() {
        let place = TestPlace::new();
        let thread = Path::new("/proc/thread-self").read_link().unwrap();
        let thread = thread.file_name().unwrap().to_str().unwrap().to_owned();
        let ids = ["self".to_owned(), "thread-self".into(), std::process::id().to_string(), thread];
        let mut ways: Vec<String> =
            ["/dev/stdin", "/dev/fd/0", "/dev/fd", "/dev/stdout"].map(Into::into).into();
        for id in ids {
            ways.extend(
                ["environ", "fd/0", "root/etc", "cwd", "task", "new"].map(|end| format!("/proc/{id}/{end}")),
            );
            ways.push(format!("/proc/{id}/../{id}/environ"));
        }
        for way in &ways {
            place.link("link", way);
            for path in [way.as_str(), "link"] {
                for purpose in [Purpose::Read, Purpose::Write] {
                    let why = Target::locate(path, &place.workspace, purpose).unwrap_err();
                    assert!(why.contains("denied"), "{way}: {why}");
                }
            }
            fs::remove_file(place.at("link")).unwrap();
        }
        assert!(resolve(Path::new("/proc/cpuinfo")).is_ok() && resolve(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn places_are_judged_where_links_lead_and_without_regard_to_case() {
        const PLAIN: (bool, bool) = (true, false);
        const GUARDED: (bool, bool) = (true, true);
        const OUTSIDE: (bool, bool) = (false, false);
        let place = TestPlace::new();
        place.link("link", "../outside");
        place.link("notes.txt", ".env");
        place.link("dangling", "../outside/new");
        place.link("user", "../home/.bob");
        place.link("../outside/in", "../project");
        for (path, reading, writing) in [
            ("src/main.rs", PLAIN, PLAIN),
            ("environment", PLAIN, PLAIN),
            ("a.pem.txt", PLAIN, PLAIN),
            (".github/dependabot.yml", PLAIN, PLAIN),
            (".env", GUARDED, GUARDED),
            (".ENV", GUARDED, GUARDED),
            ("sub/.Env.local", GUARDED, GUARDED),
            (".envrc", GUARDED, GUARDED),
            ("notes.txt", GUARDED, GUARDED),
            ("tls/Server.KEY", GUARDED, GUARDED),
            ("server.\u{212a}ey", GUARDED, GUARDED), // the Kelvin sign, a `k` to some disks
            ("x.pem", GUARDED, GUARDED),
            (".git/config", PLAIN, GUARDED),
            (".GIT/hooks/pre-commit", PLAIN, GUARDED),
            ("sub/.bob/config.json", PLAIN, GUARDED),
            (".agents/skills/x/SKILL.md", PLAIN, GUARDED),
            ("agents.md", PLAIN, GUARDED),
            ("sub/AGENT\u{17f}.md", PLAIN, GUARDED), // a long s
            ("Bob.md", PLAIN, GUARDED),
            (".vscode/tasks.json", PLAIN, GUARDED),
            (".GitHub/Workflows/ci.yml", PLAIN, GUARDED),
            ("link/file", OUTSIDE, OUTSIDE),
            ("dangling", OUTSIDE, OUTSIDE),
            ("link/../x", OUTSIDE, OUTSIDE),
            ("../outside/../project/x", OUTSIDE, OUTSIDE),
            ("../outside/in/x", OUTSIDE, OUTSIDE),
            ("../project/x", PLAIN, PLAIN),
            ("../../../../../../../../../../etc", OUTSIDE, OUTSIDE),
            ("../outside/.env", (false, true), (false, true)),
            ("../projectile", OUTSIDE, OUTSIDE),
            ("../PROJECT/x", OUTSIDE, OUTSIDE),
            ("~/notes", OUTSIDE, OUTSIDE),
            ("~/.bob/login.json", (false, true), (false, true)),
            ("user/login.json", (false, true), (false, true)),
            ("/etc/passwd", OUTSIDE, OUTSIDE),
            ("link/missing/../x", OUTSIDE, OUTSIDE),
        ] {
            for (purpose, expected) in [(Purpose::Read, reading), (Purpose::Write, writing)] {
                let found = Target::locate(path, &place.workspace, purpose).unwrap().place;
                assert_eq!((found.inside_roots, found.protected), expected, "{path} {purpose:?}");
            }
        }
    }

    #[test]
    fn a_root_inside_another_hides_no_name() {
        let mut place = TestPlace::new();
        place.workspace.roots.push(place.at(".git"));
        place.workspace.roots.push(place.root.join("outside"));
        let judged = |path: &str| judge(&place.at(path), &place.workspace, Purpose::Write);
        assert_eq!(judged(".git/config"), Place { inside_roots: true, protected: true });
        let more = judge(&place.root.join("outside/x"), &place.workspace, Purpose::Write);
        assert_eq!(more, Place { inside_roots: true, protected: false });
    }

    #[test]
    fn titles_are_relative_and_locations_as_the_client_calls_them() {
        let mut place = TestPlace::new();
        std::os::unix::fs::symlink("detour", place.root.join("called")).unwrap();
        std::os::unix::fs::symlink("project", place.root.join("detour")).unwrap();
        place.workspace.cwd = place.root.join("called");
        place.write("sub/file", "");
        place.link("link", "sub/file");
        for (path, title, shown) in [
            ("./sub/../sub/file", "sub/file", "called/sub/file"),
            ("link", "sub/file", "called/sub/file"),
            ("new", "new", "called/new"),
            ("missing/../x", "missing/../x", "called/missing/../x"),
            (".", ".", "called"),
        ] {
            let target = Target::locate(path, &place.workspace, Purpose::Read).unwrap();
            assert!(target.place.inside_roots, "{path}");
            assert_eq!((target.title.as_str(), target.shown), (title, place.root.join(shown)), "{path}");
        }
        let outside = Target::locate("../outside/x", &place.workspace, Purpose::Read).unwrap();
        assert_eq!(outside.title, place.root.join("outside/x").to_str().unwrap());
        place.workspace.home = None;
        for nonsense in ["", "~", "~/x", "src/"] {
            assert!(Target::locate(nonsense, &place.workspace, Purpose::Read).is_err());
        }
    }

    #[test]
    fn only_what_was_seen_can_be_outdated() {
        let mut seen = Seen::default();
        let path = Path::new("/f");
        assert!(!seen.is_outdated(path, b"x"));
        seen.note(path, b"x");
        assert!(
            !seen.is_outdated(path, b"x") && seen.is_outdated(path, b"y") && seen.is_outdated(path, b"xx")
        );
        seen.note_large(path, 1);
        assert!(seen.is_outdated(path, b"x"));
    }
}

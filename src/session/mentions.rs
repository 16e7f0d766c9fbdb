//! `@path` in a prompt: which files and folders the user means.
//!
//! Only metadata is looked at, so a pipe or a device can't hold us up; text is walked word by word and the disk asked
//! a bounded number of times, so a pasted log can't either.
use super::links::attached;
use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::path::{Component, Path, PathBuf};

/// Longest path looked for, bytes: the kernel takes no longer one.
const PATH_AT_MOST: usize = 4096;

/// Possible mentions of one prompt that are looked at; those behind are left alone.
const LOOKED_AT_AT_MOST: usize = 4096;

/// What ends a mention when it stands behind it, and what may stand in the middle of a sentence without a blank.
const PUNCTUATION: &str = ".,;:!?)]}>\"'`*…，。；：！？、）】》”’";

/// A file or folder named in a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Absolute.
    pub path: PathBuf,
    /// A folder.
    pub is_directory: bool,
}

impl Mention {
    /// What the model reads behind the prompt: `\n[attached file: <absolute>]`, or `directory`.
    pub fn note(&self) -> String {
        attached(if self.is_directory { "directory" } else { "file" }, &self.path.to_string_lossy(), None)
    }
}

/// Every `@path` of `text` that names an existing file or directory: below `cwd`, absolute or below `home` (`~`).
/// In the order of the text, each file once however it is spelled.
pub fn find(text: &str, cwd: &Path, home: Option<&Path>) -> Vec<Mention> {
    let mut seen = HashSet::new();
    let mut mentions = Vec::new();
    for (quoted, name) in candidates(text) {
        let found = spellings(name, quoted).find_map(|name| look_up(&name, cwd, home));
        if let Some((mention, metadata)) = found
            && seen.insert(identity(&mention.path, &metadata))
        {
            mentions.push(mention);
        }
    }
    mentions
}

/// What stands behind each `@` that can begin a mention, and whether it was in quotes.
fn candidates(text: &str) -> impl Iterator<Item = (bool, &str)> {
    // Behind these it is an e-mail address, a URL's user, a package's version.
    let joined = |c: char| c.is_ascii_alphanumeric() || "._%+-~/\\@&=".contains(c);
    let begins = text
        .match_indices('@')
        .map(|(at, _)| text.split_at(at))
        .filter(move |(before, _)| !before.ends_with(joined));
    begins.take(LOOKED_AT_AT_MOST).filter_map(|(_, after)| {
        let after = after.strip_prefix('@')?;
        match after.strip_prefix('"') {
            Some(inside) => quoted(inside).map(|name| (true, name)),
            None => word(after).map(|name| (false, name)),
        }
    })
}

fn quoted(inside: &str) -> Option<&str> {
    let near = crate::text::head(inside, PATH_AT_MOST + 1);
    let end = near.find(['"', '\n'])?;
    let (name, rest) = near.split_at(end);
    (rest.starts_with('"') && !name.is_empty()).then_some(name)
}

/// Up to the next blank that is not escaped; `None` if it is too long to be a path.
fn word(after: &str) -> Option<&str> {
    let near = crate::text::head(after, PATH_AT_MOST + 1);
    let mut escaped = false;
    let end = near.find(|character: char| {
        let ends = character.is_whitespace() && !(escaped && character == ' ');
        escaped = character == '\\' && !escaped;
        ends
    });
    let name = near.split_at(end.unwrap_or(near.len())).0;
    (!name.is_empty() && name.len() <= PATH_AT_MOST).then_some(name)
}

/// What may have been meant, the longest first: all of it, all but the punctuation behind it (bit by bit, for
/// `notes (old).`), what stands before the first punctuation (`@a,@b`, or a sentence without blanks).
fn spellings(name: &str, quoted: bool) -> impl Iterator<Item = String> {
    let is_punctuation = |c: char| PUNCTUATION.contains(c);
    let shorter = std::iter::successors(Some(name), move |name| {
        let shorter = name.strip_suffix(is_punctuation)?;
        // `@...` is nobody's folder.
        shorter.contains(|c: char| !is_punctuation(c)).then_some(shorter)
    });
    let behind_dots = |c: char| is_punctuation(c) && c != '.';
    let first = name.split(behind_dots).next().filter(|first| !first.is_empty() && first.len() < name.len());
    let many = if quoted { 1 } else { 8 };
    shorter
        .take(many)
        .chain(first.filter(|_| !quoted))
        .map(move |name| if quoted { name.to_owned() } else { name.replace("\\ ", " ") })
}

fn look_up(name: &str, cwd: &Path, home: Option<&Path>) -> Option<(Mention, Metadata)> {
    let path = absolute(name, cwd, home)?;
    let metadata = fs::metadata(&path).ok()?;
    let is_directory = metadata.is_dir();
    (is_directory || metadata.is_file()).then_some((Mention { path, is_directory }, metadata))
}

/// Without `.` and trailing slashes. A relative path with `..` must end below `cwd` once every link is followed.
fn absolute(name: &str, cwd: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let relative = Path::new(name);
    if let Ok(below_home) = relative.strip_prefix("~") {
        return Some(tidy(&home?.join(below_home)));
    }
    let joined = cwd.join(relative);
    if relative.is_absolute() || !relative.components().any(|part| part == Component::ParentDir) {
        return Some(tidy(&joined));
    }
    let real = fs::canonicalize(joined).ok()?;
    let below = real.strip_prefix(fs::canonicalize(cwd).ok()?).ok()?;
    Some(tidy(&cwd.join(below)))
}

fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

#[cfg(unix)]
fn identity(_: &Path, metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Project(tempfile::TempDir);

    impl Project {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let cwd = root.path().join("cwd");
            for folder in ["src", "my docs", "a,b"] {
                fs::create_dir_all(cwd.join(folder)).unwrap();
            }
            for file in [
                "cwd/src/main.rs",
                "cwd/a b.txt",
                "cwd/x.md",
                "cwd/odd.",
                "cwd/(old)",
                "cwd/a,b/c",
                "cwd/说明.md",
            ] {
                fs::File::create(root.path().join(file)).unwrap();
            }
            fs::File::create(root.path().join("outside")).unwrap();
            fs::File::create(root.path().join("at-home")).unwrap();
            Self(root)
        }

        fn cwd(&self) -> PathBuf {
            self.0.path().join("cwd")
        }

        fn found(&self, text: &str) -> Vec<Mention> {
            find(text, &self.cwd(), Some(self.0.path()))
        }
    }

    #[test]
    fn paths_that_exist_are_found_in_order() {
        let project = Project::new();
        let root = project.0.path().to_str().unwrap();
        for (text, expected) in [
            ("look at @src/main.rs and @x.md", &["cwd/src/main.rs", "cwd/x.md"][..]),
            ("@src", &["cwd/src"]),
            ("@src/ @./x.md", &["cwd/src", "cwd/x.md"]),
            ("@\"a b.txt\" @\"my docs\"", &["cwd/a b.txt", "cwd/my docs"]),
            ("@a\\ b.txt, @my\\ docs/", &["cwd/a b.txt", "cwd/my docs"]),
            ("(see @x.md), `@src/main.rs`!?", &["cwd/x.md", "cwd/src/main.rs"]),
            ("what is @x.md?", &["cwd/x.md"]),
            ("really @x.md...", &["cwd/x.md"]),
            ("@odd. @(old).", &["cwd/odd.", "cwd/(old)"]),
            ("@x.md,@src/main.rs", &["cwd/x.md", "cwd/src/main.rs"]),
            ("@x.md:10 @src/main.rs's", &["cwd/x.md", "cwd/src/main.rs"]),
            ("@a,b/c", &["cwd/a,b/c"]),
            ("请看@说明.md，谢谢。还有@x.md。", &["cwd/说明.md", "cwd/x.md"]),
            ("@~/at-home", &["at-home"]),
            ("@~", &[""]),
            ("@src/../x.md", &["cwd/x.md"]),
            ("@.", &["cwd"]),
            ("one\n@x.md\ntwo", &["cwd/x.md"]),
            // No mention.
            ("me@x.md, a.b+c@src", &[]),
            ("https://u@x.md", &[]),
            ("@@x.md", &[]),
            ("@missing.rs @", &[]),
            ("@../outside", &[]),
            ("@...", &[]),
            ("@\"a b.txt", &[]),
            ("@a b.txt", &[]),
            ("@~other/x", &[]),
            ("@x.md\0y", &[]),
        ] {
            let found: Vec<_> = project.found(text).into_iter().map(|mention| mention.path).collect();
            let expected: Vec<_> = expected.iter().map(|path| tidy(&Path::new(root).join(path))).collect();
            assert_eq!(found, expected, "{text}");
        }
        let absolute = format!("@{root}/outside.");
        assert_eq!(project.found(&absolute)[0].path, project.0.path().join("outside"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_comes_once_however_it_is_spelled() {
        let project = Project::new();
        std::os::unix::fs::symlink("src/main.rs", project.cwd().join("link")).unwrap();
        let text = format!(
            "@src/main.rs @./src/main.rs @link @src/../src//main.rs @{}/src/main.rs",
            project.cwd().display()
        );
        assert_eq!(project.found(&text).len(), 1);
        assert_eq!(project.found("@src @src/").len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn pipes_and_devices_are_no_files() {
        let project = Project::new();
        rustix::fs::mkfifoat(rustix::fs::CWD, project.cwd().join("pipe"), rustix::fs::Mode::RWXU).unwrap();
        assert!(project.found("@pipe @/dev/null @/dev/stdin").is_empty());
    }

    #[test]
    fn notes_tell_files_from_directories() {
        let mention = |is_directory| Mention { path: "/a b".into(), is_directory };
        assert_eq!(mention(false).note(), "\n[attached file: /a b]");
        assert_eq!(mention(true).note(), "\n[attached directory: /a b]");
    }

    #[test]
    fn megabytes_of_almost_mentions_are_walked_and_not_searched_for() {
        let project = Project::new();
        for word in ["(@", "@a ", "@\"", "@a\\ ", "ab@c "] {
            let text = format!("@x.md {}", word.repeat((5 << 20) / word.len()));
            assert_eq!(project.found(&text).len(), 1, "{word}");
        }
    }
}

//! The shell that commands are for.
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A shell and what it calls itself.
#[derive(Debug)]
pub struct Shell {
    /// Absolute.
    pub path: PathBuf,
    /// `bash` or `sh`.
    pub name: &'static str,
}

/// `bash` from the `PATH` of this process, `sh` where there is none. Looked up once; relative entries of the `PATH` don't
/// count, since a command's folder may hold a `bash` of its own.
pub fn shell() -> &'static Shell {
    static SHELL: LazyLock<Shell> = LazyLock::new(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
        let bash =
            folders.chain(["/bin".into()]).map(|folder| folder.join("bash")).find(|file| can_run(file));
        match bash {
            Some(path) => Shell { path, name: "bash" },
            None => Shell { path: "/bin/sh".into(), name: "sh" },
        }
    });
    &SHELL
}

fn can_run(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

//! A project for the tools to work in, and what lies beside it.
use super::{Outcome, Plan, Run, Tool, Workspace, paths};
use crate::cancel::CancelSource;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// `project/` (the workspace's `cwd`), `outside/` and `home/`, gone when dropped.
pub(super) struct TestPlace {
    _folder: TempDir,
    /// Of all three.
    pub(super) root: PathBuf,
    pub(super) workspace: Workspace,
}

impl TestPlace {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["project", "outside", "home/.bob"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let workspace = Workspace {
            cwd: root.join("project"),
            roots: vec![root.join("project")],
            home: Some(root.join("home")),
            user_folder: Some(root.join("home/.bob")),
            bash_timeout: Duration::from_secs(60),
            bash_max_output: 30_000,
            hidden_variables: Vec::new(),
            seen: paths::Seen::default(),
            left: Vec::new(),
        };
        Self { _folder: folder, root, workspace }
    }

    /// A path in the project, or beside it (`../outside/x`).
    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.root.join("project").join(name)
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(path).unwrap().write_all(content.as_ref()).unwrap();
    }

    pub(super) fn link(&self, name: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.at(name)).unwrap();
    }

    pub(super) fn fifo(&self, name: &str) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, self.at(name), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    }

    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.at(name)).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "a `json!` is handed over")]
    pub(super) fn plan(&self, tool: &dyn Tool, arguments: Value) -> Plan {
        tool.plan(arguments.as_object().unwrap(), &self.workspace)
    }

    /// What permission would be followed by.
    pub(super) fn run(&mut self, plan: Plan) -> Outcome {
        let source = CancelSource::new();
        self.run_with(plan, &source)
    }

    pub(super) fn run_with(&mut self, plan: Plan, source: &CancelSource) -> Outcome {
        let run = &mut Run { cancel: &source.token(), progress: &mut |_| {}, workspace: &mut self.workspace };
        match plan.action {
            Ok(action) => action.run(run),
            Err(refusal) => Outcome::failed(refusal.text),
        }
    }

    pub(super) fn call(&mut self, tool: &dyn Tool, arguments: Value) -> Outcome {
        let plan = self.plan(tool, arguments);
        self.run(plan)
    }
}

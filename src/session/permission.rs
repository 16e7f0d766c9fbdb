//! Whether a call may run: the floor, the user's rules, the mode, what was answered "always".
use crate::settings::config::{Mode, Rule, RuleAction};
use crate::text::{clean, glob_matches};
use crate::tools::{self, Access, Workspace, paths, shell_line};
use crate::wire::acp::PermissionOption;
use crate::wire::outbox::Answer;
use crate::wire::params::clear_members;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

/// What decides for a session.
#[derive(Debug)]
pub struct Permissions {
    /// The mode that holds.
    pub mode: Mode,
    /// The user's.
    pub rules: Vec<Rule>,
    /// Answers that hold until the session ends, by tool name: true is allowed.
    pub always: HashMap<String, bool>,
}

/// What is to be done about a call.
#[derive(Debug, PartialEq, Eq, Clone)]
pub enum Decision {
    /// It runs.
    Allow,
    /// The user is asked.
    Ask,
    /// It does not run; what the model reads.
    Deny(String),
}

/// What a refused call tells the model.
pub const REJECTED: &str = "[command rejected by the user]";

impl Permissions {
    /// The first that fits: the floor; a `deny` rule; "always reject"; an `ask` rule; an `allow` rule; for a path
    /// outside the roots or a protected one the mode, whose "allow" becomes "ask" outside full access; "always
    /// allow"; the mode.
    pub fn decide(&self, tool: &str, access: &Access, workspace: &Workspace) -> Decision {
        if let Access::Command(command) = access
            && let Some(why) = shell_line::floor(command, workspace.physical_cwd(), &workspace.homes())
        {
            return Decision::Deny(format!("[denied: {why}]"));
        }
        let always = self.always.get(tool).copied();
        let exposed = matches!(access, Access::File { place, .. } if !place.inside_roots || place.protected);
        match self.rule(tool, access, workspace) {
            Some(RuleAction::Deny) => Decision::Deny("[denied by a permission rule]".into()),
            _ if *access == Access::Free => Decision::Allow, // never asked about
            _ if always == Some(false) => Decision::Deny(REJECTED.into()),
            Some(RuleAction::Ask) => Decision::Ask,
            Some(RuleAction::Allow) => Decision::Allow,
            None if always == Some(true) && !exposed => Decision::Allow,
            None => match self.mode {
                Mode::Ask => Decision::Ask,
                Mode::FullAccess => Decision::Allow,
            },
        }
    }

    /// The strictest of the rules that fit.
    fn rule(&self, tool: &str, access: &Access, workspace: &Workspace) -> Option<RuleAction> {
        self.rules.iter().filter(|rule| fits(rule, tool, access, workspace)).map(|rule| rule.action).max()
    }

    /// Takes the client's answer: whether the call may run. Whatever is not a clear yes is a no.
    pub fn take_answer(&mut self, tool: &str, answer: Option<&Answer>) -> bool {
        let option = answer.and_then(|answer| answer.as_ref().ok()).and_then(|result| selected(result));
        let (allowed, always) = match option.as_deref() {
            Some("allow" | "allow_once") => (true, false),
            Some("allow_always") => (true, true),
            Some("reject_always") => (false, true),
            _ => (false, false),
        };
        if always {
            self.always.insert(tool.to_string(), allowed);
        }
        allowed
    }
}

fn fits(rule: &Rule, tool: &str, access: &Access, workspace: &Workspace) -> bool {
    // What follows a separator is not what the rule's author had in mind.
    let too_wide = rule.action == RuleAction::Allow
        && matches!(access, Access::Command(command) if !shell_line::is_single_command(command));
    if too_wide || !glob_matches(&rule.tool, tool) {
        return false;
    }
    let Some(glob) = &rule.matching else {
        return true;
    };
    match access {
        Access::Free => false,
        Access::Command(command) => glob_matches(glob, command),
        Access::File { path, .. } => {
            let glob = path_glob(glob, workspace);
            let inside = workspace.roots.first().and_then(|cwd| path.strip_prefix(cwd).ok());
            // Where a project lies widens no `allow` that is written for what is in it.
            let is_absolute = glob.starts_with('/') || rule.action != RuleAction::Allow;
            glob_matches(&glob, &inside.unwrap_or(path).to_string_lossy())
                || is_absolute && glob_matches(&glob, &path.to_string_lossy())
        }
    }
}

/// A path's glob in the spelling that paths are compared in: relative to `cwd` inside it, absolute outside.
fn path_glob<'a>(glob: &'a str, workspace: &Workspace) -> Cow<'a, str> {
    if let (Some(rest), Some(home)) = (glob.strip_prefix("~/"), &workspace.home) {
        let home = paths::resolve(home).unwrap_or_else(|_| home.clone());
        return format!("{}/{rest}", home.display()).into();
    }
    let below = |folder: &Path| glob.strip_prefix(folder.to_str()?)?.strip_prefix('/');
    let inside = below(&workspace.cwd).or_else(|| below(workspace.roots.first()?));
    let glob = inside.unwrap_or(glob);
    glob.strip_prefix("./").unwrap_or(glob).into()
}

/// A line for the log of each rule that fits nothing, since it names a tool that there is not.
pub fn warnings(rules: &[Rule]) -> Vec<String> {
    let is_known =
        |tool: &str| tool.contains(['*', '?']) || tool.starts_with("mcp_") || tools::NAMES.contains(&tool);
    let unknown = rules.iter().filter(|rule| !is_known(&rule.tool));
    let warning = |rule: &Rule| {
        let (tool, known) = (clean(&rule.tool), tools::NAMES.join(", "));
        format!("permissions: there is no tool `{tool}`, so its rule fits nothing; the tools are {known}")
    };
    unknown.map(warning).collect()
}

/// The option of a `selected` outcome. Read member by member, since serde takes a list for a struct too.
fn selected(result: &RawValue) -> Option<String> {
    let [outcome] = clear_members(result, ["outcome"]).ok()?;
    let [how, option] = clear_members(outcome?, ["outcome", "optionId"]).ok()?;
    let how: String = serde_json::from_str(how?.get()).ok()?;
    let option = serde_json::from_str(option?.get()).ok()?;
    (how == "selected").then_some(option)
}

/// What the user may answer.
pub const OPTIONS: &[PermissionOption] = &[
    PermissionOption { option_id: "allow", name: "Allow once", kind: "allow_once" },
    PermissionOption { option_id: "allow_always", name: "Always allow", kind: "allow_always" },
    PermissionOption { option_id: "reject", name: "Reject once", kind: "reject_once" },
    PermissionOption { option_id: "reject_always", name: "Always reject", kind: "reject_always" },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_says_two_things_is_no_yes() {
        let mut permissions = Permissions { mode: Mode::Ask, rules: Vec::new(), always: HashMap::new() };
        for (answer, is_yes) in [
            (r#"{"outcome":{"outcome":"selected","optionId":"allow"}}"#, true),
            (r#"{"outcome":{"outcome":"selected","optionId":"reject","optionId":"allow"}}"#, false),
            (r#"{"outcome":{"outcome":"selected","optionId":"allow","optionId":"allow"}}"#, false),
            (r#"{"outcome":{"outcome":"cancelled","outcome":"selected","optionId":"allow"}}"#, false),
            (r#"{"outcome":{"outcome":"selected","option\u0049d":"reject","optionId":"allow"}}"#, false),
            (r#"{"outcome":null,"outcome":{"outcome":"selected","optionId":"allow"}}"#, false),
        ] {
            let answer: Answer = Ok(RawValue::from_string(answer.into()).unwrap());
            assert_eq!(permissions.take_answer("bash", Some(&answer)), is_yes, "{answer:?}");
        }
    }
}

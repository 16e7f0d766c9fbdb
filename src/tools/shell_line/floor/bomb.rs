//! Fork bombs: functions that start more of themselves than end.
use super::super::parse::{DEPTH, Item, Node, literal};
use super::{Denied, Judge, Verdict};

/// What a run of a function does, other functions it calls included.
#[derive(Default)]
struct Calls {
    /// Of itself; in an endless loop one counts for many.
    all: usize,
    /// Those of them beside the rest, in a pipe or the background.
    beside: usize,
}

/// Where a call stands.
#[derive(Clone, Copy, Default)]
struct Stands {
    beside: bool,
    endless: bool,
}

impl Judge {
    /// Two calls of itself, one of them beside the rest: each run makes two more.
    pub(super) fn refuse_fork_bomb(&self, name: &str) -> Verdict {
        let mut calls = Calls::default();
        self.count(name, name, Stands::default(), &mut Vec::new(), &mut calls);
        if calls.all >= 2 && calls.beside >= 1 {
            return Err(Denied(format!("the function `{name}` is a fork bomb")));
        }
        Ok(())
    }

    /// Adds the calls of `name` in a run of `function`. Each function is looked into once, and not too many.
    fn count<'j>(
        &'j self,
        name: &str,
        function: &'j str,
        stands: Stands,
        seen: &mut Vec<&'j str>,
        calls: &mut Calls,
    ) {
        if let Some(found) =
            self.functions.get(function).filter(|_| seen.len() < DEPTH && !seen.contains(&function))
        {
            seen.push(function);
            self.count_in(name, &found.body, stands, seen, calls);
        }
    }

    fn count_in<'j>(
        &'j self,
        name: &str,
        list: &'j [Item],
        stands: Stands,
        seen: &mut Vec<&'j str>,
        calls: &mut Calls,
    ) {
        for item in list {
            let stands = Stands {
                beside: stands.beside || item.reads_pipe || item.writes_pipe || item.background,
                endless: stands.endless || item.endless,
            };
            match &item.node {
                Node::Simple(simple) => {
                    let called = simple.words.first().and_then(literal).unwrap_or_default();
                    if called == name {
                        calls.all += if stands.endless { 2 } else { 1 };
                        calls.beside += usize::from(stands.beside);
                    } else if let Some((function, _)) = self.functions.get_key_value(&called) {
                        self.count(name, function, stands, seen, calls);
                    }
                }
                Node::Group(list) | Node::Subshell(list) => self.count_in(name, list, stands, seen, calls),
                Node::Function(_, list) => self.count_in(name, list, stands, seen, calls),
            }
        }
    }
}

//! Paths in arguments, with globs and unknown parts.
use super::expand::{Unit, text};
use crate::text::glob_matches;

/// One part of a path.
pub(super) type Component = Vec<Unit>;

/// The parts of a path, which begins at `base` unless it is absolute; `.` and `..` are taken out.
pub(super) fn components(field: &[Unit], base: &[Component]) -> Vec<Component> {
    let slash = Unit::Char('/');
    let mut path = if field.first() == Some(&slash) { Vec::new() } else { base.to_vec() };
    for component in field.split(|unit| *unit == slash) {
        match component {
            [] | [Unit::Char('.')] => {}
            [Unit::Char('.'), Unit::Char('.')] => drop(path.pop()),
            _ => path.push(component.to_vec()),
        }
    }
    path
}

/// A component with `[…]` as `?`, for [`glob_matches`]. `None`: it is unknown.
fn glob(component: &[Unit]) -> Option<String> {
    let mut glob = String::new();
    let mut rest = component;
    while let [unit, behind @ ..] = rest {
        rest = behind;
        match unit {
            Unit::Wild('[') => {
                rest = &behind[bracket(behind).len()..];
                glob.push('?');
            }
            Unit::Char(c) | Unit::Wild(c) => glob.push(*c),
            Unit::Unknown => return None,
        }
    }
    Some(glob)
}

/// What belongs to a `[` behind it, its `]` included: a `]` that comes first, and `[:class:]`, don't close it.
fn bracket(behind: &[Unit]) -> &[Unit] {
    let is = |at: usize, c: char| matches!(behind.get(at), Some(Unit::Char(x) | Unit::Wild(x)) if *x == c);
    let mut at = usize::from(is(0, '!') || is(0, '^'));
    at += usize::from(is(at, ']'));
    while at < behind.len() {
        if is(at, ']') {
            return &behind[..=at];
        }
        if is(at, '[') && is(at + 1, ':') {
            // On the `:` that ends the class, so that the step behind is over its `]`.
            let end = (at + 2..behind.len()).find(|end| is(*end, ':') && is(end + 1, ']'));
            at = end.map_or(at, |end| end + 1);
        }
        at += 1;
    }
    behind
}

/// A glob that takes all, or nearly: `*`, `.*`, `?*`, `[!.]*`, `[a-z]*`; but not `[0-9]*`.
pub(super) fn fits_all(component: &[Unit]) -> bool {
    let is_wild = component.iter().any(|unit| matches!(unit, Unit::Wild(_)));
    let is_narrow = |(at, unit): (usize, &Unit)| {
        *unit == Unit::Wild('[') && text(bracket(&component[at + 1..])).is_some_and(|set| takes_few(&set))
    };
    is_wild
        && glob(component).is_some_and(|glob| glob.chars().all(|c| matches!(c, '*' | '?' | '.')))
        && !component.iter().enumerate().any(is_narrow)
}

/// A set without negation, and of letters neither a class nor a range.
fn takes_few(set: &str) -> bool {
    let letters = |(at, _): (usize, &str)| {
        set.get(..at).unwrap_or_default().ends_with(|c: char| c.is_alphabetic()) // of a range: where it begins
    };
    !set.starts_with(['!', '^']) && !set.contains("[:") && !set.match_indices('-').any(letters)
}

pub(super) fn component_matches(component: &[Unit], name: &[Unit]) -> bool {
    glob(component).zip(text(name)).is_some_and(|(glob, name)| glob_matches(&glob, &name))
}

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
    let mut units = component.iter();
    while let Some(unit) = units.next() {
        match unit {
            Unit::Wild('[') => {
                units.by_ref().find(|unit| **unit == Unit::Char(']'));
                glob.push('?');
            }
            Unit::Char(c) | Unit::Wild(c) => glob.push(*c),
            Unit::Unknown => return None,
        }
    }
    Some(glob)
}

/// A glob that takes all, or nearly: `*`, `.*`, `?*`, `[!.]*`.
pub(super) fn fits_all(component: &[Unit]) -> bool {
    let is_wild = component.iter().any(|unit| matches!(unit, Unit::Wild(_)));
    is_wild && glob(component).is_some_and(|glob| glob.chars().all(|c| matches!(c, '*' | '?' | '.')))
}

pub(super) fn component_matches(component: &[Unit], name: &[Unit]) -> bool {
    glob(component).zip(text(name)).is_some_and(|(glob, name)| glob_matches(&glob, &name))
}

//! `.env` files: `KEY=value`, `export`, quotes, comments, `${VAR}`.
//!
//! A project's file is anybody's: `${VAR}` sees only names set earlier in the same file, never the environment, and
//! all values together are bounded, or thirty lines of `A=${B}${B}` would fill the memory.
use super::Environment;
use std::collections::BTreeMap;

/// All values of one file together, bytes.
const VALUES_AT_MOST: usize = 4 << 20;

/// What a file sets, and the lines (from 1) that set nothing because of a quote that is not closed or because the
/// values grew too large. Lines that are no assignment are ignored.
pub(super) fn parse(text: &str) -> (Environment, Vec<usize>) {
    let mut file = File::default();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut line = 1;
    while !rest.is_empty() {
        let after = file.take_line(rest, line);
        line += rest.len().checked_sub(after.len()).map_or(0, |taken| newlines(rest.split_at(taken).0));
        rest = after;
    }
    (file.values.into_iter().collect(), file.bad_lines)
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

#[derive(Default)]
struct File {
    values: BTreeMap<String, String>,
    bytes: usize,
    bad_lines: Vec<usize>,
}

impl File {
    /// Takes the line that `text` begins with, or several if a quoted value spans them; gives what follows.
    fn take_line<'a>(&mut self, text: &'a str, number: usize) -> &'a str {
        let (line, next) = text.split_once('\n').unwrap_or((text, ""));
        let Some((name, value)) = assignment(line) else { return next };
        // `value` is the end of `line`: from there on in `text`.
        let value_on = text.split_at(line.len() - value.len()).1;
        let (value, next) = match value_on.chars().next() {
            Some(quote @ ('"' | '\'')) => match quoted(value_on, quote) {
                Some((inside, next)) if quote == '"' => (self.expand(inside, true), next),
                Some((inside, next)) => (self.fits(inside).then(|| inside.to_owned()), next),
                None => (None, next),
            },
            _ => (self.expand(without_comment(value), false), next),
        };
        match value {
            Some(value) => {
                self.bytes += value.len();
                self.values.insert(name.to_owned(), value);
            }
            None => self.bad_lines.push(number),
        }
        next
    }

    fn fits(&self, value: &str) -> bool {
        self.bytes + value.len() <= VALUES_AT_MOST
    }

    /// `${VAR}` replaced, an unknown one by nothing; with `escapes`, `\n`, `\r`, `\t` and a backslash before
    /// anything else too. `None` past the bound.
    fn expand(&self, text: &str, escapes: bool) -> Option<String> {
        let mut value = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(|c| c == '$' || (escapes && c == '\\')) {
            let (before, special) = rest.split_at(at);
            value.push_str(before);
            rest = match special.strip_prefix("${").and_then(|inner| inner.split_once('}')) {
                Some((name, after)) => {
                    value.push_str(self.values.get(name).map_or("", String::as_str));
                    after
                }
                None => push_plain(&mut value, special),
            };
            if !self.fits(&value) {
                return None;
            }
        }
        value.push_str(rest);
        self.fits(&value).then_some(value)
    }
}

/// A lone `$`, or a backslash with what it escapes; gives what follows.
fn push_plain<'a>(value: &mut String, special: &'a str) -> &'a str {
    let mut characters = special.chars();
    let character = match (characters.next(), characters.clone().next()) {
        (Some('\\'), Some(escaped)) => {
            characters.next();
            match escaped {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            }
        }
        (first, _) => first.unwrap_or_default(),
    };
    value.push(character);
    characters.as_str()
}

/// The name, and the rest of the line from the value on; `None` for a comment and anything else.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let line = line.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])).unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    (!name.is_empty() && is_name(name)).then(|| (name, value.trim_start_matches([' ', '\t'])))
}

/// What stands between the quotes that `text` begins with, and the text from the next line on. Only a comment may
/// follow the closing quote, else it isn't one: `'tis` must not swallow what stands before the next apostrophe.
fn quoted(text: &str, quote: char) -> Option<(&str, &str)> {
    let inside = text.strip_prefix(quote)?;
    let mut escaped = false;
    let end = inside.find(|character| {
        let closes = character == quote && !escaped;
        escaped = quote == '"' && character == '\\' && !escaped;
        closes
    })?;
    let (inside, rest) = inside.split_at(end);
    let (after, next) = rest.split_once('\n').unwrap_or((rest, ""));
    let after = after.strip_prefix(quote)?.trim();
    (after.is_empty() || after.starts_with('#')).then_some((inside, next))
}

/// An unquoted value: up to a `#` at its start or behind a blank.
fn without_comment(value: &str) -> &str {
    let is_comment =
        |(at, _): &(usize, &str)| value.split_at(*at).0.chars().next_back().is_none_or(char::is_whitespace);
    let end = value.match_indices('#').find(is_comment).map_or(value.len(), |(at, _)| at);
    value.split_at(end).0.trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, Option<&str>)]) {
        let (values, _) = parse(text);
        for (name, value) in expected {
            assert_eq!(values.get(name), *value, "{name} in {text:?}");
        }
    }

    #[test]
    fn assignments() {
        for (text, value) in [
            ("A=b", Some("b")),
            ("A=b\r\n", Some("b")),
            ("\u{feff}A=b", Some("b")),
            ("  export A = b  ", Some("b")),
            ("export\tA=b", Some("b")),
            ("exportA=b", None),
            ("A=b c # d", Some("b c")),
            ("A=b#c", Some("b#c")),
            ("A=# c", None),
            ("# A=b", None),
            ("A: b", None),
            ("A", None),
            ("A=", None),
            ("A=b=c", Some("b=c")),
            ("A=1\nA=2", Some("2")),
            ("A=\"b # c\" # d", Some("b # c")),
            ("A='b\"c'", Some("b\"c")),
            ("A=\"b\\\"c\\n\\$d\\\\\"", Some("b\"c\n$d\\")),
            ("A='b\\n'", Some("b\\n")),
            ("A=b\\n", Some("b\\n")),
            ("A=\"b\nc\"\nB=1", Some("b\nc")),
            ("A=it's", Some("it's")),
        ] {
            check(text, &[("A", value)]);
        }
    }

    #[test]
    fn names_set_earlier_are_expanded() {
        check("B=1\nA=x${B}y", &[("A", Some("x1y"))]);
        check("B=1\nA=\"x${B}y\"", &[("A", Some("x1y"))]);
        check("B=1\nA='${B}'", &[("A", Some("${B}"))]);
        check("B=1\nA=\"\\${B}\"", &[("A", Some("${B}"))]);
        check("A=x${B}y\nB=1", &[("A", Some("xy"))]);
        check("A=$B${", &[("A", Some("$B${"))]);
    }

    #[test]
    fn the_environment_is_never_seen() {
        assert!(std::env::var("PATH").is_ok());
        check("A=x${PATH}y${HOME}", &[("A", Some("xy"))]);
    }

    #[test]
    fn a_value_over_several_lines_hides_no_assignment_of_its_own() {
        check("K=\"-----BEGIN\nA=b\n-----END\"\nC=d", &[("A", None), ("C", Some("d"))]);
    }

    #[test]
    fn an_open_quote_costs_its_own_line_only() {
        let (values, bad) = parse("X=1\nA='tis\nB=\"open\nC=it's\nD=1");
        assert_eq!((values.get("A"), values.get("B")), (None, None));
        assert_eq!((values.get("C"), values.get("D")), (Some("it's"), Some("1")));
        assert_eq!(bad, [2, 3]);
    }

    #[test]
    fn lines_are_counted_behind_a_long_value() {
        assert_eq!(parse("A=\"1\n2\n\"\nB='").1, [4]);
    }

    #[test]
    fn doubling_lines_fill_no_memory() {
        let mut text = "A=xxxxxxxxxxxxxxxx\n".to_owned();
        for _ in 0..60 {
            text.push_str("A=${A}${A}\n");
        }
        let (values, bad) = parse(&text);
        assert!(values.get("A").unwrap().len() <= VALUES_AT_MOST);
        assert!(!bad.is_empty());
        let (_, bad) = parse(&format!("B={}\n{}", "x".repeat(1 << 19), "A=${B}\n".repeat(1000)));
        assert!(bad.len() > 900);
    }
}

//! Text that came from outside, made fit to show: titles, one-liners, fences.
use std::borrow::Cow;
use std::fmt::Write;

/// Longest title, name or log field, in characters.
pub const TITLE_CHARACTERS: usize = 200;

/// One line that can't play tricks on who reads it: newline → `⏎`, control, bidirectional and zero-width
/// characters → `\u{…}`, past [`TITLE_CHARACTERS`] cut with `… (+N)`. For every title, name and log field that
/// came from outside.
pub fn clean(text: &str) -> Cow<'_, str> {
    clean_to(text, TITLE_CHARACTERS)
}

/// [`clean`] with a limit of its own, in characters of the original.
pub fn clean_to(text: &str, limit: usize) -> Cow<'_, str> {
    let fits = text.len() <= limit || text.chars().nth(limit).is_none();
    if fits && !text.chars().any(is_tricky) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::new();
    let mut characters = text.chars();
    characters.by_ref().take(limit).for_each(|c| push(&mut cleaned, c, is_tricky(c)));
    match characters.count() {
        0 => {}
        rest => drop(write!(cleaned, "… (+{rest})")),
    }
    Cow::Owned(cleaned)
}

/// All of it on one line, without control characters: for a text whose outside parts are [`clean`] already.
pub fn escape_controls(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    text.chars().for_each(|c| push(&mut line, c, c.is_control()));
    line
}

fn push(cleaned: &mut String, character: char, is_escaped: bool) {
    match character {
        '\n' => cleaned.push('⏎'),
        c if is_escaped => drop(write!(cleaned, "\\u{{{:x}}}", u32::from(c))),
        c => cleaned.push(c),
    }
}

/// Control characters, and those that reorder, hide, or can't be seen: Unicode's `Default_Ignorable_Code_Point`
/// (DerivedCoreProperties.txt), line and paragraph separators, annotation marks, the blank Braille pattern.
fn is_tricky(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// All of it on one line: runs of white space become one blank, the ends are trimmed.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// A Markdown code fence around `text`, longer than any run of backquotes inside it. `info` stands behind the
/// opening fence.
pub fn fenced(info: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{info}\n{text}{newline}{fence}")
}

/// The longest beginning of `text` of at most `bytes` bytes that tears no character.
pub fn head(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

/// The longest end of `text` of at most `bytes` bytes that tears no character.
pub fn tail(text: &str, bytes: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(bytes))..).unwrap_or(text)
}

/// Whether `text` is matched whole by a glob of `*` (any run, also empty), `?` (any one character) and literals.
pub fn glob_matches(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    let (mut g, mut t) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while t < text.len() {
        match glob.get(g) {
            Some('*') => {
                last_star = Some((g, t));
                g += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                g += 1;
                t += 1;
            }
            _ => match last_star {
                // The last star takes one character more.
                Some((star, taken)) => {
                    last_star = Some((star, taken + 1));
                    g = star + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    glob.iter().skip(g).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_our_own_stay_as_they_are_but_on_one_line() {
        assert_eq!(escape_controls("🗜️ a\nb\x1b[2J\r"), "🗜️ a⏎b\\u{1b}[2J\\u{d}");
    }

    #[test]
    fn a_title_is_one_honest_line() {
        assert_eq!(clean("ls -l"), "ls -l");
        assert_eq!(clean("a\nb\u{202e}c\u{200b}\t"), "a⏎b\\u{202e}c\\u{200b}\\u{9}");
        let unseen = [
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{17b5}',
            '\u{180b}',
            '\u{180f}',
            '\u{200d}',
            '\u{2028}',
            '\u{2066}',
            '\u{2800}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff0}',
            '\u{fffb}',
            '\u{1bca0}',
            '\u{1d17a}',
            '\u{e0001}',
            '\u{e0100}',
            '\u{e0fff}',
        ];
        for unseen in unseen {
            assert_eq!(clean(&format!("a{unseen}")), format!("a\\u{{{:x}}}", u32::from(unseen)));
        }
        assert_eq!(clean("äß→日本 🦀"), "äß→日本 🦀");
        assert_eq!(clean(&"ä".repeat(203)), format!("{}… (+3)", "ä".repeat(200)));
        assert_eq!(clean(&"ä".repeat(200)), "ä".repeat(200));
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fenced("", "a"), "```\na\n```");
        assert_eq!(fenced("rs", "````\n"), "`````rs\n````\n`````");
        assert_eq!(fenced("", ""), "```\n```");
    }

    #[test]
    fn cuts_tear_no_character() {
        assert_eq!((head("aé", 2), tail("éa", 2)), ("a", "a"));
        assert_eq!((head("aé", 9), tail("éa", 9)), ("aé", "éa"));
    }

    #[test]
    fn globs() {
        for (glob, text, matches) in [
            ("*", "", true),
            ("git *", "git status", true),
            ("git *", "git", false),
            ("a*b*c", "aXbYbc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*.rs", "src/main.rs", true),
            ("", "x", false),
        ] {
            assert_eq!(glob_matches(glob, text), matches, "{glob} {text}");
        }
    }
}

//! What a session is called in a list.
use crate::text::{clean_to, head, one_line};

/// Characters of a title.
const TITLE_AT_MOST: usize = 60;

/// A title from a prompt's text: its first 60 characters on one honest line; `None` without any.
pub fn title_of(text: &str) -> Option<String> {
    // Far more than is shown, however much white space is in it.
    let line = one_line(head(text, 64 << 10));
    let line = clean_to(&line, usize::MAX);
    if line.is_empty() {
        return None;
    }
    match line.char_indices().nth(TITLE_AT_MOST) {
        None => Some(line.into_owned()),
        Some(_) => Some(line.chars().take(TITLE_AT_MOST - 1).chain(['…']).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_honest_line_of_60_characters() {
        let long = "wörd ".repeat(40);
        let cut = "wörd ".repeat(12);
        for (text, title) in [
            ("Fix the bug", Some("Fix the bug")),
            ("  Fix\n\n\tthe   bug \r\n", Some("Fix the bug")),
            ("a\u{202e}b\u{200b}", Some("a\\u{202e}b\\u{200b}")),
            (" \n\t", None),
            ("", None),
            (&long, Some(&(cut.chars().take(59).collect::<String>() + "…"))),
            (&"x".repeat(60), Some(&"x".repeat(60))),
        ] {
            let got = title_of(text);
            assert_eq!(got.as_deref(), title);
            assert!(got.is_none_or(|title| title.chars().count() <= 60));
        }
    }

    #[test]
    fn a_title_stays_as_it_is_when_it_is_made_a_title_again() {
        for text in ["Fix the bug", &"x".repeat(99), "a\u{202e}b", &"\u{202e}".repeat(60)] {
            let title = title_of(text).unwrap();
            assert_eq!(title_of(&title), Some(title));
        }
    }
}

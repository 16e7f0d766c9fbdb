//! One word: quotes, escapes, and all that begins with `$` or a backquote.
use super::parse::{DEPTH, End, Operator, Parser, Piece, Script, TooDeep, Word, ends_word, parse_at};

/// Arithmetic that turns out to be none is read again as commands; often enough and it takes for ever.
const READ_AGAIN: usize = 100;

impl Parser<'_> {
    pub(super) fn word(&mut self) -> Result<Word, TooDeep> {
        let mut word = Word::new();
        while let Some(next) = self.peek() {
            match next {
                '\'' => word.push(self.single_quoted()),
                '"' => {
                    self.rest.next();
                    word.push(Piece::Quoted(String::new()));
                    word.append(&mut self.double_quoted(Some('"'))?);
                }
                '\\' => self.escape(&mut word),
                '$' | '`' => self.dollar(&mut word, false)?,
                '<' | '>' if self.rest.as_str().get(1..2) == Some("(") && word.is_empty() => {
                    self.rest.next();
                    self.rest.next();
                    word.push(self.commands(End::Parenthesis)?);
                }
                '(' if matches!(word.last(), Some(Piece::Text(text)) if text.ends_with('=')) => {
                    self.rest.next();
                    word.push(self.array()?);
                }
                _ if ends_word(next) => break,
                _ => push_text(&mut word, next),
            }
            if !matches!(next, '\'' | '"' | '\\' | '$' | '`' | '<' | '>' | '(') {
                self.rest.next();
            }
        }
        Ok(word)
    }

    fn escape(&mut self, word: &mut Word) {
        self.rest.next();
        match self.rest.next() {
            Some('\n') => {}
            Some(escaped) => word.push(Piece::Quoted(escaped.into())),
            None => self.plain = false,
        }
    }

    fn single_quoted(&mut self) -> Piece {
        self.rest.next();
        let rest = self.rest.as_str();
        let (text, behind) = rest.split_once('\'').unwrap_or_else(|| {
            self.plain = false;
            (rest, "")
        });
        self.rest = behind.chars();
        Piece::Quoted(text.to_owned())
    }

    /// Up to `close`, or to the end of the input where there is none to close it.
    pub(super) fn double_quoted(&mut self, close: Option<char>) -> Result<Word, TooDeep> {
        let mut word = Word::new();
        while let Some(next) = self.peek() {
            match next {
                '$' | '`' => {
                    self.dollar(&mut word, true)?;
                    continue;
                }
                '\\' => {
                    self.rest.next();
                    match self.rest.next() {
                        Some('\n') => {}
                        Some(c @ ('$' | '`' | '"' | '\\')) => push_quoted(&mut word, c),
                        Some(c) => ['\\', c].into_iter().for_each(|c| push_quoted(&mut word, c)),
                        None => {}
                    }
                    continue;
                }
                c if Some(c) == close => {
                    self.rest.next();
                    return Ok(word);
                }
                c => push_quoted(&mut word, c),
            }
            self.rest.next();
        }
        self.plain &= close.is_none();
        Ok(word)
    }

    /// What begins with `$` or a backquote.
    fn dollar(&mut self, word: &mut Word, quoted: bool) -> Result<(), TooDeep> {
        if self.eat("`") {
            word.push(self.backquoted()?);
        } else if let Some(words) = self.arithmetic("$((", "))")? {
            word.push(Piece::Words(words));
        } else if self.eat("$(") {
            word.push(self.commands(End::Parenthesis)?);
        } else if let Some(words) = self.arithmetic("$[", "]")? {
            word.push(Piece::Words(words));
        } else if self.eat("${") {
            word.push(self.nested(|parser| parser.braced(quoted))?);
        } else if !quoted && self.eat("$'") {
            word.push(self.ansi_quoted());
        } else if !quoted && self.eat("$\"") {
            word.push(Piece::Quoted(String::new()));
            word.append(&mut self.double_quoted(Some('"'))?);
        } else {
            self.rest.next();
            match self.variable_name() {
                Some(name) => {
                    let (operator, subscript, operand) = (Operator::None, Word::new(), Word::new());
                    word.push(Piece::Variable { name, quoted, operator, subscript, operand });
                }
                None if quoted => push_quoted(word, '$'),
                None => push_text(word, '$'),
            }
        }
        Ok(())
    }

    fn commands(&mut self, end: End) -> Result<Piece, TooDeep> {
        let outer = std::mem::take(&mut self.pending);
        let documents = std::mem::take(&mut self.documents);
        let list = self.nested(|parser| parser.list(end))?;
        // Announced inside, but not begun: they begin behind the next newline, and can't be told apart there.
        self.pending = outer;
        let documents = std::mem::replace(&mut self.documents, documents);
        Ok(Piece::Commands(Script { list, documents: documents.into(), plain: false }))
    }

    fn backquoted(&mut self) -> Result<Piece, TooDeep> {
        let mut inner = String::new();
        loop {
            match self.rest.next() {
                None | Some('`') => break,
                Some('\\') => match self.rest.next() {
                    Some(c @ ('`' | '$' | '\\')) => inner.push(c),
                    other => inner.extend(['\\'].into_iter().chain(other)),
                },
                Some(c) => inner.push(c),
            }
        }
        if self.depth >= DEPTH {
            return Err(TooDeep);
        }
        Ok(Piece::Commands(parse_at(&inner, self.depth + 1)?))
    }

    /// Arithmetic, if what stands here is closed as one; its own operators are no redirections.
    pub(super) fn arithmetic(&mut self, open: &str, close: &str) -> Result<Option<Vec<Word>>, TooDeep> {
        let before = self.rest.clone();
        if !self.eat(open) {
            return Ok(None);
        }
        let words = self.nested(|parser| parser.arithmetic_words(close))?;
        if words.is_none() {
            self.rest = before;
            self.read_again += 1;
            if self.read_again > READ_AGAIN {
                return Err(TooDeep);
            }
        }
        Ok(words)
    }

    fn arithmetic_words(&mut self, close: &str) -> Result<Option<Vec<Word>>, TooDeep> {
        let mut word = Word::new();
        let mut open = 0;
        while let Some(next) = self.peek() {
            match next {
                _ if open == 0 && self.eat(close) => return Ok(Some(vec![word])),
                '$' | '`' => {
                    self.dollar(&mut word, true)?;
                    continue;
                }
                '(' | '[' => open += 1,
                ')' | ']' if open == 0 => return Ok(None),
                ')' | ']' => open -= 1,
                _ => {}
            }
            self.rest.next();
        }
        Ok(None)
    }

    fn array(&mut self) -> Result<Piece, TooDeep> {
        self.plain = false;
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                None => break,
                Some(')') => {
                    self.rest.next();
                    break;
                }
                Some(c) if ends_word(c) => drop(self.rest.next()),
                Some(_) => words.push(self.nested(Self::word)?),
            }
        }
        Ok(Piece::Array(words))
    }

    /// Behind `${`.
    fn braced(&mut self, quoted: bool) -> Result<Piece, TooDeep> {
        let rest = self.rest.as_str();
        let indirect = rest.starts_with(['!', '#']) && !rest.get(1..).unwrap_or_default().starts_with('}');
        if indirect {
            self.rest.next();
        }
        let name = self.variable_name().filter(|_| !indirect).unwrap_or_default();
        let has_subscript = self.eat("[");
        let subscript = if has_subscript { self.operand(']', false)? } else { Word::new() };
        let is_plain = !indirect && !has_subscript && !name.is_empty() && self.peek() == Some('}');
        let operator = if is_plain { Operator::None } else { self.operator() };
        // Between double quotes a single one quotes patterns, but not the words of these operators.
        let takes_word = matches!(operator, Operator::Otherwise | Operator::Assign);
        let operand = self.operand('}', quoted && takes_word)?;
        Ok(Piece::Variable { name, quoted, operator, subscript, operand })
    }

    fn operator(&mut self) -> Operator {
        self.eat(":");
        let operator = match self.peek() {
            Some('-' | '+' | '?') => Operator::Otherwise,
            Some('=') => Operator::Assign,
            _ => return Operator::Other,
        };
        self.rest.next();
        operator
    }

    /// Up to `close`: a subscript, or what stands behind an operator.
    fn operand(&mut self, close: char, apostrophes: bool) -> Result<Word, TooDeep> {
        let mut word = Word::new();
        while let Some(next) = self.peek() {
            match next {
                next if next == close => {
                    self.rest.next();
                    return Ok(word);
                }
                '\'' if !apostrophes => word.push(self.single_quoted()),
                '"' => {
                    self.rest.next();
                    word.append(&mut self.double_quoted(Some('"'))?);
                }
                '\\' => self.escape(&mut word),
                '$' | '`' => self.dollar(&mut word, false)?,
                _ => {
                    push_text(&mut word, next);
                    self.rest.next();
                }
            }
        }
        self.plain = false;
        Ok(word)
    }

    /// A name, a position or one of the special parameters.
    fn variable_name(&mut self) -> Option<String> {
        let rest = self.rest.as_str();
        let first = rest.chars().next()?;
        let length = if first.is_ascii_alphabetic() || first == '_' {
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if first.is_ascii_digit() || "@*#?-$!".contains(first) {
            1
        } else {
            return None;
        };
        let (name, behind) = rest.split_at(length);
        self.rest = behind.chars();
        Some(name.to_owned())
    }

    /// Behind `$'`.
    fn ansi_quoted(&mut self) -> Piece {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                None => {
                    self.plain = false;
                    break;
                }
                Some('\'') => break,
                Some('\\') => text.extend(self.ansi_escape()),
                Some(c) => text.push(c),
            }
        }
        Piece::Quoted(text)
    }

    fn ansi_escape(&mut self) -> Option<char> {
        let code = |parser: &mut Self, most: usize, radix: u32| {
            let rest = parser.rest.as_str();
            let digits = rest.chars().take(most).take_while(|c| c.is_digit(radix)).count();
            let (digits, behind) = rest.split_at(digits); // digits are of one byte
            parser.rest = behind.chars();
            char::from_u32(u32::from_str_radix(digits, radix).ok()?)
        };
        match self.peek()? {
            '0'..='7' => code(self, 3, 8),
            escape => {
                self.rest.next();
                match escape {
                    'x' => code(self, 2, 16),
                    'u' => code(self, 4, 16),
                    'U' => code(self, 8, 16),
                    'n' => Some('\n'),
                    't' => Some('\t'),
                    'r' => Some('\r'),
                    other => Some(other),
                }
            }
        }
    }
}

fn push_text(word: &mut Word, c: char) {
    match word.last_mut() {
        Some(Piece::Text(text)) => text.push(c),
        _ => word.push(Piece::Text(c.into())),
    }
}

fn push_quoted(word: &mut Word, c: char) {
    match word.last_mut() {
        Some(Piece::Quoted(text)) => text.push(c),
        _ => word.push(Piece::Quoted(c.into())),
    }
}

//! A command line as bash reads it (its manual, "Shell Grammar" and "Shell Expansions"), except that nothing is an
//! error: of a line that bash would refuse it has run the lines before, so all that could be a command is one.
use std::rc::Rc;
use std::str::Chars;

/// Deepest nesting that is looked into.
pub(super) const DEPTH: usize = 64;

/// Longest line that is looked into, in bytes; Linux takes no longer argument (`MAX_ARG_STRLEN`, less the NUL).
pub const LONGEST_LINE: usize = 128 * 1024 - 1;

/// Nested deeper than [`DEPTH`], or longer than [`LONGEST_LINE`].
#[derive(Debug)]
pub(super) struct TooDeep;

/// A whole line.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) list: List,
    /// What [`Redirection::Document`] points at.
    pub(super) documents: Documents,
    /// There was no separator, keyword, group, comment or unclosed quote.
    pub(super) plain: bool,
}

pub(super) type List = Vec<Item>;
pub(super) type Documents = Rc<[Document]>;

/// A command with how it runs beside others.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) node: Node,
    /// It reads from the command before.
    pub(super) reads_pipe: bool,
    /// The command behind reads from it.
    pub(super) writes_pipe: bool,
    pub(super) background: bool,
    /// In a loop that nothing but a `break` ends.
    pub(super) endless: bool,
}

#[derive(Debug)]
pub(super) enum Node {
    Simple(Simple),
    /// `{ …; }`
    Group(List),
    /// `( … )`
    Subshell(List),
    Function(String, Rc<List>),
}

/// Words and redirections; assignments are still words.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    pub(super) redirections: Vec<Redirection>,
}

#[derive(Debug)]
pub(super) enum Redirection {
    /// `<`
    Input(Word),
    /// `>`, `>>`, `>|`, `&>`, `>&`, `<>`
    Output(Word),
    /// `<<<`
    Text(Word),
    /// `<<`, an index into [`Script::documents`].
    Document(usize),
}

/// A here-document.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) text: String,
    /// What it runs when it is expanded.
    pub(super) expansions: Word,
}

pub(super) type Word = Vec<Piece>;

/// What `${NAME…}` does with the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    /// `$NAME` or `${NAME}`
    None,
    /// `${NAME:-word}` and the like: the word may stand in its place.
    Otherwise,
    /// `${NAME:=word}`: and is its value from then on.
    Assign,
    Other,
}

/// A part of a word.
#[derive(Debug)]
pub(super) enum Piece {
    /// Unquoted: `~`, globs and braces mean something.
    Text(String),
    Quoted(String),
    Variable {
        name: String,
        quoted: bool,
        operator: Operator,
        /// `[…]`
        subscript: Word,
        /// What stands behind the operator.
        operand: Word,
    },
    /// `$(…)`, `` `…` ``, `<(…)`, `>(…)`.
    Commands(Script),
    /// Arithmetic: of unknown value, but what is in it is expanded.
    Words(Vec<Word>),
    /// `(…)` behind `NAME=`
    Array(Vec<Word>),
}

/// Reads a line.
///
/// # Errors
/// It is nested too deep, or too long.
pub(super) fn parse(line: &str) -> Result<Script, TooDeep> {
    parse_at(line, 0)
}

pub(super) fn parse_at(line: &str, depth: usize) -> Result<Script, TooDeep> {
    if line.len() > LONGEST_LINE {
        return Err(TooDeep); // a syntax tree takes some two hundred times the memory of its line
    }
    let mut parser = Parser::new(line, depth);
    let list = parser.list(End::Input)?;
    parser.read_documents()?;
    Ok(Script { list, documents: parser.documents.into(), plain: parser.plain })
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum End {
    Input,
    Parenthesis,
    Brace,
}

/// A line being read.
pub(super) struct Parser<'a> {
    pub(super) rest: Chars<'a>,
    pub(super) depth: usize,
    pub(super) plain: bool,
    pub(super) documents: Vec<Document>,
    /// Here-documents whose text begins behind the next newline.
    pub(super) pending: Vec<Pending>,
    pub(super) read_again: usize,
}

pub(super) struct Pending {
    delimiter: String,
    quoted: bool,
    strips_tabs: bool,
    index: usize,
}

/// A list being read.
#[derive(Default)]
struct Reading {
    items: List,
    command: Simple,
    /// The next command reads from the one before.
    reads_pipe: bool,
    /// Where the current `&&`, `||`, `|` chain began.
    chain: usize,
    /// The name of a function whose body comes next.
    function: Option<String>,
    /// Open `case`s, whose patterns end with `)`.
    cases: usize,
    /// Open loops; whether each is endless.
    loops: Vec<bool>,
}

impl Reading {
    fn flush(&mut self) {
        let command = std::mem::take(&mut self.command);
        if !command.words.is_empty() || !command.redirections.is_empty() {
            self.push(Node::Simple(command));
        }
    }

    fn push(&mut self, node: Node) {
        let endless = self.loops.contains(&true);
        let item = |node| Item { node, reads_pipe: false, writes_pipe: false, background: false, endless };
        let node = match self.function.take() {
            Some(name) => Node::Function(name, Rc::new(vec![item(node)])),
            None => node,
        };
        let reads_pipe = std::mem::take(&mut self.reads_pipe);
        self.items.push(Item { reads_pipe, ..item(node) });
    }

    fn pipe(&mut self) {
        self.flush();
        if let Some(item) = self.items.last_mut() {
            item.writes_pipe = true;
        }
        self.reads_pipe = true;
    }

    fn separate(&mut self, background: bool) {
        self.flush();
        let chain = self.items.get_mut(self.chain..).unwrap_or_default();
        chain.iter_mut().for_each(|item| item.background |= background);
        self.chain = self.items.len();
        self.reads_pipe = false;
    }
}

/// They stand before a command and change nothing about what it does.
const KEYWORDS: [&str; 12] =
    ["if", "then", "elif", "else", "fi", "while", "until", "do", "done", "esac", "!", "coproc"];
/// Words that open a compound command.
const COMPOUND: [&str; 7] = ["if", "while", "until", "for", "case", "select", "[["];

impl<'a> Parser<'a> {
    fn new(line: &'a str, depth: usize) -> Self {
        Self {
            rest: line.chars(),
            depth,
            plain: true,
            documents: Vec::new(),
            pending: Vec::new(),
            read_again: 0,
        }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.as_str().strip_prefix(text);
        if let Some(rest) = rest {
            self.rest = rest.chars();
        }
        rest.is_some()
    }

    /// One level deeper.
    pub(super) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, TooDeep>,
    ) -> Result<T, TooDeep> {
        if self.depth >= DEPTH {
            return Err(TooDeep);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    pub(super) fn list(&mut self, end: End) -> Result<List, TooDeep> {
        let mut reading = Reading::default();
        loop {
            self.skip_blanks();
            let Some(next) = self.peek() else {
                self.plain &= end == End::Input;
                break;
            };
            let closes = next == ')' && end == End::Parenthesis && reading.cases == 0;
            let closes_brace = end == End::Brace && reading.command.words.is_empty() && self.at_word("}");
            if closes || closes_brace {
                self.rest.next();
                break;
            }
            self.list_token(next, &mut reading)?;
        }
        reading.separate(false);
        Ok(reading.items)
    }

    fn list_token(&mut self, next: char, reading: &mut Reading) -> Result<(), TooDeep> {
        if self.redirection(&mut reading.command)? {
            return Ok(());
        }
        match next {
            '\n' | ';' | '&' | '|' | ')' => self.separator(next, reading),
            '(' => self.parenthesis(reading),
            '#' => {
                self.plain = false;
                let end = self.rest.as_str().find('\n').unwrap_or(self.rest.as_str().len());
                self.rest = self.rest.as_str().split_at(end).1.chars();
                Ok(())
            }
            _ if reading.command.words.is_empty() => self.command_position(reading),
            _ => {
                let word = self.word()?;
                // The patterns of a `case` begin behind its `in`.
                if reading.cases > 0 && literal(&word).as_deref() == Some("in") {
                    reading.separate(false);
                } else {
                    reading.command.words.push(word);
                }
                Ok(())
            }
        }
    }

    fn separator(&mut self, next: char, reading: &mut Reading) -> Result<(), TooDeep> {
        self.plain = false;
        self.rest.next();
        match next {
            '\n' => {
                // Behind `|` the pipe goes on in the next line.
                if !reading.reads_pipe || !reading.command.words.is_empty() {
                    reading.separate(false);
                }
                return self.read_documents();
            }
            '&' if self.eat("&") => reading.flush(),
            '&' => reading.separate(true),
            '|' if self.eat("|") => reading.flush(),
            '|' => {
                self.eat("&");
                reading.pipe();
            }
            _ => reading.separate(false),
        }
        Ok(())
    }

    /// A subshell, arithmetic, or the parentheses behind a function's name.
    fn parenthesis(&mut self, reading: &mut Reading) -> Result<(), TooDeep> {
        self.plain = false;
        if let [name] = reading.command.words.as_slice()
            && let Some(name) = literal(name)
            && self.eat_function_parentheses()
        {
            reading.command = Simple::default();
            reading.function = Some(name);
            return Ok(());
        }
        reading.flush();
        if let Some(words) = self.arithmetic("((", "))")? {
            reading.command.words.push(vec![Piece::Words(words)]);
            reading.flush();
            return Ok(());
        }
        self.rest.next();
        let list = self.nested(|parser| parser.list(End::Parenthesis))?;
        reading.push(Node::Subshell(list));
        Ok(())
    }

    fn eat_function_parentheses(&mut self) -> bool {
        let rest = self.rest.as_str().strip_prefix('(').map(|rest| rest.trim_start_matches([' ', '\t']));
        let Some(rest) = rest.and_then(|rest| rest.strip_prefix(')')) else { return false };
        self.rest = rest.trim_start().chars();
        true
    }

    /// The first word of a command may be a keyword or open a group.
    fn command_position(&mut self, reading: &mut Reading) -> Result<(), TooDeep> {
        if self.at_word("{") {
            self.plain = false;
            self.rest.next();
            let list = self.nested(|parser| parser.list(End::Brace))?;
            reading.push(Node::Group(list));
            return Ok(());
        }
        // The body of a function that is another compound command than a group is judged where it stands: it is
        // read as the commands in it.
        if COMPOUND.iter().any(|keyword| self.at_word(keyword)) {
            reading.function = None;
        }
        let word = self.word()?;
        self.note_loop(unquoted(&word), reading);
        match unquoted(&word) {
            Some("time") => while self.skip_blanks() && (self.eat_word("-p") || self.eat_word("--")) {},
            Some("coproc") => {
                self.plain = false;
                self.coprocess_name();
            }
            Some("function") => {
                self.plain = false;
                self.skip_blanks();
                reading.function = literal(&self.word()?);
                self.skip_blanks();
                self.eat_function_parentheses();
            }
            Some("case") => {
                self.plain = false;
                reading.cases += 1;
                reading.command.words.push(word);
            }
            Some(keyword) if KEYWORDS.contains(&keyword) => {
                self.plain = false;
                if keyword == "esac" {
                    reading.cases = reading.cases.saturating_sub(1);
                }
            }
            _ => reading.command.words.push(word),
        }
        Ok(())
    }

    fn note_loop(&mut self, keyword: Option<&str>, reading: &mut Reading) {
        let rest = self.rest.as_str().trim_start();
        let begins = |words: &[&str]| {
            words.iter().any(|word| rest.strip_prefix(word).is_some_and(|rest| rest.starts_with(ends_word)))
        };
        match keyword {
            Some("while") => reading.loops.push(begins(&[":", "true"])),
            Some("until") => reading.loops.push(begins(&["false"])),
            Some("for") => reading.loops.push(rest.starts_with("((;;))")),
            Some("select") => reading.loops.push(false),
            Some("done") => drop(reading.loops.pop()),
            _ => {}
        }
    }

    /// `coproc NAME { … }`: only before a compound command is it a name.
    fn coprocess_name(&mut self) {
        self.skip_blanks();
        let before = self.rest.clone();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.rest = self.rest.as_str().trim_start_matches(is_name).chars();
        self.skip_blanks();
        if !self.at_word("{") && !COMPOUND.iter().any(|keyword| self.at_word(keyword)) {
            self.rest = before;
        }
    }

    /// Always true.
    pub(super) fn skip_blanks(&mut self) -> bool {
        while self.eat(" ") || self.eat("\t") || self.eat("\\\n") {}
        true
    }

    fn eat_word(&mut self, word: &str) -> bool {
        self.at_word(word) && self.eat(word)
    }

    /// Whether `word` stands here alone.
    fn at_word(&self, word: &str) -> bool {
        let rest = self.rest.as_str().strip_prefix(word);
        rest.is_some_and(|rest| rest.chars().next().is_none_or(ends_word))
    }

    /// Reads a redirection, if one stands here.
    fn redirection(&mut self, command: &mut Simple) -> Result<bool, TooDeep> {
        let rest = self.rest.as_str();
        let behind = behind_descriptor(rest);
        if !behind.starts_with(['<', '>']) && !rest.starts_with("&>") {
            return Ok(false);
        }
        // Process substitution is a word.
        if rest.starts_with("<(") || rest.starts_with(">(") {
            return Ok(false);
        }
        if !rest.starts_with("&>") {
            self.rest = behind.chars();
        }
        let operators = ["<<<", "<<-", "<<", "<>", "<&", "<", "&>>", "&>", ">>", ">|", ">&", ">"];
        let operator = operators.into_iter().find(|operator| self.eat(operator)).unwrap_or_default();
        self.skip_blanks();
        let redirection = match operator {
            "<<" | "<<-" => Redirection::Document(self.announce_document(operator == "<<-")?),
            "<<<" => Redirection::Text(self.word()?),
            "<" | "<&" => Redirection::Input(self.word()?),
            _ => Redirection::Output(self.word()?),
        };
        command.redirections.push(redirection);
        Ok(true)
    }

    fn announce_document(&mut self, strips_tabs: bool) -> Result<usize, TooDeep> {
        let before = self.rest.as_str();
        self.word()?;
        // It is not expanded: `$E` is called so.
        let written = before.strip_suffix(self.rest.as_str()).unwrap_or_default();
        let quotes = ['\'', '"', '\\'];
        let quoted = written.contains(quotes);
        let delimiter = written.replace(quotes, "");
        let index = self.documents.len();
        self.documents.push(Document::default());
        self.pending.push(Pending { delimiter, quoted, strips_tabs, index });
        Ok(index)
    }

    fn read_documents(&mut self) -> Result<(), TooDeep> {
        for pending in std::mem::take(&mut self.pending) {
            let text = self.document_text(&pending);
            let expansions = if pending.quoted {
                Word::new()
            } else {
                Parser::new(&text, self.depth + 1).double_quoted(None)?
            };
            if let Some(document) = self.documents.get_mut(pending.index) {
                *document = Document { text, expansions };
            }
        }
        Ok(())
    }

    fn document_text(&mut self, pending: &Pending) -> String {
        let mut text = String::new();
        while !self.rest.as_str().is_empty() {
            let rest = self.rest.as_str();
            let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
            let line = if pending.strips_tabs { line.trim_start_matches('\t') } else { line };
            if line == pending.delimiter {
                self.rest = behind.chars();
                break;
            }
            // In a substitution its `)` may stand right behind the delimiter.
            if self.depth > 0
                && let Some(closing) =
                    rest.strip_prefix(&pending.delimiter).filter(|rest| rest.starts_with(')'))
            {
                self.rest = closing.chars();
                break;
            }
            self.rest = behind.chars();
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// Behind the descriptor that a redirection may name, as `2` or `{name}`.
fn behind_descriptor(rest: &str) -> &str {
    let named = rest.strip_prefix('{').map(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').strip_prefix('}')
    });
    named.flatten().unwrap_or_else(|| rest.trim_start_matches(|c: char| c.is_ascii_digit()))
}

pub(super) fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
}

/// The text of a word that is nothing but text.
pub(super) fn literal(word: &Word) -> Option<String> {
    word.iter()
        .map(|piece| match piece {
            Piece::Text(text) | Piece::Quoted(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// Keywords are keywords only without quotes.
fn unquoted(word: &Word) -> Option<&str> {
    match word.as_slice() {
        [Piece::Text(text)] => Some(text),
        _ => None,
    }
}

//! From text to operations.

use super::link::{Edge, link};
use super::{CPUS_MAX, DEPENDENCIES_MAX, FILE_BYTES_MAX, Goal, Kind, LINE_BYTES_MAX, OPERATIONS_MAX, Operation};
use crate::Error;
use crate::predict::{BYTES_MAX, COST_MAX_NS, RANKS_MAX};
use std::collections::HashMap;
use std::io::{BufRead, Read};
use surefoot_model::Digits;

/// What was read so far.
#[derive(Debug, Default)]
struct Reading {
    line: u32,
    ranks: Option<u32>,
    has_ranks: Vec<bool>,
    operations: Vec<Operation>,
    lines: Vec<u32>,
    edges: Vec<Edge>,
    inside: Option<Inside>,
    is_in_comment: bool,
}

/// The rank whose block is being read. Its labels are its own.
#[derive(Debug)]
struct Inside {
    rank: u32,
    begun_line: u32,
    numbers: HashMap<String, u32>,
    /// The operation of each label.
    labelled: Vec<Option<u32>>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, Copy)]
struct Dependency {
    /// Labels by their numbers.
    waits: u32,
    waits_for: u32,
    is_on_start: bool,
    line: u32,
}

pub(super) fn parse(text: impl BufRead) -> Result<Goal, Error> {
    let mut reading = Reading::default();
    let mut text = text.take(FILE_BYTES_MAX + 1);
    let mut line = Vec::new();
    loop {
        line.clear();
        reading.line = reading.line.checked_add(1).ok_or_else(|| reading.wrong("more lines than can be counted"))?;
        let read = (&mut text).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
        let length = read.map_err(|error| Error::GoalRead(error.to_string()))? as u64;
        if length == 0 {
            break;
        }
        if length > LINE_BYTES_MAX {
            return Err(reading.wrong(format!("it is longer than {LINE_BYTES_MAX} bytes")));
        }
        if text.limit() == 0 {
            return Err(reading.wrong(format!("the file is longer than {FILE_BYTES_MAX} bytes")));
        }
        reading.read(&line)?;
    }
    reading.finish()
}

impl Reading {
    fn wrong(&self, why: impl Into<String>) -> Error {
        Error::Goal { line: self.line, why: why.into() }
    }

    fn read(&mut self, line: &[u8]) -> Result<(), Error> {
        let line = self.without_comments(line);
        let tokens = tokens(&line).map_err(|why| self.wrong(why))?;
        let mut rest = tokens.as_slice();
        while !rest.is_empty() {
            rest = if self.inside.is_some() { self.within(rest)? } else { self.outside(rest)? };
        }
        Ok(())
    }

    /// What is left of a line; a comment may go on over many.
    fn without_comments(&mut self, line: &[u8]) -> Vec<u8> {
        let (mut kept, mut rest) = (Vec::with_capacity(line.len()), line);
        while let [first, after @ ..] = rest {
            if self.is_in_comment {
                self.is_in_comment = !rest.starts_with(b"*/");
                rest = if self.is_in_comment { after } else { &rest[2..] };
            } else if rest.starts_with(b"/*") {
                // A word ends at it.
                kept.push(b' ');
                (self.is_in_comment, rest) = (true, &rest[2..]);
            } else if rest.starts_with(b"//") {
                break;
            } else {
                kept.push(*first);
                rest = after;
            }
        }
        kept
    }

    fn outside<'a>(&mut self, tokens: &'a [&'a str]) -> Result<&'a [&'a str], Error> {
        match (tokens, self.ranks) {
            (["num_ranks", number, rest @ ..], None) => {
                let ranks = self.number("num_ranks", number, 1, RANKS_MAX)?;
                self.ranks = Some(ranks as u32);
                self.has_ranks = vec![false; ranks as usize];
                Ok(rest)
            }
            (["num_ranks", ..], Some(_)) => Err(self.wrong("num_ranks is there already")),
            (["rank", number, "{", rest @ ..], Some(ranks)) => {
                let rank = self.number("rank", number, 0, u64::from(ranks) - 1)?;
                if std::mem::replace(&mut self.has_ranks[rank as usize], true) {
                    return Err(self.wrong(format!("rank {rank} is there already")));
                }
                self.inside = Some(Inside {
                    rank: rank as u32,
                    begun_line: self.line,
                    numbers: HashMap::new(),
                    labelled: Vec::new(),
                    dependencies: Vec::new(),
                });
                Ok(rest)
            }
            (_, None) => Err(self.wrong(format!("'{}': num_ranks N comes first", tokens[0]))),
            _ => Err(self.wrong(format!("'{}': here comes rank N {{", tokens[0]))),
        }
    }

    fn within<'a>(&mut self, tokens: &'a [&'a str]) -> Result<&'a [&'a str], Error> {
        match tokens {
            ["}", rest @ ..] => {
                self.close()?;
                Ok(rest)
            }
            [waits, how @ ("requires" | "irequires"), waits_for] => {
                self.depend(waits, *how == "irequires", waits_for)?;
                Ok(&[])
            }
            [label, ":", words @ ..] => {
                let number = self.operations.len() as u32;
                self.operation(words)?;
                self.label(label, number)?;
                Ok(&[])
            }
            words => {
                self.operation(words)?;
                Ok(&[])
            }
        }
    }

    fn label(&mut self, label: &str, operation: u32) -> Result<(), Error> {
        let place = self.number_of(label)?;
        let known = self.inside.as_mut().and_then(|inside| inside.labelled[place as usize].replace(operation));
        match known {
            Some(known) => {
                let line = self.lines[known as usize];
                Err(self.wrong(format!("the label '{label}' is in line {line} already")))
            }
            None => Ok(()),
        }
    }

    /// The number of a label of this rank.
    fn number_of(&mut self, label: &str) -> Result<u32, Error> {
        let is_label = label.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        if !is_label || label.contains('-') {
            return Err(self.wrong(format!("'{label}' is no label: letters, digits and _ make one, no digit first")));
        }
        let Some(inside) = &mut self.inside else { return Err(self.wrong("a label stands outside of a rank")) };
        if let Some(number) = inside.numbers.get(label) {
            return Ok(*number);
        }
        let number = inside.labelled.len() as u32;
        inside.numbers.insert(label.to_owned(), number);
        inside.labelled.push(None);
        Ok(number)
    }

    fn depend(&mut self, waits: &str, is_on_start: bool, waits_for: &str) -> Result<(), Error> {
        let (waits, waits_for) = (self.number_of(waits)?, self.number_of(waits_for)?);
        let line = self.line;
        let Some(inside) = &mut self.inside else { return Err(self.wrong("a dependency stands outside of a rank")) };
        inside.dependencies.push(Dependency { waits, waits_for, is_on_start, line });
        if (self.edges.len() + inside.dependencies.len()) as u64 > DEPENDENCIES_MAX {
            return Err(self.wrong(format!("more than {DEPENDENCIES_MAX} dependencies")));
        }
        Ok(())
    }

    /// The end of a rank's block: its labels become operations.
    fn close(&mut self) -> Result<(), Error> {
        let Some(inside) = self.inside.take() else { return Err(self.wrong("'}' closes nothing")) };
        for Dependency { waits, waits_for, is_on_start, line } in inside.dependencies {
            let operation = |label: u32| {
                inside.labelled[label as usize].ok_or_else(|| {
                    let name = inside.numbers.iter().find(|(_, number)| **number == label).map_or("", |(name, _)| name);
                    Error::Goal { line, why: format!("rank {} has no operation with label '{name}'", inside.rank) }
                })
            };
            self.edges.push(Edge { waits: operation(waits)?, waits_for: operation(waits_for)?, is_on_start });
        }
        Ok(())
    }

    fn operation(&mut self, words: &[&str]) -> Result<(), Error> {
        const FORM: &str = "write calc N, send Nb to RANK, recv Nb from RANK, A requires B, A irequires B or }";
        let (kind, rest) = match words {
            ["calc", rest @ ..] => (Kind::Calc, rest),
            ["send", rest @ ..] => (Kind::Send, rest),
            ["recv", rest @ ..] => (Kind::Receive, rest),
            [other, ..] => return Err(self.wrong(format!("'{other}' is no operation; {FORM}"))),
            [] => return Err(self.wrong(format!("nothing follows the label; {FORM}"))),
        };
        let (rank, ranks) = match (&self.inside, self.ranks) {
            (Some(inside), Some(ranks)) => (inside.rank, ranks),
            _ => return Err(self.wrong("an operation stands outside of a rank")),
        };
        let mut operation = Operation { kind, cpu: 0, nic: 0, rank, peer: rank, channel: 0, amount: 0 };
        let mut options = match (kind, rest) {
            (Kind::Calc, [time, rest @ ..]) => {
                operation.amount = self.number("calc", time, 0, COST_MAX_NS)?;
                rest
            }
            (Kind::Send, [size, "to", peer, rest @ ..]) | (Kind::Receive, [size, "from", peer, rest @ ..]) => {
                let Some(bytes) = size.strip_suffix('b') else {
                    return Err(self.wrong(format!("'{size}' is no size: write it as 8b")));
                };
                operation.amount = self.number("size", bytes, 0, BYTES_MAX)?;
                if *peer == "-1" {
                    return Err(self.wrong("a receive from any rank is not predicted: name the rank"));
                }
                operation.peer = self.number("rank", peer, 0, u64::from(ranks) - 1)? as u32;
                rest
            }
            _ => return Err(self.wrong(format!("'{}' is no operation; {FORM}", words.join(" ")))),
        };
        let mut seen: Vec<&str> = Vec::new();
        while let [name, value, rest @ ..] = options {
            if seen.contains(name) {
                return Err(self.wrong(format!("'{name}' is there twice")));
            }
            match *name {
                "tag" if *value == "-1" => {
                    return Err(self.wrong("a receive of any tag is not predicted: name the tag"));
                }
                "tag" if kind != Kind::Calc => {
                    operation.channel = self.number("tag", value, 0, u64::from(u32::MAX))? as u32;
                }
                "cpu" => operation.cpu = self.number("cpu", value, 0, CPUS_MAX - 1)? as u8,
                "nic" => operation.nic = self.number("nic", value, 0, CPUS_MAX - 1)? as u8,
                _ => return Err(self.wrong(format!("unknown option '{name}' of this operation"))),
            }
            seen.push(name);
            options = rest;
        }
        if let [left, ..] = options {
            return Err(self.wrong(format!("'{left}' at the end has no value")));
        }
        if self.operations.len() as u64 >= OPERATIONS_MAX {
            return Err(self.wrong(format!("more than {OPERATIONS_MAX} operations")));
        }
        self.operations.push(operation);
        self.lines.push(self.line);
        Ok(())
    }

    fn number(&self, what: &str, text: &str, low: u64, high: u64) -> Result<u64, Error> {
        let is_number = !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit());
        let number = if is_number { text.digits() } else { None };
        number
            .filter(|number| (low..=high).contains(number))
            .ok_or_else(|| self.wrong(format!("{what} '{text}': {low} to {high} are possible")))
    }

    fn finish(mut self) -> Result<Goal, Error> {
        if let Some(Inside { rank, begun_line, .. }) = self.inside {
            return Err(
                self.wrong(format!("the file ends, and rank {rank} of line {begun_line} is not closed by '}}'"))
            );
        }
        if self.is_in_comment {
            return Err(self.wrong("the file ends within a comment"));
        }
        let Some(ranks) = self.ranks else { return Err(self.wrong("the file ends without num_ranks")) };
        let (edges, lines) = (std::mem::take(&mut self.edges), std::mem::take(&mut self.lines));
        link(ranks.into(), std::mem::take(&mut self.operations), lines, edges)
    }
}

/// Words, and the signs between them.
fn tokens(line: &[u8]) -> Result<Vec<&str>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is no text".to_owned())?;
    let mut tokens: Vec<&str> = Vec::new();
    let mut from = 0;
    while let Some(letter) = text[from..].chars().next() {
        let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        let length = match letter {
            ' ' | '\t' | '\r' | '\n' => {
                from += 1;
                continue;
            }
            '{' | '}' | ':' => 1,
            _ if is_of_word(letter) => {
                text[from..].find(|letter: char| !is_of_word(letter)).unwrap_or(text.len() - from)
            }
            _ => return Err(format!("unexpected character '{}'", letter.escape_default())),
        };
        tokens.push(&text[from..from + length]);
        from += length;
    }
    Ok(tokens)
}

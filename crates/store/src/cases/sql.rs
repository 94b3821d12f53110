//! What both databases are asked, in the same words: `$1`, `$2` stand for values, numbers are `BIGINT`, everything else is `TEXT`.

use crate::Error;

/// Rows that go in with one statement. Of a few sizes only, so that few statements are kept prepared.
const ROWS_AT_ONCE: [usize; 4] = [64, 16, 4, 1];

/// A value that goes in or comes out. There is no `NULL`: what is not known is 0 or empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Value {
    Number(i64),
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Number(number)
    }
}

impl From<u64> for Value {
    /// The largest number stands for all above it.
    fn from(number: u64) -> Self {
        Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(is_so: bool) -> Self {
        Value::Number(i64::from(is_so))
    }
}

impl From<&str> for Value {
    /// PostgreSQL has no text with a zero in it.
    fn from(text: &str) -> Self {
        Value::Text(text.replace('\0', "?"))
    }
}

/// One row of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row(pub(super) Vec<Value>);

impl Row {
    /// The number in this place; 0 where there is none.
    pub(super) fn number(&self, place: usize) -> u64 {
        match self.0.get(place) {
            Some(Value::Number(number)) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        }
    }

    /// The text in this place; empty where there is none.
    pub(super) fn text(&self, place: usize) -> &str {
        match self.0.get(place) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }
}

/// Why something was not done.
#[derive(Debug)]
pub(super) enum Trouble {
    /// What is to be there once is there already.
    Twice,
    /// The database did not do it, in its words.
    Other(String),
    /// We did not want it done, after a look at what is there.
    Ours(Error),
}

pub(super) type Answer<T> = Result<T, Trouble>;

/// A connection to a database. What fails within a transaction ends it.
pub(super) trait Sql: Send {
    /// The words for a column whose numbers the database gives.
    fn own_number(&self) -> &'static str;

    /// The words that keep the audit trail from being changed.
    fn only_added_to(&self) -> &'static str;

    /// The error of a database that lacks our tables, where none may be made.
    fn without_tables(&self, store: &str) -> Error {
        Error::NoStore {
            store: store.to_owned(),
            why: "the database has no cases of Surefoot; `surefoot remedy serve --store` makes a new one".to_owned(),
        }
    }

    /// The tables are there; from now on it is noticed when the files of the database are deleted or replaced.
    fn is_laid(&mut self) -> Answer<()> {
        Ok(())
    }

    /// Refuses to go on if what is written now would not be found by the next process.
    fn check_in_place(&mut self) -> Answer<()> {
        Ok(())
    }

    /// Begins a transaction. With `alone`, no other of this kind goes on until it ends.
    fn begin(&mut self, alone: bool) -> Answer<()>;

    /// Ends it, and what was changed is kept.
    fn commit(&mut self) -> Answer<()>;

    /// Ends it, and nothing was changed.
    fn roll_back(&mut self);

    /// Does this, and says how many rows it changed.
    fn run(&mut self, words: &str, values: &[Value]) -> Answer<u64>;

    /// Asks for rows.
    fn rows(&mut self, words: &str, values: &[Value]) -> Answer<Vec<Row>>;

    /// The same with words that are not asked again, and have no values.
    fn rows_once(&mut self, words: &str) -> Answer<Vec<Row>>;

    /// Does several things that have no values.
    fn batch(&mut self, words: &str) -> Answer<()>;

    /// The time of the database, nanoseconds since 1970.
    fn now_ns(&mut self) -> Answer<u64>;
}

/// Gives rows to `each` in pieces, with the words for their values: `($1, $2), ($3, $4)`. `row` is the form of one row, in which each
/// `$` stands for a value, in order.
pub(super) fn in_pieces(
    row: &str,
    rows: Vec<Vec<Value>>,
    mut each: impl FnMut(&str, &[Value]) -> Answer<()>,
) -> Answer<()> {
    let mut rest = rows.as_slice();
    while !rest.is_empty() {
        let count = ROWS_AT_ONCE.into_iter().find(|&count| count <= rest.len()).unwrap_or(1);
        let (piece, after) = rest.split_at(count);
        each(&numbered(row, count), &piece.concat())?;
        rest = after;
    }
    Ok(())
}

/// So many rows of this form, their values numbered.
fn numbered(row: &str, count: usize) -> String {
    let mut words = String::new();
    let mut number = 0;
    for place in 0..count {
        words += if place == 0 { "(" } else { ", (" };
        for letter in row.chars() {
            words.push(letter);
            if letter == '$' {
                number += 1;
                words += &number.to_string();
            }
        }
        words.push(')');
    }
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rows_go_in_by_pieces_and_each_once() {
        let rows: Vec<Vec<Value>> = (0..86i64).map(|number| vec![number.into(), "x".into()]).collect();
        let mut sizes = Vec::new();
        let mut seen = Vec::new();
        in_pieces("$, CAST($ AS TEXT)", rows.clone(), |words, values| {
            sizes.push(words.matches("),").count() + 1);
            assert!(words.starts_with("($1, CAST($2 AS TEXT))"), "{words}");
            seen.extend(values.chunks(2).map(<[Value]>::to_vec));
            Ok(())
        })
        .unwrap();
        assert_eq!((sizes, seen), (vec![64, 16, 4, 1, 1], rows));
    }
}

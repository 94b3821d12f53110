//! What many rows have in common, kept once and known by a number.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Which of the things that are kept.
pub(crate) type Number = u32;

/// Bytes of all texts together; of names of functions a large program has a few hundred KiB.
const TEXTS_BYTES_MAX: usize = 8 << 20;

/// Things that are kept once. Whoever adds to them has a limit.
#[derive(Debug)]
pub(crate) struct Interned<T> {
    numbers: HashMap<T, Number>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Interned { numbers: HashMap::new() }
    }
}

impl<T: Eq + Hash + Clone> Interned<T> {
    /// The number of a thing, counted from 0 in the order in which they came.
    pub(crate) fn number(&mut self, thing: &T) -> Number {
        let next = self.numbers.len() as Number;
        match self.numbers.get(thing) {
            Some(&number) => number,
            None => {
                self.numbers.insert(thing.clone(), next);
                next
            }
        }
    }

    /// The number of a thing that is kept.
    pub(crate) fn find(&self, thing: &T) -> Option<Number> {
        self.numbers.get(thing).copied()
    }

    /// Whether it is kept.
    pub(crate) fn has(&self, thing: &T) -> bool {
        self.numbers.contains_key(thing)
    }
}

/// Texts that are kept once, within a limit.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    numbers: HashMap<Text, Number>,
    texts: Vec<Text>,
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Text(Arc<str>);

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Texts {
    /// The number of a text; `None` when there is no room for another one.
    pub(crate) fn number(&mut self, text: &str) -> Option<Number> {
        if let Some(&number) = self.numbers.get(text) {
            return Some(number);
        }
        // Each stands in the list and in the table.
        let bytes = text.len() + 4 * size_of::<Text>();
        if self.bytes + bytes > TEXTS_BYTES_MAX {
            return None;
        }
        self.bytes += bytes;
        let (number, kept) = (self.texts.len() as Number, Text(text.into()));
        self.texts.push(kept.clone());
        self.numbers.insert(kept, number);
        Some(number)
    }

    /// The text of a number.
    pub(crate) fn get(&self, number: Number) -> &str {
        self.texts.get(number as usize).map_or("", |text| &text.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_kept_once_and_texts_within_a_limit() {
        let mut stacks = Interned::default();
        assert_eq!([vec![1u64], vec![2], vec![1]].map(|stack| stacks.number(&stack)), [0, 1, 0]);
        assert_eq!((stacks.find(&vec![2]), stacks.find(&vec![3]), stacks.has(&vec![1])), (Some(1), None, true));
        let mut texts = Texts::default();
        assert_eq!(["a", "b", "a", ""].map(|text| texts.number(text)), [Some(0), Some(1), Some(0), Some(2)]);
        assert_eq!((texts.get(1), texts.get(2), texts.get(9)), ("b", "", ""));
        let long = |number: u32| format!("{number:01000}");
        let kept = (0..100_000).filter(|&number| texts.number(&long(number)).is_some()).count();
        assert!((1_000..TEXTS_BYTES_MAX / 1_000).contains(&kept), "{kept}");
        assert_eq!(texts.number("b"), Some(1), "what is there stays");
    }
}

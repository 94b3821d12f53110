//! Evaluates SPDX licence expressions, such as `(MIT OR Apache-2.0) AND Unicode-3.0`.

/// How deep parentheses may nest; real expressions have one level.
const DEPTH_MAX: usize = 16;

/// Whether the terms of the expression can be met with licences that `allowed` accepts.
///
/// `AND` binds closer than `OR`; a slash is the old way to write `OR`. A licence `WITH` an exception is passed on
/// as one name, `Apache-2.0 WITH LLVM-exception`.
///
/// # Errors
/// Says what is wrong with an expression that does not follow the grammar.
pub fn permitted(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), at: 0, allowed };
    let result = parser.any_of(0).and_then(|result| match parser.next() {
        None => Ok(result),
        Some(word) => Err(format!("'{word}' stands where the expression should end")),
    });
    result.map_err(|why| format!("'{expression}' is no licence expression: {why}"))
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.at).copied();
        self.at += 1;
        word
    }

    fn takes(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at).is_some_and(|next| next.eq_ignore_ascii_case(word));
        if found {
            self.at += 1;
        }
        found
    }

    fn any_of(&mut self, depth: usize) -> Result<bool, String> {
        let mut result = self.all_of(depth)?;
        while self.takes("OR") {
            result |= self.all_of(depth)?;
        }
        Ok(result)
    }

    fn all_of(&mut self, depth: usize) -> Result<bool, String> {
        let mut result = self.term(depth)?;
        while self.takes("AND") {
            result &= self.term(depth)?;
        }
        Ok(result)
    }

    fn term(&mut self, depth: usize) -> Result<bool, String> {
        if depth > DEPTH_MAX {
            return Err("its parentheses nest too deep".into());
        }
        let word = self.next().ok_or("a licence is missing at its end")?;
        if word == "(" {
            let result = self.any_of(depth + 1)?;
            return if self.takes(")") { Ok(result) } else { Err("a parenthesis is not closed".into()) };
        }
        if word == ")" || ["AND", "OR", "WITH"].iter().any(|operator| word.eq_ignore_ascii_case(operator)) {
            return Err(format!("'{word}' stands where a licence should"));
        }
        if !self.takes("WITH") {
            return Ok((self.allowed)(word));
        }
        let exception = self.next().ok_or("WITH is not followed by an exception")?;
        Ok((self.allowed)(&format!("{word} WITH {exception}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(expression: &str) -> Result<bool, String> {
        permitted(expression, &|name| ["MIT", "BSD-2-Clause", "Unicode-3.0", "A WITH E"].contains(&name))
    }

    #[test]
    fn operators_bind_as_the_standard_says() {
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("LGPL-2.1-only OR BSD-2-Clause", true),
            ("MIT/GPL-3.0-only", true),
            ("MIT AND GPL-3.0-only", false),
            ("(MIT OR GPL-3.0-only) AND Unicode-3.0", true),
            ("MIT OR GPL-3.0-only AND GPL-2.0-only", true),
            ("(MIT OR GPL-3.0-only) AND GPL-2.0-only", false),
            ("A WITH E", true),
            ("A", false),
            ("MIT WITH E", false),
        ] {
            assert_eq!(evaluate(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        for expression in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT MIT", "MIT WITH", "()", &"(".repeat(100)] {
            assert!(evaluate(expression).is_err(), "{expression}");
        }
    }
}

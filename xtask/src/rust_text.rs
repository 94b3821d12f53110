//! Enough of Rust's grammar to tell code from comments and strings, for rules that look for words in code.

/// The part of a source file before its unit tests, which stand last in this house.
pub fn before_tests(text: &str) -> &str {
    let mut at = 0;
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        // A module in a file of its own may be declared among the others.
        let opens_tests = lines.peek().is_some_and(|next| {
            let next = next.trim();
            let module =
                next.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")).map_or(next, |(_, rest)| rest);
            module.starts_with("mod ") && !next.ends_with(';')
        });
        if line.trim() == "#[cfg(test)]" && opens_tests {
            return &text[..at];
        }
        at += line.len();
    }
    text
}

/// The text with comments and the insides of strings and character literals blanked; every line and byte stays where it was.
pub fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let skipped = comment(rest).or_else(|| string(rest, &code)).or_else(|| character(rest));
        if let Some(length) = skipped {
            // Line ends stay, so that line numbers do.
            code.extend(rest[..length].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            at += length;
        } else {
            let next = rest.chars().next().expect("the loop ends before the text does");
            code.push(next);
            at += next.len_utf8();
        }
    }
    code
}

fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    // Block comments nest.
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    Some(rest.len())
}

fn string(rest: &str, before: &str) -> Option<usize> {
    if rest.starts_with('"') {
        return Some(end_of_quoted(rest, '"'));
    }
    // An `r` that ends a longer name does not open a raw string.
    let in_name = before.ends_with(|c: char| (c.is_alphanumeric() && c != 'b') || c == '_');
    let raw = rest.strip_prefix('r').filter(|_| !in_name)?;
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    let body = raw[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let opened = rest.len() - body.len();
    Some(body.find(&close).map_or(rest.len(), |end| opened + end + close.len()))
}

fn character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    if first == '\\' {
        return Some(end_of_quoted(rest, '\''));
    }
    // A lifetime has no closing quote after its first letter.
    inside[first.len_utf8()..].starts_with('\'').then_some(first.len_utf8() + 2)
}

fn end_of_quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        code_only(text).split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn comments_strings_and_characters_vanish_and_code_stays() {
        assert_eq!(words("a // unsafe\nb"), ["a", "b"]);
        assert_eq!(words("a /* x /* y */ z */ b"), ["a", "b"]);
        assert_eq!(words(r#"a "un\"safe" b"#), ["a", "b"]);
        assert_eq!(words("a r#\"un\"safe\"# b br\"x\" c"), ["a", "b", "b", "c"]);
        assert_eq!(words(r"a '\'' b '/' c '/' d"), ["a", "b", "c", "d"]);
        assert_eq!(words("fn f<'a>(x: &'a str) {}"), ["fn", "f<'a>(x:", "&'a", "str)", "{}"]);
        assert_eq!(words("for\"x\" var\"y\""), ["for", "var"]);
    }

    #[test]
    fn line_numbers_stay() {
        let text = "a\n/* b\nc */\n\"d\ne\"\nf";
        assert_eq!(code_only(text).lines().count(), text.lines().count());
        assert_eq!(code_only(text).lines().last(), Some("f"));
        let wide = "a // ü\n\"é\" b";
        assert_eq!((code_only(wide).len(), code_only(wide).find('b')), (wide.len(), wide.find('b')));
    }

    #[test]
    fn what_never_closes_ends_with_the_text() {
        for text in ["/* a", "\"a", "r##\"a\"#", "'\\", "é // ü", "'é' x"] {
            code_only(text);
        }
    }

    #[test]
    fn what_follows_the_declaration_of_a_module_for_tests_is_not_cut_off() {
        let text = "#[cfg(test)]\nmod schema;\nmod server;\n";
        assert_eq!(before_tests(text), text);
    }

    #[test]
    fn tests_are_cut_off() {
        assert_eq!(before_tests("a\n#[cfg(test)]\nmod tests {}\n"), "a\n");
        assert_eq!(before_tests("a\n#[cfg(test)]\npub(in super::super) mod tests {}\n"), "a\n");
        assert_eq!(before_tests("a\n#[cfg(test)]\nfn only_here() {}\nb\n"), "a\n#[cfg(test)]\nfn only_here() {}\nb\n");
    }
}

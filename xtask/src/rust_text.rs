//! Enough of Rust's grammar to tell code from comments and strings, for rules that look for words in code.

use std::ops::Range;

/// A source file without its modules of unit tests. Line numbers stay: a module that is not last leaves empty lines.
pub fn without_tests(text: &str) -> String {
    let code = code_only(text);
    let mut kept = String::with_capacity(text.len());
    let mut lines = text.split_inclusive('\n').zip(code.split_inclusive('\n')).peekable();
    while let Some((line, _)) = lines.next() {
        let opens_tests = line.trim() == "#[cfg(test)]" && lines.peek().is_some_and(|(_, next)| is_module(next));
        if !opens_tests {
            kept.push_str(line);
            continue;
        }
        // rustfmt puts the end where the beginning is.
        let indentation = &line[..line.len() - line.trim_start().len()];
        let is_end = |code: &str| code.strip_prefix(indentation).is_some_and(|rest| rest.trim_end() == "}");
        let mut gap = String::from("\n");
        let mut is_first = true;
        for (_, code) in lines.by_ref() {
            gap.push('\n');
            if is_end(code) || is_first && code.trim_end().ends_with("{}") {
                break;
            }
            is_first = false;
        }
        if lines.peek().is_some() {
            kept.push_str(&gap);
        }
    }
    kept
}

/// Whether a line opens a module; one in a file of its own is only declared.
fn is_module(line: &str) -> bool {
    let line = line.trim();
    let module = line.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")).map_or(line, |(_, rest)| rest);
    module.starts_with("mod ") && !line.ends_with(';')
}

/// The text with comments and the insides of strings and character literals blanked; every line and byte stays where it was.
pub fn code_only(text: &str) -> String {
    code_and_strings(text).0
}

/// As [`code_only`], with a quote where each string begins: a string that is a pattern is something.
pub fn code_with_quotes(text: &str) -> String {
    let (code, strings) = code_and_strings(text);
    let mut code = code.into_bytes();
    strings.iter().for_each(|string| code[string.start] = b'"');
    String::from_utf8(code).expect("a blanked byte is one letter")
}

/// As [`code_only`], with the place of each string, from its first quote or `r` on.
pub fn code_and_strings(text: &str) -> (String, Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(text.len());
    let mut strings = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        // Most bytes begin nothing, and half a million lines are read several times: these are copied in one piece.
        let plain = bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'r' | b'/' | b'\''));
        let plain = plain.unwrap_or(bytes.len() - at);
        if plain > 0 {
            code.push_str(&text[at..at + plain]);
            at += plain;
            continue;
        }
        let rest = &text[at..];
        let quoted = string(rest, &code);
        strings.extend(quoted.map(|length| at..at + length));
        let skipped = quoted.or_else(|| comment(rest)).or_else(|| character(rest));
        if let Some(length) = skipped {
            blank(&rest[..length], &mut code);
            at += length;
        } else {
            code.push_str(&rest[..1]);
            at += 1;
        }
    }
    (code, strings)
}

/// Adds a space for each byte. Line ends stay, so that line numbers do.
fn blank(text: &str, code: &mut String) {
    for line in text.split_inclusive('\n') {
        let ends = line.ends_with('\n');
        code.push_str(&" ".repeat(line.len() - usize::from(ends)));
        code.push_str(if ends { "\n" } else { "" });
    }
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
        assert_eq!(without_tests(text), text);
    }

    #[test]
    fn what_follows_a_module_of_tests_is_looked_at() {
        let text = "a\n#[cfg(test)]\nmod tests {\n    fn f() {}\n    const A: &str = r#\"\n}\n\"#;\n}\nb\n";
        assert_eq!(without_tests(text), "a\n\n\n\n\n\n\n\nb\n");
        assert_eq!(
            without_tests("mod m {\n    #[cfg(test)]\n    mod tests {\n    }\n    b\n}\n"),
            "mod m {\n\n\n\n    b\n}\n"
        );
    }

    #[test]
    fn tests_are_cut_off() {
        assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests {}\n"), "a\n");
        assert_eq!(without_tests("a\n#[cfg(test)]\npub(in super::super) mod tests {}\n"), "a\n");
        assert_eq!(without_tests("a\n#[cfg(test)]\nfn only_here() {}\nb\n"), "a\n#[cfg(test)]\nfn only_here() {}\nb\n");
    }
}

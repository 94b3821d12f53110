//! What is matched or compared in code, told by its text: for checks that look for who makes a value and who only asks about one.
//!
//! All of it reads code whose comments and strings are blanked.

/// How far the end of the groups around a pattern is looked for, bytes.
const REACH: usize = 4096;

/// Whether what ends here is a pattern: of an arm, with or without a condition, an alternative, a `let`, a parameter.
pub fn is_matched(after: &str) -> bool {
    let rest = after_group(after);
    is_end_of_pattern(rest, true) || ends_of_groups(rest).any(|(close, rest)| is_end_of_pattern(rest, close != '}'))
}

/// Whether it is an element of a list that is only asked what it contains.
pub fn is_listed_and_compared(after: &str) -> bool {
    let asks = |rest: &str| [".contains(", ".iter().any(", ".iter().all("].iter().any(|call| rest.starts_with(call));
    ends_of_groups(after_group(after)).any(|(close, rest)| close == ']' && asks(rest.trim_start()))
}

/// `has_condition`: whether an `if` can belong to it. After a block it begins the next statement.
fn is_end_of_pattern(rest: &str, has_condition: bool) -> bool {
    let rest = rest.trim_start();
    let begins = |sign: &str, longer: &str| rest.starts_with(sign) && !rest.starts_with(longer);
    rest.starts_with("=>")
        || begins("|", "||")
        || begins("=", "==")
        || begins(":", "::")
        || has_condition && rest.starts_with("if ")
}

/// The groups around this place that end in the same statement: the closing letter and what follows it.
fn ends_of_groups(text: &str) -> impl Iterator<Item = (char, &str)> {
    let mut depth = 0usize;
    let mut letters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        while let Some((at, letter)) = letters.next().filter(|(at, _)| *at < REACH) {
            match letter {
                '(' | '{' | '[' => depth += 1,
                ')' | '}' | ']' if depth > 0 => depth -= 1,
                ')' | '}' | ']' => return Some((letter, &text[at + 1..])),
                ';' if depth == 0 => return None,
                // The next arm: this was an expression.
                '=' if depth == 0 && letters.peek().is_some_and(|(_, next)| *next == '>') => return None,
                _ => {}
            }
        }
        None
    })
    .fuse()
}

/// What follows the fields or arguments.
pub fn after_group(text: &str) -> &str {
    let rest = text.trim_start();
    if !rest.starts_with(['(', '{']) {
        return text;
    }
    let mut depth = 0usize;
    for (at, letter) in rest.char_indices() {
        match letter {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &rest[at + 1..];
        }
    }
    ""
}

/// Whether it stands behind the comma of a `matches!(` that has not ended.
pub fn is_in_matches(before: &str) -> bool {
    let Some(at) = before.rfind("matches!(") else { return false };
    let inside = &before[at + "matches!".len()..];
    let mut depth = 0usize;
    for letter in inside.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return false;
        }
    }
    // The expression itself may make one; the patterns stand behind its comma.
    inside.contains(',')
}

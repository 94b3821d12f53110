//! Commands in pages of docs/guide, and whether what they print is what stands there.

use std::path::Path;

/// What begins a command whose output follows.
const PROMPT: &str = "    $ surefoot ";
/// What stands in the page for lines that were left out.
const LEFT_OUT: &str = "...";

pub fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(name)).unwrap()
}

/// The words of each command that is wanted, with the lines below it.
pub fn shown(page: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<(Vec<String>, Vec<String>)> {
    let mut found = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix(PROMPT).filter(|command| is_wanted(command)) else { continue };
        let mut output = Vec::new();
        while let Some(line) =
            lines.next_if(|line| line.is_empty() || line.starts_with("    ") && !line.starts_with(PROMPT))
        {
            output.push(line.strip_prefix("    ").unwrap_or(line).to_owned());
        }
        while output.last().is_some_and(String::is_empty) {
            output.pop();
        }
        found.push((command.split(' ').map(str::to_owned).collect(), output));
    }
    found
}

/// Whether the printed lines are the shown ones, of which some stand for any number of lines.
pub fn is_shown(shown: &[String], printed: &[String]) -> Result<(), String> {
    let mut rest = printed;
    for (place, line) in shown.iter().enumerate() {
        if line == LEFT_OUT {
            let next = shown.get(place + 1);
            rest = &rest[rest.iter().position(|line| Some(line) == next).unwrap_or(rest.len())..];
        } else if rest.first() == Some(line) {
            rest = &rest[1..];
        } else {
            return Err(format!("the page shows '{line}', printed is {:?}", rest.first()));
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("the page lacks {rest:?}")) }
}

#[test]
fn a_line_that_is_another_is_found() {
    let lines = |text: &[&str]| text.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert_eq!(is_shown(&lines(&["a", "...", "d"]), &lines(&["a", "b", "c", "d"])), Ok(()));
    assert!(is_shown(&lines(&["a", "...", "x"]), &lines(&["a", "b", "d"])).is_err());
    assert!(is_shown(&lines(&["a"]), &lines(&["a", "b"])).is_err());
}

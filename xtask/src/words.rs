//! Plain words: phrases that mark a translated sentence, in texts that people read.
//!
//! Looked at: strings of the crates outside of tests, help texts of the command, and the page. Documents are for people to read;
//! a count of words does not tell a good one from a bad one.

use crate::judge::{Letters, is_source};
use crate::rust_text;
use crate::workspace::{Checked, Workspace};
use std::path::Path;

/// A phrase, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("a person is to", "manual action needed"),
    ("anew", "again, or restart, reload, start over"),
    ("at a moment of its own", "at a random time"),
    ("became of", "outcome of"),
    ("by itself", "alone, on its own, automatically"),
    ("by now", "now"),
    ("came of", "outcome of"),
    ("come to its end", "finish"),
    ("comes to its end", "finishes"),
    ("for ever", "forever, or say what blocks it"),
    ("goes bad", "is degrading, or is damaged"),
    ("he is", "name the user or thread"),
    ("hangs still", "is still hung"),
    ("he runs", "name the user or thread"),
    ("him", "name the user or thread"),
    ("his", "name the user or thread"),
    ("in vain", "failed, and why"),
    ("is borne", "is tolerated"),
    ("is to be", "say what to do: replace it"),
    ("manieth", "Nth"),
    ("meanwhile", "in between, since then"),
    ("nobody", "no process, no user, nothing"),
    ("of its own", "its own"),
    ("of their own", "their own"),
    ("of theirs", "their"),
    ("so many", "N, or at least that many"),
    ("stand still", "stop, stall"),
    ("stands still", "has stopped, stalls"),
    ("stood still", "stalled"),
    ("told of", "reported"),
    ("was told", "was notified, reported"),
    ("went bad", "failed, was damaged"),
    ("what it comes to", "its effect"),
    ("what stood", "the data"),
    ("whatever", "regardless of, despite"),
    ("whoever", "name who: a process, a user"),
];

/// Where such a phrase is the term, or a name.
const TERMS: &[&str] = &["--anew", "anew or continue"];

/// Complains of each such phrase.
pub fn check(workspace: &Workspace) -> Result<Checked, String> {
    let Some(files) = workspace.files() else {
        return Ok(Checked::NotRun("this is not a git checkout, and the files are listed by git".into()));
    };
    let mut faults = Vec::new();
    let mut count = 0;
    for file in &files {
        let Some(text) = workspace.text(file) else { continue };
        let texts = if is_source(file) {
            texts_of_rust(file, &text)
        } else if is_page(file) {
            texts_of_page(&text)
        } else {
            continue;
        };
        count += texts.len();
        for (line, text) in texts {
            for (phrase, instead) in found(&text) {
                faults.push(format!("{}:{line}: \"{phrase}\" in '{text}'; write {instead}", file.display()));
            }
        }
    }
    Ok(Checked::from_faults(faults, format!("{count} texts that people read are in plain words")))
}

fn is_page(file: &Path) -> bool {
    file.starts_with("ui/src") && file.extension().is_some_and(|extension| extension == "ts" || extension == "tsx")
}

/// The strings with a space in them, and the help texts.
fn texts_of_rust(file: &Path, text: &str) -> Vec<(usize, String)> {
    let text = rust_text::without_tests(text);
    let letters = Letters::of(&text);
    let strings = letters.strings().filter(|(_, inside, _)| inside.contains(' '));
    let mut texts: Vec<_> = strings.map(|(at, inside, _)| (letters.line(at), inside)).collect();
    let has_help = ["derive(Args", "derive(Parser", "derive(Subcommand", "Args)]", "ValueEnum)]", "Subcommand)]"];
    if file.starts_with("crates/cli") && has_help.iter().any(|derive| text.contains(derive)) {
        let help = text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, line.trim().strip_prefix("///")?)));
        texts.extend(help.map(|(line, help)| (line, help.trim().to_owned())));
    }
    texts
}

/// The lines without their comments.
fn texts_of_page(text: &str) -> Vec<(usize, String)> {
    let code = |line: &str| {
        let line = line.trim();
        let is_comment = line.starts_with("//") || line.starts_with('*') || line.starts_with("/*");
        let code = line.split(" // ").next().unwrap_or_default();
        (!is_comment && !code.is_empty()).then(|| code.to_owned())
    };
    text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, code(line)?))).collect()
}

/// The phrases in a text.
fn found(text: &str) -> Vec<(&'static str, &'static str)> {
    let mut plain = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    for term in TERMS {
        plain = plain.replace(term, "");
    }
    let is_letter = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let stands = |phrase: &str| {
        plain.match_indices(phrase).any(|(at, _)| {
            !is_letter(plain[..at].chars().next_back()) && !is_letter(plain[at + phrase.len()..].chars().next())
        })
    };
    PHRASES.iter().filter(|(phrase, _)| stands(phrase)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrases(texts: Vec<(usize, String)>) -> Vec<(usize, &'static str)> {
        texts.iter().flat_map(|(line, text)| found(text).into_iter().map(|(phrase, _)| (*line, phrase))).collect()
    }

    #[test]
    fn a_phrase_is_found_in_strings_and_help_and_nowhere_else() {
        let text = "// nobody knows\n/// Whoever reads it.\n#[derive(Args)]\nstruct A;\nfn nobody() {}\nlet c = \"ends \"; nobody(\"\"); let a = \"told\\\n   of it, Nobody's\";\nlet b = \"nobody\";\n#[cfg(test)]\nmod tests { \"by itself it\" }";
        let of_cli = phrases(texts_of_rust(Path::new("crates/cli/src/a.rs"), text));
        assert_eq!(of_cli, [(6, "nobody"), (6, "told of"), (2, "whoever")]);
        let of_other = phrases(texts_of_rust(Path::new("crates/nic/src/a.rs"), text));
        assert_eq!(of_other, [(6, "nobody"), (6, "told of")]);
    }

    #[test]
    fn words_are_whole_and_terms_are_not_phrases() {
        for text in ["this history", "anewer", "nothing was attached (--anew attaches)", "cannot be told apart"] {
            assert!(found(text).is_empty(), "{text}");
        }
        assert_eq!(found("it was read anew.").len(), 1);
    }

    #[test]
    fn the_page_is_looked_at_without_its_comments() {
        let text = "// nobody\n<p>Nobody reads this.</p>\nconst a = 1; // whatever\n * by itself\n";
        assert_eq!(phrases(texts_of_page(text)), [(2, "nobody")]);
    }
}

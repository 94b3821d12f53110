//! The account of a command that changes files: what is known to be done if it ends before its time.

use std::sync::OnceLock;
use surefoot_model::one_line;
use surefoot_sys::answering::Account;

static ACCOUNT: OnceLock<Account> = OnceLock::new();

/// Names that are told; of more only the number.
const NAMES_MAX: usize = 12;

/// From now on this process keeps that account.
pub fn keep(account: Account) {
    let _ = ACCOUNT.set(account);
}

/// Replaces what was said before. Without a parent that waits for it nothing is kept.
pub fn say(text: &str) {
    if let Some(account) = ACCOUNT.get() {
        account.say(&one_line(text));
    }
}

/// The account of one thing after the other.
pub struct Steps {
    done_word: &'static str,
    total: usize,
    done: Vec<String>,
    done_count: usize,
    doing: Option<String>,
}

impl Steps {
    /// So many things are to be `done_word`, such as `removed`.
    pub fn new(done_word: &'static str, total: usize) -> Steps {
        let steps = Steps { done_word, total, done: Vec::new(), done_count: 0, doing: None };
        say(&steps.text());
        steps
    }

    /// This one is begun.
    pub fn begin(&mut self, name: impl Into<String>) {
        self.doing = Some(name.into());
        say(&self.text());
    }

    /// The one that was begun is done, or it was left as it was: `outcome`.
    pub fn end(&mut self, outcome: &str) {
        let Some(name) = self.doing.take() else { return };
        self.done_count += 1;
        if self.done.len() < NAMES_MAX {
            self.done.push(format!("{name} ({outcome})"));
        }
        say(&self.text());
    }

    fn text(&self) -> String {
        let Steps { done_word, total, done, done_count, doing } = self;
        let left = total.saturating_sub(done_count + usize::from(doing.is_some()));
        let mut text = match done_count {
            0 => format!("nothing is known to be {done_word}"),
            _ => format!("{done_count} of {total} finished: {}", done.join(", ")),
        };
        match done_count - done.len() {
            0 => {}
            more => text += &format!(" and {more} more"),
        }
        if let Some(name) = doing {
            text += &format!("; begun, and not known to be {done_word}: {name}");
        }
        if left > 0 {
            text += &format!("; not begun: {left}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Steps;

    #[test]
    fn what_is_begun_is_not_told_as_done() {
        let mut steps = Steps::new("removed", 3);
        assert_eq!(steps.text(), "nothing is known to be removed; not begun: 3");
        steps.begin("a");
        assert_eq!(steps.text(), "nothing is known to be removed; begun, and not known to be removed: a; not begun: 2");
        steps.end("removed");
        steps.begin("b");
        let text = "1 of 3 finished: a (removed); begun, and not known to be removed: b; not begun: 1";
        assert_eq!(steps.text(), text);
        steps.end("left alone");
        steps.begin("c");
        steps.end("removed");
        assert_eq!(steps.text(), "3 of 3 finished: a (removed), b (left alone), c (removed)");
    }

    #[test]
    fn of_many_names_the_rest_is_counted() {
        let mut steps = Steps::new("removed", 20);
        (0..20).for_each(|number| {
            steps.begin(format!("job {number}"));
            steps.end("removed");
        });
        assert!(steps.text().ends_with("job 11 (removed) and 8 more"), "{}", steps.text());
    }
}

//! A bar on the terminal for what takes long.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use surefoot_console::words::{size, time};

const WIDTH: usize = 30;

/// Between two drawings.
const STEP: Duration = Duration::from_millis(100);

/// A bar on standard error, where that is a terminal.
pub struct Bar {
    what: String,
    began: Instant,
    drawn: Option<Instant>,
    drawn_chars: usize,
    is_shown: bool,
}

impl Bar {
    pub fn new(what: impl Into<String>) -> Self {
        let is_shown = std::io::stderr().is_terminal();
        Bar { what: what.into(), began: Instant::now(), drawn: None, drawn_chars: 0, is_shown }
    }

    /// So many bytes of so many are done.
    pub fn show(&mut self, done: u64, total: u64) {
        if !self.is_shown || self.drawn.unwrap_or(self.began).elapsed() < STEP {
            return;
        }
        self.drawn = Some(Instant::now());
        let text = line(&self.what, done.min(total), total, self.began.elapsed());
        self.write(&text);
    }

    fn write(&mut self, text: &str) {
        let chars = text.chars().count();
        let rest = " ".repeat(self.drawn_chars.saturating_sub(chars));
        self.drawn_chars = chars;
        // A terminal that went away is no reason to stop.
        let _ = write!(std::io::stderr(), "\r{text}{rest}");
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            self.write("");
            let _ = write!(std::io::stderr(), "\r");
        }
    }
}

fn line(what: &str, done: u64, total: u64, took: Duration) -> String {
    let share = if total == 0 { 1.0 } else { done as f64 / total as f64 };
    let filled = (share * WIDTH as f64) as usize;
    let rate = done as f64 / took.as_secs_f64().max(1e-3);
    let left = if rate > 0.0 { time((total - done) as f64 / rate) } else { "-".into() };
    let what: String = what.chars().take(30).collect();
    let bar = format!("{}{}", "#".repeat(filled), ".".repeat(WIDTH - filled));
    format!("[{bar}] {:3.0} %  {}/s  {left} left  {what}", share * 100.0, size(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_says_how_long() {
        let text = line("model.pt", 500_000_000, 1_000_000_000, Duration::from_secs(2));
        assert_eq!(
            text,
            "[###############...............]  50 %  250 MB/s  2.00 min left  model.pt".replace("2.00 min", "2.00 s")
        );
        assert!(line("x", 0, 0, Duration::ZERO).contains("100 %"));
    }
}

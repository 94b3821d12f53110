//! What keys do. No clock and no terminal here: the caller says what time it is, and hands on what the session asks for.

use crate::kept::{Kept, Shown};
use crate::keys::Key;
use crate::panes::{Pane, View};
use crate::past::{Seen, Want};
use std::sync::Arc;
use surefoot_console::when;
use surefoot_model::Severity;

/// Letters of a line that is typed.
const INPUT_MAX: usize = 60;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;

/// How the screen may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Whether it may have colours.
    pub colours: bool,
}

/// What to do after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Nothing changed.
    Nothing,
    /// Draw.
    Draw,
    /// Draw all of it, whatever the terminal shows.
    DrawAll,
    /// Read the history and call [`Session::answer`].
    Ask(Want),
    /// End the watch.
    Quit,
}

/// Which moment is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Live,
    /// It stands since this time, nanoseconds since 1970.
    Paused {
        since_ns: i64,
    },
    /// A window that is kept, by its number.
    Second(u64),
    /// A span of the history.
    History,
}

/// A line that is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Filter,
    Time(String),
}

/// What the user of a screen did so far, and what the screen shows.
pub struct Session {
    pub(crate) look: Look,
    pub(crate) moment: Moment,
    pub(crate) shown: Arc<Shown>,
    /// How bad it is now, whatever moment is shown.
    pub(crate) live_severity: Severity,
    pub(crate) focus: usize,
    pub(crate) views: [View; Pane::ALL.len()],
    pub(crate) input: Option<Input>,
    /// What the last key came to, until the next one.
    pub(crate) message: String,
    /// Lines of the help above the first in sight; `None` without help.
    pub(crate) help: Option<usize>,
    /// Lines of the help below the last in sight, as it was drawn last.
    pub(crate) help_below: usize,
    /// Whether keys arrive.
    pub(crate) has_keys: bool,
    pub(crate) now_ns: i64,
}

impl Session {
    /// A session that begins.
    pub fn new(look: Look) -> Self {
        Session {
            look,
            moment: Moment::Live,
            shown: Arc::default(),
            live_severity: Severity::Ok,
            focus: 0,
            views: Default::default(),
            input: None,
            message: String::new(),
            help: None,
            help_below: 0,
            has_keys: true,
            now_ns: 0,
        }
    }

    /// The same for a terminal that no keys come from.
    pub fn without_keys(self) -> Self {
        Session { has_keys: false, ..self }
    }

    /// The pane that keys are for.
    pub fn focus(&self) -> Pane {
        Pane::ALL[self.focus]
    }

    /// What the screen shows.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// There is news; the time is nanoseconds since 1970.
    pub fn refresh(&mut self, kept: &Kept, now_ns: i64) {
        self.now_ns = now_ns;
        self.live_severity = kept.severity();
        if self.moment == Moment::Live {
            self.shown = Arc::new(kept.live());
        }
    }

    /// A key was pressed, at this time in nanoseconds since 1970.
    pub fn key(&mut self, key: Key, kept: &Kept, now_ns: i64) -> Then {
        self.now_ns = now_ns;
        if key == Key::Interrupt {
            return Then::Quit;
        }
        if key == Key::Redraw {
            return Then::DrawAll;
        }
        self.message.clear();
        if self.help.is_some() {
            return self.key_in_help(key);
        }
        if self.input.is_some() {
            return self.key_in_line(key, kept);
        }
        match key {
            Key::Char('q') => return Then::Quit,
            Key::Char('?' | 'h') => self.help = Some(0),
            Key::Char('p') => self.pause(kept),
            Key::Char('l') => self.live(kept),
            Key::Char(',' | '<') => return self.back(kept),
            Key::Char('.' | '>') => return self.forward(kept),
            Key::Char('/') => self.input = Some(Input::Filter),
            Key::Char('t') => self.input = Some(Input::Time(String::new())),
            Key::Char('s') => self.sort(),
            Key::Tab | Key::Right => self.focus = (self.focus + 1) % Pane::ALL.len(),
            Key::BackTab | Key::Left => self.focus = (self.focus + Pane::ALL.len() - 1) % Pane::ALL.len(),
            Key::Char(digit @ '1'..='9') => self.focus = digit as usize - '1' as usize,
            Key::Escape => self.view().filter.clear(),
            _ => return self.scroll(key),
        }
        Then::Draw
    }

    pub(crate) fn view(&mut self) -> &mut View {
        &mut self.views[self.focus]
    }

    fn sort(&mut self) {
        let sorts = self.focus().sorts().len();
        if sorts == 0 {
            self.message = "The rows here stand in order of urgency.".to_owned();
            return;
        }
        let view = self.view();
        view.sort = (view.sort + 1) % sorts;
        view.offset = 0;
    }

    /// The drawing knows how far it goes.
    fn scroll(&mut self, key: Key) -> Then {
        let view = self.view();
        let page = view.page.saturating_sub(1).max(1);
        view.offset = match key {
            Key::Up | Key::Char('k') => view.offset.saturating_sub(1),
            Key::Down | Key::Char('j') => view.offset.saturating_add(1),
            Key::PageUp | Key::Char('b') => view.offset.saturating_sub(page),
            Key::PageDown | Key::Char(' ') => view.offset.saturating_add(page),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => usize::MAX,
            _ => return Then::Nothing,
        };
        Then::Draw
    }

    fn key_in_help(&mut self, key: Key) -> Then {
        let offset = self.help.unwrap_or(0);
        self.help = match key {
            Key::Up | Key::Char('k') => Some(offset.saturating_sub(1)),
            Key::Down | Key::Char('j') => Some(offset.saturating_add(1)),
            Key::PageUp | Key::Char('b') => Some(offset.saturating_sub(10)),
            Key::PageDown | Key::Char(' ') => Some(offset.saturating_add(10)),
            Key::Home | Key::Char('g') => Some(0),
            Key::End | Key::Char('G') => Some(usize::MAX),
            _ => None,
        };
        Then::Draw
    }

    fn key_in_line(&mut self, key: Key, kept: &Kept) -> Then {
        let Some(input) = self.input.take() else { return Then::Nothing };
        match (input, key) {
            (Input::Filter, Key::Escape) => self.view().filter.clear(),
            (Input::Filter, Key::Enter) => {}
            (Input::Filter, key) => {
                let view = self.view();
                edit(&mut view.filter, key);
                view.offset = 0;
                self.input = Some(Input::Filter);
            }
            (Input::Time(_), Key::Escape) => {}
            (Input::Time(text), Key::Enter) => return self.go_to(&text, kept),
            (Input::Time(mut text), key) => {
                edit(&mut text, key);
                self.input = Some(Input::Time(text));
            }
        }
        Then::Draw
    }

    fn pause(&mut self, kept: &Kept) {
        match self.moment {
            Moment::Live => self.moment = Moment::Paused { since_ns: self.now_ns },
            Moment::Paused { .. } => self.live(kept),
            _ => self.message = "A past moment does not change; l goes back to live.".to_owned(),
        }
    }

    fn live(&mut self, kept: &Kept) {
        self.moment = Moment::Live;
        self.shown = Arc::new(kept.live());
    }

    fn show(&mut self, number: u64, kept: &Kept) -> Then {
        if let Some(shown) = kept.at(number) {
            self.moment = Moment::Second(number);
            self.shown = Arc::new(shown);
        }
        Then::Draw
    }

    fn back(&mut self, kept: &Kept) -> Then {
        let numbers = kept.numbers();
        let before = match self.moment {
            Moment::Live => numbers.end.checked_sub(1),
            // The newest second that the display stood at.
            Moment::Paused { .. } => kept.number_at(self.shown.until_realtime_ns.saturating_sub(1)),
            Moment::Second(number) => number.checked_sub(1),
            Moment::History => None,
        };
        match before.filter(|number| numbers.contains(number)) {
            Some(number) => self.show(number, kept),
            None if numbers.is_empty() => self.say("There are no data yet."),
            None => Then::Ask(Want::Before(self.shown.from_realtime_ns)),
        }
    }

    fn forward(&mut self, kept: &Kept) -> Then {
        let numbers = kept.numbers();
        match self.moment {
            Moment::Live => self.say("This is live; , goes back."),
            Moment::Paused { .. } => {
                self.live(kept);
                Then::Draw
            }
            Moment::Second(number) if number + 1 >= numbers.end => {
                self.say("This is the newest second; l goes on live.")
            }
            Moment::Second(number) if numbers.contains(&(number + 1)) => self.show(number + 1, kept),
            // What is kept has moved on, or the history comes to it.
            _ => {
                // By where this one begins: the next one may begin a little before this one ends.
                let next_ns = self.shown.from_realtime_ns.saturating_add(1);
                match kept.number_at(next_ns) {
                    Some(number) => self.show(number, kept),
                    None => Then::Ask(Want::From(next_ns)),
                }
            }
        }
    }

    fn say(&mut self, text: &str) -> Then {
        self.message = text.to_owned();
        Then::Draw
    }

    fn go_to(&mut self, text: &str, kept: &Kept) -> Then {
        if text.trim().is_empty() {
            return Then::Draw;
        }
        let at_ns = match moment_of(text, self.now_ns) {
            Ok(at_ns) => at_ns,
            Err(why) => return self.say(&why),
        };
        if at_ns > self.now_ns {
            return self.say("That time is still to come.");
        }
        match kept.number_at(at_ns) {
            Some(number) => self.show(number, kept),
            None => Then::Ask(Want::At(at_ns)),
        }
    }

    /// What the history says to [`Then::Ask`]; `None` where the watch keeps none.
    pub fn answer(&mut self, want: Want, answer: Option<Result<Option<Seen>, String>>, kept: &Kept) {
        let numbers = kept.numbers();
        let oldest = kept.time_of(numbers.start).map(|(start_ns, _)| start_ns);
        let since = oldest.map_or("nothing yet".to_owned(), |start_ns| format!("{} UTC", when::second(start_ns)));
        match answer {
            None => {
                self.message = format!("In memory since {since}; this watch keeps no history (--history FILE).");
            }
            Some(Err(why)) => self.message = format!("The history cannot be read: {why}"),
            // What is in memory is finer.
            Some(Ok(Some(seen))) if oldest.is_some_and(|oldest| seen.start_realtime_ns >= oldest) => {
                if let Some(number) = kept.number_at(seen.start_realtime_ns) {
                    self.show(number, kept);
                }
            }
            Some(Ok(Some(seen))) => {
                self.moment = Moment::History;
                self.shown = Arc::new(kept.of_history(seen));
            }
            Some(Ok(None)) => match want {
                Want::From(_) if !numbers.is_empty() => _ = self.show(numbers.start, kept),
                _ => self.message = "The history has nothing of that time.".to_owned(),
            },
        }
    }
}

fn edit(text: &mut String, key: Key) {
    match key {
        Key::Char(letter) if text.chars().count() < INPUT_MAX && !surefoot_model::is_harmful(letter) => {
            text.push(letter);
        }
        Key::Backspace => _ = text.pop(),
        Key::Clear => text.clear(),
        _ => {}
    }
}

/// As [`when::parse`], and a time of the day by itself: the last time that it was that late.
fn moment_of(text: &str, now_ns: i64) -> Result<i64, String> {
    let text = text.trim();
    let is_clock = text.contains(':') && text.chars().all(|letter| letter.is_ascii_digit() || letter == ':');
    if !is_clock {
        return when::parse(text, now_ns);
    }
    // One digit of the hour is enough for people.
    let padded = if text.find(':') == Some(1) { format!("0{text}") } else { text.to_owned() };
    let today_ns = when::parse(&format!("today {padded}"), now_ns)?;
    Ok(if today_ns > now_ns { today_ns - DAY_NS } else { today_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next second of a watch may begin a little before the one that is shown ends.
    #[test]
    fn a_press_asks_for_the_next_second_of_the_history_and_skips_none() {
        const SECOND_NS: i64 = 1_000_000_000;
        let seen = Seen {
            start_realtime_ns: 10 * SECOND_NS,
            end_realtime_ns: 11 * SECOND_NS + 300,
            cores: Vec::new(),
            faulty: Vec::new(),
            gaps: Vec::new(),
            findings: Vec::new(),
        };
        let next_start_ns = 11 * SECOND_NS + 100;
        let (kept, mut session) = (Kept::default(), Session::new(Look { colours: false }));
        session.answer(Want::At(10 * SECOND_NS), Some(Ok(Some(seen))), &kept);
        let Then::Ask(Want::From(from_ns)) = session.key(Key::Char('.'), &kept, 100 * SECOND_NS) else { panic!() };
        assert!(from_ns > 10 * SECOND_NS && from_ns <= next_start_ns, "{from_ns}");
    }

    #[test]
    fn a_time_of_the_day_is_the_last_one() {
        // 2026-11-22T14:05:06Z.
        let now_ns = 1_795_356_306_000_000_000;
        for (text, same) in [
            ("14:05", "2026-11-22 14:05:00"),
            ("9:30", "2026-11-22 09:30:00"),
            ("14:05:07", "2026-11-21 14:05:07"),
            (" -10m ", "2026-11-22 13:55:06"),
            ("yesterday 03:00", "2026-11-21 03:00:00"),
        ] {
            assert_eq!(moment_of(text, now_ns).map(when::second).as_deref(), Ok(same), "{text}");
        }
        for text in ["25:00", "14:", "::", "x"] {
            assert!(moment_of(text, now_ns).is_err(), "{text}");
        }
    }
}

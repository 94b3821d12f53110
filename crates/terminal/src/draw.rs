//! The screen as cells.

use crate::body::{Body, Styled, cut, wrap, wrap_at_most};
use crate::help::HELP;
use crate::panes::{self, Pane, style_of};
use crate::session::{Input, Moment, Session};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use surefoot_console::people::one_line;
use surefoot_console::units::duration;
use surefoot_console::when;
use unicode_width::UnicodeWidthStr;

/// Lines of the headline.
const HEADLINE_LINES: usize = 3;
/// Lines of what was lost, where the headline says something else.
const LOST_TIME_LINES: usize = 2;
/// A pane has so many columns at least where several stand beside each other.
const PANE_WIDTH: u16 = 96;
/// A long pane has so many lines before the next one has some.
const PANE_HEIGHT: u16 = 15;
/// No pane is lower than this below another.
const PANE_HEIGHT_MIN: u16 = 6;
const BESIDE_MAX: u16 = 3;
const BELOW_MAX: u16 = 4;

/// The screen while it is drawn.
struct Canvas {
    buffer: Buffer,
    colours: bool,
}

impl Canvas {
    /// Writes a line; what has no room is not seen.
    fn line(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        let area = self.buffer.area;
        if y >= area.height || x >= area.width {
            return;
        }
        let style = if self.colours { style } else { Style { fg: None, bg: None, ..style } };
        let width = width.min(area.width - x);
        self.buffer.set_stringn(x, y, text, usize::from(width), style);
    }
}

impl Session {
    /// The screen of this size. Where a pane was scrolled beyond its end, the session learns of it.
    pub fn draw(&mut self, width: u16, height: u16) -> Buffer {
        let area = Rect::new(0, 0, width.clamp(1, 2_000), height.clamp(1, 1_000));
        let mut canvas = Canvas { buffer: Buffer::empty(area), colours: self.look.colours };
        let mut y = self.draw_top(&mut canvas);
        let bottom = area.height.saturating_sub(1);
        if y < bottom {
            self.draw_tabs(&mut canvas, y);
            y += 1;
            if let Some(offset) = self.help {
                let (offset, below) = draw_help(&mut canvas, y, bottom, offset);
                (self.help, self.help_below) = (Some(offset), below);
            } else if y < bottom {
                self.draw_panes(&mut canvas, y, bottom);
            }
            self.draw_bottom(&mut canvas, bottom);
        }
        canvas.buffer
    }

    /// Headline, and what the numbers are of. Returns the line below.
    fn draw_top(&self, canvas: &mut Canvas) -> u16 {
        let area = canvas.buffer.area;
        let width = usize::from(area.width);
        let shown = &self.shown;
        let headline = &shown.judged.headline;
        let lines_max = HEADLINE_LINES.min((usize::from(area.height) / 4).max(1));
        let sentence = format!("{}: {}", headline.severity, headline.sentence);
        let mut y = 0;
        for line in wrap_at_most(&sentence, width, lines_max) {
            let style = style_of(headline.severity).add_modifier(Modifier::BOLD);
            canvas.line(0, y, area.width, &line, style);
            y += 1;
        }
        let mut rows: Vec<Styled> = Vec::new();
        if let Some(lost_time) = &headline.lost_time {
            let lines = wrap_at_most(lost_time, width, lines_max.min(LOST_TIME_LINES));
            rows.extend(lines.into_iter().map(|line| (line, Style::new())));
        }
        rows.extend(self.standing());
        let mut about: Vec<String> = Vec::new();
        about.extend(shown.host.as_ref().map(|host| host.hostname.clone()));
        about.push(match self.moment {
            _ if shown.windows == 0 => "waiting for the first window".to_owned(),
            Moment::Live | Moment::Paused { .. } => format!("last {}", duration(shown.duration_ns)),
            _ => duration(shown.duration_ns),
        });
        about.extend(shown.host.as_ref().map(|host| host.source.clone()));
        about.extend(shown.address.as_ref().map(|address| format!("page {address}")));
        rows.push((cut(&one_line(&about.join(" \u{b7} ")), width), Style::new()));
        // Of a small screen most is for the panes.
        if area.height >= 10 {
            let missing = shown.host.as_ref().map_or("", |host| &host.missing);
            if !missing.is_empty() {
                rows.push((cut(&format!("Reduced: {}", one_line(missing)), width), Style::new()));
            }
            rows.extend(shown.banner.as_ref().map(|banner| (cut(&one_line(banner), width), Style::new())));
        }
        for (line, style) in rows {
            if y + 1 < area.height {
                canvas.line(0, y, area.width, &line, style);
                y += 1;
            }
        }
        y
    }

    /// What is said where the screen does not show the present.
    fn standing(&self) -> Option<Styled> {
        let shown = &self.shown;
        let clock = |at_ns: i64| when::second(at_ns)[11..].to_owned();
        let text = match self.moment {
            Moment::Live => return None,
            Moment::Paused { since_ns } => format!("PAUSED since {} UTC, collection goes on", clock(since_ns)),
            Moment::Second(_) => {
                let ago_ns = self.now_ns.saturating_sub(shown.until_realtime_ns).max(0);
                format!("AT {} UTC, {} ago", clock(shown.from_realtime_ns), when::stretch(ago_ns))
            }
            Moment::History => format!("AT {} UTC, from the history", when::second(shown.from_realtime_ns)),
        };
        let worse = match self.live_severity > shown.judged.headline.severity {
            true => format!("; the present is {}", self.live_severity),
            false => String::new(),
        };
        Some((format!("{text}{worse}; l goes on live"), Style::new().add_modifier(Modifier::REVERSED)))
    }

    /// The names of the panes; where they have no room, those around the one that keys are for.
    fn draw_tabs(&self, canvas: &mut Canvas, y: u16) {
        let width = canvas.buffer.area.width;
        let names: Vec<&str> = Pane::ALL.iter().map(|pane| pane.tab()).collect();
        let length =
            |range: std::ops::RangeInclusive<usize>| names[range].iter().map(|name| name.len() + 1).sum::<usize>();
        let mut first = 0;
        let last = names.len() - 1;
        // The pane after it is in sight, too.
        while first < self.focus && length(first..=(self.focus + 1).min(last)) + 3 > usize::from(width) {
            first += 1;
        }
        let mut x = 0;
        if first > 0 {
            canvas.line(0, y, 1, "<", Style::new());
            x = 2;
        }
        for (at, name) in names.iter().enumerate().skip(first) {
            let wide = u16::try_from(name.len()).unwrap_or(0);
            let more = if at < last { 2 } else { 0 };
            if x + wide + more > width && at > self.focus {
                canvas.line(width.saturating_sub(1), y, 1, ">", Style::new());
                break;
            }
            let style = match at == self.focus {
                true => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
                false => Style::new(),
            };
            canvas.line(x, y, wide, name, style);
            x += wide + 1;
        }
    }

    /// The pane that keys are for, and those after it for as long as there is room: below each other, and on a wide screen in several
    /// columns.
    fn draw_panes(&mut self, canvas: &mut Canvas, top: u16, bottom: u16) {
        let height = bottom - top;
        let beside = (canvas.buffer.area.width / PANE_WIDTH).clamp(1, BESIDE_MAX);
        let below = (height / PANE_HEIGHT).clamp(1, BELOW_MAX);
        let columns = split(canvas.buffer.area.width, beside);
        let mut drawn = 0;
        for (column, &(x, wide)) in columns.iter().enumerate() {
            let gap = u16::from(column + 1 < columns.len()) * 2;
            let mut y = top;
            while y < bottom && drawn < Pane::ALL.len() {
                let at = (self.focus + drawn) % Pane::ALL.len();
                let width = wide - gap;
                let body = panes::body(Pane::ALL[at], &self.shown, &self.views[at], usize::from(width));
                let wanted = u16::try_from(1 + body.head.len() + body.lines.len() + 1).unwrap_or(u16::MAX);
                let left = bottom - y;
                let is_last = drawn + 1 == Pane::ALL.len();
                // A part that is too low for the next one is for this one.
                let high = match wanted.min(height / below) {
                    high if left - high.min(left) >= PANE_HEIGHT_MIN && !is_last => high,
                    _ => left,
                };
                // On a low screen the tabs alone name a pane that is by itself.
                let has_title = high > 5 || beside > 1 || high < height;
                self.draw_pane(canvas, at, body, Rect::new(x, y, width, high), has_title);
                y += high;
                drawn += 1;
            }
        }
    }

    fn draw_pane(&mut self, canvas: &mut Canvas, at: usize, body: Body, area: Rect, has_title: bool) {
        let (pane, width) = (Pane::ALL[at], usize::from(area.width));
        let Body { about, head, lines, rest } = body;
        let mut y = area.y;
        let end = area.y + area.height;
        if has_title {
            let title = match about.is_empty() {
                true => pane.label().to_owned(),
                false => format!("{}: {about}", pane.label()),
            };
            let title = cut(&title, width);
            let title = format!("{title}{}", " ".repeat(width - title.width()));
            let style = Style::new().add_modifier(if at == self.focus { Modifier::REVERSED } else { Modifier::BOLD });
            canvas.line(area.x, y, area.width, &title, style);
            y += 1;
        }
        for (line, style) in head {
            if y < end {
                canvas.line(area.x, y, area.width, &line, style);
                y += 1;
            }
        }
        let mut room = usize::from(end.saturating_sub(y));
        let has_rest = lines.len() > room && room > 1;
        if has_rest {
            room -= 1;
        }
        let view = &mut self.views[at];
        view.offset = view.offset.min(lines.len().saturating_sub(room));
        view.page = room;
        let seen = view.offset..(view.offset + room).min(lines.len());
        for (line, style) in &lines[seen.clone()] {
            canvas.line(area.x, y, area.width, line, *style);
            y += 1;
        }
        if let (true, Some(rest)) = (has_rest, rest) {
            let style = Style::new().add_modifier(Modifier::BOLD);
            canvas.line(area.x, y, area.width, &cut(&rest(seen), width), style);
        }
    }

    fn draw_bottom(&self, canvas: &mut Canvas, y: u16) {
        let width = canvas.buffer.area.width;
        let filter = &self.views[self.focus].filter;
        let text = match &self.input {
            Some(Input::Filter) => format!("/{filter}_   filter rows by words; Enter keeps it, Escape clears it"),
            Some(Input::Time(text)) => format!("go to: {text}_   14:05, -10m, yesterday 03:00 (UTC)"),
            None if self.help.is_some() => match self.help_below {
                0 => "the end of the help: arrows scroll, any other key ends it".to_owned(),
                1 => "1 more line below: arrows scroll, any other key ends the help".to_owned(),
                below => format!("{below} more lines below: arrows and Space scroll, any other key ends the help"),
            },
            None if !self.message.is_empty() => one_line(&self.message),
            None if !self.has_keys => "no keys: standard input is not this terminal; Ctrl-C ends".to_owned(),
            None if !filter.is_empty() => format!("only rows with '{}'; Escape forgets them", one_line(filter)),
            None => "? help  Tab pane  / filter  s sort  p pause  t time  , . step  l live  q end".to_owned(),
        };
        canvas.line(0, y, width, &cut(&text, usize::from(width)), Style::new());
    }
}

/// A length in parts, each with its beginning.
fn split(length: u16, parts: u16) -> Vec<(u16, u16)> {
    let at = |part: u16| (u32::from(length) * u32::from(part) / u32::from(parts)) as u16;
    (0..parts).map(|part| (at(part), at(part + 1) - at(part))).collect()
}

/// Draws the help from a line on; returns the line that it could begin with, and how many are below those in sight.
fn draw_help(canvas: &mut Canvas, top: u16, bottom: u16, offset: usize) -> (usize, usize) {
    let width = canvas.buffer.area.width;
    let mut lines: Vec<Styled> = Vec::new();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    for text in HELP {
        let Some((term, meaning)) = text.split_once("    ") else {
            let style = if text.ends_with(':') { bold } else { Style::new() };
            lines.extend(wrap(text, usize::from(width), 0).into_iter().map(|line| (line, style)));
            continue;
        };
        let indent = if width >= 60 { 14 } else { 4 };
        let gap = " ".repeat(indent.max(term.width() + 2) - term.width());
        let said = wrap(meaning, usize::from(width).saturating_sub(indent), 0);
        // A long term has the first line for itself.
        let begins_beside = term.width() + 2 <= indent;
        if !begins_beside {
            lines.push((term.to_owned(), bold));
        }
        for (number, line) in said.into_iter().enumerate() {
            let before = if number == 0 && begins_beside { format!("{term}{gap}") } else { " ".repeat(indent) };
            lines.push((format!("{before}{line}"), Style::new()));
        }
    }
    let room = usize::from(bottom.saturating_sub(top));
    let offset = offset.min(lines.len().saturating_sub(room));
    for (y, (line, style)) in (top..bottom).zip(&lines[offset..]) {
        canvas.line(0, y, width, line, *style);
    }
    (offset, lines.len().saturating_sub(offset + room))
}

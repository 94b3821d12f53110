//! Rows and sentences in a number of columns.

use ratatui_core::style::{Modifier, Style};
use surefoot_console::people::one_line;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What the last column has at least, where it has something to say.
const LAST_MIN: usize = 27;
/// Between two columns.
const BETWEEN: usize = 2;

/// A line and how it looks.
pub(crate) type Styled = (String, Style);

/// A part of a pane that scrolls, with what stands still above and below it.
pub(crate) struct Body {
    /// What the pane shows, beside its name.
    pub(crate) about: String,
    /// Stands above the lines.
    pub(crate) head: Vec<Styled>,
    /// What scrolls.
    pub(crate) lines: Vec<Styled>,
    /// What says in one line what is out of sight, given the lines in sight.
    pub(crate) rest: Option<Rest>,
}

pub(crate) type Rest = Box<dyn Fn(std::ops::Range<usize>) -> String>;

/// A column of a table.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Words stand to the left, numbers to the right.
    pub(crate) is_words: bool,
    /// The column with the highest rank goes first where there is no room; one of rank 0 stays.
    pub(crate) rank: u8,
}

/// A column of numbers.
pub(crate) const fn number(name: &'static str, rank: u8) -> Column {
    Column { name, is_words: false, rank }
}

/// A column of words.
pub(crate) const fn words(name: &'static str, rank: u8) -> Column {
    Column { name, is_words: true, rank }
}

/// A table for a number of columns of a terminal. Its last column takes the rest of a line.
pub(crate) struct Table {
    /// Which columns are shown, and how wide.
    widths: Vec<(usize, usize)>,
    columns: &'static [Column],
    sorted: Option<usize>,
}

impl Table {
    /// A table of these rows, sorted by a column.
    pub(crate) fn new(columns: &'static [Column], rows: &[Vec<String>], sorted: Option<usize>, width: usize) -> Self {
        let natural = |at: usize| {
            let name = columns[at].name.width() + usize::from(sorted == Some(at));
            rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.width()).max().unwrap_or(0).max(name)
        };
        let mut widths: Vec<(usize, usize)> = (0..columns.len()).map(|at| (at, natural(at))).collect();
        loop {
            let last = widths.len().saturating_sub(1);
            let needed: usize = widths
                .iter()
                .enumerate()
                .map(|(place, &(at, wide))| match place == last && columns[at].is_words {
                    true => wide.min(LAST_MIN),
                    false => wide + BETWEEN,
                })
                .sum();
            let goes = (0..widths.len()).max_by_key(|&place| columns[widths[place].0].rank);
            match goes {
                Some(place) if needed > width && columns[widths[place].0].rank > 0 => widths.remove(place),
                _ => break,
            };
        }
        Table { widths, columns, sorted }
    }

    /// The names of the columns.
    pub(crate) fn head(&self, width: usize) -> Styled {
        let mark = |at: usize| if self.sorted == Some(at) { "\u{2193}" } else { "" };
        let names: Vec<String> =
            self.columns.iter().enumerate().map(|(at, column)| format!("{}{}", column.name, mark(at))).collect();
        (self.line(&names, width), Style::new().add_modifier(Modifier::UNDERLINED))
    }

    /// A row.
    pub(crate) fn line(&self, cells: &[String], width: usize) -> String {
        let mut line = String::new();
        for (place, &(at, wide)) in self.widths.iter().enumerate() {
            let cell = one_line(cells.get(at).map_or("", String::as_str));
            let is_last = place + 1 == self.widths.len();
            line += if place > 0 { "  " } else { "" };
            let room = " ".repeat(wide.saturating_sub(cell.width()));
            match (self.columns[at].is_words, is_last) {
                (true, true) => line += &cell,
                (true, false) => line += &(cell + &room),
                (false, _) => line += &(room + &cell),
            }
        }
        cut(&line, width)
    }
}

/// A text in so many columns; where it is longer it ends with an ellipsis.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for letter in text.chars() {
        let wide = letter.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        kept.push(letter);
        used += wide;
    }
    if width > 0 {
        kept.push('\u{2026}');
    }
    kept
}

/// A text in lines of so many columns, those after the first indented. A word that is longer than a line is divided.
pub(crate) fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let width = width.max(1);
    let indent = if indent + 8 > width { 0 } else { indent };
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    // Whether the line has a word.
    let mut has_word = false;
    let next = |line: &mut String, used: &mut usize, lines: &mut Vec<String>| {
        lines.push(std::mem::replace(line, " ".repeat(indent)));
        *used = indent;
    };
    for word in one_line(text).split(' ').filter(|word| !word.is_empty()) {
        if has_word && used + 1 + word.width() > width {
            next(&mut line, &mut used, &mut lines);
            has_word = false;
        }
        if has_word {
            line.push(' ');
            used += 1;
        }
        for letter in word.chars() {
            let wide = letter.width().unwrap_or(0);
            if has_word && used + wide > width {
                next(&mut line, &mut used, &mut lines);
            }
            line.push(letter);
            used += wide;
            has_word = true;
        }
    }
    lines.push(line);
    lines
}

/// The same in at most so many lines; where it is longer the last one ends with an ellipsis.
pub(crate) fn wrap_at_most(text: &str, width: usize, lines_max: usize) -> Vec<String> {
    let mut lines = wrap(text, width, 0);
    if lines.len() > lines_max {
        lines.truncate(lines_max);
        if let Some(last) = lines.last_mut() {
            *last = match last.width() < width {
                true => format!("{last}\u{2026}"),
                false => cut(&format!("{last} "), width),
            };
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_and_wrapped_by_the_columns_of_a_terminal() {
        assert_eq!((cut("abc", 3), cut("abcd", 3), cut("学習機", 5)), ("abc".into(), "ab…".into(), "学習…".into()));
        assert_eq!((cut("ab", 1), cut("ab", 0)), ("…".into(), String::new()));
        assert_eq!(wrap("one two three", 8, 0), ["one two", "three"]);
        assert_eq!(wrap("0123456789abcdef x", 12, 2), ["0123456789ab", "  cdef x"]);
        assert_eq!(wrap_at_most("one two three four", 8, 2), ["one two", "three…"]);
        assert_eq!(wrap_at_most("one two three fou", 5, 2), ["one", "two…"]);
        assert_eq!(wrap("", 5, 0), [""]);
        for width in 0..20 {
            for line in wrap("学習 of a\u{301} 0123456789 long\u{1b}[2J word", width, 2) {
                assert!(line.width() <= width.max(2), "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_table_gives_up_columns_by_rank_and_cuts_its_last_one() {
        const COLUMNS: &[Column] = &[number("core", 0), number("lost", 1), number("idle", 2), words("most to", 0)];
        let rows = vec![vec!["3".to_owned(), "12.3 %".into(), "80 %".into(), "kernel thread kswapd0 (12 ms)".into()]];
        let lines = |width| {
            let table = Table::new(COLUMNS, &rows, Some(1), width);
            (table.head(width).0.trim_end().to_owned(), table.line(&rows[0], width))
        };
        let (head, line) = lines(60);
        assert_eq!(
            (head.as_str(), line.as_str()),
            ("core   lost↓  idle  most to", "   3  12.3 %  80 %  kernel thread kswapd0 (12 ms)")
        );
        let (head, line) = lines(43);
        assert_eq!(
            (head.as_str(), line.as_str()),
            ("core   lost↓  most to", "   3  12.3 %  kernel thread kswapd0 (12 ms)")
        );
        assert_eq!(lines(10).1, "   3  ker…");
    }
}

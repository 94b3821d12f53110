//! Screens as the bytes that bring a terminal from one to the next. Of the control sequences those alone that every terminal of the last
//! forty years has.

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::style::{Color, Modifier};

/// What brings a terminal that shows `before` to `after`, of the same size.
pub fn difference(before: &Buffer, after: &Buffer) -> Vec<u8> {
    let mut out = Writer::default();
    before.diff(after).into_iter().for_each(|(x, y, cell)| out.cell(x, y, cell));
    out.end()
}

/// What brings any terminal to this screen.
pub fn whole(screen: &Buffer) -> Vec<u8> {
    let mut bytes = b"\x1b[0m\x1b[2J".to_vec();
    bytes.extend(difference(&Buffer::empty(screen.area), screen));
    bytes
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    /// Where the next letter goes if nothing moves the cursor; `None` where a terminal may see it otherwise.
    next: Option<(u16, u16)>,
    style: Option<(Color, Color, Modifier)>,
}

impl Writer {
    fn cell(&mut self, x: u16, y: u16, cell: &Cell) {
        if self.next != Some((x, y)) {
            self.put(&format!("\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1));
        }
        let style = (cell.fg, cell.bg, cell.modifier);
        if self.style != Some(style) {
            self.put(&sgr(style));
            self.style = Some(style);
        }
        self.put(cell.symbol());
        // Terminals do not agree on the width of a letter beyond ASCII.
        self.next = (cell.symbol().len() == 1).then(|| (x.saturating_add(1), y));
    }

    fn put(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn end(mut self) -> Vec<u8> {
        if !self.bytes.is_empty() {
            self.put("\x1b[0m");
        }
        self.bytes
    }
}

fn sgr((foreground, background, modifier): (Color, Color, Modifier)) -> String {
    let mut text = String::from("\x1b[0");
    for (kind, code) in [(Modifier::BOLD, ";1"), (Modifier::UNDERLINED, ";4"), (Modifier::REVERSED, ";7")] {
        if modifier.contains(kind) {
            text += code;
        }
    }
    for (color, base) in [(foreground, 30), (background, 40)] {
        if let Some(number) = number_of(color) {
            text += &format!(";{}", base + number);
        }
    }
    text + "m"
}

/// The colours that are used here, by the numbers that every terminal with colours knows.
fn number_of(color: Color) -> Option<u8> {
    match color {
        Color::Black => Some(0),
        Color::Red => Some(1),
        Color::Green => Some(2),
        Color::Yellow => Some(3),
        Color::Blue => Some(4),
        Color::Magenta => Some(5),
        Color::Cyan => Some(6),
        Color::Gray => Some(7),
        _ => None,
    }
}

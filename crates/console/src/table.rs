//! Tables and paragraphs of text, by the columns that a terminal gives to each character.

use surefoot_model::one_line;
use unicode_width::UnicodeWidthStr;

/// A table of text; numbers stand to the right.
pub struct Table {
    rows: Vec<Vec<String>>,
    left_columns: &'static [usize],
}

impl Table {
    /// A table with this header; the named columns stand to the left.
    pub fn new(header: &[&str], left_columns: &'static [usize]) -> Self {
        Table { rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()], left_columns }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        // A cell is on its row, whatever a stranger called the thing in it.
        self.rows.push(cells.iter().map(|cell| one_line(cell)).collect());
    }

    /// The lines.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let room = " ".repeat(widths[column] - cell.width());
                let (before, after) =
                    if self.left_columns.contains(&column) { ("", room.as_str()) } else { (room.as_str(), "") };
                line.push_str(if column > 0 { "  " } else { "" });
                line.push_str(before);
                line.push_str(cell);
                line.push_str(after);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Words in lines of so many columns, the first from a column on, the others indented.
pub fn paragraph(text: &str, mut column: usize, indent: usize, columns: usize) -> String {
    let mut lines = String::new();
    for (place, word) in text.split(' ').enumerate() {
        let width = word.width() + 1;
        if place > 0 && column + width > columns {
            lines += &format!("\n{:indent$}", "");
            column = indent;
        } else if place > 0 {
            lines.push(' ');
        }
        lines += word;
        column += width;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_blanks_at_the_end() {
        let mut table = Table::new(&["name", "ns"], &[0]);
        table.row(vec!["µ".into(), "5".into()]);
        table.row(vec!["longer".into(), "12345".into()]);
        assert_eq!(table.text(), "name       ns\nµ           5\nlonger  12345\n");
        // Two columns a character, and one for two that are drawn as one.
        table.row(vec!["学習".into(), "7".into()]);
        table.row(vec!["e\u{301}".into(), "8".into()]);
        assert!(table.text().ends_with("学習        7\ne\u{301}           8\n"), "{}", table.text());
        assert_eq!(paragraph("学習 x", 0, 2, 6), "学習\n  x\n");
    }
}

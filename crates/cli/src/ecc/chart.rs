//! The table as a picture: a row per fault, a bar per code and convention, split into corrected, detected and silent.
//!
//! Silent shares are mostly too small to be seen as a length, so that they are written beside the bar. Colours are told
//! apart by lightness as well as by hue, and text follows the reader's light or dark scheme.

use surefoot_ecc::coverage::{Cell, Convention, Fault, Scheme};

const LABEL_WIDTH: usize = 112;
const BAR_WIDTH: usize = 56;
const COLUMN_WIDTH: usize = 92;
const GROUP_GAP: usize = 14;
const ROW_HEIGHT: usize = 17;
const BAR_HEIGHT: usize = 12;
const HEAD_HEIGHT: usize = 44;
const MARGIN: usize = 10;

const STYLE: &str = "text{font:11px system-ui,sans-serif;fill:#24292f}.h{font-weight:600}.s{font-size:10px}.n{font-size:9px;\
    fill:#b3261e;font-weight:600}.c{fill:#3d8bd4}.d{fill:#b9c0c8}.x{fill:#c4302b}\
    @media(prefers-color-scheme:dark){text{fill:#d7dde4}.n{fill:#ff9a92}.d{fill:#59626d}}";

/// The picture; each cell by its best method.
pub fn svg(cells: &[Cell]) -> String {
    let software = |is_software: bool| -> Vec<&Cell> {
        cells.iter().filter(|cell| cell.key.scheme.is_software() == is_software).collect()
    };
    let mut body = String::new();
    let (mut width, mut y) = (0, MARGIN + ROW_HEIGHT + 6);
    body += &key(MARGIN + 10);
    for panel in [software(false), software(true)] {
        if panel.is_empty() {
            continue;
        }
        let (text, panel_width, bottom) = self::panel(&panel, y);
        body += &text;
        width = width.max(panel_width);
        y = bottom + GROUP_GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {y}\" width=\"{width}\" height=\"{y}\" role=\"img\" \
         aria-label=\"Shares of faults that are corrected, detected and silent\">\n<style>{STYLE}</style>\n{body}</svg>\n"
    )
}

fn key(y: usize) -> String {
    let mut text = String::new();
    for (index, (class, name)) in
        [("c", "corrected"), ("d", "detected"), ("x", "silent, its share beside the bar")].iter().enumerate()
    {
        let x = LABEL_WIDTH + index * 90;
        text += &format!("<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"12\" height=\"10\"/>", y - 9);
        text += &format!("<text class=\"s\" x=\"{}\" y=\"{y}\">{name}</text>\n", x + 16);
    }
    text
}

/// A group of codes that have the same faults: its text, its right and its lower end.
fn panel(cells: &[&Cell], top: usize) -> (String, usize, usize) {
    let mut faults: Vec<Fault> = Vec::new();
    let mut columns: Vec<(Scheme, Convention)> = Vec::new();
    for cell in cells {
        if !faults.contains(&cell.key.fault) {
            faults.push(cell.key.fault);
        }
        if !columns.contains(&(cell.key.scheme, cell.key.convention)) {
            columns.push((cell.key.scheme, cell.key.convention));
        }
    }
    let mut text = String::new();
    let first_row = top + HEAD_HEIGHT;
    for (index, fault) in faults.iter().enumerate() {
        let y = first_row + index * ROW_HEIGHT + BAR_HEIGHT - 2;
        text += &format!("<text x=\"{MARGIN}\" y=\"{y}\">{fault}</text>\n");
    }
    let mut x = LABEL_WIDTH;
    let mut scheme_before = None;
    for (scheme, convention) in columns {
        if scheme_before != Some(scheme) {
            x += if scheme_before.is_some() { GROUP_GAP } else { 0 };
            text += &format!("<text class=\"h\" x=\"{x}\" y=\"{}\">{}</text>\n", top + 18, scheme.title());
            scheme_before = Some(scheme);
        }
        text += &format!("<text class=\"s\" x=\"{x}\" y=\"{}\">{}</text>\n", top + 36, convention.name());
        for (index, fault) in faults.iter().enumerate() {
            // Cells come with the best method first.
            let found = cells
                .iter()
                .find(|cell| (cell.key.scheme, cell.key.fault, cell.key.convention) == (scheme, *fault, convention));
            text += &found.map_or_else(String::new, |cell| bar(cell, x, first_row + index * ROW_HEIGHT));
        }
        x += COLUMN_WIDTH;
    }
    (text, x + MARGIN, first_row + faults.len() * ROW_HEIGHT)
}

fn bar(cell: &Cell, x: usize, y: usize) -> String {
    let [corrected, detected, silent] = cell.shares.map(|share| share * BAR_WIDTH as f64);
    let mut text = String::new();
    let mut left = x as f64;
    for (class, length) in [("c", corrected), ("d", detected), ("x", silent)] {
        if length >= 0.05 {
            text += &format!(
                "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\"/>"
            );
        }
        left += length;
    }
    if cell.shares[2] > 0.0 {
        let label = if cell.shares[2] < 1e-3 {
            format!("{:.0e}", cell.shares[2])
        } else {
            format!("{:.1}%", cell.shares[2] * 100.0)
        };
        let (x, y) = (x + BAR_WIDTH + 3, y + BAR_HEIGHT - 3);
        text += &format!("<text class=\"n\" x=\"{x}\" y=\"{y}\">{label}</text>");
    }
    let key = &cell.key;
    let [corrected, detected, silent] = cell.shares.map(super::text::share_text);
    format!(
        "<g><title>{} {} {}: corrected {corrected}, detected {detected}, silent {silent}</title>{text}</g>\n",
        key.scheme.title(),
        key.fault,
        key.convention.name()
    )
}

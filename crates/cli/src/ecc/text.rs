//! The table for people, 110 columns wide at most.

use surefoot_console::table::Table;
use surefoot_ecc::coverage::printed::PRINTED;
use surefoot_ecc::coverage::{Cell, Convention, Difference, Fault, Method, Scheme, Selection};

/// The width of everything.
const WIDTH: usize = 110;

/// A probability in at most eight characters.
pub fn share_text(share: f64) -> String {
    if share == 0.0 {
        "0".into()
    } else if share == 1.0 {
        "100%".into()
    } else if share < 1e-3 {
        format!("{share:.1e}")
    } else if share > 0.9999 {
        // What is missing to all of it matters, and stands in the other columns.
        "~100%".into()
    } else {
        format!("{:.2}%", share * 100.0)
    }
}

/// The shares of a cell. Beside a share that is not 0 nothing is all, however little that is.
fn shares_text(shares: [f64; 3]) -> [String; 3] {
    let is_split = shares.iter().filter(|&&share| share > 0.0).count() > 1;
    shares.map(|share| if is_split && share == 1.0 { "~100%".to_owned() } else { share_text(share) })
}

/// The whole answer.
pub fn table(selection: &Selection, cells: &[Cell]) -> String {
    let mut text = String::new();
    for &scheme in &selection.schemes {
        let of_scheme: Vec<&Cell> = cells.iter().filter(|cell| cell.key.scheme == scheme).collect();
        if of_scheme.is_empty() {
            continue;
        }
        text += &format!("{}\n", scheme.title());
        text += &section(scheme, selection, &of_scheme);
        text += &reasons(&of_scheme);
        text.push('\n');
    }
    text += &printed(selection, cells);
    text += &legend(selection, cells);
    text
}

/// A row per fault, the conventions side by side.
fn section(scheme: Scheme, selection: &Selection, cells: &[&Cell]) -> String {
    let conventions: Vec<Convention> =
        scheme.conventions().iter().copied().filter(|one| selection.conventions.contains(one)).collect();
    let mut header = vec!["fault".to_owned()];
    for convention in &conventions {
        header.push(format!("{}: corrected", convention.name()));
        header.extend(["detected".to_owned(), "silent".to_owned()]);
    }
    header.extend(["by".to_owned(), "MC agrees".to_owned()]);
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new(&header, &[0]);
    for fault in scheme.faults().into_iter().filter(|fault| selection.faults.contains(fault)) {
        let of_fault: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.key.fault == fault).collect();
        let mut row = vec![fault.to_string()];
        for &convention in &conventions {
            let best = of_fault.iter().find(|cell| cell.key.convention == convention);
            row.extend(best.map_or(["-"; 3].map(str::to_owned), |cell| shares_text(cell.shares)));
        }
        row.extend([methods(&of_fault), agreement(&of_fault)]);
        table.row(row);
    }
    table.text()
}

/// The methods that there are for a row, the one that the figures are by first.
fn methods(cells: &[&Cell]) -> String {
    let letter = |method: &&Method| match method {
        Method::Exact => 'e',
        Method::ClosedForm => 'c',
        Method::MonteCarlo => 'm',
    };
    Method::ALL
        .iter()
        .filter(|method| cells.iter().any(|cell| cell.method == **method))
        .map(|method| letter(&method))
        .collect()
}

/// How many of the Monte Carlo intervals of a row contain the better figure.
fn agreement(cells: &[&Cell]) -> String {
    let (mut within, mut all) = (0, 0);
    for (cell, intervals) in cells.iter().filter_map(|cell| cell.ci95.map(|intervals| (cell, intervals))) {
        let better = cells.iter().find(|other| other.key == cell.key && other.method != Method::MonteCarlo);
        for (interval, share) in intervals.iter().zip(better.map(|better| better.shares).into_iter().flatten()) {
            all += 1;
            within += usize::from((interval.low - f64::EPSILON..=interval.high + f64::EPSILON).contains(&share));
        }
    }
    if all == 0 { "-".to_owned() } else { format!("{within}/{all}") }
}

/// Why the paper's convention has other shares in a cell; empty where both agree.
pub fn why(cell: &Cell) -> String {
    let part = |Difference { step, before, after }: &Difference| {
        let changes: Vec<String> = ["corrected", "detected", "silent"]
            .into_iter()
            .zip(before.map(share_text).into_iter().zip(after.map(share_text)))
            .filter(|(_, (before, after))| before != after)
            .map(|(name, (before, after))| format!("{name} {before} -> {after}"))
            .collect();
        format!("{} ({})", step.text(), changes.join(", "))
    };
    cell.differs.iter().map(part).collect::<Vec<_>>().join("; ")
}

/// Why the conventions differ: faults with the same reason share a line.
fn reasons(cells: &[&Cell]) -> String {
    let mut groups: Vec<(String, Vec<Fault>)> = Vec::new();
    for cell in cells.iter().filter(|cell| !cell.differs.is_empty()) {
        let why = why(cell);
        match groups.iter_mut().find(|group| group.0 == why) {
            Some(group) => group.1.push(cell.key.fault),
            None => groups.push((why, vec![cell.key.fault])),
        }
    }
    let mut text = String::new();
    for (why, faults) in groups {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        text += &wrapped(&format!("  differ: {}: {why}.", faults.join(", ")), "          ");
    }
    text
}

/// What the paper prints beside what its convention yields.
fn printed(selection: &Selection, cells: &[Cell]) -> String {
    let cell_of = |scheme, fault, convention| {
        cells.iter().find(|cell| {
            let key = &cell.key;
            (key.scheme, key.fault, key.convention) == (scheme, fault, convention)
        })
    };
    let mut table = Table::new(&["code", "fault", "share", "printed", "paper", "physical"], &[0, 1, 2]);
    let mut findings = String::new();
    let mut rows = 0;
    for row in PRINTED.iter().filter(|row| selection.schemes.contains(&row.scheme)) {
        let share = |convention| cell_of(row.scheme, row.fault, convention).map(|cell| cell.shares[row.share.index()]);
        let (paper, physical) = (share(Convention::Paper), share(Convention::Physical));
        if paper.is_none() && physical.is_none() {
            continue;
        }
        let said = |share: Option<f64>| share.map_or("-".to_owned(), share_text);
        rows += 1;
        table.row(vec![
            row.scheme.title().into(),
            row.fault.to_string(),
            row.share.name().into(),
            share_text(row.value),
            said(paper),
            said(physical),
        ]);
        findings += &wrapped(&format!("  {} {}: {}.", row.scheme.title(), row.fault, row.finding), "    ");
    }
    if rows == 0 {
        return String::new();
    }
    format!("Printed in Table 4 of MEMSYS'16 (Abeyratne et al.), and what comes out\n{}{findings}\n", table.text())
}

fn legend(selection: &Selection, cells: &[Cell]) -> String {
    let mut text = String::new();
    if cells.iter().any(|cell| !cell.key.scheme.is_software()) {
        text += &wrapped(
            "Of blocks of 512 data bits with one fault, or with two in different chips. physical: anywhere, at random, \
             locations checked, silent if nothing is reported. paper: what Table 4 has to assume. A column is one bit of a \
             block, like a bit, but in every row of a bank.",
            "",
        );
    }
    if cells.iter().any(|cell| cell.key.scheme.is_software()) {
        text += &wrapped(
            "Of stripes of 16+3 shards of 4 KiB with one fault, or with two in different shards. contiguous: two shards lie \
             in one DRAM row of 8 KiB; spread: each in its own. With CRC32C: what a restore reads of the 16; a page whose \
             checksum matches is taken as it is, 2^-32 of the bad ones included.",
            "",
        );
    }
    text += "by: e exact, c closed form, m Monte Carlo; figures are by the first.\n";
    if selection.methods.contains(&Method::MonteCarlo) {
        text += &wrapped(
            &format!(
                "{} trials per cell (a thousandth of it for stripes), seed {}. MC agrees: how many of the 95 % intervals \
                 contain the figure; one in twenty misses by chance.",
                selection.trials, selection.seed
            ),
            "",
        );
    }
    text
}

/// Lines of at most [`WIDTH`] characters, those after the first with an indent.
fn wrapped(text: &str, indent: &str) -> String {
    let first_indent: String = text.chars().take_while(|c| *c == ' ').collect();
    let mut lines = vec![first_indent];
    let mut is_fresh = true;
    for word in text.split_ascii_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !is_fresh && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("{indent}{word}"));
            continue;
        }
        line.push_str(if is_fresh { "" } else { " " });
        line.push_str(word);
        is_fresh = false;
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_short_and_never_rounded_to_a_promise() {
        assert_eq!(share_text(0.0), "0");
        assert_eq!(share_text(1.0), "100%");
        assert_eq!(share_text(1.0 - 1e-12), "~100%");
        assert_eq!(share_text(48.0 / 255.0), "18.82%");
        assert_eq!(share_text(2.82e-14), "2.8e-14");
        assert_eq!(shares_text([1.0, 0.0, 5e-20]), ["~100%", "0", "5.0e-20"]);
    }

    #[test]
    fn long_lines_are_broken_at_words() {
        let text = wrapped(&format!("  a {}", "word ".repeat(60)), "    ");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(text.starts_with("  a word") && text.lines().nth(1).unwrap().starts_with("    word"));
        assert_eq!(text.split_ascii_whitespace().count(), 61);
    }
}

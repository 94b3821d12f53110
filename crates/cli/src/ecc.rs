//! `surefoot ecc coverage`; `surefoot ecc verilog` is in its own file.

mod chart;
pub mod lines;
pub mod options;
mod shard_file;
mod text;
pub mod verilog;
mod work;

use lines::Line;
use options::CoverageOptions;
use std::io::{self, Write};
use surefoot_console::destination::Destination;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_ecc::coverage::Cell;

pub fn run(options: &CoverageOptions) -> anyhow::Result<Outcome> {
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if let Some(shard) = options.shard {
        let selection = options.selection()?;
        let counts = work::run_trials(&selection, shard)?;
        shard_file::write(&mut out, &selection, shard, &counts)?;
        out.flush()?;
        return Ok(Outcome::Done);
    }
    let (selection, counts) = match options.merge.as_slice() {
        [] => {
            let selection = options.selection()?;
            let counts = None;
            (selection, counts)
        }
        files => {
            let (selection, counts) = shard_file::merge(files)?;
            (selection, Some(counts))
        }
    };
    let chart = options.chart.as_deref().map(|path| Destination::open("--chart", path)).transpose()?;
    let cells = work::run(&selection, counts);
    if let Some(chart) = chart {
        chart.write(|out| out.write_all(chart::svg(&cells).as_bytes()))?;
    }
    if options.json {
        output::stream(&mut out, "ecc coverage")?;
        cells.iter().try_for_each(|cell| output::line(&mut out, &Line::of(cell)))?;
    } else if options.csv {
        csv(&mut out, &cells)?;
    } else {
        out.write_all(text::table(&selection, &cells).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// Comma-separated values: only the last field may need quotes.
fn csv(out: &mut impl Write, cells: &[Cell]) -> io::Result<()> {
    let names = ["corrected", "detected", "silent"];
    let ends: Vec<String> = names.iter().map(|name| format!("{name}_low,{name}_high")).collect();
    writeln!(out, "code,fault,convention,method,{},{},why", names.join(","), ends.join(","))?;
    for cell in cells {
        let key = &cell.key;
        let mut line = format!("{},{},{}", key.scheme.name(), key.fault, key.convention.name());
        line += &format!(",{}", cell.method.name());
        for share in cell.shares {
            line += &format!(",{share:?}");
        }
        for index in 0..names.len() {
            line += &cell.ci95.map_or(",,".to_owned(), |intervals| {
                format!(",{:?},{:?}", intervals[index].low, intervals[index].high)
            });
        }
        writeln!(out, "{line},\"{}\"", text::why(cell).replace('"', "\"\""))?;
    }
    Ok(())
}

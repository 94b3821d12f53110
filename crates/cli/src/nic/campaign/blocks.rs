//! `surefoot nic campaign blocks`: what an experiment uses of the control program, and what the self-test reaches of it.

use super::lines::{BlockLine, BlocksLine};
use super::options::BlocksOptions;
use std::collections::BTreeMap;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_nic::campaign::blocks::{Block, blocks_of_run};

pub fn run(options: &BlocksOptions) -> anyhow::Result<Outcome> {
    let experiment = super::chosen(&options.choice)?;
    let found = blocks_of_run(&super::golden(&options.choice, &experiment, options.seed)?)?;
    let summary = BlocksLine::of(&experiment.name, &found);
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "nic campaign blocks")?;
        found.iter().try_for_each(|block| output::line(&mut out, &BlockLine::of(block)))?;
        output::line(&mut out, &summary)?;
    } else {
        out.write_all(text(&found, &summary).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn text(found: &[Block], summary: &BlocksLine) -> String {
    let mut functions: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for block in found {
        let counts = functions.entry(&block.function).or_default();
        counts[0] += 1;
        counts[1] += usize::from(block.is_used);
        counts[2] += usize::from(block.is_used && block.is_tested);
    }
    let mut table = Table::new(&["function", "blocks", "used", "tested"], &[0]);
    for (function, [all, used, tested]) in functions.iter().filter(|(_, counts)| counts[1] > 0) {
        table.row(vec![(*function).to_owned(), all.to_string(), used.to_string(), tested.to_string()]);
    }
    let mut text = table.text() + "\n";
    let missed: Vec<&Block> = found.iter().filter(|block| block.is_used && !block.is_tested).collect();
    if !missed.is_empty() {
        text += "Used, and not reached by the self-test:\n";
        for block in missed {
            text += &format!("  {:#06x} to {:#06x}  {}\n", block.from, block.to, block.function);
        }
        text += "\n";
    }
    text + &format!(
        "{}: {} of {} blocks are used ({} of {} bytes of code); the self-test reaches {} of them\n",
        summary.experiment,
        summary.used_count,
        summary.block_count,
        summary.used_bytes,
        summary.code_bytes,
        summary.tested_count
    )
}

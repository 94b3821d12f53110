//! A pattern's job as a GOAL file.

use super::OPERATIONS_MAX;
use crate::Error;
use crate::predict::Job;
use std::io::Write;

/// Writes all iterations of all ranks, and says how many operations that are. A message without bytes is written with one,
/// which costs the same: every cost of a byte is one of all but the first, and LogGOPSim cannot reckon with none.
///
/// # Errors
/// There would be more than [`OPERATIONS_MAX`], or it cannot be written.
pub fn write(job: &Job, out: &mut impl Write) -> Result<u64, Error> {
    job.check()?;
    let steps = job.steps();
    let ranks = job.ranks();
    let messages: u64 = steps.iter().map(|step| step.messages(ranks)).sum();
    let count = u128::from(job.iterations) * (u128::from(ranks) + 2 * u128::from(messages));
    if count > u128::from(OPERATIONS_MAX) {
        return Err(Error::GoalTooLarge { operations: u64::try_from(count).unwrap_or(u64::MAX), most: OPERATIONS_MAX });
    }
    let wrong = |error: std::io::Error| Error::GoalWrite(error.to_string());
    writeln!(out, "num_ranks {ranks}").map_err(wrong)?;
    for rank in 0..ranks {
        writeln!(out, "\nrank {rank} {{").map_err(wrong)?;
        let mut number = 0u64;
        let mut line = |what: &dyn Fn(&mut dyn Write) -> std::io::Result<()>| -> std::io::Result<()> {
            number += 1;
            write!(out, "l{number}: ")?;
            what(out)?;
            if number > 1 {
                writeln!(out, "l{number} requires l{}", number - 1)?;
            }
            Ok(())
        };
        for _ in 0..job.iterations {
            line(&|out| writeln!(out, "calc {}", job.compute_ns)).map_err(wrong)?;
            for step in &steps {
                let bytes = step.bytes().max(1);
                for exchange in step.of_rank(rank, ranks) {
                    let (verb, preposition) = if exchange.is_send { ("send", "to") } else { ("recv", "from") };
                    let (peer, tag) = (exchange.peer, exchange.tag);
                    line(&|out| writeln!(out, "{verb} {bytes}b {preposition} {peer} tag {tag}")).map_err(wrong)?;
                }
            }
        }
        writeln!(out, "}}").map_err(wrong)?;
    }
    Ok(count as u64)
}

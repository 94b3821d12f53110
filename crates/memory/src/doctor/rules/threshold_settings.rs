//! What somebody changed in AMD's threshold blocks.

use super::found;
use crate::counted;
use crate::doctor::{Facts, Rule, Verdict};
use crate::read::Block;
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "threshold-settings", check };

/// What the kernel sets: the highest count.
const LIMIT: u64 = 0xfff;

fn check(facts: &Facts) -> Verdict {
    let blocks = &facts.reading.blocks;
    if blocks.is_empty() {
        return Verdict::Fine("there are no threshold blocks of memory controllers to set".into());
    }
    let places =
        |is_so: fn(&&Block) -> bool| -> Vec<String> { blocks.iter().filter(is_so).map(Block::place).collect() };
    let silent = places(|block| block.is_interrupting == Some(false));
    let lowered = places(|block| block.limit.is_some_and(|limit| limit != LIMIT));
    let unread = places(|block| block.limit.is_none());
    if silent.is_empty() && lowered.is_empty() {
        return match unread.first() {
            Some(block) => Verdict::CannotTell(format!("the threshold_limit of {block} cannot be read")),
            None => Verdict::Fine(format!(
                "{} at 4095 errors, as the kernel sets it",
                counted(blocks.len() as u64, "threshold block interrupts", "threshold blocks interrupt")
            )),
        };
    }
    let said = [("interrupt_enable is 0", &silent), ("threshold_limit is not 4095", &lowered)];
    let said: Vec<String> = said
        .iter()
        .filter(|(_, blocks)| !blocks.is_empty())
        .map(|(what, blocks)| {
            format!("{what} in {} of {}: {}", blocks.len(), facts.reading.blocks.len(), blocks.join(", "))
        })
        .collect();
    Verdict::Found(found(
        Severity::Notice,
        said.join("; "),
        "a block that does not interrupt is noticed by the poll alone; one with a low limit interrupts often, and each write of a limit \
         resets its count",
        "write 1 to interrupt_enable and 4095 to threshold_limit of these blocks, or find out who set them",
    ))
}

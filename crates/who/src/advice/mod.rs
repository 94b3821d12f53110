//! What to change: rules over what was seen. One row each, one test each.
//!
//! A rule rests on the raisers that fit it, or on the cause as a whole. Each raiser counts for one rule, the first that it
//! fits, so that the shares of several pieces of advice add up; a rule that rests on few arrivals is not told, because
//! following it would change nothing.

mod calls;
mod evidence;
mod host;
mod tasks;
mod timers;

pub use host::HostFacts;
pub(crate) use tasks::OTHER_TASK;
pub use tasks::{NO_WAKEUP, SCHEDULER};
use timers::TICK_RUNS;

use surefoot_model::{Advice, CauseKind, Fix, Interrupt, Raiser};

/// Advice that rests on a smaller share of the arrivals is left out, millionths.
const LEAST_SHARE_PPM: u64 = 50_000;

/// A rule of advice about one kind of interrupt.
pub struct Rule {
    /// Its stable name.
    pub name: &'static str,
    rests_on: RestsOn,
    /// What to do, on this host.
    remedy: fn(&Interrupt, &HostFacts) -> String,
    /// Where that is described.
    pub source: &'static str,
}

/// What calls for a rule's remedy.
enum RestsOn {
    /// Raisers that fit.
    Raisers(fn(&Interrupt, &Raiser) -> bool),
    /// The cause, whoever raised it; and the evidence in words.
    Cause(fn(&Interrupt) -> bool, fn(&Interrupt) -> String),
}

fn is(interrupt: &Interrupt, kind: CauseKind) -> bool {
    interrupt.cause.kind == kind
}

/// The rules, in the order in which they claim raisers.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    static CALLS: &[Rule] = &calls::RULES;
    static TIMERS: &[Rule] = &timers::RULES;
    static TASKS: &[Rule] = &tasks::RULES;
    // Messages to the console first: whatever they hold up, they are why.
    TASKS[..1].iter().chain(CALLS).chain(TIMERS).chain(&TASKS[1..])
}

/// What is advised about an interrupt on this host, that which rests on most arrivals first.
pub fn advise(interrupt: &Interrupt, host: &HostFacts) -> Vec<Advice> {
    let raised: u64 = interrupt.raisers.iter().map(|raiser| raiser.count).sum();
    let total = raised.saturating_add(interrupt.unknown_raisers);
    let mut unclaimed: Vec<&Raiser> = interrupt.raisers.iter().collect();
    let mut advice = Vec::new();
    let mut left = total;
    for rule in rules() {
        let (count, evidence) = match rule.rests_on {
            RestsOn::Raisers(fits) => {
                let claimed: Vec<&Raiser>;
                (claimed, unclaimed) = unclaimed.into_iter().partition(|raiser| fits(interrupt, raiser));
                if claimed.is_empty() {
                    continue;
                }
                let count = claimed.iter().map(|raiser| raiser.count).sum();
                (count, evidence::raised_by(interrupt, &claimed))
            }
            RestsOn::Cause(fits, evidence) if left > 0 || total == 0 => {
                if !fits(interrupt) {
                    continue;
                }
                unclaimed.clear();
                (if total == 0 { interrupt.count } else { left }, evidence(interrupt))
            }
            RestsOn::Cause(..) => continue,
        };
        left = left.saturating_sub(count);
        let share_ppm = match total {
            0 => 1_000_000,
            total => (u128::from(count) * 1_000_000 / u128::from(total)) as u64,
        };
        if share_ppm >= LEAST_SHARE_PPM {
            let name =
                if rule.name == TICK_RUNS && !host.has_nohz_full { Fix::NEEDS_ANOTHER_KERNEL } else { rule.name };
            let (rule, remedy, source) = (name.to_owned(), (rule.remedy)(interrupt, host), rule.source.to_owned());
            advice.push(Advice { rule, remedy, evidence, source, count, share_ppm });
        }
        if total == 0 {
            break;
        }
    }
    advice.sort_by_key(|advice| std::cmp::Reverse(advice.count));
    advice
}

#[cfg(test)]
mod tests;

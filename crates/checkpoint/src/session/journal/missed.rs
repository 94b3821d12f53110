//! What a restart says where a journal claims a newer checkpoint than the one that came back.

use super::{Claim, Claims, Entry, JournalEvent, claims};

/// Says that the newest checkpoint of which the lines tell, oldest first, is gone, where it is newer than the one that came back.
/// `is_there` says of a number whether anything of it was found.
pub fn newer_that_is_gone(lines: &[Entry], restored: u64, is_there: impl Fn(u64) -> bool) -> Option<String> {
    let claimed = claims(lines.iter().enumerate().filter(|(_, line)| !is_failed_save(line)));
    let in_memory = claimed.memory.map(|claim| ("memory".to_owned(), claim));
    let mut of_tiers: Vec<(String, Claim)> = in_memory.into_iter().chain(claimed.durable).collect();
    of_tiers.retain(|(_, claim)| !lines[claim.line..].iter().any(|line| counts_anew(line, claim)));
    let number = of_tiers.iter().map(|(_, claim)| claim.number).max();
    let number = number.filter(|number| *number > restored && !is_there(*number))?;
    let places = of_tiers.iter().filter(|(_, claim)| claim.number == number).map(|(tier, _)| place(tier));
    let places = places.collect::<Vec<_>>().join(" and ");
    Some(format!(
        "generation {number}, which its journal says was saved {places}, is gone; the job goes on from generation {restored}"
    ))
}

/// Whether all that these lines tell of was removed by a command.
pub fn is_all_removed(lines: &[Entry]) -> bool {
    let claimed = claims(lines.iter().enumerate().filter(|(_, line)| !is_failed_save(line)));
    claimed == Claims::default() && lines.iter().any(|line| matches!(line.event, JournalEvent::Removed { .. }))
}

fn is_failed_save(line: &Entry) -> bool {
    matches!(&line.event, JournalEvent::Decision(decided) if !decided.failure.is_empty())
}

/// Whether a later line is of a run that counts anew, which took the place of what was claimed.
fn counts_anew(line: &Entry, claim: &Claim) -> bool {
    match &line.event {
        JournalEvent::Decision(decided) => decided.generation.is_some_and(|number| number < claim.number),
        _ => false,
    }
}

fn place(tier: &str) -> String {
    match tier {
        "memory" => "in memory".to_owned(),
        "durable" => "on the SSD".to_owned(),
        "shared" => "in the shared directory".to_owned(),
        other => format!("in the tier {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Decided, RestartOutcome};

    fn line(event: JournalEvent) -> Entry {
        Entry { realtime_ns: 1, lost_count: 0, event }
    }

    fn saved(number: u64, place: &str) -> Entry {
        let (generation, place) = (Some(number), place.into());
        line(JournalEvent::Decision(Box::new(Decided { generation, place, ..Decided::default() })))
    }

    fn failed(number: u64) -> Entry {
        let (place, failure) = ("memory".into(), "no room".into());
        let generation = Some(number);
        line(JournalEvent::Decision(Box::new(Decided { generation, place, failure, ..Decided::default() })))
    }

    fn arrived(number: u64, tier: &str) -> Entry {
        let (tier, generation) = (tier.into(), number);
        line(JournalEvent::Durable { tier, generation, age_s: 0.0, took_s: 0.0, bytes: 1, is_durable: None })
    }

    fn restarted(generation: Option<u64>, outcome: RestartOutcome, tier: Option<&str>) -> Entry {
        let (report, outcome, tier) = (String::new(), Some(outcome), tier.map(str::to_owned));
        line(JournalEvent::Restart { generation, report, outcome, tier })
    }

    fn removed(tier: &str) -> Entry {
        line(JournalEvent::Removed { tier: tier.into(), uid: 0 })
    }

    fn gone(lines: &[Entry], restored: u64) -> Option<String> {
        newer_that_is_gone(lines, restored, |_| false)
    }

    #[test]
    fn the_newest_that_was_saved_is_missed_with_the_places_where_it_was() {
        use RestartOutcome::{Failed, NoCheckpoint, Restored};
        let said = |number: u64, places: &str, from: u64| {
            let wanted = "generation NUMBER, which its journal says was saved PLACES, is gone; the job goes on from generation FROM";
            let wanted = wanted.replace("NUMBER", &number.to_string()).replace("PLACES", places);
            Some(wanted.replace("FROM", &from.to_string()))
        };
        let skipped = line(JournalEvent::Decision(Box::new(Decided { place: "skip".into(), ..Decided::default() })));
        let (memory, both, ssd) = ("memory", "memory_and_ssd", "ssd");
        let cases: [(&[Entry], u64, Option<String>); 14] = [
            (&[], 3, None),
            (&[saved(4, memory), saved(5, memory)], 4, said(5, "in memory", 4)),
            (&[saved(4, memory), saved(5, memory), skipped], 5, None),
            (&[saved(5, both), failed(6)], 5, None),
            (&[saved(5, both)], 4, said(5, "in memory", 4)),
            (&[saved(5, both), arrived(5, "durable")], 4, said(5, "in memory and on the SSD", 4)),
            (&[saved(5, ssd), arrived(5, "shared")], 3, said(5, "on the SSD and in the shared directory", 3)),
            (&[saved(5, memory), restarted(Some(4), Restored, None)], 4, None),
            (&[saved(5, memory), restarted(Some(5), Restored, Some("memory"))], 4, said(5, "in memory", 4)),
            (&[saved(5, memory), restarted(None, Failed, None)], 4, said(5, "in memory", 4)),
            (&[saved(900, memory), restarted(None, NoCheckpoint, None), saved(2, memory)], 1, said(2, "in memory", 1)),
            (&[saved(900, memory), saved(2, memory)], 2, None),
            (&[saved(5, both), arrived(4, "durable"), removed("memory")], 3, said(4, "on the SSD", 3)),
            (&[saved(5, both), arrived(5, "durable"), removed("memory"), removed("durable")], 3, None),
        ];
        for (lines, restored, wanted) in cases {
            assert_eq!(gone(lines, restored), wanted, "{lines:?}");
        }
        let lines = [saved(5, memory)];
        assert_eq!(newer_that_is_gone(&lines, 4, |number| number == 5), None, "what is there is not gone");
    }
}

//! What a journal says should be there: the newest checkpoint in memory and in each durable tier.

use super::{Entry, JournalEvent};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::RestartOutcome;

/// A checkpoint that a journal says was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Its number.
    pub number: u64,
    /// The line that says so, by its place among all, and when it was written.
    pub line: usize,
    pub at_ns: u64,
    /// Whether a restart read it; otherwise it was saved.
    pub is_read: bool,
}

/// The newest of each tier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub memory: Option<Claim>,
    /// By the tier's name, `durable` or `shared`.
    pub durable: BTreeMap<String, Claim>,
}

/// What these lines come to, oldest first. What a restart passed over was refused, and is taken away; what it read was there then, and so was
/// what is older. A session that began without a checkpoint begins anew.
pub(crate) fn claims<'a>(lines: impl Iterator<Item = (usize, &'a Entry)>) -> Claims {
    let mut claims = Claims::default();
    let mut ever: BTreeSet<(String, u64)> = BTreeSet::new();
    for (line, entry) in lines {
        let claim = |number: u64, is_read: bool| Claim { number, line, at_ns: entry.realtime_ns, is_read };
        match &entry.event {
            JournalEvent::Decision(decided) => match (decided.generation, decided.place.as_str()) {
                (Some(number), "ssd") => {
                    ever.insert(("durable".to_owned(), number));
                    claims.durable.insert("durable".to_owned(), claim(number, false));
                }
                (Some(number), place) if place.starts_with("memory") => claims.memory = Some(claim(number, false)),
                _ => {}
            },
            JournalEvent::Durable { tier, generation, .. } => {
                ever.insert((tier.clone(), *generation));
                claims.durable.insert(tier.clone(), claim(*generation, false));
            }
            JournalEvent::Restart { outcome: Some(RestartOutcome::NoCheckpoint), .. } => claims = Claims::default(),
            JournalEvent::Restart { generation: Some(number), tier, .. } => {
                claims.durable.retain(|_, known| known.number <= *number);
                claims.memory = (tier.as_deref() == Some("memory")).then(|| claim(*number, true));
                // A part may be read that never got the mark.
                if let Some(tier) = tier.as_ref().filter(|tier| ever.contains(&((*tier).clone(), *number))) {
                    claims.durable.insert(tier.clone(), claim(*number, true));
                }
            }
            JournalEvent::Removed { tier, .. } if tier == "memory" => claims.memory = None,
            JournalEvent::Removed { tier, .. } => _ = claims.durable.remove(tier),
            _ => {}
        }
    }
    claims
}

/// Whether a line says something that this version does not know, where it should say what is where.
pub(crate) fn is_strange(entry: &Entry) -> bool {
    const PLACES: [&str; 4] = ["skip", "memory", "ssd", "memory_and_ssd"];
    let is_durable = |tier: &str| ["durable", "shared"].contains(&tier);
    let is_tier = |tier: &str| tier == "memory" || is_durable(tier);
    let is_known = match &entry.event {
        JournalEvent::Decision(decided) => {
            let place = decided.place.as_str();
            let is_told = place == "skip" || decided.generation.is_some() || !decided.failure.is_empty();
            PLACES.contains(&place) && is_told && decided.generation != Some(0)
        }
        // Numbers begin at 1.
        JournalEvent::Durable { tier, generation, .. } => is_durable(tier) && *generation > 0,
        JournalEvent::NotDurable { tier, .. } => is_durable(tier),
        JournalEvent::Restart { outcome, tier, generation, .. } => {
            let is_known = *outcome != Some(RestartOutcome::Unknown) && *generation != Some(0);
            is_known && tier.as_deref().is_none_or(is_tier)
        }
        JournalEvent::Removed { tier, .. } => is_tier(tier),
        JournalEvent::Opened { .. } | JournalEvent::Asked(_) | JournalEvent::Unread { .. } => true,
    };
    !is_known || entry.realtime_ns == 0
}

#[cfg(test)]
mod tests {
    use super::super::tests::{decision, opened};
    use super::*;

    fn of(events: &[JournalEvent]) -> Claims {
        let entries: Vec<Entry> = events
            .iter()
            .enumerate()
            .map(|(at, event)| Entry { realtime_ns: at as u64 + 1, lost_count: 0, event: event.clone() })
            .collect();
        claims(entries.iter().enumerate())
    }

    fn durable(number: u64) -> JournalEvent {
        let (age_s, took_s, bytes, is_durable) = (1.0, 1.0, 1, Some(true));
        JournalEvent::Durable { tier: "durable".into(), generation: number, age_s, took_s, bytes, is_durable }
    }

    fn restart(number: u64, tier: &str) -> JournalEvent {
        let outcome = Some(RestartOutcome::Restored);
        JournalEvent::Restart { generation: Some(number), report: String::new(), outcome, tier: Some(tier.into()) }
    }

    fn numbers(claims: &Claims) -> (Option<u64>, Option<u64>) {
        (claims.memory.map(|claim| claim.number), claims.durable.get("durable").map(|claim| claim.number))
    }

    #[test]
    fn what_a_restart_read_is_there_and_what_it_passed_over_is_not() {
        let saved = [opened(false), decision(4), durable(4), decision(5), durable(5), decision(6)];
        let after = |more: &[JournalEvent]| numbers(&of(&[&saved[..], more].concat()));
        assert_eq!(after(&[]), (Some(6), Some(5)));
        assert_eq!(after(&[opened(false), restart(6, "memory")]), (Some(6), Some(5)));
        assert_eq!(after(&[opened(false), restart(5, "durable")]), (None, Some(5)));
        // Number 5 on the SSD was damaged, and number 4 of it is read.
        assert_eq!(after(&[opened(false), restart(4, "durable")]), (None, Some(4)));
        assert_eq!(after(&[opened(false), restart(6, "memory"), decision(7)]), (Some(7), Some(5)));
        // Read from another node.
        let other = JournalEvent::Restart { generation: Some(6), report: String::new(), outcome: None, tier: None };
        assert_eq!(after(&[opened(false), other]), (None, Some(5)));
        let removed = |tier: &str| JournalEvent::Removed { tier: tier.into(), uid: 0 };
        assert_eq!((after(&[removed("memory")]), after(&[removed("durable")])), ((None, Some(5)), (Some(6), None)));
        let nothing = JournalEvent::Restart {
            generation: None,
            report: String::new(),
            outcome: Some(RestartOutcome::NoCheckpoint),
            tier: None,
        };
        assert_eq!(after(&[opened(false), nothing]), (None, None));
    }

    #[test]
    fn words_and_numbers_that_are_not_known_are_strange() {
        let entry = |event: JournalEvent| Entry { realtime_ns: 1, lost_count: 0, event };
        let decided = |place: &str, generation: Option<u64>| {
            let decided = super::super::Decided { place: place.into(), generation, ..Default::default() };
            entry(JournalEvent::Decision(Box::new(decided)))
        };
        assert!(
            [decided("skip", None), decided("ssd", Some(1)), entry(durable(1)), entry(restart(1, "shared"))]
                .iter()
                .all(|line| !is_strange(line))
        );
        let at_no_time = Entry { realtime_ns: 0, ..entry(durable(1)) };
        for line in [
            decided("ssd", Some(0)),
            decided("vault", Some(1)),
            decided("memory", None),
            entry(restart(1, "vault")),
            at_no_time,
        ] {
            assert!(is_strange(&line), "{line:?}");
        }
    }
}

//! What came of a run, as a line and as text.

use serde::Serialize;
use std::collections::BTreeMap;
use surefoot_console::units::{counted, duration};
use surefoot_nic::check::Verdict;

/// The last line of `nic run`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "result")]
pub struct ResultLine {
    /// `virtual` or `wall`.
    pub clock: &'static str,
    /// `memory`, `udp` or `veth`.
    pub link: &'static str,
    // Of the command's own applications; 0 where there are none.
    pub message_bytes: u32,
    /// Whether there were interfaces and daemons alone, for other programs; no message is counted then.
    #[serde(skip)]
    pub only_served: bool,
    /// Messages that the sender wrote down.
    pub sent_count: u64,
    /// Messages that the receiver wrote down.
    pub delivered_count: u64,
    /// Told to have arrived, and not delivered.
    pub lost_count: u64,
    pub duplicated_count: u64,
    pub reordered_count: u64,
    pub corrupted_count: u64,
    /// Delivered, and never sent.
    pub unexpected_count: u64,
    /// Neither delivered nor told to have arrived when the run ended.
    pub pending_count: u64,
    /// Sends that ended with an error.
    pub refused_count: u64,
    /// Failures that were asked for; more than were made where an interface hung already, or the run ended before.
    #[serde(skip)]
    pub asked_count: u64,
    /// Failures that were made.
    pub failure_count: u64,
    /// Recoveries that the daemons did.
    pub recovery_count: u64,
    /// From a failure to its detection.
    pub detection_ns: Option<Spread>,
    /// From a detection to the moment when all ports were back.
    pub recovery_ns: Option<Spread>,
    /// Who detected how many failures.
    pub detected_by: BTreeMap<String, u64>,
    pub elapsed_ns: u64,
    /// What came over the link and cannot be a packet.
    pub dropped_count: u64,
    /// Whether all messages were delivered and confirmed.
    pub is_complete: bool,
}

/// How values spread.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    pub count: u64,
    pub minimum: u64,
    pub median: u64,
    pub maximum: u64,
}

impl Spread {
    /// `None` of nothing.
    pub fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        let (minimum, maximum) = (*values.first()?, *values.last()?);
        let median = values[(values.len() - 1) / 2];
        Some(Spread { count: values.len() as u64, minimum, median, maximum })
    }
}

impl ResultLine {
    /// With the checker's counts, and nothing else yet.
    pub fn of(verdict: &Verdict) -> Self {
        ResultLine {
            clock: "",
            link: "",
            message_bytes: 0,
            only_served: false,
            sent_count: verdict.sent_count,
            delivered_count: verdict.delivered_count,
            lost_count: verdict.lost_count,
            duplicated_count: verdict.duplicated_count,
            reordered_count: verdict.reordered_count,
            corrupted_count: verdict.corrupted_count,
            unexpected_count: verdict.unexpected_count + verdict.ambiguous_count,
            pending_count: verdict.pending_count,
            refused_count: verdict.refused_count,
            asked_count: 0,
            failure_count: 0,
            recovery_count: 0,
            detection_ns: None,
            recovery_ns: None,
            detected_by: BTreeMap::new(),
            elapsed_ns: 0,
            dropped_count: 0,
            is_complete: false,
        }
    }

    /// Everything arrived, once, in order and as it was sent.
    pub fn is_perfect(&self) -> bool {
        let wrong = self.lost_count
            + self.duplicated_count
            + self.reordered_count
            + self.corrupted_count
            + self.unexpected_count;
        wrong == 0 && self.is_complete
    }

    pub fn text(&self) -> String {
        let times = |spread: Option<Spread>| match spread {
            None => "-".to_owned(),
            Some(spread) => {
                let (median, maximum) = (duration(spread.median), duration(spread.maximum));
                format!("median {median}, maximum {maximum}, of {}", spread.count)
            }
        };
        let mut text = if self.only_served { self.served_text() } else { self.messages_text() };
        let of = match self.asked_count {
            asked if asked > self.failure_count => {
                format!(" of {asked} asked for (one that hangs does not hang again)")
            }
            _ => String::new(),
        };
        text += &format!("failures made {}{of}, recoveries {}\n", self.failure_count, self.recovery_count);
        text += &format!("  detection   {}\n  recovery    {}\n", times(self.detection_ns), times(self.recovery_ns));
        for (by, count) in &self.detected_by {
            text += &format!("  by          {}: {count}\n", by.replace('_', "-"));
        }
        if self.recovery_count > self.failure_count {
            text += self.why_more();
        }
        if !self.is_complete {
            text += "The run ended before everything was delivered and confirmed.\n";
        }
        text
    }

    /// Why there are recoveries that no failure was made for.
    fn why_more(&self) -> &'static str {
        let found = |names: &[&str]| names.iter().any(|name| self.detected_by.contains_key(*name));
        match () {
            () if found(&["library", "neighbour", "self_test", "interface"]) => {
                "  More recoveries than injected failures: the interface failed, or was suspected. A program can cause that: \
                 one\n  that sends to a port without a receiver, or overwrites buffers that it has sent or provided.\n"
            }
            () => "  More recoveries than failures were made: a daemon had no answer in time, as on a busy machine.\n",
        }
    }

    fn elapsed_text(&self) -> String {
        format!("{} of {} time", duration(self.elapsed_ns), self.clock)
    }

    fn served_text(&self) -> String {
        format!("two interfaces over {} for {}\n", self.link, self.elapsed_text())
    }

    fn messages_text(&self) -> String {
        let (bytes, link) = (self.message_bytes, self.link);
        let sent = counted(self.sent_count, "message", "messages");
        let mut text = format!("{sent} of {bytes} bytes over {link} in {}\n", self.elapsed_text());
        let counts = [
            ("delivered", self.delivered_count),
            ("lost", self.lost_count),
            ("duplicated", self.duplicated_count),
            ("reordered", self.reordered_count),
            ("corrupted", self.corrupted_count),
            ("unexpected", self.unexpected_count),
            ("pending", self.pending_count),
            ("refused", self.refused_count),
        ];
        for (name, count) in counts {
            text += &format!("  {name:<12}{count}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_were_asked_for_and_not_made_are_named() {
        let mut line = ResultLine::of(&Verdict::default());
        (line.asked_count, line.failure_count) = (2, 2);
        assert!(line.text().contains("failures made 2, recoveries 0"), "{}", line.text());
        line.asked_count = 20;
        assert!(line.text().contains("failures made 2 of 20 asked for"), "{}", line.text());
    }

    #[test]
    fn a_spread_has_the_middle_one() {
        assert_eq!(Spread::of(vec![]), None);
        assert_eq!(Spread::of(vec![3, 1, 2]).map(|of| (of.minimum, of.median, of.maximum)), Some((1, 2, 3)));
        assert_eq!(Spread::of(vec![4, 1]).map(|of| of.median), Some(1));
    }
}

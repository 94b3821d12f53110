//! What a fault did, in the words of the paper's Table 1 and in the standard ones.
//!
//! Whether messages were lost, doubled, out of order or corrupted is decided by [`crate::check`] from what the
//! applications wrote down. The device is asked only for the cause of a failure that they saw.

use crate::check::Verdict;

/// The classes of Table 1: how the failure shows to an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// The applications saw what they see without the fault.
    NoEffect,
    /// The interface does nothing any more.
    Hang,
    /// Messages are neither delivered nor confirmed, or refused, though the interface runs.
    SendReceive,
    /// The same, with host DMA that failed or does not end.
    Dma,
    /// Messages come twice, out of order, with another length, or were never sent.
    CorruptedControl,
    /// The content of a message is another one.
    CorruptedMessage,
    /// Everything arrives, some of it much later.
    Latency,
    /// The interface read or wrote the host's memory where it must not, and nothing guarded it.
    HostCrash,
}

impl Outcome {
    /// In the order of the table.
    pub const ALL: [Outcome; 8] = [
        Outcome::Hang,
        Outcome::SendReceive,
        Outcome::Dma,
        Outcome::CorruptedControl,
        Outcome::CorruptedMessage,
        Outcome::Latency,
        Outcome::HostCrash,
        Outcome::NoEffect,
    ];

    /// Its name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::NoEffect => "no_effect",
            Outcome::Hang => "hang",
            Outcome::SendReceive => "send_receive",
            Outcome::Dma => "dma",
            Outcome::CorruptedControl => "corrupted_control",
            Outcome::CorruptedMessage => "corrupted_message",
            Outcome::Latency => "latency",
            Outcome::HostCrash => "host_crash",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// Whether an application could tell.
    pub fn is_failure(self) -> bool {
        self != Outcome::NoEffect
    }
}

/// The classes that fault injection commonly uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Standard {
    /// Nothing differs in the end but for the flipped bit itself.
    Masked,
    /// The applications saw no difference, but the state differs.
    Latent,
    /// The daemon found it, and whatever the applications were given was right.
    Detected,
    /// An application was given what was never sent to it.
    SilentCorruption,
    /// A message that was confirmed never arrived, or one does not arrive and nobody noticed.
    Loss,
    /// A message was delivered twice.
    Duplicate,
    /// Messages were delivered out of order.
    Reorder,
    /// Everything arrives, some of it much later, and nobody noticed.
    Degraded,
    /// The host went down.
    HostCrash,
}

impl Standard {
    /// In the order of tables.
    pub const ALL: [Standard; 9] = [
        Standard::Masked,
        Standard::Latent,
        Standard::Detected,
        Standard::SilentCorruption,
        Standard::Loss,
        Standard::Duplicate,
        Standard::Reorder,
        Standard::Degraded,
        Standard::HostCrash,
    ];

    /// Its name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Standard::Masked => "masked",
            Standard::Latent => "latent",
            Standard::Detected => "detected",
            Standard::SilentCorruption => "silent_corruption",
            Standard::Loss => "loss",
            Standard::Duplicate => "duplicate",
            Standard::Reorder => "reorder",
            Standard::Degraded => "degraded",
            Standard::HostCrash => "host_crash",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Standard> {
        Standard::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether it breaks what the fault-tolerant interface promises.
    pub fn breaks_promise(self) -> bool {
        matches!(self, Standard::SilentCorruption | Standard::Loss | Standard::Duplicate | Standard::Reorder)
    }
}

/// What is known of a run after its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Of the checker.
    pub verdict: Verdict,
    /// Among the corrupted: only the content differs, not the length.
    pub content_count: u64,
    /// A host went down.
    pub is_crashed: bool,
    /// An interface stopped, or its control program does not come round any more.
    pub is_hung: bool,
    /// Host DMA failed, or does not end.
    pub has_dma_failed: bool,
    /// Something was delivered much later than without the fault.
    pub is_late: bool,
    /// A daemon found the interface failed.
    pub is_detected: bool,
    /// Nothing but the flipped bit differs in the end.
    pub is_masked: bool,
}

impl Seen {
    fn is_undelivered(&self) -> bool {
        self.verdict.lost_count + self.verdict.pending_count + self.verdict.refused_count > 0
    }

    /// As Table 1 has it.
    pub fn outcome(&self) -> Outcome {
        let verdict = &self.verdict;
        let control = verdict.duplicated_count
            + verdict.reordered_count
            + verdict.unexpected_count
            + verdict.corrupted_count.saturating_sub(self.content_count);
        if self.is_crashed {
            Outcome::HostCrash
        } else if control > 0 {
            Outcome::CorruptedControl
        } else if self.content_count > 0 {
            Outcome::CorruptedMessage
        } else if self.is_hung && self.is_undelivered() {
            Outcome::Hang
        } else if self.is_undelivered() && self.has_dma_failed {
            Outcome::Dma
        } else if self.is_undelivered() {
            Outcome::SendReceive
        } else if self.is_late {
            Outcome::Latency
        } else {
            Outcome::NoEffect
        }
    }

    /// In the standard words.
    pub fn standard(&self) -> Standard {
        let verdict = &self.verdict;
        if self.is_crashed {
            Standard::HostCrash
        } else if verdict.corrupted_count + verdict.unexpected_count > 0 {
            Standard::SilentCorruption
        } else if verdict.duplicated_count > 0 {
            Standard::Duplicate
        } else if verdict.lost_count > 0 || (self.is_undelivered() && !self.is_detected) {
            Standard::Loss
        } else if verdict.reordered_count > 0 {
            Standard::Reorder
        } else if self.is_detected {
            Standard::Detected
        } else if self.is_late {
            Standard::Degraded
        } else if self.is_masked {
            Standard::Masked
        } else {
            Standard::Latent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen {
            verdict: Verdict::default(),
            content_count: 0,
            is_crashed: false,
            is_hung: false,
            has_dma_failed: false,
            is_late: false,
            is_detected: false,
            is_masked: false,
        }
    }

    fn with(change: impl Fn(&mut Seen)) -> (Outcome, Standard) {
        let mut one = seen();
        change(&mut one);
        (one.outcome(), one.standard())
    }

    #[test]
    fn each_run_has_one_class_in_both_words() {
        assert_eq!(with(|_| ()), (Outcome::NoEffect, Standard::Latent));
        assert_eq!(with(|one| one.is_masked = true), (Outcome::NoEffect, Standard::Masked));
        assert_eq!(with(|one| one.is_late = true), (Outcome::Latency, Standard::Degraded));
        assert_eq!(with(|one| one.is_detected = true), (Outcome::NoEffect, Standard::Detected));
        assert_eq!(with(|one| one.verdict.pending_count = 1), (Outcome::SendReceive, Standard::Loss));
        let hung = |one: &mut Seen| (one.verdict.pending_count, one.is_hung, one.is_detected) = (3, true, true);
        assert_eq!(with(hung), (Outcome::Hang, Standard::Detected));
        let dma = |one: &mut Seen| (one.verdict.pending_count, one.has_dma_failed) = (3, true);
        assert_eq!(with(dma), (Outcome::Dma, Standard::Loss));
        assert_eq!(with(|one| one.verdict.duplicated_count = 1), (Outcome::CorruptedControl, Standard::Duplicate));
        assert_eq!(with(|one| one.verdict.reordered_count = 1), (Outcome::CorruptedControl, Standard::Reorder));
        let length = |one: &mut Seen| one.verdict.corrupted_count = 1;
        assert_eq!(with(length), (Outcome::CorruptedControl, Standard::SilentCorruption));
        let content = |one: &mut Seen| (one.verdict.corrupted_count, one.content_count) = (1, 1);
        assert_eq!(with(content), (Outcome::CorruptedMessage, Standard::SilentCorruption));
        assert_eq!(with(|one| one.verdict.lost_count = 1), (Outcome::SendReceive, Standard::Loss));
        assert_eq!(with(|one| one.is_crashed = true), (Outcome::HostCrash, Standard::HostCrash));
    }

    #[test]
    fn a_confirmed_message_that_never_came_is_lost_even_where_the_fault_is_detected() {
        let lost = |one: &mut Seen| (one.verdict.lost_count, one.is_detected) = (1, true);
        assert_eq!(with(lost).1, Standard::Loss);
    }
}

//! What Linux does when corrected-error interrupts come too fast.
//!
//! | | up to 6.7 | 6.8 and later |
//! |---|---|---|
//! | a storm begins | with the 16th interrupt of a core within a second | with the 5th record of a bank in its last 64 looks or seconds |
//! | it concerns | all banks of the core | this bank |
//! | interrupts | off | only when the counter comes to 32,749 |
//! | polled | every second | every second |
//! | it ends | after 300 polls that found nothing | after 30 that found nothing |
//!
//! Source: the kernel's files arch/x86/kernel/cpu/mce/intel.c of 6.1 and threshold.c of 6.12.

/// How interrupts are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StormRule {
    /// They are not.
    Never,
    /// Linux up to 6.7.
    PerCore,
    /// Linux 6.8 and later.
    PerBank,
}

impl StormRule {
    /// All.
    pub const ALL: [StormRule; 3] = [StormRule::Never, StormRule::PerCore, StormRule::PerBank];

    /// Its name in options and lines.
    pub fn name(self) -> &'static str {
        match self {
            StormRule::Never => "never",
            StormRule::PerCore => "linux-6.7",
            StormRule::PerBank => "linux-6.8",
        }
    }
}

/// Between the polls of a storm, and the window in which interrupts of a core are counted.
pub(super) const POLL_NS: u64 = 1_000_000_000;
/// A threshold that is beyond what comes within a second.
pub(super) const THRESHOLD: u64 = 32_749;
const PER_CORE_MAX: u64 = 15;
const PER_CORE_CLEAN_POLLS: u32 = 300;
const PER_BANK_RECORDS: u32 = 5;
const PER_BANK_CLEAN_POLLS: u32 = 30;

/// The state of the rule.
#[derive(Debug, Clone)]
pub(super) enum Storms {
    Never,
    PerCore { window_ns: u64, count: u64, clean_polls_left: u32 },
    PerBank(Vec<Bank>),
}

/// What is remembered of a bank: a bit for each second, or look if they come faster, the latest lowest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bank {
    history: u64,
    seen_ns: u64,
    is_stormy: bool,
}

impl Storms {
    pub(super) fn new(rule: StormRule, banks: u32) -> Storms {
        match rule {
            StormRule::Never => Storms::Never,
            StormRule::PerCore => Storms::PerCore { window_ns: 0, count: 0, clean_polls_left: 0 },
            StormRule::PerBank => Storms::PerBank(vec![Bank::default(); banks as usize]),
        }
    }

    /// Whether a bank is polled.
    pub(super) fn is_stormy(&self, bank: u32) -> bool {
        match self {
            Storms::Never => false,
            Storms::PerCore { clean_polls_left, .. } => *clean_polls_left > 0,
            Storms::PerBank(banks) => banks[bank as usize].is_stormy,
        }
    }

    /// Whether any bank is polled.
    pub(super) fn is_any(&self) -> bool {
        match self {
            Storms::PerBank(banks) => banks.iter().any(|bank| bank.is_stormy),
            _ => self.is_stormy(0),
        }
    }

    /// The count at which a stormy bank interrupts all the same; `None` where it does not.
    pub(super) fn threshold(&self) -> Option<u64> {
        matches!(self, Storms::PerBank(_)).then_some(THRESHOLD)
    }

    /// An interrupt of a bank is handled. Whether a storm begins with it.
    pub(super) fn interrupt(&mut self, bank: u32, at_ns: u64) -> bool {
        match self {
            Storms::Never => false,
            Storms::PerCore { window_ns, count, clean_polls_left } => {
                if *count > 0 && at_ns <= window_ns.saturating_add(POLL_NS) {
                    *count += 1;
                } else {
                    (*count, *window_ns) = (1, at_ns);
                }
                if *count <= PER_CORE_MAX {
                    return false;
                }
                (*count, *clean_polls_left) = (0, PER_CORE_CLEAN_POLLS);
                true
            }
            Storms::PerBank(banks) => {
                let bank = &mut banks[bank as usize];
                let shift = if bank.is_stormy { 1 } else { at_ns.saturating_sub(bank.seen_ns) / POLL_NS + 1 };
                bank.history = if shift < 64 { bank.history << shift } else { 0 } | 1;
                bank.seen_ns = at_ns;
                let begins = !bank.is_stormy && bank.history.count_ones() >= PER_BANK_RECORDS;
                bank.is_stormy |= begins;
                begins
            }
        }
    }

    /// A poll of a storm has looked at a stormy bank. With one rule for all banks it is told of all at once.
    pub(super) fn polled(&mut self, bank: u32, found: bool, at_ns: u64) {
        match self {
            Storms::Never => {}
            Storms::PerCore { clean_polls_left, .. } => {
                *clean_polls_left = if found { PER_CORE_CLEAN_POLLS } else { *clean_polls_left - 1 };
            }
            Storms::PerBank(banks) => {
                let bank = &mut banks[bank as usize];
                bank.history = bank.history << 1 | u64::from(found);
                bank.seen_ns = at_ns;
                if bank.history & ((1 << PER_BANK_CLEAN_POLLS) - 1) == 0 {
                    *bank = Bank { seen_ns: at_ns, ..Bank::default() };
                }
            }
        }
    }

    /// Whether one poll counts for all banks.
    pub(super) fn is_of_all_banks(&self) -> bool {
        !matches!(self, Storms::PerBank(_))
    }
}

//! Ledgers being summed up, before a cause has its number in the database and after.

use std::collections::BTreeMap;
use surefoot_model::{Cause, CoreLedger, Lost};

/// What one cause took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LostSum {
    pub count: u64,
    pub total_ns: u64,
    pub max_ns: u64,
    pub while_idle_ns: u64,
}

impl LostSum {
    pub(super) fn of(lost: &Lost) -> LostSum {
        LostSum { count: lost.count, total_ns: lost.total_ns, max_ns: lost.max_ns, while_idle_ns: lost.while_idle_ns }
    }

    pub(super) fn add(&mut self, other: LostSum) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.while_idle_ns = self.while_idle_ns.saturating_add(other.while_idle_ns);
    }
}

/// The ledger of one core; `Key` tells causes apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CoreSum<Key: Ord> {
    pub wall_ns: u64,
    pub idle_ns: u64,
    pub user_ns: u64,
    pub kernel_ns: u64,
    pub unexplained_ns: u64,
    pub lost: BTreeMap<Key, LostSum>,
}

impl<Key: Ord> Default for CoreSum<Key> {
    fn default() -> Self {
        CoreSum { wall_ns: 0, idle_ns: 0, user_ns: 0, kernel_ns: 0, unexplained_ns: 0, lost: BTreeMap::new() }
    }
}

impl<Key: Ord> CoreSum<Key> {
    pub(super) fn add(&mut self, other: CoreSum<Key>) {
        self.wall_ns = self.wall_ns.saturating_add(other.wall_ns);
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
        self.user_ns = self.user_ns.saturating_add(other.user_ns);
        self.kernel_ns = self.kernel_ns.saturating_add(other.kernel_ns);
        self.unexplained_ns = self.unexplained_ns.saturating_add(other.unexplained_ns);
        for (key, lost) in other.lost {
            self.add_lost(key, lost);
        }
    }

    pub(super) fn add_lost(&mut self, key: Key, lost: LostSum) {
        self.lost.entry(key).or_default().add(lost);
    }
}

impl CoreSum<Cause> {
    pub(super) fn of(core: &CoreLedger) -> CoreSum<Cause> {
        let mut sum = CoreSum {
            wall_ns: core.wall_ns,
            idle_ns: core.idle_ns,
            user_ns: core.user_ns,
            kernel_ns: core.kernel_ns,
            unexplained_ns: core.unexplained_ns,
            lost: BTreeMap::new(),
        };
        for lost in &core.lost {
            sum.add_lost(lost.cause.clone(), LostSum::of(lost));
        }
        sum
    }

    /// The same core, ready for causes that are told apart by number.
    pub(super) fn without_causes(&self) -> CoreSum<i64> {
        CoreSum {
            wall_ns: self.wall_ns,
            idle_ns: self.idle_ns,
            user_ns: self.user_ns,
            kernel_ns: self.kernel_ns,
            unexplained_ns: self.unexplained_ns,
            lost: BTreeMap::new(),
        }
    }
}

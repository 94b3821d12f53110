//! The parts of a window while time is moved between them, within the sum.

use super::Hidden;
use std::collections::BTreeMap;
use surefoot_model::{Cause, CauseKind, Lost};

/// How much the parts may come out too large or too small for the wall time, and one of them takes the difference: a context
/// can turn out to have been another one after it was read (an NMI is booked backwards), or end while it is read. More than
/// this no such thing explains.
pub(super) const BALANCED_NS_MAX: u64 = 100_000;

/// The parts of a window.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) idle_ns: u64,
    pub(super) work_ns: u64,
    pub(super) unexplained_ns: u64,
    pub(super) lost: BTreeMap<Cause, Lost>,
}

impl Parts {
    pub(super) fn lose(&mut self, lost: Lost) {
        self.lost.entry(lost.cause.clone()).and_modify(|sum| sum.add(&lost)).or_insert(lost);
    }

    /// Takes time of an earlier window, which is counted there as something else, out of the rows of these kinds, one kind
    /// after the other. `idle_ns` of it delayed no task. Returns how much.
    pub(super) fn take_back(&mut self, kinds: &[CauseKind], earlier_ns: u64, mut idle_ns: u64) -> u64 {
        let mut rest_ns = earlier_ns;
        for kind in kinds {
            let mut rows: Vec<&mut Lost> = self.lost.values_mut().filter(|lost| lost.cause.kind == *kind).collect();
            rows.sort_by_key(|lost| std::cmp::Reverse(lost.total_ns));
            for row in rows {
                let back_ns = rest_ns.min(row.total_ns);
                let back_idle_ns = idle_ns.min(back_ns).min(row.while_idle_ns);
                row.total_ns -= back_ns;
                row.while_idle_ns = (row.while_idle_ns - back_idle_ns).min(row.total_ns);
                rest_ns -= back_ns;
                idle_ns -= back_idle_ns;
            }
        }
        earlier_ns - rest_ns
    }

    /// The first event of a core told what it had done since an earlier window, where that time counts already. It was work
    /// as far as the programs' idle time is no longer than the kernel's.
    pub(super) fn first_event_told(&mut self, earlier_ns: u64, kernel_idle_ns: u64) {
        let idle_first_ns = earlier_ns.min(self.idle_ns.saturating_sub(kernel_idle_ns));
        let of_work_ns = (earlier_ns - idle_first_ns).min(self.work_ns);
        self.work_ns -= of_work_ns;
        let of_idle_ns = (earlier_ns - of_work_ns).min(self.idle_ns);
        self.idle_ns -= of_idle_ns;
        self.take_back(&[CauseKind::Preemption, CauseKind::Nmi], earlier_ns - of_work_ns - of_idle_ns, 0);
    }

    /// Moves hidden time out of the context it was found in.
    pub(super) fn move_hidden(&mut self, hidden: &Hidden) {
        let from = if hidden.while_idle { &mut self.idle_ns } else { &mut self.work_ns };
        let moved_ns = hidden.duration_ns.min(*from);
        *from -= moved_ns;
        match &hidden.cause {
            None => self.unexplained_ns += moved_ns,
            Some(_) if moved_ns == 0 => {}
            Some(cause) => {
                // A gap can have begun before its window, or before the watch: no row lasts longer than it takes in all.
                let mut lost = Lost::new(cause.clone(), 1, moved_ns, moved_ns);
                lost.while_idle_ns = if hidden.while_idle { moved_ns } else { 0 };
                lost.histogram.record(moved_ns);
                self.lose(lost);
            }
        }
    }

    /// Steal that is not in the gaps already booked on the hypervisor.
    pub(super) fn steal_left_ns(&self, steal_ns: u64) -> u64 {
        let booked = self.lost.values().filter(|lost| lost.cause.kind == CauseKind::Hypervisor);
        steal_ns.saturating_sub(booked.map(|lost| lost.total_ns).sum())
    }

    /// Steal has no occurrences, only a sum; it is taken from work first, because an idle core cannot be kept waiting.
    pub(super) fn move_steal(&mut self, steal_ns: u64) {
        let from_work_ns = steal_ns.min(self.work_ns);
        let from_idle_ns = (steal_ns - from_work_ns).min(self.idle_ns);
        if from_work_ns + from_idle_ns == 0 {
            return;
        }
        self.work_ns -= from_work_ns;
        self.idle_ns -= from_idle_ns;
        let mut lost = Lost::new(Cause::new(CauseKind::Hypervisor, "steal"), 0, from_work_ns + from_idle_ns, 0);
        lost.while_idle_ns = from_idle_ns;
        self.lose(lost);
    }

    fn sum_ns(&self) -> u64 {
        let lost_ns = self.lost.values().map(|lost| lost.total_ns);
        [self.idle_ns, self.work_ns, self.unexplained_ns].into_iter().chain(lost_ns).fold(0, u64::saturating_add)
    }

    /// Makes the parts add up where they nearly do; returns by how much they did not. `None` where they do not: then they
    /// stay as they are, for everybody to see.
    pub(super) fn balance(&mut self, wall_ns: u64) -> Option<u64> {
        let sum_ns = self.sum_ns();
        let difference_ns = sum_ns.abs_diff(wall_ns);
        if difference_ns > BALANCED_NS_MAX {
            return None;
        }
        let mut excess_ns = sum_ns.saturating_sub(wall_ns);
        self.unexplained_ns += wall_ns.saturating_sub(sum_ns);
        let mut parts: Vec<&mut u64> = vec![&mut self.idle_ns, &mut self.work_ns, &mut self.unexplained_ns];
        parts.extend(self.lost.values_mut().map(|lost| &mut lost.total_ns));
        parts.sort_by_key(|part| std::cmp::Reverse(**part));
        for part in parts {
            let taken_ns = excess_ns.min(*part);
            *part -= taken_ns;
            excess_ns -= taken_ns;
        }
        for lost in self.lost.values_mut() {
            lost.while_idle_ns = lost.while_idle_ns.min(lost.total_ns);
        }
        Some(difference_ns)
    }
}

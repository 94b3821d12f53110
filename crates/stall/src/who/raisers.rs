//! The raisers of each kind of interrupt, counted, within a limit.

use super::naming::Namer;
use super::stacks::KernelStacks;
use super::system_calls;
use crate::ledger::names::printable;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_model::{Cause, Certainty, CpuId, Raiser};
use surefoot_probes::Raised;

/// Distinct raisers that are kept; the rest is counted as "other".
const DISTINCT: usize = 10_000;

/// What tells one raiser from another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    cpu: CpuId,
    cause: Cause,
    function: String,
    tid: u32,
    system_call: Option<u32>,
    kernel_stack: Vec<u64>,
    user_stack: Vec<u64>,
}

/// Counts raisers and has their stacks named while the processes still live.
#[derive(Default)]
pub(crate) struct RaiserTable {
    known: HashMap<Key, u32>,
    rows: Vec<Raiser>,
    others: BTreeMap<(CpuId, Cause), u64>,
    unknown: BTreeMap<(CpuId, Cause), u64>,
    namer: Option<Namer>,
}

impl RaiserTable {
    /// A table whose user stacks are named by another thread; [`Self::take_names`] brings the names in.
    pub(crate) fn named_aside(root: &Root) -> Self {
        RaiserTable { namer: Namer::start(root), ..RaiserTable::default() }
    }

    /// How often the process that reads the names of user stacks ended over a file.
    pub(crate) fn naming_deaths(&self) -> u64 {
        self.namer.as_ref().map_or(0, Namer::deaths)
    }

    /// User stacks whose names are not there yet.
    pub(crate) fn not_named(&self) -> usize {
        self.namer.as_ref().map_or(0, Namer::outstanding)
    }

    /// Takes over the names that have been found; waits for those that are missing, but no longer than `patience`.
    pub(crate) fn take_names(&mut self, patience: Duration) {
        for (row, names) in self.namer.iter_mut().flat_map(|namer| namer.take(patience)) {
            self.rows[row as usize].user_stack = names;
        }
    }

    /// Counts an arrival of `cause` on `cpu`, raised by `raised` for `function`. Returns the raiser's row, or `None` when
    /// there are too many to tell it apart.
    pub(crate) fn count(
        &mut self,
        stacks: &KernelStacks,
        (cpu, cause): (CpuId, Cause),
        certainty: Certainty,
        function: String,
        raised: &Raised,
    ) -> Option<u32> {
        // In an interrupt the current thread is a bystander: it must not tell raisers apart, nor be shown.
        let tid = if raised.in_interrupt { 0 } else { raised.tid };
        let key = Key {
            cpu,
            cause,
            function,
            tid,
            system_call: raised.system_call,
            kernel_stack: raised.kernel_stack.clone(),
            user_stack: raised.user_stack.clone(),
        };
        if let Some(&row) = self.known.get(&key) {
            self.rows[row as usize].count += 1;
            return Some(row);
        }
        if self.rows.len() >= DISTINCT {
            *self.others.entry((key.cpu, key.cause)).or_default() += 1;
            return None;
        }
        let raiser = Raiser {
            certainty,
            function: key.function.clone(),
            syscall: raised.system_call.map_or_else(String::new, system_calls::name),
            comm: if raised.in_interrupt { "(interrupt)".to_owned() } else { printable(&raised.comm) },
            pid: if raised.in_interrupt { 0 } else { raised.pid },
            tid,
            wakee: printable(&raised.wakee),
            count: 1,
            kernel_stack: stacks.frames(&raised.kernel_stack),
            user_stack: self.user_frames(raised),
        };
        Some(self.add(key, raiser))
    }

    /// The frames of a new row's user stack, or what is shown until they are there.
    fn user_frames(&mut self, raised: &Raised) -> Vec<String> {
        let Raised { pid, user_stack, user_top, .. } = raised;
        match &mut self.namer {
            Some(namer) => namer.ask(self.rows.len() as u32, *pid, user_stack, *user_top),
            // No thread can be had for it.
            None => user_stack.iter().map(|address| format!("{address:#x} (not named)")).collect(),
        }
    }

    fn add(&mut self, key: Key, raiser: Raiser) -> u32 {
        let row = self.rows.len() as u32;
        self.known.insert(key, row);
        self.rows.push(raiser);
        row
    }

    /// Counts an arrival that was raised on its own core, in a context without a stack. The thread is asked for its name
    /// once: to ask at each arrival would open a file each time. Returns as [`Self::count`] does.
    pub(crate) fn count_context(
        &mut self,
        place: (CpuId, Cause),
        context: String,
        comm: impl FnOnce() -> String,
        tid: u32,
    ) -> Option<u32> {
        let key = Key {
            cpu: place.0,
            cause: place.1,
            function: context,
            tid,
            system_call: None,
            kernel_stack: Vec::new(),
            user_stack: Vec::new(),
        };
        if let Some(&row) = self.known.get(&key) {
            self.rows[row as usize].count += 1;
            return Some(row);
        }
        if self.rows.len() >= DISTINCT {
            *self.others.entry((key.cpu, key.cause)).or_default() += 1;
            return None;
        }
        let raiser = Raiser {
            certainty: Certainty::Certain,
            function: key.function.clone(),
            syscall: String::new(),
            comm: comm(),
            pid: 0,
            tid,
            wakee: String::new(),
            count: 1,
            kernel_stack: Vec::new(),
            user_stack: Vec::new(),
        };
        Some(self.add(key, raiser))
    }

    /// Every raiser that is told apart, by row.
    pub(crate) fn all(self) -> Vec<Raiser> {
        self.rows
    }

    /// Counts an arrival whose raiser is not known.
    pub(crate) fn count_unknown(&mut self, place: (CpuId, Cause)) {
        *self.unknown.entry(place).or_default() += 1;
    }

    /// The raisers of a kind of interrupt on a core, most frequent first, and how many arrivals have none.
    pub(crate) fn of(&self, cpu: CpuId, cause: &Cause) -> (Vec<Raiser>, u64) {
        let mut raisers: Vec<Raiser> = self
            .known
            .iter()
            .filter(|(key, _)| key.cpu == cpu && key.cause == *cause)
            .map(|(_, &row)| self.rows[row as usize].clone())
            .collect();
        let place = (cpu, cause.clone());
        if let Some(&count) = self.others.get(&place) {
            raisers.push(super::limit::other(Certainty::Certain, count));
        }
        raisers.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (&a.comm, a.tid).cmp(&(&b.comm, b.tid))));
        (raisers, self.unknown.get(&place).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_names::KernelNames;
    use surefoot_model::CauseKind;
    use surefoot_probes::RaisedKind;
    use surefoot_testkit::HostTree;

    fn raised(tid: u32, in_interrupt: bool) -> Raised {
        Raised {
            at_ns: 0,
            kind: RaisedKind::Function,
            key: 1,
            function: 2,
            cpu: CpuId(1),
            tid,
            pid: 1,
            comm: *b"evil\x1b[2Jname\0\0\0\0",
            wakee: [0; 16],
            system_call: Some(11),
            in_interrupt,
            kernel_stack: Vec::new(),
            user_stack: Vec::new(),
            user_top: 0,
            user_copy: None,
            from: CpuId(0),
        }
    }

    #[test]
    fn ten_thousand_raisers_are_told_apart_and_the_rest_is_counted() {
        let stacks = KernelStacks(KernelNames::load(&Root::at(HostTree::new().path())));
        let mut table = RaiserTable::default();
        let place = || (CpuId(1), Cause::new(CauseKind::TlbShootdown, "flush_tlb_func"));
        for tid in 0..DISTINCT as u32 + 7 {
            table.count(&stacks, place(), Certainty::Certain, "f".into(), &raised(tid + 1, false));
        }
        table.count(&stacks, place(), Certainty::Certain, "f".into(), &raised(1, false));
        table.count_unknown(place());
        let (raisers, unknown) = table.of(CpuId(1), &place().1);
        assert_eq!((raisers.len(), unknown), (DISTINCT + 1, 1));
        assert_eq!((raisers[0].comm.as_str(), raisers[0].count), ("(other)", 7));
        assert_eq!((raisers[1].tid, raisers[1].count), (1, 2));
        assert_eq!(raisers[1].comm, "evil?[2Jname");
        assert_eq!(raisers[1].syscall, system_calls::name(11));
        assert_eq!(table.of(CpuId(0), &place().1), (Vec::new(), 0));
    }

    #[test]
    fn in_an_interrupt_the_bystander_is_neither_shown_nor_told_apart() {
        let stacks = KernelStacks(KernelNames::load(&Root::at(HostTree::new().path())));
        let mut table = RaiserTable::default();
        let place = || (CpuId(1), Cause::new(CauseKind::CallFunction, "f"));
        for tid in [5, 6] {
            let raised = Raised { system_call: None, ..raised(tid, true) };
            table.count(&stacks, place(), Certainty::Certain, "f".into(), &raised);
        }
        let (raisers, _) = table.of(CpuId(1), &place().1);
        assert_eq!(raisers.len(), 1);
        assert_eq!(
            (raisers[0].comm.as_str(), raisers[0].pid, raisers[0].tid, raisers[0].count),
            ("(interrupt)", 0, 0, 2)
        );
    }
}

//! The raisers of each kind of interrupt, counted, within a limit.

use super::interned::{Interned, Number, Texts};
use super::naming::Namer;
use super::stacks::KernelStacks;
use super::system_calls;
use crate::ledger::names::printable;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_model::{Cause, Certainty, CpuId, Raiser};
use surefoot_probes::Raised;
use surefoot_who::limit::Together;

/// Distinct raisers that are kept; the rest is counted by name.
const DISTINCT: usize = 10_000;

/// Names of threads that are asked of /proc between two reports, once raisers are no longer told apart.
const NAMES_OPENED: usize = 1_000;

/// Threads whose names are remembered then.
const THREADS_NAMED: usize = 4096;

/// Distinct names of the rest, of all interrupts together; beyond, it is counted as "other".
const NAMES_OF_THE_REST: usize = 4096;

/// What tells one raiser from another. Ten thousand of them have some MiB: what many have in common is kept once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    cpu: CpuId,
    cause: Number,
    function: Number,
    tid: u32,
    system_call: Option<u32>,
    kernel_stack: Number,
    user_stack: Box<[u64]>,
    /// The program that the user stack is of: another one may have the same addresses.
    image: u64,
}

/// What is shown of a raiser beside its key.
struct Row {
    certainty: Certainty,
    comm: Number,
    wakee: Number,
    pid: u32,
    count: u64,
    user_stack: UserFrames,
}

enum UserFrames {
    /// Why the addresses of the key have no names, or not yet.
    Unnamed(&'static str),
    Named(Box<[Number]>),
}

type CountByName = BTreeMap<(Certainty, Option<Number>), u64>;

/// Counts raisers and has their stacks named while the processes still live.
#[derive(Default)]
pub(crate) struct RaiserTable {
    known: HashMap<Key, u32>,
    rows: Vec<Row>,
    causes: Interned<Cause>,
    texts: Texts,
    kernel_stacks: Interned<Vec<u64>>,
    /// The frames of each of these stacks.
    kernel_frames: Vec<Box<[Number]>>,
    /// The rest, by the number of the name; without one where there was no room.
    rest: BTreeMap<(CpuId, Cause), CountByName>,
    rest_names: usize,
    unknown: BTreeMap<(CpuId, Cause), u64>,
    namer: Option<Namer>,
    /// Names of threads that were asked for when there was no room for their rows; forgotten at each report, as numbers are given again.
    threads: HashMap<u32, String>,
    names_opened: usize,
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
        self.names_opened = 0;
        self.threads.clear();
        for (row, names) in self.namer.iter_mut().flat_map(|namer| namer.take(patience)) {
            let numbers: Option<Box<[Number]>> = names.iter().map(|name| self.texts.number(name)).collect();
            let too_many = UserFrames::Unnamed("not named: too many names");
            self.rows[row as usize].user_stack = numbers.map_or(too_many, UserFrames::Named);
        }
    }

    /// Counts an arrival of `cause` on `cpu`, raised by `raised` for `function`. Returns the raiser's row, or `None` when
    /// there are too many to tell it apart.
    pub(crate) fn count(
        &mut self,
        stacks: &KernelStacks,
        place: (CpuId, Cause),
        certainty: Certainty,
        function: String,
        raised: &Raised,
    ) -> Option<u32> {
        // In an interrupt the current thread is a bystander: it must not tell raisers apart, nor be shown.
        let (tid, pid) = if raised.in_interrupt { (0, 0) } else { (raised.tid, raised.pid) };
        let kernel_stack = self.kernel_stack(stacks, &raised.kernel_stack);
        let key =
            self.key(&place, &function, tid, raised.system_call, kernel_stack, (raised.image, &raised.user_stack));
        let comm = || if raised.in_interrupt { "(interrupt)".to_owned() } else { printable(&raised.comm) };
        let Some(key) = key else { return self.count_rest(place, certainty, &comm()) };
        if let Some(&row) = self.known.get(&key) {
            self.rows[row as usize].count += 1;
            return Some(row);
        }
        if self.rows.len() >= DISTINCT {
            return self.count_rest(place, certainty, &comm());
        }
        let name = comm();
        let (Some(comm), Some(wakee)) = (self.texts.number(&name), self.texts.number(&printable(&raised.wakee))) else {
            return self.count_rest(place, certainty, &name);
        };
        let user_stack = UserFrames::Unnamed(match &mut self.namer {
            Some(namer) => {
                namer.ask(self.rows.len() as u32, (raised.pid, raised.image), &raised.user_stack, raised.user_top)
            }
            None => "not named",
        });
        Some(self.add(key, Row { certainty, comm, wakee, pid, count: 1, user_stack }))
    }

    fn key(
        &mut self,
        place: &(CpuId, Cause),
        function: &str,
        tid: u32,
        system_call: Option<u32>,
        kernel_stack: Number,
        (image, user_stack): (u64, &[u64]),
    ) -> Option<Key> {
        let function = self.texts.number(function)?;
        let cause = self.causes.number(&place.1);
        Some(Key {
            cpu: place.0,
            cause,
            function,
            tid,
            system_call,
            kernel_stack,
            user_stack: user_stack.into(),
            image,
        })
    }

    /// Counts an arrival whose raiser is not told apart from others of its name.
    fn count_rest(&mut self, place: (CpuId, Cause), certainty: Certainty, comm: &str) -> Option<u32> {
        let name = self.texts.number(comm);
        let names = self.rest.entry(place).or_default();
        if let Some(count) = names.get_mut(&(certainty, name)) {
            *count += 1;
            return None;
        }
        let has_room = self.rest_names < NAMES_OF_THE_REST;
        self.rest_names += usize::from(has_room);
        *names.entry((certainty, name.filter(|_| has_room))).or_default() += 1;
        None
    }

    /// The number of a kernel stack, which is named when it is seen first.
    fn kernel_stack(&mut self, stacks: &KernelStacks, addresses: &Vec<u64>) -> Number {
        // Beyond, all of them count as one: there are no more rows to come.
        if self.kernel_frames.len() > DISTINCT && !self.kernel_stacks.has(addresses) {
            return 0;
        }
        let number = self.kernel_stacks.number(addresses);
        if number as usize == self.kernel_frames.len() {
            let frames = stacks.frames(addresses);
            self.kernel_frames.push(frames.iter().filter_map(|frame| self.texts.number(frame)).collect());
        }
        number
    }

    fn add(&mut self, key: Key, row: Row) -> u32 {
        let number = self.rows.len() as u32;
        self.known.insert(key, number);
        self.rows.push(row);
        number
    }

    /// Counts an arrival that was raised on its own core, in a context without a stack. `comm` is asked for the thread's name, and told
    /// whether it may open a file for that: not at each arrival. Returns as [`Self::count`] does.
    pub(crate) fn count_context(
        &mut self,
        place: (CpuId, Cause),
        context: String,
        comm: impl FnOnce(bool) -> Option<String>,
        tid: u32,
    ) -> Option<u32> {
        let kernel_stack = self.kernel_stacks.number(&Vec::new());
        if kernel_stack as usize == self.kernel_frames.len() {
            self.kernel_frames.push(Box::default());
        }
        let certainty = Certainty::Certain;
        let key = self.key(&place, &context, tid, None, kernel_stack, (0, &[]));
        if let Some(&row) = key.as_ref().and_then(|key| self.known.get(key)) {
            self.rows[row as usize].count += 1;
            return Some(row);
        }
        let name = self.name_of(tid, comm);
        let Some(key) = key.filter(|_| self.rows.len() < DISTINCT) else {
            return self.count_rest(place, certainty, &name);
        };
        let (Some(comm), Some(wakee)) = (self.texts.number(&name), self.texts.number("")) else {
            return self.count_rest(place, certainty, &name);
        };
        let user_stack = UserFrames::Named(Box::default());
        Some(self.add(key, Row { certainty, comm, wakee, pid: 0, count: 1, user_stack }))
    }

    /// The name of a thread: from its file at most so often between two reports, and empty where that was more.
    fn name_of(&mut self, tid: u32, comm: impl FnOnce(bool) -> Option<String>) -> String {
        if let Some(name) = self.threads.get(&tid) {
            return name.clone();
        }
        let may_open = self.rows.len() < DISTINCT || self.names_opened < NAMES_OPENED;
        let Some(name) = comm(may_open) else { return String::new() };
        if tid > 0 && self.rows.len() >= DISTINCT {
            self.names_opened += 1;
            if self.threads.len() >= THREADS_NAMED {
                self.threads.clear();
            }
            self.threads.insert(tid, name.clone());
        }
        name
    }

    /// Every raiser that is told apart, by row.
    pub(crate) fn all(self) -> Vec<Raiser> {
        let mut keys: Vec<(&Key, u32)> = self.known.iter().map(|(key, &row)| (key, row)).collect();
        keys.sort_unstable_by_key(|(_, row)| *row);
        keys.into_iter().map(|(key, row)| self.raiser(key, row)).collect()
    }

    /// Counts an arrival whose raiser is not known.
    pub(crate) fn count_unknown(&mut self, place: (CpuId, Cause)) {
        *self.unknown.entry(place).or_default() += 1;
    }

    /// The raisers of a kind of interrupt on a core, most frequent first, and how many arrivals have none. Of more than
    /// `most` raisers the rest is counted together.
    pub(crate) fn of(&self, cpu: CpuId, cause: &Cause, most: usize) -> (Vec<Raiser>, u64) {
        let place = (cpu, cause.clone());
        let number = self.causes.find(cause);
        let of_place = self.known.iter().filter(|(key, _)| key.cpu == cpu && Some(key.cause) == number);
        let mut keys: Vec<(&Key, u32)> = of_place.map(|(key, &row)| (key, row)).collect();
        let row = |number: u32| &self.rows[number as usize];
        let rank = |(key, number): &(&Key, u32)| {
            let Row { count, comm, .. } = row(*number);
            (Reverse(*count), self.texts.get(*comm), key.tid)
        };
        keys.sort_by(|one, other| rank(one).cmp(&rank(other)));
        let mut together = Together::default();
        for (key, beyond) in keys.drain(keys.len().min(most)..) {
            let Row { certainty, comm, pid, count, .. } = row(beyond);
            let syscall = key.system_call.map_or_else(String::new, system_calls::name);
            together.add(*certainty, self.texts.get(*comm), &syscall, *pid, *count);
        }
        for (&(certainty, comm), &count) in self.rest.get(&place).into_iter().flatten() {
            match comm.map(|comm| self.texts.get(comm)) {
                Some(comm) if !comm.is_empty() => together.add(certainty, comm, "", 0, count),
                _ => together.add_nameless(certainty, count),
            }
        }
        let mut raisers: Vec<Raiser> = keys.into_iter().map(|(key, row)| self.raiser(key, row)).collect();
        raisers.extend(together.rows());
        raisers.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (&a.comm, a.tid).cmp(&(&b.comm, b.tid))));
        (raisers, self.unknown.get(&place).copied().unwrap_or(0))
    }

    fn raiser(&self, key: &Key, row: u32) -> Raiser {
        let Row { certainty, comm, wakee, pid, count, user_stack } = &self.rows[row as usize];
        let text = |number: &Number| self.texts.get(*number).to_owned();
        let unnamed = |why| key.user_stack.iter().map(|address| format!("{address:#x} ({why})")).collect();
        Raiser {
            certainty: *certainty,
            function: text(&key.function),
            syscall: key.system_call.map_or_else(String::new, system_calls::name),
            comm: text(comm),
            pid: *pid,
            tid: key.tid,
            wakee: text(wakee),
            count: *count,
            kernel_stack: self.kernel_frames[key.kernel_stack as usize].iter().map(text).collect(),
            user_stack: match user_stack {
                UserFrames::Unnamed(why) => unnamed(*why),
                UserFrames::Named(frames) => frames.iter().map(text).collect(),
            },
            is_sum: false,
        }
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
            image: 0,
            user_copy: None,
            from: CpuId(0),
        }
    }

    #[test]
    fn the_same_addresses_in_two_programs_are_two_raisers() {
        let stacks = KernelStacks(KernelNames::load(&Root::at(HostTree::new().path())));
        let mut table = RaiserTable::default();
        let mut count = |image| {
            let place = (CpuId(1), Cause::new(CauseKind::TlbShootdown, "flush_tlb_func"));
            let raised = Raised { user_stack: vec![0x40_1000], image, ..raised(1, false) };
            table.count(&stacks, place, Certainty::Certain, String::new(), &raised)
        };
        assert_eq!([count(5), count(6), count(5)], [Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn ten_thousand_raisers_are_told_apart_and_the_rest_is_counted() {
        let stacks = KernelStacks(KernelNames::load(&Root::at(HostTree::new().path())));
        let mut table = RaiserTable::default();
        let place = || (CpuId(1), Cause::new(CauseKind::TlbShootdown, "flush_tlb_func"));
        for tid in 0..DISTINCT as u32 + 7 {
            table.count(&stacks, place(), Certainty::Certain, "f".into(), &raised(tid + 1, false));
        }
        // Whose the rest is stays known, and how sure that is.
        let other = Raised { comm: *b"cc1plus\0\0\0\0\0\0\0\0\0", ..raised(u32::MAX, false) };
        for _ in 0..5 {
            table.count(&stacks, place(), Certainty::Probable, "f".into(), &other);
        }
        table.count(&stacks, place(), Certainty::Certain, "f".into(), &raised(1, false));
        table.count_unknown(place());
        let (raisers, unknown) = table.of(CpuId(1), &place().1, usize::MAX);
        assert_eq!((raisers.len(), unknown), (DISTINCT + 2, 1));
        let short = |raiser: &Raiser| (raiser.comm.clone(), raiser.certainty, raiser.pid, raiser.tid, raiser.count);
        let name = || "evil?[2Jname".to_owned();
        assert_eq!(short(&raisers[0]), (name(), Certainty::Certain, 0, 0, 7));
        assert_eq!(short(&raisers[1]), ("cc1plus".into(), Certainty::Probable, 0, 0, 5));
        assert_eq!(short(&raisers[2]), (name(), Certainty::Certain, 1, 1, 2));
        assert_eq!(raisers[2].syscall, system_calls::name(11));
        let (few, _) = table.of(CpuId(1), &place().1, 2);
        // Those that were told apart have a system call in common; of the rest it is not kept.
        let counts: Vec<u64> = few.iter().map(|raiser| raiser.count).collect();
        assert_eq!(counts, [DISTINCT as u64 - 2, 7, 5, 2, 1]);
        assert_eq!((few[0].syscall.as_str(), few[0].pid), (&*system_calls::name(11), 1));
        assert_eq!(table.of(CpuId(0), &place().1, usize::MAX), (Vec::new(), 0));
    }

    /// A watch of some minutes on a busy host has filled its rows; what tasks raise on their own core then has names all the same.
    #[test]
    fn tasks_keep_their_names_when_there_is_no_row_left() {
        let stacks = KernelStacks(KernelNames::load(&Root::at(HostTree::new().path())));
        let mut table = RaiserTable::default();
        let place = || (CpuId(1), Cause::new(CauseKind::Softirq, "RCU"));
        for tid in 0..DISTINCT as u32 {
            table.count(&stacks, place(), Certainty::Probable, "f".into(), &raised(tid + 1, false));
        }
        let mut opened = 0;
        for arrival in 0..5_000u32 {
            let name = |may_open: bool| {
                opened += u32::from(may_open);
                may_open.then(|| format!("worker/{}", arrival % 3))
            };
            table.count_context(place(), "in a task".into(), name, 1_000_000 + arrival % 90);
        }
        table.count_context(place(), "in NIC".into(), |_| Some("(interrupt)".into()), 0);
        let (raisers, _) = table.of(CpuId(1), &place().1, 0);
        let certain = raisers.iter().filter(|raiser| raiser.certainty == Certainty::Certain);
        let certain: Vec<(&str, u64)> = certain.map(|raiser| (raiser.comm.as_str(), raiser.count)).collect();
        assert_eq!(certain, [("worker/0", 1_667), ("worker/1", 1_667), ("worker/2", 1_666), ("(interrupt)", 1)]);
        assert_eq!(opened, 90, "no file is opened at each arrival");
        // However many threads there are.
        let mut opened = 0;
        for tid in 0..5_000 {
            let name = |may_open: bool| {
                opened += usize::from(may_open);
                may_open.then(|| "short".into())
            };
            table.count_context(place(), "in a task".into(), name, 2_000_000 + tid);
        }
        assert_eq!(opened, NAMES_OPENED - 90);
    }

    /// Nothing of what is told apart may fill the memory, however long names and however many stacks are.
    #[test]
    fn what_a_stranger_can_make_differ_is_limited() {
        let stacks = KernelStacks(KernelNames::load(&Root::at(HostTree::new().path())));
        let mut table = RaiserTable::default();
        let place = || (CpuId(1), Cause::new(CauseKind::CallFunction, "f"));
        for number in 0..3 * DISTINCT as u64 {
            let raised = Raised { kernel_stack: vec![number; 20], ..raised(1, false) };
            table.count(&stacks, place(), Certainty::Certain, format!("{number:0500}"), &raised);
        }
        assert!(table.rows.len() <= DISTINCT && table.kernel_frames.len() <= DISTINCT + 1);
        let (raisers, _) = table.of(CpuId(1), &place().1, usize::MAX);
        assert_eq!(raisers.iter().map(|raiser| raiser.count).sum::<u64>(), 3 * DISTINCT as u64, "all are counted");
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
        let (raisers, _) = table.of(CpuId(1), &place().1, usize::MAX);
        assert_eq!(raisers.len(), 1);
        assert_eq!(
            (raisers[0].comm.as_str(), raisers[0].pid, raisers[0].tid, raisers[0].count),
            ("(interrupt)", 0, 0, 2)
        );
    }
}

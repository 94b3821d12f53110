//! Memory errors of a recorded tree, looked for by a child: the tree is somebody's, and may lie on a file system that does not answer.
//!
//! The counts, the histories and the management controllers stay with this process, so that a new child goes on where the one before
//! it was. What that one had heard of since then is in the history.

use super::Options;
use super::counts_file::or_why;
use super::source::{Past, pace_of};
use crate::rooms::apart::{self, Apart, Question};
use crate::sources::End;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use surefoot_hostfs::Root;
use surefoot_memory::bmc::{Poller, join_all};
use surefoot_memory::closing::Closing;
use surefoot_memory::counts::Kept;
use surefoot_memory::rate::Limit;
use surefoot_memory::watch::{Keeper, Pace, Settings, Watch};
use surefoot_model::{ErrorReport, MemoryEvent, MemoryLook, MemoryProblem};
use surefoot_settings::Live;

/// Where a child goes on.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::rooms) struct Begin {
    kept: Option<Kept>,
    kept_reports: Vec<ErrorReport>,
    kept_problem: Option<MemoryProblem>,
    #[serde(default)]
    closings: Vec<Closing>,
}

/// What a child saw.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::rooms) struct Seen {
    events: Vec<MemoryEvent>,
    /// The counts, where it looked at them.
    kept: Option<Kept>,
    is_behind: bool,
}

/// The child's side: a watch of the tree.
#[derive(Debug, Default)]
pub(in crate::rooms) struct Tree(Option<Watch>);

impl Tree {
    /// A turn of the watch of the tree, of which there is one or, while it does not answer, none.
    pub(in crate::rooms) fn look(
        &mut self,
        trees: &[PathBuf],
        begin: Option<Begin>,
        (pace, limit): (Pace, Limit),
        is_last: bool,
        begins: &mut dyn FnMut(usize),
    ) -> Seen {
        let Some(tree) = trees.first() else { return Seen::default() };
        begins(0);
        if let Some(Begin { kept, kept_reports, kept_problem, closings }) = begin {
            let settings = Settings { kept, kept_reports, kept_problem, closings, pace, limit, ..Settings::default() };
            self.0 = Some(Watch::open(&Root::at(tree), settings));
        }
        let Some(watch) = &mut self.0 else { return Seen::default() };
        watch.set(pace, limit);
        let events = if is_last { watch.finish() } else { watch.turn() };
        let has_looked = events.iter().any(|event| matches!(event, MemoryEvent::Look(_)));
        Seen { events, kept: has_looked.then(|| watch.kept().clone()), is_behind: watch.is_behind() }
    }
}

/// The source: a child's looks, joined with what this process keeps.
pub(super) struct ByChild {
    live: Live,
    apart: Apart<Seen>,
    history: Option<PathBuf>,
    keeper: Option<Keeper>,
    kept: Option<Kept>,
    poller: Option<Poller>,
    has_bmc: bool,
    /// The newest look, without what management controllers said.
    look: Option<MemoryLook>,
    pub(super) is_behind: bool,
    /// Whether the child knows where to go on.
    has_begun: bool,
}

impl ByChild {
    pub(super) fn new(tree: &Path, options: Options, live: Live) -> Self {
        // Which host the tree is of only the child may read.
        let mut keeper = options.state.as_deref().map(or_why).map(|file| Keeper::open(file, None));
        ByChild {
            apart: Apart::new("looks for memory errors", vec![tree.to_owned()]),
            history: options.history,
            kept: keeper.as_mut().and_then(Keeper::take),
            keeper,
            has_bmc: options.bmc.is_any(),
            poller: Poller::start(options.bmc, live.now().settings.memory.bmc_interval),
            live,
            look: None,
            is_behind: false,
            has_begun: false,
        }
    }

    fn seen(&mut self, end: &impl apart::Ends, is_last: bool) -> Result<Vec<MemoryEvent>, String> {
        let (history, kept) = (&self.history, &self.kept);
        let (pace, limit) = pace_of(&self.live);
        let has_begun = self.has_begun;
        // Until an answer came the child may be a new one.
        self.has_begun = false;
        let seen = self.apart.look(end, |trees, is_new| {
            let begin = (is_new || !has_begun).then(|| {
                let (Past { reports: kept_reports, closings }, kept_problem) = Past::of(history.as_deref());
                Box::new(Begin { kept: kept.clone(), kept_reports, kept_problem, closings })
            });
            Question::Memory { trees: apart::bytes_of(trees), begin, pace, limit, is_last }
        })?;
        self.has_begun = self.apart.silent().next().is_none();
        let Some(Seen { mut events, kept, is_behind }) = seen else { return Ok(Vec::new()) };
        self.is_behind = is_behind;
        if let Some(kept) = kept {
            self.kept = Some(kept);
        }
        let has_answers = self.poller.as_mut().is_some_and(|poller| poller.newest().1);
        let looked = |event: &MemoryEvent| matches!(event, MemoryEvent::Look(_));
        if has_answers && !events.iter().any(looked) {
            events.extend(self.look.clone().map(MemoryEvent::Look));
        }
        for event in &mut events {
            if let MemoryEvent::Look(look) = event {
                self.look = Some(look.clone());
                self.complete(look, is_last);
            }
        }
        Ok(events)
    }

    /// Keeps the counts, and adds what the child does not know.
    fn complete(&mut self, look: &mut MemoryLook, is_last: bool) {
        if let (Some(keeper), Some(kept)) = (self.keeper.as_mut().filter(|_| look.unsupported.is_none()), &self.kept) {
            keeper.keep(kept, look.at_ns, is_last);
        }
        if let Some(poller) = &mut self.poller {
            let counts = |look: &MemoryLook| -> Vec<[u64; 2]> {
                look.dimms.iter().map(|dimm| [dimm.corrected(), dimm.uncorrected()]).collect()
            };
            let before = counts(look);
            join_all(look, poller.newest().0);
            // The child does not know what the management controller counted.
            for (dimm, before) in look.dimms.iter_mut().zip(before) {
                let closed = self.kept.as_ref().and_then(|kept| kept.closed(&dimm.id));
                let all = [dimm.corrected(), dimm.uncorrected()];
                if let (Some(closed), Some(told)) = (closed, &mut dimm.closed) {
                    let [corrected, uncorrected] = closed.since(before, all);
                    told.corrected_since = told.corrected_since.max(corrected);
                    told.uncorrected_since = told.uncorrected_since.max(uncorrected);
                }
            }
        }
        if self.has_bmc {
            look.unsupported = None;
        }
        look.problems.extend(self.keeper.iter().filter_map(Keeper::problem).cloned());
    }
}

impl ByChild {
    pub(super) fn turn(&mut self, end: &End) -> Result<Vec<MemoryEvent>, String> {
        self.seen(end, false)
    }

    /// The last look, where the tree answers.
    pub(super) fn closing(&mut self) -> Vec<MemoryEvent> {
        self.seen(&Now, true).unwrap_or_default()
    }

    pub(super) fn problem(&self) -> Option<String> {
        self.apart.problem()
    }
}

/// The watch ends.
struct Now;

impl apart::Ends for Now {
    fn is_asked_for(&self) -> bool {
        true
    }
}

//! Two laboratories done anew: the SMI slides (Bhatia et al., "Effects of System Management Interrupts") and ICPE'20 (Dixit et
//! al.). A preset is the cases of a [`Plan`](crate::plan::Plan), and the rows that its outcome fills: what was published beside
//! what was found here, where the emulation must differ, and a verdict by the [`Rule`] of each sentence.
//!
//! Published numbers are those that we have read; where a source has one that we do not know, the row says so.

mod icpe20;
mod row;
mod slides;
mod verdict;

pub use row::{Drawn, Extra, Row};
pub use verdict::{Evidence, Number, Rule, Scale, Tested, Verdict};

use crate::disturbance::Spec;
use crate::plan::{Case, Outcome, Treatment};
use crate::workload::ready::{self, Setting};
use crate::workload::{Guard, Workload};
use row::{View, judged};
use slides::Simulated;

/// Which laboratory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// The SMI slides.
    Slides,
    /// ICPE'20.
    Icpe20,
}

impl Preset {
    /// Both.
    pub const ALL: [Preset; 2] = [Preset::Slides, Preset::Icpe20];

    /// The word in `--preset`.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Slides => "slides",
            Preset::Icpe20 => "icpe20",
        }
    }

    /// Its source.
    pub fn source(self) -> &'static str {
        match self {
            Preset::Slides => "the SMI slides (Bhatia et al.)",
            Preset::Icpe20 => "ICPE'20 (Dixit et al.)",
        }
    }

    /// How often each run is done by default: a full preset gives every row enough runs for its verdict, a quick one does not.
    pub fn repetitions(self, is_quick: bool) -> usize {
        if is_quick { 3 } else { 10 }
    }

    /// The lengths of stalls that are found by counting as well, in nanoseconds.
    pub fn lengths_ns(self) -> &'static [u64] {
        match self {
            Preset::Slides => &[slides::SHORT_NS, slides::LONG_NS],
            Preset::Icpe20 => &[],
        }
    }

    /// The stalls under which the wall clock is compared with a reference: of all cores.
    pub fn drifting() -> Spec {
        slides::long(4)
    }

    /// What is run.
    pub fn cases(self, setting: &Setting, guard: &Guard) -> Vec<Case> {
        let kinds = match self {
            Preset::Slides => slides::cases(setting),
            Preset::Icpe20 => icpe20::cases(setting),
        };
        kinds.into_iter().filter_map(|(name, treatments)| case(name, treatments, setting, guard)).collect()
    }

    /// What came of it.
    pub fn rows(self, cases: &[Case], outcome: &Outcome, extras: &[Extra]) -> Vec<Row> {
        let view = View { cases, outcome };
        match self {
            Preset::Slides => judged(&slides::rows(&view, extras, &Simulated::run())),
            Preset::Icpe20 => judged(&icpe20::rows(&view, extras)),
        }
    }
}

/// A ready-made workload as a case.
pub fn case(name: &str, treatments: Vec<Treatment>, setting: &Setting, guard: &Guard) -> Option<Case> {
    let ready = ready::named(name, setting)?;
    Some(Case {
        name: ready.name.to_owned(),
        workload: Workload::new(ready.command, guard.clone()),
        measures: ready.measures,
        treatments,
        unsupported: ready.unsupported,
        lasts: Some(ready.lasts),
    })
}

fn treatment(name: &str, spec: Spec) -> Treatment {
    Treatment { name: name.to_owned(), spec }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod worlds;

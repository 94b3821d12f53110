//! What each capability knows of a host, what it finds, and the words for it. The watch, the command and the reports of experiments use the
//! same rooms, so they say the same.
//!
//! One folder per capability. `state.rs` folds events, `findings.rs` judges the state, `rules.rs` lists what can be found, `view.rs` is the
//! answer of the page and the API. Sources, which read the machine, and routes and metrics, which serve it, are in `surefoot-daemon`.
//!
//! # Invariants
//! - No I/O, no clock, no thread, no HTTP, no printing: a recording folds to what the live run showed, and a caller tells the time
//!   ([`moment::Moment`]).
//! - Severity, advice and sentences are made here and nowhere else, each finding from its rule ([`rules`]).
//! - What one user may not see of another's is left out before an answer is made of it ([`viewer`]).
//! - Every list has a limit, and what it drops is counted.
//!
//! ```
//! use surefoot_model::{Event, HostCheck};
//! use surefoot_rooms::remedy::{State, findings};
//! let mut state = State::default();
//! assert!(findings::of(&state).is_empty());
//! state.take(&Event::Check(Box::new(HostCheck { name: "disk".into(), ..HostCheck::default() })));
//! assert_eq!(findings::of(&state).len(), 1);
//! ```

#![forbid(unsafe_code)]

pub mod answer;
pub mod checkpoint;
pub mod disturb;
pub mod drops;
pub mod memory;
pub mod moment;
pub mod nic;
pub mod remedy;
pub mod ring;
pub mod rules;
pub mod shelf;
pub mod stall;
pub mod viewer;
pub mod watch;

pub use surefoot_model::SCHEMA;

/// The rules of each room, in the order of the rooms; [`rules::all`] goes through them.
const RULES: [&[&rules::Rule]; 7] = [
    stall::rules::RULES,
    memory::rules::RULES,
    checkpoint::rules::RULES,
    nic::rules::RULES,
    disturb::rules::RULES,
    remedy::rules::RULES,
    watch::rules::RULES,
];

/// Points of a chart: the newest.
pub const CHART_POINTS_MAX: usize = 120;

/// What a room did with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The event is of another room, or nothing of it is kept one by one.
    NotMine,
    /// It is kept; live clients are told of it or not.
    Kept {
        /// Whether they are.
        is_news: bool,
    },
    /// It is too large to be kept.
    Oversized,
}

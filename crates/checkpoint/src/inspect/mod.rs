//! Checkpoints of any job, looked at from outside: what is there, whether it is good, and out of it into plain files.
//!
//! A directory of a tier, of a job, or anything above or below is taken. No symbolic link below it is followed, and what
//! is there is believed only as far as it is checked.

mod drain;
mod elsewhere;
mod files;
mod jobs;
mod lost;
mod missing;
mod newer;
mod restore;
mod survey;
mod unread;
mod verify;

pub use drain::{Drained, Drains, drain};
pub use elsewhere::{Elsewhere, elsewhere};
pub use jobs::{Job, Renamed, is_running, job, jobs, own_user, renamed};
pub use lost::{Lost, lost};
pub use missing::{Missing, missing};
pub use newer::Newer;
pub use restore::{RankFiles, RestoredFiles, Wanted, restore};
pub use survey::{Copy, Problem, Survey, SurveyLimits, Tier, epochs_of, payload_bytes, survey, survey_within};
pub use unread::{Unread, unread_journal, unread_settings};
pub use verify::{Locks, State, Verdict, lock, scrub, verify};

use surefoot_heal::sidecar::Progress;

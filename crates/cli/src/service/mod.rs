//! A watch as a service of systemd: when it is ready, how it is, that it does not hang, and what it writes to the journal.
//!
//! The journal gets a line when a finding begins, becomes worse or better, or ends, and none in between: a headline each second
//! would be 86,400 lines a day.

mod changes;
mod journal;
mod notify;

pub use journal::{INFO, Journal, NOTICE};
pub use notify::{Notify, Reloading};

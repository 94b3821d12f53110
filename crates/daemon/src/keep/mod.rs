//! What is kept and for how long: the queue of events on their way in, the board of findings, the
//! history on disk and the host's health file. Everything is bounded, and what is let go is counted.

pub(crate) mod board;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod queue;
pub(crate) mod run_directory;
pub(crate) mod seldom;
pub(crate) mod shared;
pub(crate) mod stream;

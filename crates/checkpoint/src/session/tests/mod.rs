//! What holds of a session as a whole.

mod clocks;
mod costs;
mod rehearsed;

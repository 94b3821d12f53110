//! The command as a program: whole outputs, exit codes, and what is refused.
#![allow(clippy::unwrap_used)]

mod suite {
    mod audit;
    mod golden;
    mod history;
    mod unread;
    mod who;
}

//! The crate through its public API: drives, a terminal, and the running host.
#![allow(clippy::unwrap_used)]

mod suite {
    mod drives;
    mod live;
    mod terminal;
}

//! The crate through its public API: recorded hosts, properties on arbitrary text, and the running host.
#![allow(clippy::unwrap_used)]

mod suite {
    mod absent;
    mod golden;
    mod live;
    mod properties;
}

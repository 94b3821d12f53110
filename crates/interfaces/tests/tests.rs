//! Network interfaces through the crate's public interface, on what a kernel with netdevsim once answered.
#![allow(clippy::unwrap_used, missing_docs)]

mod suite {
    mod recorded;
}

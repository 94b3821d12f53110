//! The store through its public interface.

#![allow(clippy::unwrap_used)]

mod any_event;
mod recording_files;
mod recording_roundtrip;

//! The store through its public interface.

#![allow(clippy::unwrap_used)]

mod any_event;
mod case_files;
mod cases;
mod child;
mod full_disk;
mod history_clock;
mod history_content;
mod history_files;
mod history_findings;
mod history_reader;
mod history_versions;
mod one_file;
mod rasdaemon;
mod recording_files;
mod recording_roundtrip;
mod strangers;

//! Several workloads under several disturbances.

pub mod extras;
pub mod file;
pub mod lines;
pub mod record;
pub mod report;
pub mod resume;
pub mod text;
pub mod warnings;

use std::path::Path;

/// A file name as errors say it.
fn named(path: &Path) -> String {
    path.display().to_string()
}

//! Prometheus and its tools: the distribution's and a current one beside it, which `make test-prometheus` builds.

use crate::place;
use std::path::PathBuf;

/// A program of the current Prometheus, such as `promtool`.
///
/// # Errors
/// Why there is none here.
pub fn current(name: &str) -> Result<PathBuf, String> {
    let path = place::tools().join("prometheus").join(name);
    match path.is_file() {
        true => Ok(path),
        false => Err(format!("there is no current {name}; `make test-prometheus` builds it, with Go")),
    }
}

//! What a watch shows of predictions.

use anyhow::{Context, ensure};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use surefoot_daemon::rooms::disturb::{FILES_MAX, PredictionFile};

#[derive(Args, Clone)]
pub struct PredictionOptions {
    /// Show the predictions in this file of `surefoot disturb predict --json` on the page; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with = "no_page")]
    pub disturb_prediction: Vec<PathBuf>,
}

impl PredictionOptions {
    /// Opens the files, while this process may still read them.
    pub fn open(&self) -> anyhow::Result<Vec<Arc<PredictionFile>>> {
        let count = self.disturb_prediction.len();
        ensure!(count <= FILES_MAX, "--disturb-prediction: {count} files; at most {FILES_MAX} are shown");
        let open = |path: &PathBuf| {
            let opened = PredictionFile::open(path).map(Arc::new);
            opened.with_context(|| format!("--disturb-prediction: cannot read {}", path.display()))
        };
        self.disturb_prediction.iter().map(open).collect()
    }
}

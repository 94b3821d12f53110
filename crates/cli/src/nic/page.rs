//! What a watch shows of fault campaigns.

use crate::nic::campaign::describe;
use anyhow::{Context, ensure};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use surefoot_daemon::rooms::nic::campaign::{CampaignFile, FILES_MAX, Options};

#[derive(Args, Clone)]
pub struct PageOptions {
    /// Show this file of `surefoot nic campaign --output`; repeatable
    #[arg(long, value_name = "FILE", conflicts_with = "no_page")]
    pub nic_campaign: Vec<PathBuf>,
    /// Replay faults of this experiment file; repeatable
    #[arg(long, value_name = "FILE", requires = "nic_campaign")]
    pub nic_experiment: Vec<PathBuf>,
}

impl PageOptions {
    /// Opens the files, while this process may still read them.
    pub fn open(&self) -> anyhow::Result<Options> {
        ensure!(self.nic_campaign.len() <= FILES_MAX, "--nic-campaign: at most {FILES_MAX} files are shown");
        let open = |path: &PathBuf| {
            let opened = CampaignFile::open(path).map(Arc::new);
            opened.with_context(|| format!("--nic-campaign: cannot read {}", path.display()))
        };
        let files = self.nic_campaign.iter().map(open).collect::<anyhow::Result<_>>()?;
        let read = |path: &PathBuf| describe::read("--nic-experiment", path);
        let experiments = self.nic_experiment.iter().map(read).collect::<anyhow::Result<_>>()?;
        Ok(Options { files, experiments })
    }
}

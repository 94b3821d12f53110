//! The JSON lines of `surefoot nic health`.

use serde::Serialize;
use surefoot_model::{Deed, Interface, InterfaceProblem};

/// A network interface.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "interface")]
pub struct InterfaceLine<'a> {
    #[serde(flatten)]
    pub interface: &'a Interface,
}

/// What could not be read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "problem")]
pub struct ProblemLine<'a> {
    #[serde(flatten)]
    pub problem: &'a InterfaceProblem,
}

/// A step of recovery: planned, withheld, done or failed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "deed")]
pub struct DeedLine<'a> {
    #[serde(flatten)]
    pub deed: &'a Deed,
}

/// Probes are answered; written at the beginning and, with the counts, at the end.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "answering")]
pub struct AnsweringLine<'a> {
    pub interface: &'a str,
    /// The hardware address to probe.
    pub address: String,
    pub answered_count: u64,
    /// Probes not answered, because too many came.
    pub dropped_count: u64,
    /// Packets of the probes' type that are no probes.
    pub strange_count: u64,
    /// Probes of another release of Surefoot, whose version is not known here.
    pub other_version_count: u64,
}

use serde::{Deserialize, Serialize};

/// How much of a capability this host allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CapabilityState {
    /// All of it.
    Works,
    /// A part of it; the reason says which part is missing.
    Reduced,
    /// None of it.
    Unsupported,
}

impl CapabilityState {
    /// The words for people.
    pub fn label(self) -> &'static str {
        match self {
            CapabilityState::Works => "works",
            CapabilityState::Reduced => "reduced",
            CapabilityState::Unsupported => "not supported",
        }
    }
}

/// One thing that Surefoot can do, and whether it can do it on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Capability {
    /// Stable identifier, such as `stall.ledger`.
    pub id: String,
    /// What it gives the user, in a few words.
    pub name: String,
    /// Whether it works here.
    pub state: CapabilityState,
    /// Why it is so: what was found, or what is missing.
    pub reason: String,
    /// What the user can do about it; empty when nothing is needed or nothing helps.
    pub remedy: String,
}

//! From a failing part to a repaired machine, without a person: what is told of hosts ([`surefoot_model::Alert`]) becomes cases, and a
//! case goes through the steps of its service's policy.
//!
//! `decide` is pure: policies, cases and the time go in, changes of cases come out. The engine writes these down in a [`Casebook`]
//! before anything is done, and has steps done through [`Act`].
//!
//! # Invariants
//! - A step is written down as begun before it is begun, and only whoever holds its [`surefoot_model::Lease`] may say how it ended. So
//!   it is never done twice because a controller died or two of them raced.
//! - No limit of a policy is exceeded, whoever decides: decisions are made one at a time, see [`Casebook::decide`].
//! - A host that was taken out or whose settings were changed has an open case until it is back as it was.
//! - What others write (alerts, names, labels, hooks' output) is data: no shell and no path is made of it.
#![forbid(unsafe_code)]

pub mod act;
pub mod alerts;
pub mod casebook;
pub mod checks;
pub mod decide;
mod deed;
pub mod engine;
mod error;
pub mod memory_book;
pub mod parts;
pub mod policy;
pub mod simulate;
pub mod step;

/// Reads TOML.
///
/// # Errors
/// What is wrong, on one line: where, and what. The error's own text has the file's line below it.
pub fn from_toml<T: serde::de::DeserializeOwned>(text: &str) -> std::result::Result<T, String> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let all = error.to_string();
        let place = all.lines().next().unwrap_or_default();
        let why = error.message().trim().replace('\n', "; ");
        surefoot_model::one_line(&if place == why { why } else { format!("{place}: {why}") })
    })
}

pub use act::{Act, Order, Outcome};
pub use casebook::Casebook;
pub use error::{Error, Result};
pub use step::Step;
pub use surefoot_model::{CaseChange as Change, CaseWorld as World};

//! Fault campaigns of a modelled interface: the lines of their files, and the words for what they did.

pub mod lines;
pub mod movie;
pub mod reports;
pub mod view;
pub mod words;

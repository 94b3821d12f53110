//! Memory errors: in a kernel that really handles them, what a job makes of them, what the page and the command show.

mod guest;
mod job;
mod page;
mod page_offline;
pub mod recorded;
mod status;

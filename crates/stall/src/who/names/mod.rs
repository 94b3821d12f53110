//! Names from files of strangers.
//!
//! Programs, libraries and lists of symbols belong to whoever runs the watched processes, and to read them is hard: tables
//! that point anywhere, compressed data, names that double. So a child reads them, a process without privilege, files and
//! network that is given descriptors and numbers alone and may use so much memory and time (`reader.rs`). Another child opens
//! the files (`opener.rs`, [`surefoot_hostfs::images`]), because that can wait for ever. This side asks, starts the children anew when they end
//! (`child.rs`), and leaves one behind that hangs in the kernel (`helper.rs`).
//!
//! What one user's file can still do: end the child while others wait, which is counted, and after the second time nobody
//! asks for that file any more.

mod child;
mod demangle;
mod elf;
mod helper;
mod opener;
mod perf_map;
mod reader;
pub(crate) mod strangers;
mod wire;

pub use child::use_program;
pub(crate) use child::{Asker, Deaths, IDLE, own_cost};
pub(crate) use helper::hung_count;
pub(crate) use opener::{Opener, Readable};
pub use reader::read_names;
pub(crate) use wire::Name;

/// What files are asked as.
pub(crate) use wire::Kind;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Lets this test program be the child, too.
    pub(crate) fn use_this_program() {
        let own = std::env::current_exe().unwrap_or_default();
        use_program(own, &["who::names::tests::the_child_itself", "--exact", "--ignored", "--nocapture", "--quiet"]);
    }

    #[test]
    #[ignore = "runs in a child process, which it confines"]
    fn the_child_itself() {
        read_names().unwrap_or_else(|error| panic!("{error}"));
    }
}

//! Opens files that other users control: the only way in which this project reads such a file.
//!
//! A name in another user's directory can be a FIFO that nobody writes, a device that acts when it is opened, a link to a
//! file of a third user, or lie on a file system that never answers. So a file is first *held* (`O_PATH`: nothing happens to
//! it), then checked through that descriptor, and only then opened, through the same descriptor. The types keep the order:
//! [`Held`] cannot be opened, [`Regular`] can.
//!
//! # Invariants
//! - Nothing but a regular file is ever opened.
//! - What was checked is what is opened: no name is looked up twice.
//! - Root follows only links of root's, in directories where nobody else can replace them ([`way`]).
//! - Attributes come from the kernel's cache (`AT_STATX_DONT_SYNC`): no server of a file system is asked for them.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("words");
//! std::fs::write(&path, "seven")?;
//! let file = surefoot_foreign::hold(&path)?.regular()?.at_most(10)?;
//! assert_eq!(file.about().bytes, 5);
//! assert_eq!(std::io::read_to_string(file.open()?)?, "seven");
//! // A device is not opened, whatever opening it would do.
//! assert!(surefoot_foreign::hold("/dev/zero".as_ref())?.regular().is_err());
//! # Ok::<(), std::io::Error>(())
//! ```

mod held;
#[cfg(test)]
mod openings;
pub mod way;
mod words;

pub use held::{About, Held, Regular, hold, hold_beneath, hold_in, hold_link, hold_name, text};
pub use words::said;

//! A polling thread notes its own gaps: one counter read and one compare per turn.
//!
//! A loop that polls sees better than any tracer when it was held up, because it measures the very time it lost. This
//! crate lets it say so: [`Loop::open`] before the loop, [`Loop::turn`] in it. A turn that took longer than the
//! threshold leaves the two counter readings around it in a ring in shared memory; `surefoot` reads the rings
//! ([`reader`]) and joins each gap with what the kernel did on that core meanwhile. `bindings/c/surefoot_inloop.h` is
//! the same for C and C++, with the same file ([`layout`]).
//!
//! # Invariants
//! - [`Loop::turn`] makes no system call, allocates nothing, takes no lock and waits for nobody. Whoever reads the ring
//!   cannot hold up who writes it: what is not read in time is overwritten, and counted by the reader.
//! - A ring lies in memory that no disk is behind, is written through once before the loop, and is locked where the
//!   limits allow: a gap that is noted does not make the next one.
//! - The reader trusts nobody: whoever may write to the directory can make it neither fail nor wait, nor grow beyond
//!   fixed limits, nor report gaps for a thread of somebody else.
//! - It depends on `libc` alone, because what it is linked into is somebody's fastest loop.
//!
//! ```no_run
//! use std::time::Duration;
//! # fn poll_the_ring() -> bool { true }
//! let mut gaps = surefoot_inloop::Loop::open("receive", Duration::from_micros(10))?;
//! while poll_the_ring() {
//!     gaps.turn();
//! }
//! # Ok::<(), surefoot_inloop::Error>(())
//! ```

mod c_header;
mod directory;
mod error;
pub mod layout;
mod mapping;
mod poller;
pub mod reader;
mod ticks;

pub use directory::{DIRECTORY_DEFAULT, DIRECTORY_VARIABLE, directory};
pub use error::Error;
pub use poller::{Loop, Options};
pub use reader::{LoopGaps, Reader};
pub use ticks::ticks;

//! The live screen of `surefoot watch`: the headline always in sight, a pane for each part of the report, keys as in `top`, and moments of
//! the past.
//!
//! # Invariants
//! - [`Session::draw`] is a function of the data, the size and the keys so far. It decides nothing: findings come from the judge.
//! - The screen has a thread of its own and never waits for its terminal: a terminal that takes nothing more holds up nobody.
//! - Every text of others is cleaned by [`surefoot_console::people`] and cut by the columns that a terminal gives it.
//!
//! ```
//! use surefoot_terminal::{Key, Kept, Look, Session, Then};
//! let mut session = Session::new(Look { colours: false });
//! assert_eq!(session.key(Key::Char('?'), &Kept::default(), 0), Then::Draw);
//! let screen = session.draw(80, 60);
//! assert!(screen.content().iter().map(|cell| cell.symbol()).collect::<String>().contains("unexplained"));
//! ```
#![forbid(unsafe_code)]

mod ansi;
mod body;
mod draw;
mod help;
pub mod history;
mod kept;
mod keys;
mod panes;
mod past;
mod session;
mod thread;

pub use ansi::{difference, whole};
pub use body::cut;
pub use help::keys as keys_help;
pub use kept::{Kept, RoomState, Shown};
pub use keys::{Key, Keys};
pub use panes::Pane;
pub use past::{Past, Seen, Want};
pub use session::{Look, Session, Then};
pub use thread::{Screen, way};

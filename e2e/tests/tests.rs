//! The end-to-end tests: the real command, on the running kernel.
//!
//! They take turns, whatever the number of test threads. Set `SUREFOOT_BIN` to test a certain binary; without it the
//! command is built first. Most of them need root and say so.
#![allow(clippy::unwrap_used)]

mod alerts;
mod answering;
mod browser;
mod checkpoint;
mod checkpoint_bench;
mod checkpoint_page;
mod config;
mod contained;
mod cost;
mod demo;
mod disturb;
mod ecc;
mod ecc_hardware;
mod experiments;
mod file_limits;
mod foreign_files;
mod history;
mod hostile_host;
mod inloop;
mod install;
mod ledger;
mod listen;
mod memory;
mod namespaces;
mod nic;
mod offline;
mod oracle;
mod page;
mod preemption;
mod probe;
mod recording;
mod reduced;
mod refusals;
mod remedy;
mod rollback;
mod rooms;
mod run_directory;
mod screen;
mod service;
mod strangers;
mod undisturbed;
mod who;
mod why;
mod windows;

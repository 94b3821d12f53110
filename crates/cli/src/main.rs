//! The command `surefoot`: parse, run, map the outcome to an exit code.
#![forbid(unsafe_code)]

mod account;
mod answers;
mod args;
mod checkpoint;
mod config;
#[cfg(test)]
mod defaults_tests;
mod demo;
mod disturb;
mod ecc;
mod examples;
mod exit;
mod generate;
mod history;
mod memory;
mod nic;
mod remedy;
mod rooms;
#[cfg(test)]
mod schema;
mod service;
mod settle;
mod spaces;
mod stall;
mod status;
mod usage;
mod watch;
mod why;

use args::Command;
use ecc::options::EccCommand;

use std::process::ExitCode;
use surefoot_console::exit::Outcome;
use surefoot_daemon::rooms::apart;
use surefoot_stall::who::names;

fn main() -> ExitCode {
    let (arguments, named) = match usage::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(error) => return usage::tell(&error),
    };
    // A writer whose file is at its limit says so; by itself the kernel would end this process.
    if let Err(error) = surefoot_sys::signals::survive_file_limits() {
        return exit::code(Err(error.into()));
    }
    match answers::go_on(&arguments.command, &named) {
        Ok(None) => {}
        Ok(Some(code)) => return ExitCode::from(code),
        Err(error) => return exit::code(Err(error)),
    }
    // By this link also a program that was replaced since it started starts itself.
    names::use_program("/proc/self/exe", &[args::READ_NAMES]);
    apart::use_program("/proc/self/exe", &[args::LOOK_APART]);
    surefoot_sys::memory::keep_small();
    // Each process, library and recording that is looked at has a descriptor for a while.
    let limit = surefoot_sys::confine::raise_open_files();
    // A process of our own has the limits that it was given.
    let is_own = matches!(arguments.command, Command::ReadNames | Command::LookApart | Command::GuardWorkload);
    if let (false, Err(error)) = (is_own, enough_files(limit)) {
        return exit::code(Err(error));
    }
    let outcome = spaces::check(&arguments.command).map_err(Into::into).and_then(|()| run(arguments.command));
    exit::code(outcome)
}

/// With fewer files nearly everything reads as missing: libraries, devices, folders of the kernel.
const OPEN_FILES_MIN: u64 = 32;

fn enough_files(limit: Option<u64>) -> anyhow::Result<()> {
    anyhow::ensure!(
        limit.is_none_or(|limit| limit >= OPEN_FILES_MIN),
        "this process may open only {} files, and needs {OPEN_FILES_MIN} at least: raise the limit (ulimit -n; LimitNOFILE= of a service)",
        limit.unwrap_or_default()
    );
    Ok(())
}

fn run(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::ReadNames => names::read_names().map(|()| Outcome::Done).map_err(Into::into),
        Command::LookApart => apart::look_apart().map(|()| Outcome::Done).map_err(Into::into),
        Command::GuardWorkload => surefoot_disturb::workload::guard().map(|()| Outcome::Done).map_err(Into::into),
        Command::Generate(options) => generate::run(&options),
        Command::Watch(options) => watch::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Status(options) => status::run(&options),
        Command::Why(options) => why::run(&options),
        Command::Config { command } => config::run(&command),
        Command::History(options) => history::run(&options),
        Command::Room(command) => command.run(),
        Command::Ecc { command: EccCommand::Coverage(options) } => ecc::run(&options),
        Command::Ecc { command: EccCommand::Verilog(options) } => ecc::verilog::run(&options),
        Command::Stall { command } => stall::run(&command),
    }
}

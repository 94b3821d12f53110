//! Two interfaces and their daemons as threads of this process, with a link between them that never leaves it. Applications of
//! this process and of others open ports by the run directory.

use super::Error;
use super::directory::{self, RunDirectory};
use super::host::{self, HostConfig};
use super::interface::{Interface, InterfaceConfig};
use super::part::daemon_config;
use super::wire::Wire;
use crate::firmware::{Build, Firmware};
use crate::host::memory::HostMemory;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What the daemons of a pair write down: a line for each step, as [`host::read_step`] reads it.
#[derive(Clone, Default)]
pub struct Steps(Arc<Mutex<Vec<u8>>>);

impl Steps {
    /// What was written so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Steps {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Two interfaces that run.
pub struct Pair {
    directory: RunDirectory,
    /// The memories of their hosts.
    pub memories: [Arc<HostMemory>; 2],
    /// What the daemons did.
    pub steps: [Steps; 2],
    threads: Vec<JoinHandle<()>>,
}

impl Pair {
    /// Starts them, with a run directory that must not be there yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(path: &Path, build: Build, arena_bytes: u32, spin_ns: u64) -> Result<Self, Error> {
        let directory = RunDirectory::create(path)?;
        let started = Pair::start_in(directory.clone(), build, arena_bytes, spin_ns);
        if started.is_err() {
            directory.remove();
        }
        started
    }

    fn start_in(directory: RunDirectory, build: Build, arena_bytes: u32, spin_ns: u64) -> Result<Self, Error> {
        directory.create_memory(0, arena_bytes)?;
        directory.create_memory(1, arena_bytes)?;
        let memories = [directory.open_memory(0)?, directory.open_memory(1)?];
        let bell = |node: usize| -> Box<dyn Fn() + Send> {
            let memory = Arc::clone(&memories[node]);
            Box::new(move || memory.ring())
        };
        let firmware = Arc::new(Firmware::built(build));
        let mut pair = Pair { directory, memories: memories.clone(), steps: Default::default(), threads: Vec::new() };
        for (node, wire) in (0..).zip(Wire::memory([bell(0), bell(1)])) {
            let memory = &memories[node as usize];
            let config = InterfaceConfig {
                memory: Arc::clone(memory),
                firmware: Arc::clone(&firmware),
                wire,
                doorbell: pair.directory.doorbell(node)?,
                spin_ns,
                until: None,
            };
            pair.threads.push(std::thread::spawn(move || Interface::new(config).run()));
            let (memory, mut steps) = (Arc::clone(memory), pair.steps[node as usize].clone());
            let (daemon, start) = (daemon_config(build), None);
            let config = HostConfig { memory, daemon, start, takes_over: false, owner: None };
            pair.threads.push(std::thread::spawn(move || {
                // The memory is this pair's alone, so that its port is free.
                let _ = host::run(config, &mut steps);
            }));
        }
        Ok(pair)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.memories.iter().for_each(|memory| directory::end(memory));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.directory.remove();
    }
}

//! An application that dies holding tokens: its port is closed, its pages and tokens are free again, and nobody else is disturbed.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_nic::firmware::Build;
use surefoot_nic::host::driver::{self, OpenError};
use surefoot_nic::host::layout::{RECEIVE_TOKENS, SEND_TOKENS};
use surefoot_nic::host::memory::HostMemory;
use surefoot_nic::host::port::{Event, Message, Port, PortConfig, Service};
use surefoot_nic::host::streams::Peer;
use surefoot_nic::live::Error;
use surefoot_nic::live::directory::RunDirectory;
use surefoot_nic::live::local::Pair;
use surefoot_nic::live::part::port_config;
use surefoot_nic::live::ports;

/// The process that is told so is the application that dies.
const VICTIM: &str = "SUREFOOT_NIC_TEST_VICTIM";
/// The ports of those who go on, and of the one who dies.
const PORT: usize = 1;
const VICTIMS_PORT: usize = 2;
const PATIENCE: Duration = Duration::from_secs(120);
/// Of 212 pages of an arena, 84 of them the daemon's, so that no second port of this size fits beside it, and the others' do.
const VICTIMS_PAGES: u32 = 80;
const ARENA_BYTES: u32 = 212 * 4096;
const BYTES: u32 = 1_000;

fn open(memory: &Arc<HostMemory>, number: usize, pages: u32) -> Result<Port, OpenError> {
    ports::open(memory, number, PortConfig { pages, ..port_config(Build::Tolerant) }).map_err(|error| match error {
        Error::Port { source, .. } => source,
        other => panic!("{other}"),
    })
}

fn message(token: u32, port: usize) -> Message {
    let to = Peer { node: 1, port: port as u8, priority: 0 };
    Message { token, address: 0, length: BYTES, to, service: Service::Normal { size_class: 10 } }
}

/// Not a test of its own: the application that dies, in a process of its own.
#[test]
fn victim() {
    let Some(directory) = std::env::var_os(VICTIM) else { return };
    let memory = RunDirectory::open(Path::new(&directory)).unwrap().open_memory(0).unwrap();
    let mut port = open(&memory, VICTIMS_PORT, VICTIMS_PAGES).unwrap();
    for token in 0..RECEIVE_TOKENS as u32 {
        port.provide(token, 0x2000 + token * 1024, 10, 0).unwrap();
    }
    // To a port that has no buffers: none of them comes back.
    (0..SEND_TOKENS as u32).for_each(|token| port.send(message(token, VICTIMS_PORT)).unwrap());
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(100) {
        assert!(!matches!(port.poll(monotonic_ns()), Some(Event::Sent { .. })), "a token came back");
        port.wait(5_000_000);
    }
    std::fs::write(Path::new(&directory).join("holds"), "").unwrap();
    loop {
        port.poll(monotonic_ns());
        port.wait(5_000_000);
    }
}

/// Sends until it is told to stop; how many were delivered, in order.
fn stream(memories: &[Arc<HostMemory>; 2], is_over: &AtomicBool, delivered: &AtomicU32) {
    let (mut sender, mut receiver) = (open(&memories[0], PORT, 8).unwrap(), open(&memories[1], PORT, 8).unwrap());
    (0..4).for_each(|token| receiver.provide(token, token * 1024, 10, 0).unwrap());
    let (mut sent, mut confirmed, mut expected) = (0, 0, 1);
    let begun = Instant::now();
    while !is_over.load(Ordering::Acquire) || confirmed < sent {
        assert!(begun.elapsed() < 2 * PATIENCE, "{confirmed} of {sent} confirmed");
        if !is_over.load(Ordering::Acquire) && sent - confirmed < 4 {
            sender.send(message(sent, PORT)).unwrap();
            sent += 1;
        }
        while let Some(event) = sender.poll(monotonic_ns()) {
            if let Event::Sent { outcome, .. } = event {
                outcome.unwrap();
                confirmed += 1;
            }
        }
        while let Some(event) = receiver.poll(monotonic_ns()) {
            if let Event::Received { token, address, number, .. } = event {
                assert_eq!(number, expected, "lost, doubled or out of order");
                expected += 1;
                receiver.provide(token, address, 10, 0).unwrap();
                delivered.fetch_add(1, Ordering::Release);
            }
        }
        std::thread::yield_now();
    }
    assert_eq!(delivered.load(Ordering::Acquire), sent);
    assert_eq!((sender.counts().recovery_count, receiver.counts().recovery_count), (0, 0));
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_port_of_an_application_that_is_killed_is_closed_and_the_others_go_on() {
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let directory = base.path().join("run");
    let pair = Pair::start(&directory, Build::Tolerant, ARENA_BYTES, 50_000).unwrap();
    let memories = pair.memories.clone();
    let (is_over, delivered) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut far = open(&memories[1], VICTIMS_PORT, 32).unwrap();
    std::thread::scope(|scope| {
        let others = scope.spawn(|| stream(&memories, &is_over, &delivered));
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim", "--nocapture"])
            .env(VICTIM, &directory)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let is_holding = || directory.join("holds").exists();
        wait("the application does not come to hold its tokens", is_holding);
        let owner = victim.id();
        assert_eq!(open(&memories[0], VICTIMS_PORT, 1).err(), Some(OpenError::Taken { port: VICTIMS_PORT, owner }));
        assert!(matches!(open(&memories[0], 3, VICTIMS_PAGES).err(), Some(OpenError::NoMemory { .. })));
        let before = delivered.load(Ordering::Acquire);
        victim.kill().unwrap();
        victim.wait().unwrap();
        wait("the port of the dead application stays open", || !driver::is_open(&memories[0], VICTIMS_PORT));
        wait("the others stand still", || delivered.load(Ordering::Acquire) > before + 100);
        // Its pages, and all of its tokens, are there for the next one.
        let mut port = open(&memories[0], VICTIMS_PORT, VICTIMS_PAGES).unwrap();
        for token in 0..RECEIVE_TOKENS as u32 {
            port.provide(token, 0x2000 + token * 1024, 10, 0).unwrap();
        }
        (0..RECEIVE_TOKENS as u32).for_each(|token| far.provide(token, token * 1024, 10, 0).unwrap());
        (0..SEND_TOKENS as u32).for_each(|token| port.send(message(token, VICTIMS_PORT)).unwrap());
        let mut confirmed = 0;
        let begun = Instant::now();
        while confirmed < SEND_TOKENS {
            // A receiving library acknowledges what it polls.
            while far.poll(monotonic_ns()).is_some() {}
            if let Some(Event::Sent { outcome, .. }) = port.poll(monotonic_ns()) {
                outcome.unwrap();
                confirmed += 1;
            }
            assert!(begun.elapsed() < PATIENCE, "{confirmed} of {SEND_TOKENS} tokens came back");
        }
        is_over.store(true, Ordering::Release);
        others.join().unwrap();
    });
    for steps in &pair.steps {
        assert!(
            !steps.text().contains("detected"),
            "a dead application is no failure of the interface: {}",
            steps.text()
        );
    }
}

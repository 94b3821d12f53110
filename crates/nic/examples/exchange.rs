//! A whole program on two ports: messages from node 0 to node 1 of a `surefoot nic run --serve --run DIR`.
//!
//! `cargo run -p surefoot-nic --example exchange -- DIR COUNT`. Hang an interface meanwhile (`surefoot nic inject --run DIR`): it
//! says the same.

use std::error::Error;
use std::path::Path;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_nic::host::port::{Event, Message, Port, PortConfig, Service};
use surefoot_nic::host::streams::Peer;
use surefoot_nic::live::directory::RunDirectory;
use surefoot_nic::live::ports;

const PORT: u8 = 2;
/// Buffers and messages under way, of a page each.
const SLOTS: u32 = 8;
const CLASS: u8 = 12;
/// Both ports are of this thread, so neither is waited for long.
const WAIT_NS: u64 = 20_000;

fn open(run: &RunDirectory, node: u32) -> Result<Port, surefoot_nic::live::Error> {
    ports::open(&run.open_memory(node)?, PORT.into(), PortConfig::tolerant(SLOTS))
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [directory, count] = words.as_slice() else { return Err("say DIR and COUNT".into()) };
    let count: u32 = count.parse()?;
    let run = RunDirectory::open(Path::new(directory))?;
    // The receiver first: a message to a port that is not open is refused.
    let (mut there, mut here) = (open(&run, 1)?, open(&run, 0)?);
    for slot in 0..SLOTS {
        there.provide(slot, slot << CLASS, CLASS, 0)?;
    }
    let to = Peer { node: 1, port: PORT, priority: 0 };
    let (mut sent, mut arrived, mut delivered) = (0, 0, 0);
    let mut free: Vec<u32> = (0..SLOTS).collect();
    while arrived < count {
        while sent < count
            && let Some(token) = free.pop()
        {
            let (address, text) = (token << CLASS, format!("message {sent}"));
            here.write(address, text.as_bytes());
            let service = Service::Normal { size_class: CLASS };
            here.send(Message { token, address, length: text.len() as u32, to, service })?;
            sent += 1;
        }
        while let Some(event) = here.poll(monotonic_ns()) {
            if let Event::Sent { token, outcome } = event {
                outcome.map_err(|why| format!("a message did not arrive: {why:?}"))?;
                free.push(token);
                arrived += 1;
            }
        }
        while let Some(event) = there.poll(monotonic_ns()) {
            if let Event::Received { token, address, length, .. } = event {
                let mut text = vec![0; length as usize];
                there.read(address, &mut text);
                if text != format!("message {delivered}").as_bytes() {
                    return Err(format!("not message {delivered}: {}", String::from_utf8_lossy(&text)).into());
                }
                delivered += 1;
                there.provide(token, address, CLASS, 0)?;
            }
        }
        if there.has_ended() {
            return Err("the run has ended".into());
        }
        there.wait(WAIT_NS);
    }
    println!("{sent} sent, {arrived} arrived, {delivered} delivered");
    here.close();
    there.close();
    Ok(())
}

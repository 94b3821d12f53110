//! Prints what passes between Surefoot and the kernel's devlink when all health reporters are asked for, as a fixture of the tests:
//! `>` before the bytes of a question, `<` before those of a datagram that answers.
#![allow(missing_docs)]

use std::io;
use surefoot_interfaces::devlink::Devlink;
use surefoot_sys::netlink::{Socket, Transport};

struct Recorder(Socket);

fn print(direction: char, bytes: &[u8]) {
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{direction} {}", hex.join(""));
}

impl Transport for Recorder {
    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        print('>', datagram);
        self.0.send(datagram)
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let datagram = self.0.receive()?;
        print('<', &datagram);
        Ok(datagram)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut devlink = Devlink::over(Recorder(Socket::open()?))?;
    eprintln!("{:?}", devlink.reported()?);
    Ok(())
}

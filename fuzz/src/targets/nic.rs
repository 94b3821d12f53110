//! Of the modelled interface: packets that strangers put on the link, control programs of others, and files of campaigns.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use surefoot_nic::campaign::experiment::FAULTS_MAX;
use surefoot_nic::campaign::fault::FaultId;
use surefoot_nic::campaign::table::Table;
use surefoot_nic::campaign::whole::Whole;
use surefoot_nic::device::{Device, DeviceConfig, Packet, Timing, TrapPolicy};
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::bus::{Guard, HostBus};
use surefoot_nic::host::layout::control;
use surefoot_nic::host::memory::HostMemory;
use surefoot_nic::host::port::{Message, Port, PortConfig, Service};
use surefoot_nic::host::streams::Peer;
use surefoot_nic::live::wire;
use surefoot_rooms::nic::campaign::lines::{FaultLine, TableLine};

/// Instructions after each frame: enough to take a packet in, write it to the host and answer.
const INSTRUCTIONS: u64 = 6_000;
/// Virtual time between frames.
const BETWEEN_NS: u64 = 40_000;

/// A sequence of frames, each behind its length in two bytes. The link's checksum of each is mended, so that what is behind it
/// is reached.
pub fn packets(bytes: &[u8]) {
    let firmware = Firmware::built(Build::Tolerant);
    let Ok(memory) = HostMemory::private(0, 1 << 16) else { return };
    let memory = Arc::new(memory);
    let mut device = Device::new(DeviceConfig { node: 0, trap_policy: TrapPolicy::Halt, timing: Timing::immediate() });
    device.load(&firmware.image).expect("the control program fits");
    device.reset(memory.word(control::EPOCH).load(Ordering::Relaxed));
    let port = |number, pages| {
        let config = PortConfig { waits_for_test: false, ..PortConfig::tolerant(pages) };
        Port::open(Arc::clone(&memory), number, 1, config).expect("nobody has it")
    };
    let mut ports = [port(0, 0), port(1, 8)];
    for slot in 0..4 {
        ports[1].provide(slot, 0x1000 + slot * 0x1000, 12, 0).expect("a fresh port has tokens");
    }
    // Something is on its way, so that acknowledgements may mean it.
    let to = Peer { node: 1, port: 1, priority: 0 };
    let message = Message { token: 1, address: 0, length: 100, to, service: Service::Normal { size_class: 12 } };
    ports[1].send(message).expect("a fresh port has tokens");
    let mut now_ns = 0;
    let mut run = |device: &mut Device, ports: &mut [Port; 2]| {
        now_ns += BETWEEN_NS;
        device.run_slice(&mut HostBus { memory: &memory, guard: Guard::Iommu }, now_ns, INSTRUCTIONS);
        for port in ports {
            while port.poll(now_ns).is_some() {}
        }
        while device.outgoing().is_some() {}
        now_ns
    };
    let mut rest = bytes;
    let mut at_ns = run(&mut device, &mut ports);
    while let Some((length, more)) = rest.split_first_chunk::<2>() {
        let (frame, more) = more.split_at(usize::from(u16::from_le_bytes(*length)).min(more.len()));
        rest = more;
        let packet = wire::decode(frame).unwrap_or(Packet { at_ns: 0, bytes: frame.to_vec(), crc: 0 });
        let crc = crc32fast::hash(&packet.bytes);
        device.deliver(at_ns, Packet { crc, ..packet });
        at_ns = run(&mut device, &mut ports);
    }
    assert_eq!(device.halted(), None, "a packet stopped the control program");
}

/// A file that somebody says is a control program: what can be read as one fits into the interface, and does it no harm to run.
pub fn firmware(bytes: &[u8]) {
    let Ok(firmware) = Firmware::read(bytes) else { return };
    let Ok(memory) = HostMemory::private(0, 1 << 16) else { return };
    let mut device = Device::new(DeviceConfig { node: 0, trap_policy: TrapPolicy::Halt, timing: Timing::immediate() });
    device.load(&firmware.image).expect("what does not fit is refused");
    device.reset(memory.word(control::EPOCH).load(Ordering::Relaxed));
    device.run_slice(&mut HostBus { memory: &memory, guard: Guard::Iommu }, BETWEEN_NS, INSTRUCTIONS);
    for function in &firmware.functions {
        assert!(function.bytes == 0 || firmware.function_at(function.address).is_some(), "{function:?}");
    }
}

/// The lines of a campaign's file, with their ids, as a report reads them.
pub fn campaign(bytes: &[u8]) {
    let (mut table, mut whole) = (Table::default(), Whole::default());
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<FaultLine>(line) else { continue };
        let Ok((id, row)) = line.row() else { continue };
        assert_eq!(id.to_string().parse::<FaultId>().ok(), Some(id), "an id reads back");
        if whole.add(line.place()).is_ok() {
            table.add(&row);
        }
    }
    let line = TableLine::of("fuzzed", "tolerant", 1, &table, &whole);
    assert!(line.missing_count.is_none_or(|missing| missing <= FAULTS_MAX));
    serde_json::to_vec(&line).expect("a table can be written");
}

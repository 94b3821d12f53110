//! Interfaces whose control programs speak another version of the link's packets.

use std::sync::Arc;
use surefoot_nic::device::TrapPolicy;
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::bus::Guard;
use surefoot_nic::host::daemon::DaemonConfig;
use surefoot_nic::host::port::{Event, Message, Port, PortConfig, Service};
use surefoot_nic::host::streams::Peer;
use surefoot_nic::world::{LinkFaults, World, WorldConfig};

const THERE: Peer = Peer { node: 1, port: 3, priority: 0 };

fn world() -> World {
    World::new(&WorldConfig {
        firmware: Arc::new(Firmware::built(Build::Tolerant)),
        daemon: Some(DaemonConfig::default()),
        arena_bytes: 4 << 20,
        guard: Guard::None,
        trap_policy: TrapPolicy::Halt,
        faults: LinkFaults::default(),
        seed: 3,
    })
    .unwrap()
}

fn open(world: &World, node: usize, number: u8) -> Port {
    Port::open(Arc::clone(&world.nodes[node].memory), number.into(), 2, PortConfig::tolerant(8)).unwrap()
}

fn normal(token: u32) -> Message {
    Message { token, address: 0, length: 100, to: THERE, service: Service::Normal { size_class: 12 } }
}

/// Runs to a time with all that port 1 of node 0 sends in this version, or in another one; how many messages arrive.
fn arrived(world: &mut World, ports: &mut [Port; 2], until_ns: u64, is_other: bool) -> usize {
    let mut count = 0;
    while world.now_ns() < until_ns {
        for port in ports.iter_mut() {
            while let Some(event) = port.poll(world.now_ns()) {
                count += usize::from(matches!(event, Event::Received { .. }));
            }
        }
        let stop_ns = world.now_ns() + 500;
        world.nodes[0].run(stop_ns);
        while let Some(mut packet) = world.nodes[0].device.outgoing() {
            // Words of the header, little endian: the version, the port of the stream, and where it is to go.
            let (of_port, to) = (packet.bytes[10], usize::from(packet.bytes[7]));
            packet.bytes[1] += u8::from(is_other && of_port == 1);
            packet.crc = crc32fast::hash(&packet.bytes);
            world.nodes[to].device.deliver(packet.at_ns, packet);
        }
        world.step(stop_ns);
    }
    count
}

#[test]
fn what_a_peer_of_another_version_sends_is_dropped() {
    let mut world = world();
    let mut ports = [open(&world, 0, 1), open(&world, 1, 3)];
    ports[1].provide(0, 0, 12, 0).unwrap();
    ports[0].send(normal(1)).unwrap();
    assert_eq!(arrived(&mut world, &mut ports, 40_000_000, true), 0);
    assert_eq!(arrived(&mut world, &mut ports, 120_000_000, false), 1, "of the same version it arrives");
}

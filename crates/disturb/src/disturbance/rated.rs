//! Interrupts and packets at a rate, by threads beside the disturbed cores or on them.

use super::threads::{Threads, Told};
use super::{Injector, Losses, Schedule, Stall};
use crate::Fault;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_hostfs::{Root, cpus, privilege};
use surefoot_model::CpuId;
use surefoot_sys::interrupting::{Interrupter, Pages};
use surefoot_sys::{children, thread};

/// How often it is looked which processes the workload has.
const LOOK: Duration = Duration::from_millis(100);
/// Processes of a workload whose pages are aged in turn; of more the first ones.
const PROCESSES_MAX: usize = 256;
/// Of a packet: as many as of a short request.
const PACKET: [u8; 64] = [0; 64];

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ipi,
    Softirq,
    TlbShootdown,
}

pub(super) struct Rated {
    kind: Kind,
    threads: Threads,
    begins: Option<Sender<u32>>,
}

impl Rated {
    /// # Errors
    /// This host does not allow it.
    pub(super) fn new(kind: Kind, cores: &[CpuId]) -> Result<Rated, Fault> {
        let unsupported = |why: String| Fault::Unsupported { why, remedy: privilege::remedy(&["CAP_SYS_NICE"]) };
        if kind == Kind::Ipi {
            sender_for(CpuId(0))?;
            for cpu in cores {
                Interrupter::open(*cpu).map_err(|error| unsupported(error.to_string()))?;
            }
        }
        if kind == Kind::TlbShootdown {
            // Of itself everybody may; of others it takes the capability.
            let held = surefoot_hostfs::privilege::Capabilities::read(&Root::host())?;
            if !held.sys_nice() {
                return Err(unsupported("CAP_SYS_NICE is needed to age the pages of a workload".into()));
            }
        }
        Ok(Rated { kind, threads: Threads::default(), begins: None })
    }
}

/// A core from which another one can be interrupted.
fn sender_for(target: CpuId) -> Result<CpuId, Fault> {
    let online = cpus::online(&Root::host())?;
    online.into_iter().find(|cpu| *cpu != target).ok_or_else(|| Fault::Unsupported {
        why: "this host has one core, which no other one can interrupt".into(),
        remedy: "use a host with two or more".into(),
    })
}

/// Fires at its times until it is told to end; what is due already is not made up for.
pub(super) fn fire(
    first_ns: u64,
    period_ns: u64,
    count: u64,
    cpu: Option<CpuId>,
    told: &Told,
    mut send: impl FnMut() -> bool,
) {
    thread::set_timer_slack(Duration::from_nanos(1));
    let mut number = 0;
    while number < count {
        let target_ns = first_ns + number * period_ns;
        if !told.sleep_until(target_ns) {
            return;
        }
        let start_ns = monotonic_ns();
        if send() {
            told.tell(Stall { cpu, target_ns, start_ns, length_ns: 0 });
        } else {
            told.miss(1);
        }
        let due = monotonic_ns().saturating_sub(first_ns) / period_ns + 1;
        told.miss(due.saturating_sub(number + 1));
        number = due.max(number + 1);
    }
}

/// A sender of packets over the loopback device: what it sends is received on its own core, in a softirq. Nobody reads them,
/// so that most are dropped when they have been received.
fn packets() -> std::io::Result<impl FnMut() -> bool> {
    let (receiver, sender) = (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    sender.connect(receiver.local_addr()?)?;
    Ok(move || {
        let _ = &receiver;
        sender.send(&PACKET).is_ok()
    })
}

/// Ages pages of the workload's processes in turn.
fn ageing(group: u32) -> impl FnMut() -> bool {
    let root = Root::host();
    let (mut pages, mut looked, mut turn) = (Vec::<Pages>::new(), None::<Instant>, 0usize);
    move || {
        if looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            looked = Some(Instant::now());
            let members = children::descendants(&root, group).into_iter().chain([group]);
            pages = members.take(PROCESSES_MAX).filter_map(|pid| Pages::of(&root, pid)).collect();
        }
        turn = turn.wrapping_add(1);
        pages.get(turn % pages.len().max(1)).is_some_and(|pages| pages.age().is_ok())
    }
}

impl Injector for Rated {
    fn arm(&mut self, schedule: &Schedule) -> Result<(), Fault> {
        let failed = |error: std::io::Error| Fault::Start(format!("a thread that disturbs: {error}"));
        let &Schedule { period_ns, count, .. } = schedule;
        match self.kind {
            Kind::TlbShootdown => {
                let Some(&(_, first_ns)) = schedule.firsts.first() else { return Ok(()) };
                let (begins, began) = channel();
                self.begins = Some(begins);
                let work = move |told: &Told| {
                    if let Ok(group) = began.recv() {
                        fire(first_ns, period_ns, count, None, told, ageing(group));
                    }
                };
                self.threads.add(work).map_err(failed)?;
            }
            Kind::Ipi | Kind::Softirq => {
                for &(cpu, first_ns) in &schedule.firsts {
                    let is_packets = self.kind == Kind::Softirq;
                    let on = if is_packets { cpu } else { sender_for(cpu)? };
                    let mut interrupter = if is_packets { None } else { Some(Interrupter::open(cpu)?) };
                    let mut packets = if is_packets { Some(packets().map_err(failed)?) } else { None };
                    let work = move |told: &Told| {
                        // On another core it would disturb another one.
                        if thread::pin_to(on).is_err() {
                            return;
                        }
                        fire(first_ns, period_ns, count, Some(cpu), told, || match (&mut interrupter, &mut packets) {
                            (Some(interrupter), _) => interrupter.send().is_ok(),
                            (None, Some(packets)) => packets(),
                            (None, None) => false,
                        });
                    };
                    self.threads.add(work).map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    fn workload_began(&mut self, group: u32) {
        if let Some(begins) = self.begins.take() {
            let _ = begins.send(group);
        }
    }

    fn collect(&mut self, into: &mut Vec<Stall>) {
        self.threads.collect(into);
    }

    fn end(&mut self, into: &mut Vec<Stall>) -> Result<Losses, Fault> {
        self.begins = None;
        Ok(self.threads.end(into))
    }
}

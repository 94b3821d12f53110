//! Exchanges with the devlink of Debian's 6.1 kernel in a guest with netdevsim, recorded by `examples/record_devlink.rs` after a
//! health reporter was broken so that it could not recover.

use std::collections::VecDeque;
use std::io;
use surefoot_interfaces::devlink::Devlink;
use surefoot_interfaces::{judge, look};
use surefoot_model::{Certainty, Interface, InterfaceCounters, InterfaceState, ReporterState};
use surefoot_sys::netlink::Transport;

/// A record of what passed; another question than the recorded one is refused.
#[derive(Debug, Default)]
struct Recorded {
    questions: VecDeque<Vec<u8>>,
    answers: VecDeque<Vec<Vec<u8>>>,
    now: VecDeque<Vec<u8>>,
}

impl Recorded {
    fn of(text: &str) -> Self {
        let mut recorded = Recorded::default();
        for line in text.lines() {
            let (direction, hex) = line.split_once(' ').unwrap();
            let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
            if direction == ">" {
                recorded.questions.push_back(bytes);
                recorded.answers.push_back(Vec::new());
            } else {
                recorded.answers.back_mut().unwrap().push(bytes);
            }
        }
        recorded
    }
}

impl Transport for Recorded {
    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        assert_eq!(self.questions.pop_front().as_deref(), Some(datagram), "another question than was recorded");
        self.now = self.answers.pop_front().unwrap().into();
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        self.now.pop_front().ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

const BROKEN: &str = include_str!("../fixtures/netdevsim-broken.netlink");

fn eth0() -> Interface {
    Interface { name: "eth0".into(), device: Some("netdevsim/netdevsim10".into()), is_up: true, ..Interface::default() }
}

#[test]
fn a_broken_reporter_of_a_real_kernel_makes_its_interface_probably_hung() {
    let mut devlink = Devlink::over(Recorded::of(BROKEN)).unwrap();
    let mut interfaces = vec![eth0(), Interface { name: "eth9".into(), ..Interface::default() }];
    look::add_reported(&mut interfaces, &mut devlink).unwrap();
    assert_eq!(interfaces.len(), 2, "the reporters are those of the interface");
    assert!(interfaces[1].reporters.is_empty());
    let one = &mut interfaces[0];
    let names: Vec<&str> = one.reporters.iter().map(|reporter| reporter.name.as_str()).collect();
    assert_eq!(names, ["empty", "dummy"]);
    let dummy = one.reporters[1].clone();
    assert_eq!((dummy.state, dummy.error_count, dummy.recover_count), (ReporterState::Error, 2, 1));
    assert!(dummy.has_dump && dummy.dump_realtime_ns.is_some_and(|at| at > 1_600_000_000_000_000_000), "{dummy:?}");
    assert_eq!((dummy.auto_recover, dummy.grace_period_ms), (Some(true), Some(0)));
    assert_eq!(one.reporters[0].auto_recover, None, "a reporter that cannot recover");
    let then = one.clone();
    judge::judge(one, &[], &judge::Limits::default());
    assert_eq!(one.state, InterfaceState::Unknown, "of one look alone");
    // The tree has no counters; with them, and no packet since:
    let idle = InterfaceCounters { rx_packets: Some(1), tx_packets: Some(1), ..InterfaceCounters::default() };
    let (mut now, then) = (Interface { counters: idle, ..then.clone() }, Interface { counters: idle, ..then });
    judge::judge(&mut now, &[(&then, 1_000_000_000)], &judge::Limits::default());
    assert_eq!((now.state, now.certainty), (InterfaceState::Hung, Some(Certainty::Probable)), "{:?}", now.evidence);
}

#[test]
fn a_device_without_an_interface_here_stands_for_itself() {
    let mut devlink = Devlink::over(Recorded::of(BROKEN)).unwrap();
    let mut interfaces = Vec::new();
    look::add_reported(&mut interfaces, &mut devlink).unwrap();
    assert_eq!((interfaces.len(), interfaces[0].name.as_str()), (1, "netdevsim/netdevsim10"));
    assert_eq!(interfaces[0].reporters.len(), 2);
}

#[test]
fn an_answer_that_is_cut_within_a_message_is_an_error_and_no_panic() {
    let lines: Vec<&str> = BROKEN.lines().collect();
    let (mut cuts, mut between) = (0, 0);
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with('<')) {
        // Whole bytes of the datagram go, from its end.
        for kept in (2..line.len()).step_by(2) {
            let mut cut: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            cut[number].truncate(kept);
            let asked = Devlink::over(Recorded::of(&cut.join("\n"))).and_then(|mut devlink| devlink.reported());
            cuts += 1;
            // A datagram of two reporters that ends between them is whole, and tells of one.
            if let Ok(reported) = asked {
                assert_eq!(reported.reporters.len(), 1, "line {number} of {kept} bytes: {reported:?}");
                between += 1;
            }
        }
    }
    assert!(cuts > 1000 && between == 1, "{cuts} cuts, {between} between two messages");
}

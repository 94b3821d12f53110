//! Network interfaces as metrics.

use crate::http::series::{Claim, Series};
use surefoot_http::metrics::seconds;
use surefoot_model::{HealthReporter, Interface, InterfaceState, ReporterState, one_line};
use surefoot_rooms::nic::state::State;

/// A count of an interface: its name below, its help, the name and help of its sum, and the value where the interface has one.
struct Count {
    name: &'static str,
    help: &'static str,
    sum: &'static str,
    sum_help: &'static str,
    value: fn(&Interface) -> Option<u64>,
}

const COUNTS: [Count; 6] = [
    Count {
        name: "nic_tx_timeouts",
        help: "Times that the kernel found a send queue of the interface stuck.",
        sum: "nic_all_tx_timeouts",
        sum_help: "Times that the kernel found a send queue stuck, of all interfaces that count it.",
        value: |one| one.tx_timeout_count,
    },
    Count {
        name: "nic_carrier_changes",
        help: "Times that the link of the interface came or went.",
        sum: "nic_all_carrier_changes",
        sum_help: "Times that a link came or went, of all interfaces that count it.",
        value: |one| one.carrier_change_count,
    },
    Count {
        name: "nic_receive_errors",
        help: "Packets that arrived damaged.",
        sum: "nic_all_receive_errors",
        sum_help: "Packets that arrived damaged, of all interfaces that count it.",
        value: |one| one.counters.rx_errors,
    },
    Count {
        name: "nic_receive_missed",
        help: "Packets that the device dropped because the host did not fetch them.",
        sum: "nic_all_receive_missed",
        sum_help: "Packets that devices dropped because the host did not fetch them, of all interfaces that count it.",
        value: |one| one.counters.rx_missed_errors,
    },
    Count {
        name: "nic_transmit_errors",
        help: "Packets that could not be sent.",
        sum: "nic_all_transmit_errors",
        sum_help: "Packets that could not be sent, of all interfaces that count it.",
        value: |one| one.counters.tx_errors,
    },
    Count {
        name: "nic_transmit_dropped",
        help: "Packets that the kernel dropped before they were sent.",
        sum: "nic_all_transmit_dropped",
        sum_help: "Packets that the kernel dropped before they were sent, of all interfaces that count it.",
        value: |one| one.counters.tx_dropped,
    },
];

/// Adds the series of the newest look; none where the host has no interfaces.
pub(super) fn encode(state: &State, now_ns: u64, series: &mut Series) {
    let Some(look) = state.look_if_supported() else { return };
    let mut interfaces: Vec<&Interface> = look.interfaces.iter().collect();
    let family = series.gauge("nic_interfaces", "Network interfaces by their state.");
    for state in InterfaceState::ALL {
        let count = interfaces.iter().filter(|one| one.state == state).count();
        family.add(&[("state", state.as_str())], count as u64);
    }
    for count in &COUNTS {
        let counted: Vec<u64> = interfaces.iter().filter_map(|one| (count.value)(one)).collect();
        if !counted.is_empty() {
            let sum = counted.into_iter().fold(0, u64::saturating_add);
            series.counter(count.sum, count.sum_help).add(&[], sum);
        }
    }
    // The worst first, so that those without series are well.
    interfaces.sort_by(|a, b| (b.state, &a.name).cmp(&(a.state, &b.name)));
    for (place, one) in interfaces.iter().enumerate() {
        let (claim, name, driver) =
            (Claim(place), one_line(&one.name), one_line(one.driver.as_deref().unwrap_or_default()));
        let interface = ("interface", name.as_str());
        let labels = [interface, ("driver", &*driver), ("state", one.state.as_str())];
        series.gauge("nic_state", "The state of the interface.").of(claim, &labels, true);
        for count in &COUNTS {
            if let Some(value) = (count.value)(one) {
                series.counter(count.name, count.help).of(claim, &[interface], value);
            }
        }
        for reporter in &one.reporters {
            of_reporter(series, Claim(REPORTERS + place), &name, reporter);
        }
    }
    let help = "Network interfaces that the look itself left out.";
    series.gauge("nic_interfaces_left_out", help).add(&[], look.interfaces_left_out);
    let help = "Age of the newest look at the network interfaces.";
    series.seconds("nic_look_age", help).add(&[], seconds(now_ns.saturating_sub(look.looked_realtime_ns)));
}

/// Claims of reporters, after those of interfaces.
const REPORTERS: usize = 5_000;

fn of_reporter(series: &mut Series, claim: Claim, interface: &str, reporter: &HealthReporter) {
    // Reporters of two ports of a device may have one name.
    let device = match reporter.port {
        Some(port) => format!("{}/{port}", one_line(&reporter.device)),
        None => one_line(&reporter.device),
    };
    let name = one_line(&reporter.name);
    let labels = [("interface", interface), ("device", &*device), ("reporter", &*name)];
    let is_error = reporter.state == ReporterState::Error;
    series
        .gauge("nic_reporter_error", "Whether the health reporter is in the state error.")
        .of(claim, &labels, is_error);
    let errors = series.counter("nic_reporter_errors", "Errors that the health reporter saw.");
    errors.of(claim, &labels, reporter.error_count);
    let recoveries = series.counter("nic_reporter_recoveries", "Recoveries by the health reporter.");
    recoveries.of(claim, &labels, reporter.recover_count);
}

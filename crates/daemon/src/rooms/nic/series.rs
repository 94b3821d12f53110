//! Network interfaces as OpenMetrics.

use super::state::State;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};
use prometheus_client::registry::Unit;
use std::fmt::Error;
use surefoot_model::{Interface, InterfaceState, ReporterState, one_line};

/// Interfaces that have series of their own.
const INTERFACES_MAX: usize = 256;
/// Reporters that have series of their own.
const REPORTERS_MAX: usize = 1024;

/// A label and its value.
type Label<'a> = (&'static str, &'a str);
/// The value of a series, where the interface has one.
type Value = dyn Fn(&Interface) -> Option<u64>;

/// Writes the series of the newest look; none where the host has no interfaces.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub(super) fn encode(state: &State, now_ns: u64, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let Some(look) = state.look_if_supported() else { return Ok(()) };
    let mut interfaces: Vec<&Interface> = look.interfaces.iter().collect();
    // The worst first, so that those without series are well.
    interfaces.sort_by_key(|one| std::cmp::Reverse(one.state));
    interfaces.truncate(INTERFACES_MAX);
    interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    states(&interfaces, encoder)?;
    let families: [(&str, &str, &Value); 6] = [
        ("nic_tx_timeouts", "Times that the kernel found a send queue of the interface stuck.", &|one| {
            one.tx_timeout_count
        }),
        ("nic_carrier_changes", "Times that the link of the interface came or went.", &|one| {
            Some(one.carrier_change_count)
        }),
        ("nic_receive_errors", "Packets that arrived damaged.", &|one| one.counters.rx_errors),
        ("nic_receive_missed", "Packets that the device dropped because the host did not fetch them.", &|one| {
            one.counters.rx_missed_errors
        }),
        ("nic_transmit_errors", "Packets that could not be sent.", &|one| one.counters.tx_errors),
        ("nic_transmit_dropped", "Packets that the kernel dropped before they were sent.", &|one| {
            one.counters.tx_dropped
        }),
    ];
    for (name, help, value) in families {
        let mut family = encoder.encode_descriptor(name, help, None, Counter)?;
        for (one, value) in interfaces.iter().filter_map(|one| Some((one, value(one)?))) {
            write(&mut family, Counter, &[("interface", &one_line(&one.name))], value as f64)?;
        }
    }
    reporters(&interfaces, encoder)?;
    let help = "Network interfaces without their own series: over the limit.";
    let mut family = encoder.encode_descriptor("nic_interfaces_without_series", help, None, Gauge)?;
    let without = (look.interfaces.len() - interfaces.len()) as u64;
    family.encode_gauge(&(without.saturating_add(look.interfaces_left_out) as f64))?;
    let help = "Age of the newest look at the network interfaces.";
    let mut family = encoder.encode_descriptor("nic_look_age", help, Some(&Unit::Seconds), Gauge)?;
    family.encode_gauge(&(now_ns.saturating_sub(look.looked_realtime_ns) as f64 / 1e9))
}

fn states(interfaces: &[&Interface], encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let help = "State of the interface: 1 for the current state.";
    let mut family = encoder.encode_descriptor("nic_state", help, None, Gauge)?;
    for one in interfaces {
        let driver = one_line(one.driver.as_deref().unwrap_or_default());
        for state in InterfaceState::ALL {
            let labels = [("interface", &*one_line(&one.name)), ("driver", &*driver), ("state", state.as_str())];
            write(&mut family, Gauge, &labels, f64::from(u8::from(one.state == state)))?;
        }
    }
    Ok(())
}

fn reporters(interfaces: &[&Interface], encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let all = || interfaces.iter().flat_map(|one| one.reporters.iter().map(move |two| (one, two))).take(REPORTERS_MAX);
    let is_error = |state| f64::from(u8::from(state == ReporterState::Error));
    let mut each = |name: &str, help: &str, kind, value: &dyn Fn(&surefoot_model::HealthReporter) -> f64| {
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        all().try_for_each(|(one, reporter)| {
            // Reporters of two ports of a device may have one name.
            let device = match reporter.port {
                Some(port) => format!("{}/{port}", one_line(&reporter.device)),
                None => one_line(&reporter.device),
            };
            let (interface, name) = (one_line(&one.name), one_line(&reporter.name));
            let labels = [("interface", &*interface), ("device", &*device), ("reporter", &*name)];
            write(&mut family, kind, &labels, value(reporter))
        })
    };
    each("nic_reporter_error", "Whether the health reporter is in the state error.", Gauge, &|one| {
        is_error(one.state)
    })?;
    each("nic_reporter_errors", "Errors that the health reporter saw.", Counter, &|one| one.error_count as f64)?;
    each("nic_reporter_recoveries", "Recoveries by the health reporter.", Counter, &|one| one.recover_count as f64)
}

fn write(family: &mut MetricEncoder<'_>, kind: MetricType, labels: &[Label<'_>], value: f64) -> Result<(), Error> {
    let mut one = family.encode_family(&labels)?;
    match kind {
        Counter => one.encode_counter::<NoLabelSet, _, f64>(&value, None),
        _ => one.encode_gauge(&value),
    }
}

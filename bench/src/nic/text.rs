//! The figures as tables.

use super::lines::{BenchLine, Spread};
use surefoot_console::table::Table;
use surefoot_nic::measure::Stack;

/// The name of a stack, or of a way of the kernel, for people.
pub fn title(name: &str) -> &'static str {
    match name {
        "udp_loopback" => "UDP, loopback",
        "veth_packets" => "AF_PACKET, veth",
        _ => Stack::ALL.into_iter().find(|stack| stack.name() == name).map_or("?", Stack::title),
    }
}

pub fn text(lines: &[BenchLine]) -> String {
    let mut text = String::new();
    for (clock, head) in [
        ("virtual", "Virtual time: a processor of 125 MHz, PCI at 264 MB/s, a link of 160 MB/s; shares are of GM"),
        ("wall", "By the clock: medians of the rounds (lowest to highest); shares are of GM"),
    ] {
        let table = figures(lines, clock);
        if let Some(table) = table {
            text += &format!("{head}\n\n{table}\n");
        }
    }
    text += &self_tests(lines).unwrap_or_default();
    for line in lines {
        if let BenchLine::NotRun { what, reason } = line {
            text += &format!("{}: not run: {reason}\n", title(what));
        }
    }
    text
}

fn figures(lines: &[BenchLine], wanted: &str) -> Option<String> {
    let is_virtual = wanted == "virtual";
    let header: &[&str] = if is_virtual {
        &["bytes", "stack", "half round trip us", "share", "MB/s", "share", "instructions per message"]
    } else {
        &["bytes", "stack", "half round trip us", "share", "MB/s", "share", "host send ns", "host receive ns"]
    };
    let mut table = Table::new(header, &[1]);
    let mut count = 0;
    for line in lines {
        let BenchLine::Figure {
            clock,
            stack,
            message_bytes,
            half_round_trip_ns,
            half_round_trip_share,
            bytes_per_s,
            bytes_per_s_share,
            instructions_per_message,
            host_send_ns,
            host_receive_ns,
        } = line
        else {
            continue;
        };
        if *clock != wanted {
            continue;
        }
        count += 1;
        let spread = |of: &Spread, unit: f64, digits: usize| spread(of, unit, digits, is_virtual);
        let host = |of: &Option<Spread>| of.as_ref().map_or_else(|| "-".into(), |of| spread(of, 1.0, 0));
        let mut row = vec![
            message_bytes.to_string(),
            title(stack).to_owned(),
            spread(half_round_trip_ns, 1e3, 2),
            share(*half_round_trip_share),
            spread(bytes_per_s, 1e6, 2),
            share(*bytes_per_s_share),
        ];
        if is_virtual {
            row.push(instructions_per_message.map_or_else(|| "-".into(), |count| format!("{count:.0}")));
        } else {
            row.extend([host(host_send_ns), host(host_receive_ns)]);
        }
        table.row(row);
    }
    (count > 0).then(|| table.text())
}

fn spread(of: &Spread, unit: f64, digits: usize, is_exact: bool) -> String {
    let median = of.median / unit;
    if is_exact {
        return format!("{median:.digits$}");
    }
    format!("{median:.digits$} ({:.digits$} to {:.digits$})", of.minimum / unit, of.maximum / unit)
}

fn share(of: Option<f64>) -> String {
    of.map_or_else(|| "-".into(), |share| format!("{:.2} %", share * 100.0))
}

fn self_tests(lines: &[BenchLine]) -> Option<String> {
    let mut table = Table::new(&["self-test every", "stack", "MB/s", "share", "half round trip us", "share"], &[1]);
    let mut of_run = None;
    for line in lines {
        let BenchLine::SelfTest {
            stack,
            message_bytes,
            interval_ns,
            span_ns,
            bytes_per_s,
            bytes_per_s_share,
            half_round_trip_ns,
            half_round_trip_share,
        } = line
        else {
            continue;
        };
        of_run = Some((message_bytes, span_ns));
        table.row(vec![
            interval_ns.map_or_else(|| "never".into(), |ns| format!("{} s", ns as f64 / 1e9)),
            title(stack).to_owned(),
            format!("{:.3}", bytes_per_s / 1e6),
            share(Some(*bytes_per_s_share)),
            format!("{:.3}", half_round_trip_ns / 1e3),
            share(Some(*half_round_trip_share)),
        ]);
    }
    let (bytes, span_ns) = of_run?;
    let head = format!(
        "Self-test, virtual time: messages of {bytes} bytes over {} s; shares are of one test before the first message and \
         none after",
        *span_ns as f64 / 1e9
    );
    Some(format!("{head}\n\n{}\n", table.text()))
}

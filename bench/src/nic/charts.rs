//! The figures as pictures, a line per stack.

use super::lines::BenchLine;
use super::text::title;
use surefoot_console::chart::{Line, Panel, Scale, svg};

/// Names of stacks and of the kernel's ways, with the number that picks a line's colour and dash.
const NAMES: [(&str, usize); 6] =
    [("gm", 1), ("fdgm", 3), ("ftgm", 2), ("ftgm_verified", 5), ("udp_loopback", 7), ("veth_packets", 6)];

/// So many of them are stacks.
const STACKS: usize = 4;

/// The names of the pictures.
pub const FILES: [&str; 4] = ["bandwidth.svg", "latency.svg", "self-test.svg", "host-cost.svg"];

const OVER_LENGTH: &str = "length of a message, bytes (logarithmic)";
const OVER_INTERVAL: &str = "interval of the self-test, seconds (logarithmic)";

/// What a point of a figure has on the vertical axis.
type Value = fn(&BenchLine) -> Option<f64>;

/// All that there are data for: names of files, and pictures.
pub fn all(lines: &[BenchLine]) -> Vec<(&'static str, String)> {
    let both = |value: Value, what: &str| -> Vec<Panel> {
        let panels: [(&str, bool, &str); 3] = [
            ("virtual", true, "virtual time"),
            ("wall", true, "by the clock, medians"),
            // On an axis with these, the lines above would lie on zero.
            ("wall", false, "by the clock, medians: sockets of the kernel, for scale"),
        ];
        let of = |&(clock, is_stack, said): &(&str, bool, &str)| {
            let lines = lines.iter().filter(|line| is_of_stack(line) == is_stack);
            over_length(&lines.cloned().collect::<Vec<_>>(), clock, value, format!("{what}, {said}"))
        };
        panels.iter().filter_map(of).collect()
    };
    let bandwidth: Value = |line| match line {
        BenchLine::Figure { bytes_per_s, .. } => Some(bytes_per_s.median / 1e6),
        _ => None,
    };
    let latency: Value = |line| match line {
        BenchLine::Figure { half_round_trip_ns, .. } => Some(half_round_trip_ns.median / 1e3),
        _ => None,
    };
    let sends: Value = |line| match line {
        BenchLine::Figure { host_send_ns, .. } => host_send_ns.map(|spread| spread.median / 1e3),
        _ => None,
    };
    let receives: Value = |line| match line {
        BenchLine::Figure { host_receive_ns, .. } => host_receive_ns.map(|spread| spread.median / 1e3),
        _ => None,
    };
    let host = [(sends, "sends"), (receives, "receives")].into_iter().filter_map(|(value, what)| {
        over_length(lines, "wall", value, format!("Processor time of the library that {what} a message, microseconds"))
    });
    let tested: [(Value, &str); 2] = [
        (
            |line| match line {
                BenchLine::SelfTest { bytes_per_s_share, .. } => Some(bytes_per_s_share * 100.0),
                _ => None,
            },
            "Bandwidth beside the self-test, percent of that without",
        ),
        (
            |line| match line {
                BenchLine::SelfTest { half_round_trip_share, .. } => Some(half_round_trip_share * 100.0),
                _ => None,
            },
            "Half round trip beside the self-test, percent of that without",
        ),
    ];
    let tested = tested.into_iter().filter_map(|(value, what)| over_interval(lines, value, what));
    let figures: [(&str, &str, Vec<Panel>); 4] = [
        (FILES[0], "Bandwidth over the length of messages", both(bandwidth, "Bandwidth, MB/s")),
        (
            "latency.svg",
            "Half a round trip over the length of messages",
            both(latency, "Half a round trip, microseconds"),
        ),
        (FILES[2], "What the self-test takes", tested.collect()),
        (FILES[3], "Processor time of the library for a message", host.collect()),
    ];
    let drawn = figures.into_iter().filter(|(_, _, panels)| !panels.is_empty());
    drawn.map(|(file, label, panels)| (file, svg(label, &panels))).collect()
}

/// Whether it is of an interface and its library, and not of the kernel's sockets.
fn is_of_stack(line: &BenchLine) -> bool {
    match line {
        BenchLine::Figure { stack, .. } => NAMES.iter().take(STACKS).any(|(name, _)| name == stack),
        _ => true,
    }
}

fn over_length(lines: &[BenchLine], wanted: &str, value: Value, title: String) -> Option<Panel> {
    let point = |line: &BenchLine, of: &str| match line {
        BenchLine::Figure { clock, stack, message_bytes, .. } if *clock == wanted && *stack == of => {
            Some((f64::from(*message_bytes), value(line)?))
        }
        _ => None,
    };
    let all = drawn(lines, point);
    let top = all.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    panel(all, title, OVER_LENGTH, |bytes| format!("{bytes}"), (0.0, rounded_up(top)))
}

fn over_interval(lines: &[BenchLine], value: Value, title: &str) -> Option<Panel> {
    let point = |line: &BenchLine, of: &str| match line {
        BenchLine::SelfTest { stack, interval_ns: Some(ns), .. } if *stack == of => {
            Some((*ns as f64 / 1e9, value(line)?))
        }
        _ => None,
    };
    let all = drawn(lines, point);
    let values = all.iter().flat_map(|line| &line.points).map(|point| (point.1 - 100.0).abs());
    // As far on the other side, so that 100 % is in the middle.
    let far = rounded_up(values.fold(0.0, f64::max));
    panel(all, title.to_owned(), OVER_INTERVAL, |seconds| format!("{seconds}"), (100.0 - far, 100.0 + far))
}

fn drawn(lines: &[BenchLine], point: impl Fn(&BenchLine, &str) -> Option<(f64, f64)>) -> Vec<Line> {
    let line = |(name, number): (&str, usize)| {
        let points: Vec<(f64, f64)> = lines.iter().filter_map(|line| point(line, name)).collect();
        (!points.is_empty()).then(|| Line { number, name: title(name).to_owned(), points })
    };
    NAMES.into_iter().filter_map(line).collect()
}

fn panel(
    lines: Vec<Line>,
    title: String,
    across: &'static str,
    tick: fn(f64) -> String,
    range: (f64, f64),
) -> Option<Panel> {
    (!lines.is_empty()).then(|| Panel {
        title,
        across,
        scale: Scale::Logarithmic,
        tick,
        range,
        lines,
        marks: Vec::new(),
    })
}

/// The next of 1, 2, 4, 5 and 8 times a power of ten.
fn rounded_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 5.0, 8.0, 10.0].map(|factor| factor * power).into_iter().find(|top| *top >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::lines::Spread;
    use super::*;

    fn lines() -> Vec<BenchLine> {
        let figure = |clock: &'static str, stack: &'static str, message_bytes: u32| BenchLine::Figure {
            clock,
            stack,
            message_bytes,
            half_round_trip_ns: Spread::exact(30_000.0),
            half_round_trip_share: None,
            bytes_per_s: Spread::exact(9e7),
            bytes_per_s_share: None,
            instructions_per_message: None,
            host_send_ns: (clock == "wall").then(|| Spread::exact(300.0)),
            host_receive_ns: (clock == "wall").then(|| Spread::exact(400.0)),
        };
        let tested = |interval_ns| BenchLine::SelfTest {
            stack: "ftgm",
            message_bytes: 2048,
            interval_ns,
            span_ns: 1,
            bytes_per_s: 1.0,
            bytes_per_s_share: 0.97,
            half_round_trip_ns: 1.0,
            half_round_trip_share: 1.02,
        };
        let mut lines = vec![tested(None), tested(Some(500_000_000)), tested(Some(5_000_000_000))];
        for (name, _) in NAMES {
            lines.extend([figure("virtual", name, 64), figure("wall", name, 64), figure("wall", name, 4096)]);
        }
        lines
    }

    #[test]
    fn each_figure_has_its_axes_with_units_and_a_name_for_each_line() {
        let all = all(&lines());
        let files: Vec<&str> = all.iter().map(|(file, _)| *file).collect();
        assert_eq!(files, FILES);
        for (file, text) in &all {
            let [across, up] = match *file {
                "bandwidth.svg" => [OVER_LENGTH, "MB/s"],
                "self-test.svg" => [OVER_INTERVAL, "percent"],
                _ => [OVER_LENGTH, "microseconds"],
            };
            assert!(text.contains(across) && text.contains(up), "{file}: {text}");
            assert!(text.contains(">FTGM<"), "{file}: {text}");
        }
        assert!(all[1].1.contains(">UDP, loopback<") && all[1].1.contains(">AF_PACKET, veth<"));
        assert_eq!(all[1].1.matches("for scale").count(), 1, "they have an axis of their own");
        assert!(super::all(&[]).is_empty(), "nothing is drawn of nothing");
    }

    /// The relative luminance of WCAG.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        let linear = |part: f64| if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
        0.2126 * linear(part(1)) + 0.7152 * linear(part(3)) + 0.0722 * linear(part(5))
    }

    fn contrast(one: f64, other: f64) -> f64 {
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn lines_stand_out_from_a_light_and_a_dark_page() {
        let (_, text) = &all(&lines())[1];
        let strokes: Vec<&str> = text.split("stroke=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(strokes.len() >= 2 * NAMES.len());
        for stroke in strokes {
            for page in ["#ffffff", "#0d1117"] {
                let found = contrast(luminance(stroke), luminance(page));
                assert!(found >= 3.0, "{stroke} on {page}: {found:.2}");
            }
        }
    }
}

//! When errors arrive, as an option says it.

use anyhow::{Context, bail, ensure};
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use surefoot_console::units::{parse_rate as rate, parse_time};
use surefoot_memory::simulate::{Arrival, LINE_BYTES_MAX, MEAN_OVER_MEDIAN, Pattern, Trace};
use surefoot_model::{ErrorSeverity, Event, MemoryEvent};
use surefoot_store::recording::{End, Reader};

/// The value of `--errors`, with the text that gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct Errors {
    pub text: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Pattern(Pattern),
    Trace(PathBuf),
}

impl fmt::Display for Errors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

const FORM: &str = "write poisson:10/s, onoff:100/s,30s,10m, pareto:5/h or trace:FILE";

impl FromStr for Errors {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (word, rest) = text.split_once(':').ok_or_else(|| format!("'{text}' is no way to arrive; {FORM}"))?;
        let kind = match word {
            "poisson" => Kind::Pattern(Pattern::Steady { per_s: rate(rest)? }),
            "onoff" => {
                let parts: Vec<&str> = rest.split([',', ':']).collect();
                let [per_s, on, off] = parts[..] else {
                    return Err(format!("onoff has a rate, a time on and a time off, not '{rest}'; {FORM}"));
                };
                let time = |text: &str| parse_time(text).map(|time| time.as_secs_f64());
                Kind::Pattern(Pattern::Bursty { per_s: rate(per_s)?, on_s: time(on)?, off_s: time(off)? })
            }
            "pareto" => {
                let (mean, ratio) = rest.split_once(',').unwrap_or((rest, ""));
                let mean_over_median = match ratio {
                    "" => MEAN_OVER_MEDIAN,
                    text => {
                        text.parse().map_err(|_| format!("'{text}' is not how many medians the mean is; {FORM}"))?
                    }
                };
                Kind::Pattern(Pattern::HeavyTailed { mean_per_s: rate(mean)?, mean_over_median })
            }
            "trace" if !rest.is_empty() => Kind::Trace(PathBuf::from(rest)),
            _ => return Err(format!("'{text}' is no way to arrive; {FORM}")),
        };
        Ok(Errors { text: text.to_owned(), kind })
    }
}

/// No trace is larger; what a line of it takes is bounded as well.
const TRACE_BYTES_MAX: u64 = 4 << 30;

/// The first bytes of a recording of ours.
const RECORDING: &[u8] = b"SUREFOOT";

/// Reads a trace: lines, or the corrected errors of a recording.
pub fn read_trace(path: &Path) -> anyhow::Result<Vec<Arrival>> {
    let at = || format!("--errors: {}", path.display());
    let found = surefoot_foreign::hold(path).and_then(|held| held.regular()).with_context(at)?;
    let file = found.open().with_context(at)?;
    ensure!(found.about().bytes <= TRACE_BYTES_MAX, "{}: larger than {TRACE_BYTES_MAX} bytes; split it", at());
    let mut lines = BufReader::with_capacity(1 << 16, file.take(TRACE_BYTES_MAX));
    if lines.fill_buf().with_context(at)?.starts_with(RECORDING) {
        return read_recording(path).with_context(at);
    }
    let mut trace = Trace::default();
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let taken = lines.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line).with_context(at)?;
        if taken == 0 {
            break;
        }
        if line.len() > LINE_BYTES_MAX {
            bail!("{}: line {number} is longer than {LINE_BYTES_MAX} bytes", at());
        }
        let text = std::str::from_utf8(&line).with_context(|| format!("{}: line {number} is not UTF-8", at()))?;
        trace.line(text).map_err(|why| anyhow::anyhow!("{}: {why}", at()))?;
    }
    trace.finish().map_err(|why| anyhow::anyhow!("{}: {why}", at()))
}

fn read_recording(path: &Path) -> anyhow::Result<Vec<Arrival>> {
    let mut trace = Trace::default();
    let mut reader = Reader::open(path)?;
    for event in reader.by_ref() {
        let Event::Memory(MemoryEvent::Report(report)) = event else { continue };
        if report.severity != ErrorSeverity::Corrected {
            continue;
        }
        let at_ns = report.at_ns.unwrap_or(report.at_realtime_ns);
        let module = report.dimm.unwrap_or(report.label);
        trace.recorded(at_ns, &module, report.count.into()).map_err(anyhow::Error::msg)?;
    }
    if reader.end() != End::Complete {
        let file = path.display();
        surefoot_console::tell!("surefoot: {file}: the recording is not complete; what is intact of it is used");
    }
    trace.finish().map_err(anyhow::Error::msg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_arrive_are_read() {
        let kind = |text: &str| text.parse::<Errors>().unwrap().kind;
        assert_eq!(kind("poisson:10/s"), Kind::Pattern(Pattern::Steady { per_s: 10.0 }));
        assert_eq!(kind("poisson:6/m"), Kind::Pattern(Pattern::Steady { per_s: 0.1 }));
        let bursty = Pattern::Bursty { per_s: 2.0, on_s: 30.0, off_s: 600.0 };
        assert_eq!(kind("onoff:2/s,30s,10m"), Kind::Pattern(bursty));
        assert_eq!(kind("onoff:2/s:30s:10m"), Kind::Pattern(bursty));
        let heavy = |mean_over_median| Pattern::HeavyTailed { mean_per_s: 1.0, mean_over_median };
        assert_eq!(
            (kind("pareto:3600/h"), kind("pareto:1/s,9")),
            (Kind::Pattern(heavy(55.0)), Kind::Pattern(heavy(9.0)))
        );
        assert_eq!(kind("trace:a:b"), Kind::Trace("a:b".into()));
    }

    #[test]
    fn what_is_none_says_what_would_be() {
        for text in [
            "",
            "poisson",
            "poisson:10",
            "poisson:-1/s",
            "poisson:nan/s",
            "onoff:1/s",
            "onoff:1/s,0s,1s",
            "trace:",
            "x:1/s",
            "pareto:1/s,x",
        ] {
            let error = text.parse::<Errors>().expect_err(text);
            assert!(error.contains("such as") || error.contains("write"), "{text}: {error}");
        }
    }
}

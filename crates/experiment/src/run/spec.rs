//! What `--disturbance` says.

use std::collections::BTreeMap;
use std::str::FromStr;
use surefoot_console::units::parse_ns;
use surefoot_disturb::disturbance::{Guest, GuestStop, Method, Phase, Spec, What};
use surefoot_hostfs::cpus;
use surefoot_model::{CpuId, did_you_mean};

const FORM: &str = "write freeze:length=2ms,period=1s, and cores=0-1, phase=random or method=spin where needed";

/// The keys of all kinds.
const KEYS: [&str; 8] = ["length", "period", "rate", "cores", "phase", "method", "qmp", "pid"];

/// A disturbance as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecChoice(pub Spec);

/// All that can be asked for.
fn kinds() -> String {
    let rated = What::RATED.iter().map(|what| what.name());
    let all = ["freeze"].into_iter().chain(rated).chain(GuestStop::ALL.iter().map(|how| how.name()));
    all.collect::<Vec<_>>().join(", ")
}

const METHODS: &str = "bpf, spin, cgroup-freeze or stop";

fn method(name: &str) -> Option<Method> {
    Method::ALL.into_iter().find(|method| method.name() == name)
}

/// `rate=1000` is so many a second.
fn period_of_rate(values: &mut BTreeMap<&str, String>) -> Result<u64, String> {
    let rate = values.remove("rate").ok_or("'rate' is missing; write ipi:rate=1000,cores=1")?;
    match rate.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok((1e9 / number).round() as u64),
        _ => Err(format!("rate={rate}: write how many a second, a number above 0")),
    }
}

/// `qmp=SOCKET` or `pid=NUMBER`.
fn guest(values: &mut BTreeMap<&str, String>) -> Result<Option<Guest>, String> {
    let process = match values.remove("pid") {
        None => None,
        Some(number) => match number.parse() {
            Ok(pid) if pid > 1 => Some(Guest::Process(pid)),
            _ => return Err(format!("pid={number}: write the number of QEMU's process")),
        },
    };
    match (values.remove("qmp"), process) {
        (Some(_), Some(_)) => Err("'qmp' and 'pid' both name a guest: write one".into()),
        (Some(path), None) => Ok(Some(Guest::Monitor(path.into()))),
        (None, process) => Ok(process),
    }
}

fn cores(list: &str) -> Result<Vec<CpuId>, String> {
    let cores = cpus::parse_list(list).map_err(|error| error.to_string())?;
    if cores.is_empty() { Err("name at least one core, such as 1 or 0-3,8".into()) } else { Ok(cores) }
}

/// The keys and values; a value may hold commas where they are followed by a number, as in `cores=0,2-3`.
fn values(text: &str) -> Result<BTreeMap<&str, String>, String> {
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    let mut last = None;
    for part in text.split(',') {
        match (part.split_once('='), last) {
            (Some((key, value)), _) => {
                if values.insert(key, value.to_owned()).is_some() {
                    return Err(format!("'{key}' is there twice"));
                }
                last = Some(key);
            }
            (None, Some("cores")) => values.entry("cores").or_default().push_str(&format!(",{part}")),
            (None, _) => return Err(format!("'{part}' is no key=value; {FORM}")),
        }
    }
    Ok(values)
}

impl FromStr for SpecChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').ok_or_else(|| match text {
            rated if What::RATED.iter().any(|what| what.name() == rated) => format!("write {rated}:rate=1000"),
            _ => FORM.to_owned(),
        })?;
        if !kinds().split(", ").any(|known| known == kind) && method(kind).is_none() {
            return Err(format!("'{kind}' is no disturbance: {}; {FORM}", kinds()));
        }
        let mut values = values(rest)?;
        // A key that was misspelt is not missing.
        if let Some(key) = values.keys().find(|key| !KEYS.contains(key)) {
            return Err(format!("unknown key '{key}'{}; {FORM}", did_you_mean(key, KEYS)));
        }
        let phase = match values.remove("phase").as_deref() {
            None | Some("same") => Phase::Same,
            Some("random") => Phase::Random,
            Some("staggered") => Phase::Staggered,
            Some(other) => return Err(format!("'{other}' is no phase: same, staggered or random")),
        };
        let method = match values.remove("method").as_deref() {
            None => None,
            Some(name) => Some(method(name).ok_or_else(|| format!("'{name}' is no method: {}", METHODS))?),
        };
        let cores = values.remove("cores").map(|list| cores(&list)).transpose()?.unwrap_or_default();
        let guest_stop = GuestStop::ALL.into_iter().find(|how| how.name() == kind);
        let guest = guest_stop.and_then(|_| guest(&mut values).transpose()).transpose()?;
        if guest_stop.is_some() && (guest.is_none() || method.is_some()) {
            return Err(format!("write {kind}:length=105ms,period=1s,qmp=SOCKET, or pid=NUMBER instead of qmp"));
        }
        let time = |values: &mut BTreeMap<&str, String>, key: &str| {
            let value = values.remove(key).ok_or_else(|| format!("'{key}' is missing; {FORM}"))?;
            parse_ns(&value).map_err(|error| format!("{key}: {error}"))
        };
        let rated = What::RATED.into_iter().find(|what| what.name() == kind);
        let (length_ns, period_ns) = match rated {
            Some(_) if method.is_some() => return Err(format!("{kind} takes no 'method'")),
            Some(_) => (0, period_of_rate(&mut values)?),
            None => (time(&mut values, "length")?, time(&mut values, "period")?),
        };
        let what = match (kind, rated) {
            (_, Some(what)) => what,
            _ if guest_stop.is_some() => guest_stop.map_or(What::Freeze(None), What::Guest),
            ("freeze", None) => What::Freeze(method),
            // The methods by their own names.
            (name, None) if method.is_none() && self::method(name).is_some() => What::Freeze(self::method(name)),
            (name, None) if self::method(name).is_some() => {
                return Err(format!("'{name}' is a method: write {name}:... or freeze:...,method={name}"));
            }
            (other, None) => return Err(format!("'{other}' is no disturbance: {}; {FORM}", kinds())),
        };
        match values.first_key_value() {
            None => Ok(SpecChoice(Spec { what, length_ns, period_ns, cores, phase, guest, even_on_bare_metal: false })),
            Some((key, _)) if rated.is_some() => {
                Err(format!("{kind} takes no '{key}'; write {kind}:rate=1000 and, where it has cores, cores=0-1"))
            }
            Some((key, _)) => Err(format!("{kind} takes no '{key}'; {FORM}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_is_read_as_it_is_written() {
        let spec = |text: &str| text.parse::<SpecChoice>().unwrap().0;
        let cores = |cores: &[u32]| cores.iter().copied().map(CpuId).collect::<Vec<_>>();
        let found = spec("freeze:length=2ms,period=1s,cores=0,2-3,phase=staggered");
        let wanted = Spec {
            what: What::Freeze(None),
            length_ns: 2_000_000,
            period_ns: 1_000_000_000,
            cores: cores(&[0, 2, 3]),
            phase: Phase::Staggered,
            guest: None,
            even_on_bare_metal: false,
        };
        assert_eq!(found, wanted);
        let found = spec("freeze:method=spin,period=1s,length=50us");
        assert_eq!((found.what, found.phase, found.cores), (What::Freeze(Some(Method::Spin)), Phase::Same, vec![]));
        let found = spec("softirq:rate=2000,cores=1");
        assert_eq!((found.what, found.period_ns, found.length_ns), (What::Softirq, 500_000, 0));
        let found = spec("guest-freeze:length=105ms,period=1s,qmp=/run/guest/monitor");
        let monitor = Some(Guest::Monitor("/run/guest/monitor".into()));
        assert_eq!((found.what, found.guest), (What::Guest(GuestStop::Freeze), monitor));
        assert_eq!(spec("guest-stop:length=1ms,period=1s,pid=70").guest, Some(Guest::Process(70)));
        assert_eq!((spec("smi:rate=2").what, spec("memory-error:rate=1").what), (What::Smi, What::MemoryError));
        assert_eq!(spec("stop:period=1s,length=50us").what, What::Freeze(Some(Method::Stop)));
        assert_eq!(
            spec("freeze:period=1s,length=50us,method=cgroup-freeze").what,
            What::Freeze(Some(Method::CgroupFreeze))
        );
    }

    #[test]
    fn what_is_no_disturbance_says_what_would_be() {
        for (text, said) in [
            ("freeze", "write freeze:length="),
            ("melt:length=1ms,period=1s", "'melt' is no disturbance"),
            ("frieze:length=2ms", "'frieze' is no disturbance: freeze,"),
            ("freeze:length=1ms", "'period' is missing"),
            ("freeze:length=1,period=1s", "has no unit"),
            ("freeze:length=1ms,period=1s,phase=new", "'new' is no phase"),
            ("freeze:length=1ms,period=1s,method=smi", "'smi' is no method: bpf, spin"),
            ("ipi:period=1s", "'rate' is missing"),
            ("guest-freeze:length=1ms,period=1s", "qmp=SOCKET, or pid=NUMBER"),
            ("guest-stop:length=1ms,period=1s,pid=1", "the number of QEMU's process"),
            ("guest-stop:length=1ms,period=1s,pid=2,qmp=x", "'qmp' and 'pid' both"),
            ("freeze:length=1ms,period=1s,pid=2", "freeze takes no 'pid'"),
            ("freeze:lenght=1ms,period=1s", "unknown key 'lenght'; did you mean 'length'?"),
            ("ipi:rte=5", "unknown key 'rte'; did you mean 'rate'?"),
            ("ipi:rate=0", "rate=0: write how many a second"),
            ("timer:rate=10,method=bpf", "timer takes no 'method'"),
            ("softirq:rate=10,length=1ms", "softirq takes no 'length'; write softirq:rate=1000"),
            ("ipi", "write ipi:rate=1000"),
            ("stop:length=1ms,period=1s,method=spin", "'stop' is a method"),
            ("freeze:length=1ms,period=1s,cores=x", "is not a list of cores"),
            ("freeze:length=1ms,period=1s,length=2ms", "'length' is there twice"),
            ("freeze:length=1ms,period=1s,cpu=1", "unknown key 'cpu'"),
            ("freeze:length=1ms,5,period=1s", "'5' is no key=value"),
        ] {
            let error = text.parse::<SpecChoice>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}

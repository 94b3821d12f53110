//! `dimms`: one full read of the counts of 32 memory modules, beside node_exporter's edac collector and `ras-mc-ctl`.
//!
//! All read the same made-up tree of two sockets: in a mount namespace of its own it lies where /sys is, because ras-mc-ctl knows no other
//! place, and because Surefoot keeps the counters of the running host open and not those of a recorded tree.

use crate::child::{Running, output};
use crate::numbers::{Spread, duration, median};
use crate::run::Bench;
use crate::table::Row;
use anyhow::{Context, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_memory::look::Looker;

const EXPORTER: &str = "prometheus-node-exporter";
const RAS: &str = "ras-mc-ctl";
const CONTROLLERS: u32 = 8;
const LIMIT: f64 = 5.0;

/// The part that runs inside the namespace.
#[derive(Args)]
pub struct Options {
    /// The tree that lies at /sys
    #[arg(long)]
    tree: PathBuf,
    /// The command under test
    #[arg(long)]
    surefoot: PathBuf,
    /// Rounds
    #[arg(long)]
    rounds: u32,
}

/// Nanoseconds of one round; `None` for what is not installed.
#[derive(Debug, Serialize, Deserialize)]
struct Round {
    /// A look of a process that looks again and again.
    look: f64,
    /// The same where every controller has counted an error since, so that every count is read.
    full_look: f64,
    /// A look that keeps nothing from the one before.
    first_look: f64,
    /// What the exporter says that its collector took.
    collector: Option<f64>,
    /// `surefoot memory status`, start to end.
    status: f64,
    /// `ras-mc-ctl --error-count`, start to end.
    error_count: Option<f64>,
}

pub fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let rounds: u32 = if bench.quick { 20 } else { 200 };
    bench.say(&format!("dimms: {rounds} rounds of reading {} modules", CONTROLLERS * 4));
    let tree = bench.scratch.file("dimms");
    write_tree(&tree)?;
    let script =
        "mount --bind \"$1/sys\" /sys && exec \"$2\" read-dimms --tree \"$1\" --surefoot \"$3\" --rounds \"$4\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.arg(&tree).arg(&bench.own).arg(&bench.surefoot).arg(rounds.to_string());
    let said = output(&mut command).context("a mount namespace needs root")?;
    let text = String::from_utf8(said.stdout)?;
    let rounds: Vec<Round> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok(rows(&rounds))
}

fn rows(rounds: &[Round]) -> Vec<Row> {
    let row = |measure: &str, ours: fn(&Round) -> f64, theirs: fn(&Round) -> Option<f64>, tool: &str, held: bool| {
        let pairs: Vec<(f64, f64)> = rounds.iter().filter_map(|round| Some((ours(round), theirs(round)?))).collect();
        let time = |side: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(side).collect::<Vec<_>>()).map(duration);
        let row = Row::new("dimms", measure);
        let (Some(mine), Some(other)) = (time(|pair| pair.0), time(|pair| pair.1)) else {
            return row.not_run(format!("{tool} is not installed"));
        };
        let ratios: Vec<f64> = pairs.iter().map(|(ours, theirs)| theirs / ours).collect();
        let row = row.ours(mine).against(format!("{tool}: {other}")).ratio(Spread::of(&ratios));
        if held { row.at_least(LIMIT, ">= 5 times faster") } else { row }
    };
    vec![
        row(
            "32 modules, one look of many, new errors on every controller",
            |round| round.full_look,
            |round| round.collector,
            "node_exporter's edac collector",
            true,
        ),
        row(
            "32 modules, one look of many, nothing new",
            |round| round.look,
            |round| round.collector,
            "node_exporter's edac collector",
            true,
        ),
        row(
            "32 modules, the first look",
            |round| round.first_look,
            |round| round.collector,
            "node_exporter's edac collector",
            false,
        ),
        row(
            "32 modules, a command from start to end",
            |round| round.status,
            |round| round.error_count,
            "ras-mc-ctl --error-count",
            true,
        ),
    ]
}

/// Inside the namespace: all in turns, one line of JSON for each round.
pub fn inside(options: &Options) -> anyhow::Result<()> {
    let mut looker = Looker::new(Root::host());
    check(&looker.look(), 0)?;
    let scratch = tempdir(&options.tree);
    let mut exporter = Exporter::start(&options.tree, &scratch)?;
    let path = with_modprobe(&options.tree)?;
    for done in 1..=options.rounds {
        one_more_error_each(&options.tree, done)?;
        let full = looker.look();
        check(&full, done)?;
        let look = looker.look();
        check(&look, done)?;
        let first = Looker::new(Root::host()).look();
        check(&first, done)?;
        let round = Round {
            look: look.look_ns as f64,
            full_look: full.look_ns as f64,
            first_look: first.look_ns as f64,
            collector: exporter.as_mut().map(Exporter::scrape).transpose()?,
            status: timed(Command::new(&options.surefoot).args(["memory", "status"]))?.context("surefoot is gone")?,
            error_count: timed(Command::new(RAS).arg("--error-count").env("PATH", &path))?,
        };
        println!("{}", serde_json::to_string(&round)?);
    }
    Ok(())
}

/// The first module of every controller has counted `done` errors since the beginning.
fn one_more_error_each(tree: &Path, done: u32) -> anyhow::Result<()> {
    for mc in 0..CONTROLLERS {
        let folder = tree.join(format!("sys/devices/system/edac/mc/mc{mc}"));
        let counts = [
            ("ce_count", all_errors(mc)),
            ("dimm0/dimm_ce_count", errors(mc, 0)),
            ("csrow0/ch0_ce_count", errors(mc, 0)),
            ("csrow0/ce_count", errors(mc, 0) + errors(mc, 2)),
        ];
        for (name, before) in counts {
            let path = folder.join(name);
            std::fs::write(&path, format!("{}\n", before + done)).with_context(|| path.display().to_string())?;
            // Whoever reads it first after it was written has the file system note the time, which sysfs does not.
            std::fs::read(&path)?;
        }
    }
    Ok(())
}

/// Errors of a module at the beginning.
fn errors(mc: u32, dimm: u32) -> u32 {
    mc * 4 + dimm
}

fn all_errors(mc: u32) -> u32 {
    (0..4).map(|dimm| errors(mc, dimm)).sum()
}

/// Everybody must have read the same.
fn check(look: &surefoot_model::MemoryLook, done: u32) -> anyhow::Result<()> {
    let errors: u64 = look.dimms.iter().map(|dimm| dimm.corrected()).sum();
    anyhow::ensure!(look.dimms.len() == 32 && look.problems.is_empty(), "{:?} {:?}", look.problems, look.unsupported);
    let wanted = ERRORS_OF_ALL + u64::from(CONTROLLERS * done);
    anyhow::ensure!(errors == wanted, "{errors} errors were read of {wanted}");
    Ok(())
}

/// The path of programs with a `modprobe` at its end: ras-mc-ctl ends where there is none, and does not call it to count.
fn with_modprobe(tree: &Path) -> anyhow::Result<String> {
    let folder = tree.join("bin");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("modprobe");
    std::fs::write(&file, "#!/bin/sh\n")?;
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(format!("{}:{}", std::env::var("PATH").unwrap_or_default(), folder.display()))
}

fn tempdir(tree: &Path) -> PathBuf {
    tree.with_extension("exporter")
}

fn timed(command: &mut Command) -> anyhow::Result<Option<f64>> {
    let begin = Instant::now();
    let done = match command.stdin(Stdio::null()).output() {
        Ok(done) => done,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let took = begin.elapsed().as_nanos() as f64;
    anyhow::ensure!(done.status.success(), "{command:?}: {done:?}");
    anyhow::ensure!(
        String::from_utf8_lossy(&done.stdout).contains(LABEL_OF_WORST),
        "{command:?} shows no module: {done:?}"
    );
    Ok(Some(took))
}

/// node_exporter with no collector but edac.
struct Exporter {
    port: u16,
    _running: Running,
}

impl Exporter {
    fn start(tree: &Path, out: &Path) -> anyhow::Result<Option<Self>> {
        if Command::new(EXPORTER).arg("--version").output().is_err() {
            return Ok(None);
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(EXPORTER);
        command.args(["--collector.disable-defaults", "--collector.edac"]);
        command.arg(format!("--path.sysfs={}", tree.join("sys").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let running = Running::start(&mut command, out)?;
        let mut exporter = Exporter { port, _running: running };
        let end = Instant::now() + Duration::from_secs(20);
        while exporter.scrape().is_err() {
            anyhow::ensure!(Instant::now() < end, "{EXPORTER} does not answer: {}", exporter._running.errors());
            crate::child::pause(Duration::from_millis(50))?;
        }
        Ok(Some(exporter))
    }

    /// What its collector took, by its own clock.
    fn scrape(&mut self) -> anyhow::Result<f64> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<f64>().ok()
        };
        let read = text.lines().filter(|line| line.starts_with("node_edac_correctable_errors_total{")).count();
        if read != CONTROLLERS as usize || value(r#"node_scrape_collector_success{collector="edac"}"#) != Some(1.0) {
            bail!("{EXPORTER} read {read} controllers");
        }
        let seconds = value(r#"node_scrape_collector_duration_seconds{collector="edac"}"#).context("no duration")?;
        Ok(seconds * 1e9)
    }
}

const LABEL_OF_WORST: &str = "CPU_SrcID#1_MC#2_Chan#1_DIMM#0";
/// Each module has so many errors as its number among all.
const ERRORS_OF_ALL: u64 = 31 * 32 / 2;

/// Two sockets of four controllers with two channels of two slots, with the older rows of chip selects beside them, which is all that
/// node_exporter reads.
fn write_tree(tree: &Path) -> anyhow::Result<()> {
    let write = |path: String, text: String| {
        let path = tree.join(path);
        std::fs::create_dir_all(path.parent().context("a file below the tree")?)?;
        std::fs::write(&path, format!("{text}\n")).with_context(|| path.display().to_string())
    };
    // ras-mc-ctl ends without the name of the board.
    for (name, text) in [("board_vendor", "Example"), ("board_name", "Two sockets"), ("product_name", "Two sockets")] {
        write(format!("sys/class/dmi/id/{name}"), text.into())?;
    }
    for mc in 0..CONTROLLERS {
        let (socket, own) = (mc / 4, mc % 4);
        let folder = format!("sys/devices/system/edac/mc/mc{mc}");
        let (all, errors) = (all_errors(mc), |dimm| errors(mc, dimm));
        for (name, text) in [
            ("mc_name", format!("Intel_10nm Socket#{socket} IMC#{own}")),
            ("size_mb", "131072".into()),
            ("max_location", "channel 1 slot 1 ".into()),
            ("ce_count", all.to_string()),
            ("ue_count", "0".into()),
            ("ce_noinfo_count", "0".into()),
            ("ue_noinfo_count", "0".into()),
            ("seconds_since_reset", "1000000".into()),
        ] {
            write(format!("{folder}/{name}"), text)?;
        }
        for dimm in 0..4 {
            let (channel, slot) = (dimm / 2, dimm % 2);
            let label = format!("CPU_SrcID#{socket}_MC#{own}_Chan#{channel}_DIMM#{slot}");
            for (name, text) in [
                ("dimm_label", label.clone()),
                ("dimm_location", format!("channel {channel} slot {slot} ")),
                ("dimm_mem_type", "Registered-DDR4".into()),
                ("dimm_dev_type", "x4".into()),
                ("dimm_edac_mode", "S4ECD4ED".into()),
                ("size", "32768".into()),
                ("dimm_ce_count", errors(dimm).to_string()),
                ("dimm_ue_count", "0".into()),
            ] {
                write(format!("{folder}/dimm{dimm}/{name}"), text)?;
            }
            let row = format!("{folder}/csrow{slot}");
            write(format!("{row}/ch{channel}_ce_count"), errors(dimm).to_string())?;
            write(format!("{row}/ch{channel}_dimm_label"), label)?;
            for (name, text) in [
                ("ce_count", (errors(slot) + errors(slot + 2)).to_string()),
                ("ue_count", "0".into()),
                ("size_mb", "65536".into()),
                ("mem_type", "Registered-DDR4".into()),
                ("dev_type", "x4".into()),
                ("edac_mode", "S4ECD4ED".into()),
            ] {
                write(format!("{row}/{name}"), text)?;
            }
        }
    }
    Ok(())
}

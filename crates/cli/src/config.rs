//! `surefoot config`, and what is set of a watch: the file, the environment and the options, read at the start and at each reload.

use crate::args::{self, WatchOptions};
use crate::usage;
use anyhow::Context;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::people::{clean, stdout};
use surefoot_daemon::{Detail, Listen, SERIES_MIN, alerts};
use surefoot_hostfs::Root;
use surefoot_hostfs::privilege::Privilege;
use surefoot_model::Digits;
use surefoot_settings::{
    Chosen, DEFAULT_FILE, Effective, Error, Field, Live, Origin, SETTINGS, Setting, When, commented, text_of,
};

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Check the settings as `surefoot watch` does, and say what is wrong with them.
    Check(CheckOptions),
    /// Show each setting that holds, and where it comes from.
    Show(ShowOptions),
    /// Print a file that lists every setting with its meaning, range and default.
    Defaults,
}

#[derive(Args)]
pub struct CheckOptions {
    /// The file [default: /etc/surefoot/surefoot.toml]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Args)]
pub struct ShowOptions {
    /// The file [default: /etc/surefoot/surefoot.toml]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only settings that are not at their default
    #[arg(long)]
    changed: bool,
    /// JSON lines instead of a table
    #[arg(long)]
    json: bool,
    /// Options that `surefoot watch` is started with, after --
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// One setting.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "setting", tag = "type")]
pub struct SettingLine {
    /// With its table, such as `memory.interval`.
    setting: &'static str,
    /// As the file has it; `null` where it is not set.
    value: Option<String>,
    /// The same by default.
    default: Option<String>,
    /// `default`, `file`, `environment` or `option`.
    origin: &'static str,
    /// The file and its line, the variable or the option; empty for a default.
    place: String,
    /// What is allowed, in words.
    allowed: String,
    /// Whether a change takes effect only when the watch starts again.
    needs_restart: bool,
}

pub fn run(command: &ConfigCommand) -> anyhow::Result<Outcome> {
    match command {
        ConfigCommand::Check(options) => check(options),
        ConfigCommand::Show(options) => show(options),
        ConfigCommand::Defaults => {
            stdout().write_all(commented().as_bytes())?;
            Ok(Outcome::Done)
        }
    }
}

/// What is asked for the settings of a watch, each time that they are read.
#[derive(Debug, Clone)]
pub struct Question {
    /// `None` where no file is read.
    file: Option<PathBuf>,
    /// One that is named must be there.
    is_named: bool,
    environment: Vec<(String, String)>,
    options: Vec<Chosen>,
}

impl Question {
    /// That of a watch with these options. The default file is of root's watch of this host: it names files that only root may write, and
    /// a recorded tree is another machine.
    pub fn of(options: &WatchOptions, root: &Root) -> Self {
        let reads_default = Privilege::read(root).is_root() && options.what.rooms.host_root.is_none();
        Question::new(options.config.as_deref(), reads_default, options.given.clone())
    }

    fn new(named: Option<&Path>, reads_default: bool, options: Vec<Chosen>) -> Self {
        let file = named.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
        let default = reads_default.then(|| PathBuf::from(DEFAULT_FILE));
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let environment = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
        Question { is_named: file.is_some(), file: file.or(default), environment, options }
    }

    /// Reads them.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn ask(&self) -> Result<Effective, Error> {
        let text = self.file.as_deref().map(text_of).transpose()?.flatten();
        let file = match (&self.file, &text) {
            (Some(file), Some(text)) => Some((file.as_path(), text.as_str())),
            (Some(file), None) if self.is_named => {
                let (file, why) = (clean(&file.to_string_lossy()), "there is no such file".to_owned());
                return Err(Error::File { file, why });
            }
            _ => None,
        };
        let held = Effective::of(file, &self.environment, &self.options)?;
        Texts::of(&held)?;
        Ok(held)
    }

    fn is_file_there(&self) -> bool {
        self.file.as_deref().is_some_and(|file| matches!(text_of(file), Ok(Some(_))))
    }
}

/// The texts of settings, read.
struct Texts {
    cores: Option<args::CpuList>,
    who: Option<args::CpuList>,
    sentinel: Option<surefoot_stall::SentinelConfig>,
    source: args::Source,
    workload: Option<args::WorkloadOfCores>,
    health_users: Vec<u32>,
    listen: Vec<Listen>,
    detail: Detail,
    series: Option<u32>,
}

impl Texts {
    fn of(held: &Effective) -> Result<Texts, Error> {
        let stall = &held.settings.stall;
        let cores = |key: &str, list: &Option<String>| {
            let list = list.as_deref().map(args::cpu_list).transpose();
            list.map_err(|why| held.wrong(key, why))
        };
        let user = |text: &String| {
            let number = text.digits();
            number.ok_or_else(|| held.wrong("watch.health_users", format!("'{text}' is not a UID, such as 1000")))
        };
        let sentinel = stall.sentinel.as_deref().map(args::sentinel).transpose();
        let place = |text: &String| text.parse().map_err(|why: String| held.wrong("listen.addresses", why));
        let metrics = &held.settings.metrics;
        let series = match usize::try_from(metrics.series) {
            Ok(0) => Ok(None),
            Ok(series) if series < SERIES_MIN => {
                Err(held.wrong("metrics.series", format!("{series} is under {SERIES_MIN}, the fewest that make sense")))
            }
            _ => Ok(Some(u32::try_from(metrics.series).unwrap_or(u32::MAX))),
        };
        alerts::check_address(&held.settings.alerts).map_err(|(key, why)| held.wrong(key, why))?;
        // The words are those of the options.
        let word = |why: String| held.wrong("stall.source", why);
        Ok(Texts {
            cores: cores("stall.cores", &stall.cores)?,
            who: cores("stall.who", &stall.who)?,
            sentinel: sentinel.map_err(|why| held.wrong("stall.sentinel", why))?,
            source: args::Source::from_str(&stall.source, false).map_err(word)?,
            workload: stall
                .workload
                .as_deref()
                .map(|word| args::WorkloadOfCores::from_str(word, false))
                .transpose()
                .map_err(|why| held.wrong("stall.workload", why))?,
            health_users: held.settings.watch.health_users.iter().map(user).collect::<Result<_, _>>()?,
            listen: held.settings.listen.addresses.iter().map(place).collect::<Result<_, _>>()?,
            detail: Detail::ALL.into_iter().find(|one| one.as_str() == metrics.detail).unwrap_or_default(),
            series: series?,
        })
    }
}

/// The options of the command line that set something, in the words of settings.
pub fn given(matches: &ArgMatches) -> Vec<Chosen> {
    let mut given = Vec::new();
    for setting in SETTINGS.iter().filter(|setting| !setting.option.is_empty()) {
        let id = setting.option.replace('-', "_");
        if matches.value_source(&id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let is_flag = matches!((setting.field)(&mut Default::default()), Field::Flag(_));
        let texts = match is_flag {
            true => vec![(!setting.option.starts_with("no-")).to_string()],
            false => {
                let raw = matches.get_raw(&id).into_iter().flatten();
                raw.map(|text| text.to_string_lossy().into_owned()).collect()
            }
        };
        given.push(Chosen { key: setting.key, option: setting.option.to_owned(), texts });
    }
    // Whoever names a file or a port wants them.
    for (key, by) in [("history.kept", "history.file"), ("page.served", "page.port")] {
        if let Some(Chosen { option, .. }) = given.iter().find(|one| one.key == by).cloned() {
            given.push(Chosen { key, option, texts: vec!["true".to_owned()] });
        }
    }
    given
}

/// The options of a watch for which these settings hold.
///
/// # Errors
/// A setting whose text is wrong.
pub fn applied(options: &WatchOptions, held: &Effective) -> anyhow::Result<WatchOptions> {
    let mut to = options.clone();
    let is_given = |key: &str| options.given.iter().any(|one| one.key == key);
    let is_set = |key: &str| !is_given(key);
    let (set, texts) = (&held.settings, Texts::of(held)?);
    if is_set("stall.interval") {
        to.interval = set.stall.interval;
    }
    if is_set("stall.min_gap") {
        to.what.min_gap = u64::try_from(set.stall.min_gap.as_nanos()).unwrap_or(u64::MAX);
    }
    if is_set("stall.source") {
        to.what.source = texts.source;
    }
    if is_set("stall.cores") {
        to.what.cpu = texts.cores;
    }
    if is_set("stall.who") {
        to.what.who = texts.who;
    }
    if is_set("stall.sentinel") {
        to.what.sentinel = texts.sentinel;
    }
    // A process that is named goes before whatever the cores run.
    if is_set("stall.workload") && to.what.pid.is_none() && to.what.comm.is_none() {
        to.what.workload = texts.workload;
    }
    to.what.rooms.bmc.set(&set.memory, is_given);
    if is_set("checkpoint.directories") {
        to.what.rooms.checkpoints.clone_from(&set.checkpoint.directories);
    }
    if is_set("disturb.journals") {
        to.what.rooms.experiments.clone_from(&set.disturb.journals);
    }
    if is_set("remedy.checks") {
        to.what.rooms.checks.clone_from(&set.remedy.checks);
    }
    if is_set("watch.run_directory") {
        to.run_directory.clone_from(&set.watch.run_directory);
    }
    if is_set("watch.health_users") {
        to.health_users = texts.health_users;
    }
    if is_set("history.file") {
        to.history.clone_from(&set.history.file);
    }
    to.no_history = !set.history.kept;
    to.no_page = !set.page.served;
    if is_set("page.port") {
        to.port = u16::try_from(set.page.port).map_err(|_| held.wrong("page.port", "it is no port"))?;
    }
    if is_set("page.group") {
        to.page_group.clone_from(&set.page.group);
    }
    if is_set("listen.addresses") {
        to.listen.listen = texts.listen;
    }
    let files = [
        ("listen.certificate", &set.listen.certificate, &mut to.listen.tls_certificate),
        ("listen.key", &set.listen.key, &mut to.listen.tls_key),
        ("listen.client_authority", &set.listen.client_authority, &mut to.listen.tls_client_authority),
        ("listen.roles", &set.listen.roles, &mut to.listen.roles),
    ];
    for (key, from, to) in files {
        if is_set(key) {
            to.clone_from(from);
        }
    }
    if is_set("metrics.detail") {
        to.metrics_detail = texts.detail;
    }
    if is_set("metrics.series") {
        to.metrics_series = texts.series;
    }
    to.metrics_edac = set.metrics.edac;
    to.what.rooms.settings = Live::new(held.clone());
    Ok(to)
}

fn check(options: &CheckOptions) -> anyhow::Result<Outcome> {
    let question = Question::new(options.file.as_deref(), true, Vec::new());
    let held = question.ask()?;
    alerts::check(&held.settings.alerts).map_err(|(key, why)| held.wrong(key, why))?;
    let options = applied(&usage::options_of_watch(&[])?, &held)?;
    crate::watch::expect_possible(&options, &Root::host()).context("a watch of this host would not start with it")?;
    let file = question.file.as_deref().unwrap_or(Path::new(DEFAULT_FILE)).display().to_string();
    let changed = SETTINGS.iter().filter(|one| !one.is_same(&held.settings, &Default::default())).count();
    let said = match (question.is_file_there(), changed) {
        (false, 0) => format!("{file}: there is no such file; every setting has its default"),
        (false, changed) => format!("{file}: there is no such file; the environment sets {changed}"),
        (true, 0) => format!("{file}: no error; every setting has its default"),
        (true, 1) => format!("{file}: no error; 1 setting is not at its default"),
        (true, changed) => format!("{file}: no error; {changed} settings are not at their defaults"),
    };
    stdout().write_all(clean(&format!("{said}\n")).as_bytes())?;
    Ok(Outcome::Done)
}

fn show(options: &ShowOptions) -> anyhow::Result<Outcome> {
    let (mut given, mut file) = (Vec::new(), options.file.clone());
    if !options.options.is_empty() {
        let watch = usage::options_of_watch(&options.options)?;
        anyhow::ensure!(file.is_none() || watch.config.is_none(), "two files are named: FILE and --config; name one");
        given = watch.given;
        file = file.or(watch.config);
    }
    let question = Question::new(file.as_deref(), true, given);
    let held = question.ask()?;
    let lines: Vec<SettingLine> = SETTINGS.iter().map(|setting| line(setting, &held)).collect();
    let shown = lines.iter().filter(|line| !options.changed || line.value != line.default);
    let mut out = stdout();
    if options.json {
        output::stream(&mut out, "config show")?;
        shown.into_iter().try_for_each(|line| output::line(&mut out, line))?;
        return Ok(Outcome::Done);
    }
    let rows: Vec<[String; 3]> = shown
        .map(|line| {
            let value = line.value.clone().unwrap_or_else(|| "not set".to_owned());
            [line.setting.to_owned(), value, held.origin(line.setting).to_string()]
        })
        .collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    for [key, value, origin] in &rows {
        out.write_all(clean(&format!("{key:first$}  {value:second$}  {origin}\n")).as_bytes())?;
    }
    Ok(Outcome::Done)
}

fn line(setting: &'static Setting, held: &Effective) -> SettingLine {
    let origin = held.origin(setting.key);
    let (kind, place) = match origin {
        Origin::Default => ("default", String::new()),
        Origin::File { file, line } => ("file", format!("{file}:{line}")),
        Origin::Variable(name) => ("environment", name.clone()),
        Origin::Option(name) => ("option", name.clone()),
    };
    SettingLine {
        setting: setting.key,
        value: setting.value_in(&held.settings),
        default: setting.value_in(&Default::default()),
        origin: kind,
        place,
        allowed: setting.range(),
        needs_restart: setting.when == When::Start,
    }
}

/// The rows of docs/defaults.md.
#[cfg(test)]
pub fn rows() -> Vec<[String; 6]> {
    let row = |setting: &Setting| {
        let default = setting.value_in(&Default::default()).unwrap_or_else(|| "not set".to_owned());
        let option = if setting.option.is_empty() { String::new() } else { format!("`--{}`", setting.option) };
        let when = if setting.when == When::Start { "restart" } else { "reload" };
        let names = format!("`{}`<br>`{}`", setting.key, surefoot_settings::variable_of(setting));
        [names, format!("`{default}`"), setting.range(), option, when.to_owned(), setting.about.to_owned()]
    };
    SETTINGS.iter().map(row).collect()
}

#[cfg(test)]
mod tests;

use super::adapters::{Bmc, Debug, Drain, Hook, Kubernetes, Reboot, Slurm, TicketSystem, TicketWay};
use super::table::{Source, Table, Value, text_of};
use super::window::{DAYS, Window};
use super::{ANY_SERVICE, HOUR_NS, HostNames, Match, Policies, Policy, ReplaceAfter, Retry, Service};
use crate::{Error, Result, Step};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use surefoot_model::{Room, Severity};
use surefoot_outside::http::{self, Identity, Request};

/// The largest policy file. Lists of hosts are what makes one large: 100,000 names take about 2 MB.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
const POLICIES_MAX: usize = 1_000;
const SERVICES_MAX: usize = 10_000;
const STEPS_MAX: usize = 64;
const NAMES_MAX: usize = 64;
const HOSTS_MAX: usize = 1_000_000;
const COUNT_MAX: u64 = 1_000_000;

impl Policies {
    /// Reads a policy file.
    ///
    /// # Errors
    /// [`Error::PolicyFile`] where it cannot be read, otherwise as [`Policies::parse`].
    pub fn read(path: &Path) -> Result<Policies> {
        Policies::parse(&text_of(path, FILE_BYTES_MAX)?, &path.display().to_string())
    }

    /// Reads the text of a policy file; its name is for messages.
    ///
    /// # Errors
    /// [`Error::Policy`] with the line and field of the first thing that is wrong.
    pub fn parse(text: &str, file: &str) -> Result<Policies> {
        let source = Source { file, text };
        let root = source.root()?;
        let top = Table::top(source, &root);
        let mut policies = Policies {
            hosts: host_names(&top)?,
            windows: each(&top, "window", NAMES_MAX, window)?,
            tickets: each(&top, "ticket", NAMES_MAX, ticket)?,
            hooks: each(&top, "hook", NAMES_MAX, hook)?,
            stress_mebibytes: only(&top, "stress", |table| table.need("mebibytes")?.whole(1..=1 << 30))?,
            ..Policies::default()
        };
        policies.slurm = only(&top, "slurm", slurm)?.unwrap_or_default();
        policies.kubernetes = only(&top, "kubernetes", kubernetes)?;
        policies.reboot = only(&top, "reboot", reboot)?.unwrap_or_default();
        policies.debug = only(&top, "debug", debug)?.unwrap_or_default();
        policies.bmcs = each(&top, "bmc", HOSTS_MAX, bmc)?;
        if let Some(why) = Bmc::shared(&policies.bmcs) {
            return Err(top.error(&why));
        }
        policies.services = each(&top, "service", SERVICES_MAX, |table| service(table, &policies))?;
        for (index, table) in top.tables("policy")?.into_iter().enumerate() {
            if index == POLICIES_MAX {
                return Err(table.error(format!("there are more than {POLICIES_MAX} policies")));
            }
            let read = policy(&table, index, &policies)?;
            if policies.policy(&read.name).is_some() {
                return Err(table.error(format!("there is a policy '{}' already", read.name)));
            }
            policies.policies.push(read);
            table.finish()?;
        }
        let is_empty = policies.policies.is_empty().then(|| top.error("there is no [[policy]]"));
        // A misspelt table comes first: it may be why there is no policy.
        top.finish()?;
        is_empty.map_or(Ok(policies), Err)
    }
}

/// The tables `[[host]]`. A name is of one machine.
fn host_names(top: &Table<'_>) -> Result<HostNames> {
    let mut hosts = HostNames::default();
    for (place, table) in top.tables("host")?.into_iter().enumerate() {
        if place == HOSTS_MAX {
            return Err(table.error(format!("there are more than {HOSTS_MAX}")));
        }
        let mut names = vec![table.need("name")?.host()?];
        if let Some(also) = table.find("also") {
            for name in also.texts(NAMES_MAX)? {
                names.push(name.host()?);
            }
        }
        let twice = |name| table.error(format!("'{name}' is the name of another [[host]] already, or stands twice"));
        hosts.add(names).map_err(twice)?;
        table.finish()?;
    }
    Ok(hosts)
}

/// Reads a table that stands at most once.
fn only<'a, T>(top: &Table<'a>, name: &'static str, read: impl Fn(&Table<'a>) -> Result<T>) -> Result<Option<T>> {
    let Some(value) = top.find(name) else { return Ok(None) };
    let table = value.table()?;
    let one = read(&table)?;
    table.finish()?;
    Ok(Some(one))
}

/// Something that has a name of its own.
trait Named {
    fn name(&self) -> &str;
}

impl Named for Window {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for TicketSystem {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Bmc {
    fn name(&self) -> &str {
        &self.host
    }
}

impl Named for Hook {
    fn name(&self) -> &str {
        &self.path
    }
}

impl Named for Service {
    fn name(&self) -> &str {
        &self.name
    }
}

/// Reads each table of a list, and refuses a second one of the same name.
fn each<'a, T: Named>(
    top: &Table<'a>,
    list: &'static str,
    count_max: usize,
    read: impl Fn(&Table<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let tables = top.tables(list)?;
    if tables.len() > count_max {
        return Err(tables[count_max].error(format!("there are more than {count_max}")));
    }
    let (mut all, mut names) = (Vec::with_capacity(tables.len()), BTreeSet::new());
    for table in tables {
        let one = read(&table)?;
        if !names.insert(one.name().to_owned()) {
            return Err(table.error(format!("there is a {list} '{}' already", one.name())));
        }
        all.push(one);
        table.finish()?;
    }
    Ok(all)
}

fn policy(table: &Table<'_>, index: usize, policies: &Policies) -> Result<Policy> {
    let service = table.find("service").map_or(Ok(ANY_SERVICE.to_owned()), |value| value.name())?;
    let name = table.find("name").map(|value| value.name()).transpose()?;
    let matching = match table.find("match") {
        Some(value) => matching(value.table()?)?,
        None => Match::default(),
    };
    let mut steps = steps(&table.need("steps")?, policies)?;
    let is_unverified = verify(&mut steps, table.find("verify"))?;
    let approve = match table.find("approve") {
        Some(value) => approve(&value, &steps)?,
        None => Vec::new(),
    };
    let whole = |name, default| table.find(name).map_or(Ok(default), |value| value.whole(1..=COUNT_MAX));
    let time = |name, default| table.find(name).map_or(Ok(default), |value| value.time_ns());
    let flag = |name| table.find(name).map_or(Ok(false), |value| value.flag());
    Ok(Policy {
        name: name.unwrap_or_else(|| match service.as_str() {
            ANY_SERVICE => format!("any-{}", index + 1),
            service => format!("{service}-{}", index + 1),
        }),
        matching,
        approve,
        hosts_at_once: whole("hosts_at_once", 1)?,
        share_of_service: table.find("share_of_service").map_or(Ok(1.0), |value| value.share())?,
        per_hour: whole("per_hour", 6)?,
        cool_down_ns: time("cool_down", 24 * HOUR_NS)?,
        windows: windows(table, policies)?,
        retry: table.find("retry").map_or(Ok(Retry::default()), |value| retry(value.table()?))?,
        replace_after: table.find("replace_after").map(|value| replace_after(value.table()?)).transpose()?,
        hold_off_ns: time("hold_off", 0)?,
        drain_within_ns: time("drain_within", 7 * 24 * HOUR_NS)?,
        is_unverified,
        accepts_unobserved: table
            .find("unobserved")
            .map_or(Ok(false), |value| value.word(&[("stop", false), ("accept", true)]))?,
        clear_after_ns: time("clear_after", 10 * 1_000_000_000)?,
        recheck_within_ns: time("recheck_within", HOUR_NS / 4)?,
        ticket: match table.find("ticket") {
            Some(value) => Some(ticket_name(&value, value.text()?, policies)?),
            None => single(policies),
        },
        is_dry_run: flag("dry_run")?,
        is_paused: flag("paused")?,
        service,
        steps,
    })
}

/// The only ticket system, which all policies have that name none.
fn single(policies: &Policies) -> Option<String> {
    match policies.tickets.as_slice() {
        [only] => Some(only.name.clone()),
        _ => None,
    }
}

fn ticket_name(value: &Value<'_>, name: &str, policies: &Policies) -> Result<String> {
    match policies.tickets.iter().find(|ticket| ticket.name == name) {
        Some(ticket) => Ok(ticket.name.clone()),
        None => Err(value.error("there is no [[ticket]] of this name")),
    }
}

fn steps(value: &Value<'_>, policies: &Policies) -> Result<Vec<Step>> {
    let texts = value.texts(STEPS_MAX)?;
    let mut steps = Vec::with_capacity(texts.len());
    let mut is_drained = false;
    for text in texts {
        let step: Step = text.text()?.parse().map_err(|error: Error| text.error(error.to_string()))?;
        match &step {
            Step::Drain if is_drained => return Err(text.error("the host is drained by an earlier step already")),
            Step::Return if !is_drained => return Err(text.error("no step before it drains the host")),
            Step::Drain => is_drained = true,
            Step::Return => is_drained = false,
            step if !is_drained && step.interrupts_work() => {
                return Err(text.error(match steps.contains(&Step::Return) {
                    true => "the host is back at its work by then; name it before 'return'",
                    false => {
                        "it interrupts the host's work, and no step before it drains the host; put 'drain' before it (which does \
                         nothing for a service without a scheduler)"
                    }
                }));
            }
            Step::Ticket(name) => drop(ticket_name(&text, name, policies)?),
            Step::Restore(of) if !steps.contains(of.as_ref()) => {
                return Err(text.error(format!("no step before it is {of}")));
            }
            Step::SoftRepair(_) | Step::HardRepair(_) if !steps.iter().any(|step| matches!(step, Step::Collect(_))) => {
                return Err(text.error("no step before it collects rows: collect:ADAPTER"));
            }
            _ => {}
        }
        steps.push(step);
    }
    for (index, step) in steps.iter().enumerate().filter(|(_, step)| matches!(step, Step::Debug(_))) {
        let restore = Step::Restore(Box::new(step.clone()));
        let back = steps[index..].iter().position(|later| *later == restore);
        let returned = steps[index..].iter().position(|later| *later == Step::Return);
        if back.is_none_or(|back| returned.is_some_and(|returned| returned < back)) {
            return Err(value
                .error(format!("after {step} the settings must be put back before the host returns: add {restore}")));
        }
    }
    if steps.is_empty() {
        return Err(value.error("it names no step"));
    }
    Ok(steps)
}

/// How long the memory of a host is tested after Surefoot has repaired it, where the policy does not say.
const VERIFY_STRESS: Duration = Duration::from_secs(600);

/// The steps up to each return of the host, that included, and those after the last.
pub(super) fn stretches(steps: &[Step]) -> impl Iterator<Item = &[Step]> {
    steps.split_inclusive(|step| *step == Step::Return)
}

/// The place of the last repair before the return that such a stretch ends with.
fn last_repair(stretch: &[Step]) -> Option<usize> {
    let is_repair = |step: &Step| step.repairs();
    (stretch.last() == Some(&Step::Return)).then(|| stretch.iter().rposition(is_repair)).flatten()
}

/// That repair, where nothing looks between it and the return whether it has helped.
pub(super) fn unverified(stretch: &[Step]) -> Option<&Step> {
    let after = &stretch[last_repair(stretch)?..];
    if after.iter().any(Step::verifies) { None } else { after.first() }
}

/// Puts the verification of repairs before each return of their host: what the policy says, or a look whether the alert ends, and after a repair of
/// memory by Surefoot itself a stress before it. Returns whether the policy wants none.
fn verify(steps: &mut Vec<Step>, told: Option<Value<'_>>) -> Result<bool> {
    let told = match told {
        Some(value) if value.is_text() => return value.word(&[("none", true)]),
        Some(value) if stretches(steps).all(|stretch| last_repair(stretch).is_none()) => {
            return Err(value.error("no step repairs anything before a 'return', so there is nothing to verify"));
        }
        Some(value) => Some(checks(&value)?),
        None => None,
    };
    let verified = stretches(steps).flat_map(|stretch| {
        let checks = match &told {
            Some(checks) if last_repair(stretch).is_some() => checks.clone(),
            None if unverified(stretch).is_some() => usual_checks(stretch),
            _ => Vec::new(),
        };
        // A stretch that is verified ends with its return.
        let (before, last) = stretch.split_at(stretch.len() - 1);
        [before, &checks, last].concat()
    });
    *steps = verified.collect();
    Ok(false)
}

fn usual_checks(stretch: &[Step]) -> Vec<Step> {
    let is_of_memory = |step: &Step| matches!(step, Step::SoftRepair(_) | Step::HardRepair(_) | Step::OfflinePage);
    let stress = stretch.iter().any(is_of_memory).then_some(Step::Stress(VERIFY_STRESS));
    stress.into_iter().chain([Step::Recheck]).collect()
}

fn checks(value: &Value<'_>) -> Result<Vec<Step>> {
    let read = |text: &Value<'_>| {
        let step: Step = text.text()?.parse().map_err(|error: Error| text.error(error.to_string()))?;
        if step.verifies() { Ok(step) } else { Err(text.error("only 'stress:TIME' and 'recheck' verify a repair")) }
    };
    let checks = value.texts(STEPS_MAX)?.iter().map(read).collect::<Result<Vec<Step>>>()?;
    if checks.is_empty() {
        return Err(value.error("it names no step; \"none\" returns a host without a look at its repair"));
    }
    Ok(checks)
}

fn approve(value: &Value<'_>, steps: &[Step]) -> Result<Vec<Step>> {
    let read = |text: Value<'_>| {
        let step: Step = text.text()?.parse().map_err(|error: Error| text.error(error.to_string()))?;
        if steps.contains(&step) { Ok(step) } else { Err(text.error("it is none of this policy's steps")) }
    };
    value.texts(STEPS_MAX)?.into_iter().map(read).collect()
}

fn matching(table: Table<'_>) -> Result<Match> {
    let mut matching = Match::default();
    if let Some(value) = table.find("room") {
        matching.room = Some(value.word(&Room::ALL.map(|room| (room.as_str(), room)))?);
    }
    if let Some(value) = table.find("severity") {
        matching.severity = Some(value.word(&Severity::ALL.map(|severity| (severity.as_str(), severity)))?);
    }
    if let Some(value) = table.find("fault") {
        matching.fault = match value.is_text() {
            true => vec![value.name()?],
            false => value.texts(NAMES_MAX)?.iter().map(Value::name).collect::<Result<_>>()?,
        };
    }
    if let Some(value) = table.find("subject") {
        matching.subject = Some(value.name()?);
    }
    let mut label = |key: &str, value: &Value<'_>| {
        if matching.labels.len() >= NAMES_MAX {
            return Err(value.error(format!("there are more than {NAMES_MAX} labels")));
        }
        matching.labels.insert(key.to_owned(), value.name()?);
        Ok(())
    };
    if let Some(value) = table.find("labels") {
        value.table()?.rest().iter().try_for_each(|(key, value)| label(key.get_ref(), value))?;
    }
    // Any other name is a label, unless it looks like a slip: a label that no alert has would match nothing, and nobody would notice.
    for (key, value) in table.rest() {
        if table.meant(key.get_ref()).is_some() {
            return Err(table.unknown(key, &format!("{} (a label of this name goes under labels)", value.field)));
        }
        label(key.get_ref(), &value)?;
    }
    Ok(matching)
}

fn retry(table: Table<'_>) -> Result<Retry> {
    let usual = Retry::default();
    let attempts = table.find("attempts").map_or(Ok(u64::from(usual.attempts)), |value| value.whole(1..=100))?;
    let back_off_ns = table.find("back_off").map_or(Ok(usual.back_off_ns), |value| value.time_ns())?;
    table.finish()?;
    Ok(Retry { attempts: u32::try_from(attempts).unwrap_or(usual.attempts), back_off_ns })
}

fn replace_after(table: Table<'_>) -> Result<ReplaceAfter> {
    let repairs = table.need("repairs")?.whole(1..=1_000)?;
    let within_ns = table.need("within")?.time_ns()?;
    table.finish()?;
    Ok(ReplaceAfter { repairs, within_ns })
}

fn windows(table: &Table<'_>, policies: &Policies) -> Result<Vec<String>> {
    let Some(value) = table.find("windows") else { return Ok(Vec::new()) };
    let known = |value: &Value<'_>| match policies.window(value.text()?) {
        Some(window) => Ok(window.name.clone()),
        None => Err(value.error("there is no [[window]] of this name")),
    };
    value.texts(NAMES_MAX)?.iter().map(known).collect()
}

fn window(table: &Table<'_>) -> Result<Window> {
    let minute = |value: Value<'_>| {
        let wrong = || value.error("it must be a time of the day in UTC, such as \"22:30\"");
        let (hour, minute) = value.text()?.split_once(':').ok_or_else(wrong)?;
        let number = |text: &str, below: u32| {
            let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|number| is_number && *number < below).ok_or_else(wrong)
        };
        Ok::<u32, Error>(number(hour, 24)? * 60 + number(minute, 60)?)
    };
    let days = match table.find("days") {
        None => [true; 7],
        Some(value) => {
            let words: Vec<(&str, usize)> = DAYS.iter().enumerate().map(|(index, day)| (*day, index)).collect();
            let mut days = [false; 7];
            for text in value.texts(7)? {
                days[text.word(&words)?] = true;
            }
            if days == [false; 7] {
                return Err(value.error("it names no day"));
            }
            days
        }
    };
    let (from_minute, to) = (minute(table.need("from")?)?, table.need("to")?);
    let no_length = to.error(
        "it is the same time as 'from', so that the window has no length; leave 'windows' out of a policy for always",
    );
    let to_minute = minute(to)?;
    if from_minute == to_minute {
        return Err(no_length);
    }
    Ok(Window { name: table.need("name")?.name()?, days, from_minute, to_minute })
}

fn service(table: &Table<'_>, policies: &Policies) -> Result<Service> {
    let hosts = match table.find("hosts") {
        Some(value) => value.texts(HOSTS_MAX)?.iter().map(Value::host).collect::<Result<BTreeSet<String>>>()?,
        None => BTreeSet::new(),
    };
    let size = match table.find("size") {
        Some(value) if !hosts.is_empty() => {
            return Err(value.error("hosts are listed already; their number is the size"));
        }
        Some(value) => Some(value.whole(1..=10_000_000)?),
        None => (!hosts.is_empty()).then_some(hosts.len() as u64),
    };
    Ok(Service {
        name: table.need("name")?.name()?,
        size,
        hosts,
        drain: match table.find("drain") {
            None => Drain::None,
            Some(value) => match value.word(&Drain::ALL)? {
                Drain::Kubernetes if policies.kubernetes.is_none() => {
                    return Err(value.error("it needs a table [kubernetes] with server and token_file"));
                }
                drain => drain,
            },
        },
        windows: windows(table, policies)?,
    })
}

fn ticket(table: &Table<'_>) -> Result<TicketSystem> {
    let name = table.need("name")?.name()?;
    let ways = [table.find("webhook"), table.find("email"), table.find("directory")];
    let path = |name| table.find(name).map(|value| value.path()).transpose();
    let (token_file, ca_file) = (path("token_file")?, path("ca_file")?);
    let token = || token_file.as_ref().map_or(Identity::None, |_| Identity::Token("x".into()));
    let way = match ways {
        [Some(url), None, None] => TicketWay::Webhook { url: address_with(&url, token())?, token_file, ca_file },
        [None, Some(to), None] => TicketWay::Email { to: to.name()? },
        [None, None, Some(directory)] => TicketWay::Directory { path: directory.path()? },
        _ => {
            let why = "it must have one of webhook = \"https://...\", email = \"a@b\", directory = \"/path\"";
            return Err(table.error(why));
        }
    };
    Ok(TicketSystem { name, way })
}

fn address(value: &Value<'_>) -> Result<String> {
    let text = value.name()?;
    let is_plain = text.starts_with("https://") || text.starts_with("http://");
    if is_plain && !text.contains(char::is_whitespace) {
        Ok(text)
    } else {
        Err(value.error("it must be an address that begins with https:// or http://"))
    }
}

/// An address to which requests go that show who asks: none to which a token or password would go in clear text over the network.
fn address_with(value: &Value<'_>, identity: Identity) -> Result<String> {
    let url = address(value)?;
    let request = Request { method: "GET", url: url.replace("{host}", "host"), identity, ..Request::default() };
    http::check(&request).map_err(|why| value.error(why))?;
    Ok(url)
}

fn slurm(table: &Table<'_>) -> Result<Slurm> {
    let conf = table.find("conf").map(|value| value.path()).transpose()?;
    let requeues_jobs = table.find("requeue_jobs").map_or(Ok(false), |value| value.flag())?;
    Ok(Slurm { conf, requeues_jobs })
}

fn reboot(table: &Table<'_>) -> Result<Reboot> {
    let time = |name| {
        let Some(value) = table.find(name) else { return Ok(None) };
        Ok::<_, Error>(Some(Duration::from_nanos(value.time_ns()?)))
    };
    Ok(Reboot { settle: time("settle")?, limit: time("limit")? })
}

fn debug(table: &Table<'_>) -> Result<Debug> {
    let path = |name| table.find(name).map(|value| value.path()).transpose();
    Ok(Debug { adapters: path("adapters")?, history: path("history")? })
}

fn hook(table: &Table<'_>) -> Result<Hook> {
    let path = table.need("path")?;
    if let Err(Error::Step { why, .. }) = format!("run:{}", path.text()?).parse::<Step>() {
        return Err(path.error(why));
    }
    let flag = |name| table.find(name).map_or(Ok(false), |value| value.flag());
    Ok(Hook {
        path: path.text()?.to_owned(),
        time_limit: table.find("time_limit").map_or(Ok(HOUR_NS), |value| value.time_ns()).map(Duration::from_nanos)?,
        is_repeatable: flag("repeatable")?,
        can_find: flag("can_find")?,
    })
}

fn kubernetes(table: &Table<'_>) -> Result<Kubernetes> {
    Ok(Kubernetes {
        server: address_with(&table.need("server")?, Identity::Token("x".into()))?,
        token_file: table.need("token_file")?.path()?,
        ca_file: table.find("ca_file").map(|value| value.path()).transpose()?,
        force: table.find("force").map_or(Ok(false), |value| value.flag())?,
        delete_emptydir_data: table.find("delete_emptydir_data").map_or(Ok(false), |value| value.flag())?,
    })
}

/// The address of a management controller: of Redfish, or of IPMI.
fn bmc_address(value: &Value<'_>, identity: Identity) -> Result<String> {
    let text = value.name()?;
    match text.starts_with("ipmi://") && !text.contains(char::is_whitespace) {
        true => Ok(text),
        false if text.starts_with("https://") || text.starts_with("http://") => address_with(value, identity),
        false => Err(value.error("it must be an address that begins with https://, http:// or ipmi://")),
    }
}

fn bmc(table: &Table<'_>) -> Result<Bmc> {
    let user = match (table.find("user"), table.find("password_file")) {
        (Some(user), Some(file)) => Some((user.name()?, file.path()?)),
        (None, None) => None,
        (Some(value), None) => return Err(value.error("a user needs a password_file too")),
        (None, Some(value)) => return Err(value.error("a password_file needs a user too")),
    };
    let url = table.need("url")?;
    if url.text()?.starts_with("ipmi://") && user.is_none() {
        return Err(url.error("IPMI needs a user and a password_file"));
    }
    let host = table.find("host").map_or(Ok("*".to_owned()), |value| value.host())?;
    // IPMI does nothing but restart, and this would restart one machine for every host.
    if host == "*" && url.text()?.starts_with("ipmi://") && !url.text()?.contains("{host}") {
        return Err(url.error("it is used for every host: put {host} into it, or name its host with host = '...'"));
    }
    let identity = user.as_ref().map_or(Identity::None, |_| Identity::User("x".into(), "x".into()));
    Ok(Bmc {
        host,
        url: bmc_address(&url, identity)?,
        user,
        ca_file: table.find("ca_file").map(|value| value.path()).transpose()?,
        system: table.find("system").map(|value| value.name()).transpose()?,
    })
}

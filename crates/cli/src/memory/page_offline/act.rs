//! Takes the pages out, or puts them back, where `--yes` is given; otherwise finds out what would be done.

use super::{Module, PageOfflineOptions, PageOutcome, RestoredLine};
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::units::counted;
use surefoot_hostfs::pages::corrupted_bytes;
use surefoot_hostfs::privilege::effective_user;
use surefoot_hostfs::{Root, Unsupported, clock, usage};
use surefoot_journal::deeds::{Alone, Record, Unusable};
use surefoot_memory::pages::act::{self, Became, Taken};
use surefoot_memory::pages::{BadPage, Budget, Candidate, Decision, Known, how, plan};
use surefoot_model::{Deed, FaultMode, one_line};
use surefoot_sys::offlining;

/// The outcome for all pages.
#[derive(Default)]
pub(super) struct Done {
    /// Whether `--yes` was given.
    pub has_acted: bool,
    pages: BTreeMap<u64, (PageOutcome, Option<String>)>,
    /// Deeds of earlier processes that had no end until now.
    settled: Vec<Deed>,
    /// What is not known, in a dry run.
    unknown: Option<String>,
    /// Why the journal took a deed no more.
    pub broken: Option<Unusable>,
    /// Why this kernel can take no page out.
    pub missing: Option<Unsupported>,
}

impl Done {
    /// The outcome for a page, and why.
    pub fn of(&self, address: u64) -> (PageOutcome, Option<&str>) {
        match self.pages.get(&address) {
            Some((outcome, why)) => (*outcome, why.as_deref()),
            None => (PageOutcome::NotAdvised, None),
        }
    }

    /// The same in words; `None` where its command says it.
    pub fn words(&self, address: u64) -> Option<String> {
        let (outcome, why) = self.of(address);
        match outcome {
            PageOutcome::Planned | PageOutcome::NotAdvised if !self.has_acted => None,
            outcome => Some(words(outcome, why)),
        }
    }

    /// Whether a page that was to go is still there, or that is not known.
    pub fn is_any_failed(&self) -> bool {
        self.count(&[PageOutcome::Failed, PageOutcome::Unobserved]) > 0
    }

    fn count(&self, outcomes: &[PageOutcome]) -> u64 {
        self.pages.values().filter(|(outcome, _)| outcomes.contains(outcome)).count() as u64
    }

    /// The last lines.
    pub fn closing(&self, options: &PageOfflineOptions) -> String {
        let mut text = String::new();
        for deed in &self.settled {
            text += &format!("An earlier process ended early: {}.\n", deed.words());
        }
        let pages = |count| counted(count, "page", "pages");
        let over = [
            (PageOutcome::OverModuleBudget, "a module", "--module-budget", options.module_budget),
            (PageOutcome::OverHostBudget, "the host", "--host-budget", options.host_budget),
        ];
        for (outcome, whose, option, limit) in over {
            let count = self.count(&[outcome]);
            if count > 0 {
                text += &format!("{} over the budget of {limit} pages of {whose} ({option}).\n", pages(count));
            }
        }
        let earlier = self.count(&[PageOutcome::EarlierBoot]);
        if earlier > 0 {
            let had = if earlier == 1 { "its last error" } else { "their last errors" };
            text += &format!(
                "{} had {had} before this boot, or at a time that is still to come, so the address may be of other memory now; if nothing \
                 was moved and interleaving is as it was, --earlier-boots takes them, too.\n",
                pages(earlier)
            );
        }
        if let Some(unknown) = &self.unknown {
            text += &format!(
                "Not known: which pages are out of use already, and what is left of the budgets: {unknown}.\n"
            );
        }
        if !self.has_acted {
            let planned = self.count(&[PageOutcome::Planned]);
            return match planned {
                0 => text + "Nothing was changed.\n",
                _ => text + "Nothing was changed; --yes takes the pages with a command out of use.\n",
            };
        }
        let offline = self.count(&[PageOutcome::Offline]);
        let failed = self.count(&[PageOutcome::Failed, PageOutcome::Unobserved]);
        let rest = if failed > 0 { format!("; {failed} not, or not observed") } else { String::new() };
        text + &format!("{} taken out of use until the next boot{rest}.\n", pages(offline))
    }
}

fn words(outcome: PageOutcome, why: Option<&str>) -> String {
    let words = match outcome {
        PageOutcome::NotAdvised => "not advised",
        PageOutcome::Planned => "would be put back",
        PageOutcome::Offline => "offline",
        PageOutcome::AlreadyOffline => "offline already",
        PageOutcome::OverModuleBudget | PageOutcome::OverHostBudget => "over the budget",
        PageOutcome::EarlierBoot => "last error not known to be of this boot",
        PageOutcome::InUse => "in use again",
        PageOutcome::Unobserved => "not observed",
        PageOutcome::Failed => "failed",
    };
    match why {
        None => words.to_owned(),
        Some(why) => format!("{words}: {}", one_line(why)),
    }
}

/// The pages to take out, as the kernel has them: on some machines its pages are larger than those of reports.
fn candidates(modules: &[Module], page_bytes: u64) -> Vec<(u64, Candidate)> {
    let of = |module: &Module, page: &BadPage| {
        let candidate = Candidate {
            module: module.dimm.id.clone(),
            page: BadPage { address: page.address / page_bytes * page_bytes, ..*page },
            evidence: evidence(module, page),
        };
        (page.address, candidate)
    };
    let pages = modules.iter().flat_map(|module| module.offline.pages.iter().map(move |page| (module, page)));
    pages.filter(|(module, page)| module.offline.is_wanted(page)).map(|(module, page)| of(module, page)).collect()
}

/// Why a page goes.
fn evidence(module: &Module, page: &BadPage) -> String {
    let errors = counted(page.error_count, "error", "errors");
    if page.lost_count > 0 {
        return format!("{errors} in this page, {} of them with lost bits", page.lost_count);
    }
    if page.is_over_rate {
        return format!("{errors} in this page, at worst {} within the time of the rate", page.worst_count);
    }
    match module.dimm.fault_mode {
        FaultMode::Undetermined => format!("{errors}, all at one address, that stay"),
        mode => format!("{} fault that stays; {errors} in this page", mode.label()),
    }
}

/// Decides and, with `--yes`, takes the pages out.
pub(super) fn act(
    options: &PageOfflineOptions,
    root: &Root,
    modules: &[Module],
    is_of_this_host: bool,
) -> anyhow::Result<Done> {
    let page_bytes = if root.is_host() { usage::page_bytes() } else { surefoot_memory::pages::PAGE_BYTES };
    let candidates = candidates(modules, page_bytes);
    let mut done = Done { has_acted: options.yes, ..Done::default() };
    let record = Record::OfHost(root.path("/"));
    if !options.yes {
        done.pages = candidates.iter().map(|(address, _)| (*address, (PageOutcome::Planned, None))).collect();
        // What is known of another host is what its log says.
        if !is_of_this_host || candidates.is_empty() {
            return Ok(done);
        }
        match Taken::read(&record)
            .map_err(Into::into)
            .and_then(|taken| known(options, root, page_bytes, &taken, &candidates))
        {
            Ok(known) => {
                decided(options, &candidates, &known, page_bytes).into_iter().for_each(|(addresses, _, decision)| {
                    let told = (outcome_of(decision), why_not(decision));
                    addresses.iter().for_each(|address| _ = done.pages.insert(*address, told.clone()));
                })
            }
            Err(error) => done.unknown = Some(error.to_string()),
        }
        return Ok(done);
    }
    let _alone = alone(&record)?;
    let mut taken = Taken::read(&record)?;
    let booted_realtime_ns = clock::booted_realtime_ns(root)?;
    done.settled = taken.settle(root, page_bytes, &record, booted_realtime_ns, &clock::realtime_ns)?;
    if candidates.is_empty() {
        return Ok(done);
    }
    if let Some(missing) = candidates.iter().find_map(|(_, one)| offlining::missing(root, how(&one.page))) {
        let failed = (PageOutcome::Failed, Some(missing.to_string()));
        done.pages = candidates.iter().map(|(address, _)| (*address, failed.clone())).collect();
        done.missing = Some(missing);
        return Ok(done);
    }
    let known = known(options, root, page_bytes, &taken, &candidates)?;
    for (addresses, candidate, decision) in decided(options, &candidates, &known, page_bytes) {
        let told = match decision {
            Decision::Take if done.broken.is_some() => {
                (PageOutcome::Failed, Some("not tried, as it could not be recorded".to_owned()))
            }
            Decision::Take => {
                match act::take(root, page_bytes, &record, &candidate, effective_user(), &clock::realtime_ns) {
                    Ok(became) => told(became),
                    Err(why) => {
                        let why = done.broken.insert(why).to_string();
                        let words = "the journal failed, so this page may be out of use or not; the next run looks and records it";
                        (PageOutcome::Unobserved, Some(format!("{words}: {why}")))
                    }
                }
            }
            decision => (outcome_of(decision), why_not(decision)),
        };
        addresses.iter().for_each(|address| _ = done.pages.insert(*address, told.clone()));
    }
    Ok(done)
}

/// What is decided of each page of the kernel, with the addresses of reports that are in it.
fn decided(
    options: &PageOfflineOptions,
    candidates: &[(u64, Candidate)],
    known: &Known,
    page_bytes: u64,
) -> Vec<(Vec<u64>, Candidate, Decision)> {
    let budget = Budget { module_pages: options.module_budget, host_pages: options.host_budget };
    let plan = plan(candidates.iter().map(|(_, one)| one.clone()).collect(), budget, known);
    let addresses = |page: u64| {
        let of_page =
            candidates.iter().map(|(address, _)| *address).filter(|address| address / page_bytes * page_bytes == page);
        of_page.collect::<Vec<u64>>()
    };
    plan.into_iter().map(|(one, decision)| (addresses(one.page.address), one, decision)).collect()
}

fn outcome_of(decision: Decision) -> PageOutcome {
    match decision {
        Decision::Take => PageOutcome::Planned,
        Decision::IsOffline => PageOutcome::AlreadyOffline,
        Decision::OverModule => PageOutcome::OverModuleBudget,
        Decision::OverHost => PageOutcome::OverHostBudget,
        Decision::EarlierBoot => PageOutcome::EarlierBoot,
        Decision::NoMemory => PageOutcome::Failed,
    }
}

/// What the outcome does not say of itself.
fn why_not(decision: Decision) -> Option<String> {
    (decision == Decision::NoMemory).then(|| "this host has no memory at this address".to_owned())
}

fn told(became: Became) -> (PageOutcome, Option<String>) {
    match became {
        Became::Offline => (PageOutcome::Offline, None),
        Became::InUse => (PageOutcome::InUse, None),
        Became::Unobserved(why) => (PageOutcome::Unobserved, Some(why)),
        Became::Failed(why) => (PageOutcome::Failed, Some(why)),
        Became::Unsupported(why) => (PageOutcome::Failed, Some(why.to_string())),
    }
}

/// What the kernel and the journal know.
fn known(
    options: &PageOfflineOptions,
    root: &Root,
    page_bytes: u64,
    taken: &Taken,
    candidates: &[(u64, Candidate)],
) -> anyhow::Result<Known> {
    let booted_realtime_ns = clock::booted_realtime_ns(root)?;
    let ours: Vec<(u64, &str)> = taken.pages(booted_realtime_ns).collect();
    let addresses = ours.iter().map(|(address, _)| *address);
    let addresses = addresses.chain(candidates.iter().map(|(_, one)| one.page.address));
    let shown = act::offline_of(root, addresses, page_bytes)?;
    let host_pages = corrupted_bytes(root)?.div_ceil(page_bytes);
    let mut module_pages: BTreeMap<String, u64> = BTreeMap::new();
    let mut explained_count = 0;
    for (_, module) in ours.iter().filter(|(address, _)| shown.offline.contains(address)) {
        explained_count += 1;
        *module_pages.entry((*module).to_owned()).or_default() += 1;
    }
    // A page that is out of use and that no deed explains may be of any module: others took it, or the journal was lost.
    candidates.iter().for_each(|(_, one)| _ = module_pages.entry(one.module.clone()).or_default());
    let unexplained_count = host_pages.saturating_sub(explained_count).max(taken.unread_count);
    module_pages.values_mut().for_each(|count| *count = count.saturating_add(unexplained_count));
    Ok(Known {
        host_pages,
        module_pages,
        offline: shown.offline,
        beyond: shown.beyond,
        now_realtime_ns: clock::realtime_ns(),
        booted_realtime_ns,
        are_addresses_kept: options.earlier_boots,
    })
}

fn alone(record: &Record) -> anyhow::Result<Alone> {
    record.alone().with_context(|| {
        let hint = if effective_user() == 0 { "" } else { "; run it as root" };
        format!("what is done with the pages cannot be recorded, so nothing is{hint}")
    })
}

/// Puts back the pages that deeds of ours took out and that the kernel still has out of use.
pub(super) fn undo(options: &PageOfflineOptions, root: &Root) -> anyhow::Result<Outcome> {
    let page_bytes = if root.is_host() { usage::page_bytes() } else { surefoot_memory::pages::PAGE_BYTES };
    let record = Record::OfHost(root.path("/"));
    let _alone = if options.yes { Some(alone(&record)?) } else { None };
    let mut taken = Taken::read(&record)?;
    let mut done = Done { has_acted: options.yes, ..Done::default() };
    let booted_realtime_ns = clock::booted_realtime_ns(root)?;
    if options.yes {
        done.settled = taken.settle(root, page_bytes, &record, booted_realtime_ns, &clock::realtime_ns)?;
    }
    let ours: Vec<(u64, &str)> = taken.pages(booted_realtime_ns).collect();
    let offline = act::offline_of(root, ours.iter().map(|(address, _)| *address), page_bytes)?.offline;
    let is_wanted = |module: &str| options.module.as_deref().is_none_or(|wanted| wanted == module);
    let ours = ours.into_iter().filter(|(address, module)| offline.contains(address) && is_wanted(module));
    let ours: Vec<(u64, &str)> = ours.collect();
    done.missing = offlining::cannot_restore(root);
    if let (Some(missing), true, false) = (&done.missing, options.yes, ours.is_empty()) {
        return Err(missing.clone().into());
    }
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "memory page-offline")?;
    }
    for &(address, module) in &ours {
        let (outcome, why) = match options.yes {
            true => {
                let page = (address, module);
                told(act::restore(root, page_bytes, &record, page, effective_user(), &clock::realtime_ns)?)
            }
            false => (PageOutcome::Planned, None),
        };
        if options.json {
            output::line(&mut out, &RestoredLine { module, address, outcome, why: why.as_deref() })?;
        } else {
            writeln!(out, "{}  {address:#x}  {}", one_line(module), words(outcome, why.as_deref()))?;
        }
        done.pages.insert(address, (outcome, why));
    }
    if !options.json {
        for deed in &done.settled {
            writeln!(out, "An earlier process ended early: {}.", deed.words())?;
        }
        let pages = counted(done.count(&[PageOutcome::InUse]), "page", "pages");
        match (ours.is_empty(), options.yes, &done.missing) {
            (true, ..) => writeln!(out, "No page is out of use by a deed of this command since the host booted.")?,
            (_, true, _) => writeln!(out, "{pages} in use again.")?,
            (_, false, None) => writeln!(out, "Nothing was changed; --yes puts them back.")?,
            (_, false, Some(missing)) => {
                writeln!(out, "Nothing was changed. Unsupported: {}; {}.", missing.why, missing.remedy)?
            }
        }
    }
    out.flush()?;
    ensure!(
        taken.unread_count == 0,
        "{} of {} cannot be read: pages that only {} out of use are not listed and not put back",
        counted(taken.unread_count, "line", "lines"),
        record.path().display(),
        if taken.unread_count == 1 { "this line says are" } else { "these lines say are" }
    );
    Ok(if done.is_any_failed() { Outcome::Found } else { Outcome::Done })
}

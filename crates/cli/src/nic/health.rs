//! `surefoot nic health`.

mod answer;
pub mod lines;
mod options;
mod recover;
mod text;
mod watch;

pub use options::HealthOptions;

use anyhow::{bail, ensure};
use lines::{DeedLine, InterfaceLine, ProblemLine};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_hostfs::privilege::{self, Capabilities};
use surefoot_hostfs::{Root, Unsupported};
use surefoot_interfaces::baseline::Baselines;
use surefoot_interfaces::look::Looker;
use surefoot_interfaces::probe::{Peer, Prober};
use surefoot_interfaces::{Error, presence, self_test};
use surefoot_model::{
    DeedOutcome, Interface, InterfaceLook, InterfaceProbe, InterfaceProblem, InterfaceState, SelfTest, did_you_mean,
};

pub fn run(options: &HealthOptions) -> anyhow::Result<Outcome> {
    options.check()?;
    if let Some(interface) = &options.answer {
        return answer::run(options, interface);
    }
    if options.recover && options.yes && options.host_root.is_none() {
        may_recover(&Root::host())?;
    }
    let mut health = Health::open(options)?;
    if options.watch { watch::run(options, &mut health) } else { once(options, &mut health) }
}

/// Recovery changes interfaces: without the privilege that is said, whether or not one hangs.
fn may_recover(root: &Root) -> anyhow::Result<()> {
    const NEEDED: &str = "CAP_NET_ADMIN";
    match Capabilities::read(root)?.net_admin() {
        true => Ok(()),
        false => {
            let why = format!("unsupported: recovery of interfaces needs {NEEDED}");
            Err(Unsupported::new(why, privilege::remedy(&[NEEDED])).into())
        }
    }
}

/// An error of the library as the exit code has it.
fn told(error: Error) -> anyhow::Error {
    match error {
        Error::Unsupported(why) if why.is_unknown => why.into(),
        Error::Unsupported(why) => Unsupported::new(format!("unsupported: {}", why.why), why.remedy).into(),
        other => other.into(),
    }
}

/// What is looked at, and how.
struct Health {
    root: Root,
    looker: Looker,
    prober: Option<Prober>,
    /// Whether the neighbour has answered a probe, also one of a prober before.
    has_answered: bool,
    baselines: Baselines,
}

impl Health {
    fn open(options: &HealthOptions) -> anyhow::Result<Self> {
        let root = crate::memory::status::root(options.host_root.as_ref())?;
        if presence::of_another(&root) && presence::unsupported(&root).is_none() {
            surefoot_console::tell!(
                "surefoot: this process is in a network namespace: interfaces of the host and of other namespaces are not seen"
            );
        }
        let looker = Looker::new(root.clone()).only(options.interface.clone()).with_limits(options.limits());
        let path: Option<&PathBuf> = options.baseline.as_ref();
        let baselines = path.map(|path| Baselines::load(path)).transpose().map_err(told)?.unwrap_or_default();
        let mut health = Health { root, looker, prober: None, has_answered: false, baselines };
        if let Some((interface, peer)) = options.probed() {
            let peer = Peer::parse(peer).map_err(told)?;
            health.has_answered = health.baselines.knows(interface, peer.kind(), &peer.name());
            health.prober = Some(health.prober_of(interface, peer).map_err(told)?);
        }
        Ok(health)
    }

    fn prober_of(&self, interface: &str, peer: Peer) -> Result<Prober, Error> {
        let mut prober = Prober::open(&self.root, interface, peer)?;
        if self.has_answered {
            prober.known();
        }
        Ok(prober)
    }

    /// One look, with a round of probes before it where that was asked for.
    fn look(&mut self, options: &HealthOptions, tests: BTreeMap<String, SelfTest>) -> anyhow::Result<InterfaceLook> {
        let probes = self.probes(options).map_err(told)?;
        let look = self.look_with(probes, tests)?;
        if let Some(name) = &options.interface {
            let is_there = look.interfaces.iter().any(|one| one.name == *name);
            let is_loopback = name == "lo" && self.root.sys("class/net/lo").exists();
            ensure!(!is_loopback, "--interface lo: the loopback is left out, because it has no hardware");
            let meant = did_you_mean(name, look.interfaces.iter().map(|one| one.name.as_str()));
            ensure!(
                is_there,
                "--interface {name}: there is no such interface; `surefoot nic health` lists them{meant}"
            );
        }
        Ok(look)
    }

    /// The same in a watch, which goes on where the interface goes away and comes back, as one does whose driver recovers.
    fn look_again(&mut self, options: &HealthOptions) -> InterfaceLook {
        let (probes, lost) = match self.probes(options) {
            Ok(probes) => (probes, None),
            Err(error) => {
                // It is of an interface that may have another number when it is back.
                self.prober = None;
                (BTreeMap::new(), Some(error))
            }
        };
        let mut look = self.looker.look_with(probes, BTreeMap::new());
        look.problems.extend(lost.map(|error| problem("--probe", &error)));
        // It was the only one.
        let why = look.unsupported.take();
        look.problems.extend(why.map(|why| problem("/sys/class/net", &why)));
        look
    }

    fn probes(&mut self, options: &HealthOptions) -> Result<BTreeMap<String, InterfaceProbe>, Error> {
        let Some((interface, peer)) = options.probed() else { return Ok(BTreeMap::new()) };
        if self.prober.is_none() {
            self.prober = Some(self.prober_of(interface, Peer::parse(peer)?)?);
        }
        let Some(prober) = &mut self.prober else { return Ok(BTreeMap::new()) };
        let mut probe = prober.round(options.round())?;
        self.has_answered |= probe.has_answered;
        self.baselines.apply(interface, &mut probe);
        Ok(BTreeMap::from([(interface.to_owned(), probe)]))
    }

    fn look_with(
        &mut self,
        probes: BTreeMap<String, InterfaceProbe>,
        tests: BTreeMap<String, SelfTest>,
    ) -> anyhow::Result<InterfaceLook> {
        let look = self.looker.look_with(probes, tests);
        match &look.unsupported {
            Some(why) if presence::unsupported(&self.root).is_some_and(|missing| missing.is_unknown) => bail!("{why}"),
            Some(why) => Err(Unsupported::new(format!("network interfaces are not supported here: {why}"), "").into()),
            None => Ok(look),
        }
    }

    /// Keeps what was learned of round trips.
    fn learn(&mut self, options: &HealthOptions, is_last: bool) -> anyhow::Result<()> {
        self.baselines.learned(is_last);
        match &options.baseline {
            Some(path) => self.baselines.save(path).map_err(told),
            None => Ok(()),
        }
    }
}

/// What did not work in a watch that goes on.
fn problem(path: &str, why: &dyn std::fmt::Display) -> InterfaceProblem {
    InterfaceProblem { path: path.to_owned(), why: why.to_string() }
}

fn once(options: &HealthOptions, health: &mut Health) -> anyhow::Result<Outcome> {
    let first = health.looker.look();
    let tests = tested(options, &first.interfaces)?;
    // A recorded tree does not change, and probes take a while themselves.
    if health.root.is_host() && health.prober.is_none() {
        std::thread::sleep(options.over());
    }
    let look = health.look(options, tests)?;
    health.learn(options, true)?;
    let (steps, stopped) =
        if options.recover { recover::run(options, &health.root, &look)? } else { Default::default() };
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "nic health")?;
        look.interfaces.iter().try_for_each(|interface| output::line(&mut out, &InterfaceLine { interface }))?;
        look.problems.iter().try_for_each(|problem| output::line(&mut out, &ProblemLine { problem }))?;
        steps.iter().try_for_each(|deed| output::line(&mut out, &DeedLine { deed }))?;
    } else {
        out.write_all(text::of(&look).as_bytes())?;
        out.write_all(text::steps(options.recover, options.yes, &steps).as_bytes())?;
    }
    out.flush()?;
    if let Some(stopped) = stopped {
        bail!("{stopped}");
    }
    let tests = look.interfaces.iter().filter_map(|one| Some((&one.name, one.self_test.as_ref()?.why_not.as_ref()?)));
    if let Some((name, why)) = tests.into_iter().next() {
        return Err(Unsupported::new(format!("unsupported: {name}: {why}"), "").into());
    }
    let is_bad = look.interfaces.iter().any(is_bad);
    let failed = steps.iter().any(|step| matches!(step.outcome, DeedOutcome::Failed { .. }));
    Ok(if is_bad || failed { Outcome::Found } else { Outcome::Done })
}

/// Whether it is what the command is asked to report as failure.
fn is_bad(one: &Interface) -> bool {
    let is_silent = one.probe.as_ref().is_some_and(|probe| probe.answered_count == 0);
    let has_failed = one.self_test.as_ref().is_some_and(|test| test.why_not.is_none() && !test.has_passed);
    one.state > InterfaceState::Ok || is_silent || has_failed
}

/// The self-tests that were asked for, after all of them are known to be allowed.
fn tested(options: &HealthOptions, interfaces: &[Interface]) -> anyhow::Result<BTreeMap<String, SelfTest>> {
    let Some(mode) = options.self_test() else { return Ok(BTreeMap::new()) };
    let even_in_use = options.even_in_use;
    // Devices without an interface here are none that a driver could be asked about.
    let wanted = || interfaces.iter().filter(|one| !one.name.contains('/'));
    wanted().try_for_each(|one| self_test::allowed(one, mode, even_in_use)).map_err(told)?;
    let test = |one: &Interface| Ok((one.name.clone(), self_test::run(one, mode, even_in_use)?));
    wanted().map(test).collect::<Result<_, Error>>().map_err(told)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn who_may_not_recover_is_told_so_before_anything_is_looked_at() {
        let may = |capabilities: &str| {
            let tree = HostTree::new().file("proc/self/status", format!("CapEff:\t{capabilities}\n"));
            may_recover(&Root::at(tree.path()))
        };
        let refused = may("0000000000000000").unwrap_err();
        let why = refused.downcast_ref::<Unsupported>().unwrap().to_string();
        assert!(why.starts_with("unsupported: ") && why.contains("CAP_NET_ADMIN"), "{why}");
        assert!(may("0000000000001000").is_ok());
    }
}

//! The running server: its parts, its threads, and what it reads anew.

use crate::Error;
use crate::book::{Book, Health};
use crate::desk::Desk;
use crate::intake::Intake;
use crate::metrics::Answers;
use crate::notifier::{Link, Notifier};
use crate::orders::Dispatch;
use crate::recorded::Recorded;
use crate::refused::Refusals;
use crate::role::{self, Access, Role};
use crate::routes;
use axum::http::StatusCode;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use surefoot_http::bodies::Bodies;
use surefoot_http::listen::{self, Door, Listen, Peer};
use surefoot_http::rates::Rates;
use surefoot_http::tls::{Tls, TlsFiles};
use surefoot_http::who::Wrong;
use surefoot_http::{lock, own_files, serving};
use surefoot_journal::deeds::Record;
use surefoot_model::{AuditEntry, MachineId};
use surefoot_remedy::act::{self, Hands, HandsConfig};
use surefoot_remedy::engine::{Engine, Settings};
use surefoot_remedy::policy::Policies;
use surefoot_remedy::{Act, Casebook};
use surefoot_store::cases::MachineLimits;
use tokio::sync::watch;

/// An answer that takes longer than this is none.
pub(crate) const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);
/// Questions to the store at one time, beside the server's own thread.
const QUERIES_MAX: usize = 4;
/// What one may ask: so much at once, and so much per second.
const REQUESTS: (u32, u32) = (20_000, 5_000);
/// How often it may be told what is found of one host, whose agent does so every half minute and after each order; answers to orders as often.
const OF_HOST: (u32, u32) = (200, 2);
/// What an address may ask that nobody is known to be at.
const STRANGERS: (u32, u32) = (50, 10);
/// Refusals of one that are noted.
const REFUSALS: (u32, u32) = (10, 1);
/// Files that are looked at for changes.
const FILES_MAX: usize = 1_000;

/// What a server needs to know.
#[derive(Debug)]
pub struct Config {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// Its certificate, which it needs to listen on the network.
    pub tls: Option<TlsFiles>,
    /// The file that says who may do what; without one, root and the server's own user may do everything.
    pub who: Option<PathBuf>,
    /// The store.
    pub book: Book,
    /// The policies.
    pub policy: PathBuf,
    /// The controller's name.
    pub name: String,
    /// The host on which it runs, as alerts name it: steps are done there without an agent. Empty for none.
    pub own_host: String,
    /// How long a step of a controller that does not tell of itself is left to it.
    pub lease: Duration,
    /// The machine that this controller runs on. If another machine has the name of its host, no step for that host runs here.
    pub machine: MachineId,
    /// The Alertmanager whose silences are heeded and which is told what agents find; `None` for none.
    pub notifier: Option<Notifier>,
    /// Where a host's own page is, as [`crate::host_page`] reads it; `None` where that is not known.
    pub host_page: Option<String>,
    /// Where its steps are recorded as deeds; `None` for nowhere but in the store.
    pub record: Option<Record>,
}

/// What all answers share.
pub(crate) struct Served {
    pub(crate) access: Mutex<Arc<Access>>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) intake: Intake,
    pub(crate) engine: Arc<Engine>,
    pub(crate) link: Option<Link>,
    pub(crate) store: Arc<Health>,
    pub(crate) bodies: Bodies,
    pub(crate) rates: Rates,
    pub(crate) hosts: Rates,
    pub(crate) strangers: Rates,
    pub(crate) refusals: Rates,
    pub(crate) not_taken: Refusals,
    pub(crate) counts: Answers,
    pub(crate) host_page: Option<String>,
}

impl Served {
    pub(crate) fn access(&self) -> Arc<Access> {
        Arc::clone(&lock(&self.access))
    }

    pub(crate) fn wake(&self) {
        self.engine.wake();
    }

    pub(crate) fn count_answer(&self, status: StatusCode) {
        if let Some(count) =
            usize::from(status.as_u16() / 100).checked_sub(2).and_then(|at| self.counts.by_class.get(at))
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A running server. Dropping it stops it.
pub struct Fleet {
    addresses: Vec<Listen>,
    served: Arc<Served>,
    note: Mutex<Book>,
    policy: PathBuf,
    who: Option<PathBuf>,
    tls: Option<Arc<Tls>>,
    /// Files with tokens and passwords that the policies name.
    secrets: Mutex<BTreeSet<PathBuf>>,
    recorder: Recorder,
    stop: watch::Sender<bool>,
    is_stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Fleet {
    /// Reads the policies, opens the store and its places, and starts.
    ///
    /// # Errors
    /// [`Error::Remedy`] about policies and store, [`Error::Unusable`] about the file of who may do what, and about places to listen and certificates
    /// [`Error::Http`].
    pub fn start(config: Config) -> Result<Fleet, Error> {
        let Config { listen, tls, who, mut book, policy, name, own_host, machine, lease, notifier, host_page, record } =
            config;
        let (asks, name_of) = (notifier.clone(), name.clone());
        let recorder =
            Recorder { record, name: name_of, own_host, machine, lost_count: Arc::default(), notifier: asks };
        let policies = read_policies(&policy)?;
        let hands = recorder.hands(&policies, &book)?;
        let access = who.as_deref().map_or_else(|| Ok(Access::own(&Role::ALL)), role::read)?;
        let tls = tls.map(Tls::read).transpose()?.map(Arc::new);
        let is_remote = |listen: &Listen| matches!(listen, Listen::Tcp(address) if !address.ip().is_loopback());
        if listen.iter().any(is_remote) && !access.has_remote() {
            let why = "no network client would have any role: pass --who with a file that lists tokens or certificates";
            return Err(Error::Unusable { what: "--listen".into(), why: why.into() });
        }
        // So that a store that is none is told of now, and not in the middle of the night; and before anybody can connect.
        book.now_realtime_ns()?;
        let doors = listen.iter().map(|listen| Door::open(listen, tls.is_some())).collect::<Result<Vec<_>, _>>()?;
        book.note(&loaded(&name, &policy, policies.policies.len()))?;
        let secrets = Mutex::new(act::secret_files(&policies));
        let link = notifier.as_ref().map(|_| Link::new());
        link.iter().for_each(|link| link.silences.set_hosts(&policies.hosts));
        let deciding = book.another().heeding(link.as_ref().map(|link| Arc::clone(&link.silences)));
        let engine = Engine::start_with(Box::new(deciding), hands, policies, &name, Settings::with_lease(lease));
        let engine = Arc::new(engine);
        let waking = Arc::clone(&engine);
        let (intake, writing) = Intake::new(book.another(), move || waking.wake());
        let served = Arc::new(Served {
            access: Mutex::new(Arc::new(access)),
            desk: Arc::new(Desk::new(&book)),
            intake,
            engine,
            link,
            store: book.health(),
            bodies: Bodies::default(),
            rates: Rates::new(REQUESTS.0, REQUESTS.1),
            hosts: Rates::new(OF_HOST.0, OF_HOST.1),
            strangers: Rates::new(STRANGERS.0, STRANGERS.1),
            refusals: Rates::new(REFUSALS.0, REFUSALS.1),
            not_taken: Refusals::default(),
            counts: Answers::default(),
            host_page,
        });
        let addresses = doors.iter().map(Door::address).collect();
        let mut fleet = Fleet {
            addresses,
            served,
            note: Mutex::new(book),
            policy,
            who,
            tls: tls.clone(),
            secrets,
            recorder,
            stop: watch::channel(false).0,
            is_stopped: Arc::default(),
            threads: Vec::new(),
        };
        fleet.spawn("surefoot-intake", writing)?;
        if let (Some(notifier), Some(link)) = (notifier, &fleet.served.link) {
            let work = link.work(notifier, lock(&fleet.note).another(), Arc::clone(&fleet.is_stopped));
            fleet.spawn("surefoot-notify", work)?;
        }
        fleet.serve(doors, tls)?;
        Ok(fleet)
    }

    /// Where it listens, with the ports that the system chose.
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// What looks like a slip in the policies as their file is now, and what their steps need that is not here; nothing where the file
    /// cannot be read, which [`Fleet::reload`] tells.
    pub fn doubts(&self) -> Vec<String> {
        let Ok(policies) = Policies::read(&self.policy) else { return Vec::new() };
        let mut doubts = policies.doubts();
        doubts.extend(surefoot_remedy::act::doubts(&policies));
        doubts
    }

    /// Whether its engine still works.
    pub fn is_alive(&self) -> bool {
        self.served.engine.is_alive()
    }

    /// Deeds that could not be recorded in the journal of this host.
    pub fn lost_deed_count(&self) -> u64 {
        self.recorder.lost_count.load(Ordering::Relaxed)
    }

    /// Host names under which two machines report now, a sentence each; `None` while the store does not answer.
    pub fn rivals(&self) -> Option<Vec<String>> {
        lock(&self.note).with(|store| store.rivals(&MachineLimits::default())).ok()
    }

    /// Why the store takes nothing now, or did not since this was asked last; `None` where it does.
    pub fn store_error(&self) -> Option<String> {
        lock(&self.note).trouble()
    }

    /// What to say of alerts and findings that were refused; `None` while there is nothing new, and within a minute of the last.
    pub fn refusals(&self) -> Option<String> {
        self.served.not_taken.news()
    }

    /// Why Alertmanager does not answer; `None` where it does, and where there is none.
    pub fn alertmanager_error(&self) -> Option<String> {
        lock(&self.served.link.as_ref()?.counts.error).clone()
    }

    /// Reads the policies, and who may do what, anew.
    ///
    /// # Errors
    /// What is wrong with them, and what goes on as before.
    pub fn reload(&self) -> Result<(), Error> {
        let outcome = self.try_reload();
        let entry = match &outcome {
            Ok(count) => loaded("reload", &self.policy, *count),
            Err(error) => {
                self.served.counts.reload_failed.fetch_add(1, Ordering::Relaxed);
                AuditEntry {
                    action: "policy_refused".into(),
                    reason: error.to_string(),
                    ..loaded("reload", &self.policy, 0)
                }
            }
        };
        // A store that is away does not keep the policies from counting.
        let _ = lock(&self.note).note(&entry);
        outcome.map(drop)
    }

    fn try_reload(&self) -> Result<usize, Error> {
        // A right that was taken away must not last until the policies are mended. A certificate that cannot be read ends nothing: the one
        // before is shown.
        let certificate = self.tls.as_ref().map_or(Ok(()), |tls| tls.reload().map(drop));
        let certificate = certificate.map_err(|error| going_on(&error.into(), "the certificate from before is shown"));
        let rights = self.reload_rights().and(certificate);
        let policies = self.reload_policies();
        match (rights, policies) {
            (Ok(()), policies) => policies.map_err(|error| going_on(&error, "the policies from before go on")),
            (Err(rights), Ok(_)) => Err(rights),
            (Err(rights), Err(policies)) => {
                let policies = going_on(&policies, "the policies from before go on");
                Err(going_on(&rights, &policies.to_string()))
            }
        }
    }

    fn reload_rights(&self) -> Result<(), Error> {
        let Some(who) = &self.who else { return Ok(()) };
        let (access, wrong) = self.served.access().reread(who, role::parse);
        *lock(&self.served.access) = Arc::new(access);
        match wrong {
            None => Ok(()),
            Some(Wrong::File { error, rights }) => Err(going_on(&error.into(), &rights)),
            Some(Wrong::Tokens(left_out)) => {
                let why: Vec<String> = left_out.iter().map(ToString::to_string).collect();
                Err(Error::Rights { why: why.join("; ") })
            }
        }
    }

    fn reload_policies(&self) -> Result<usize, Error> {
        let policies = read_policies(&self.policy)?;
        let hands = self.recorder.hands(&policies, &lock(&self.note))?;
        let count = policies.policies.len();
        *lock(&self.secrets) = act::secret_files(&policies);
        self.served.link.iter().for_each(|link| link.silences.set_hosts(&policies.hosts));
        self.served.engine.reload(policies, hands);
        Ok(count)
    }

    /// The files that count: policies, who may do what, the certificate, and the secrets that they name, as far as they are few enough to be looked at
    /// again and again. Where one of them changes, [`Fleet::reload`] is due.
    pub fn files(&self) -> Vec<PathBuf> {
        let own =
            [&self.policy].into_iter().chain(&self.who).chain(self.tls.iter().flat_map(|tls| tls.files())).cloned();
        let tokens = self.served.access().token_files.clone();
        own.chain(tokens).chain(lock(&self.secrets).iter().cloned()).take(FILES_MAX).collect()
    }

    /// Stops: takes nothing more in, writes what waits, and ends the engine.
    pub fn stop(self) {
        // Dropping does it.
    }

    fn serve(&mut self, doors: Vec<Door>, tls: Option<Arc<Tls>>) -> Result<(), Error> {
        let name = "surefoot-fleet";
        let open = || listen::doors(doors, tls, Arc::default());
        let router = routes::router(Arc::clone(&self.served));
        self.threads.push(serving::serve::<_, Peer>(name, QUERIES_MAX, open, router, &self.stop)?);
        Ok(())
    }

    fn spawn(&mut self, name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.threads.push(serving::spawn(name, body)?);
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.is_stopped.store(true, Ordering::Relaxed);
        self.served.intake.close();
        for thread in self.threads.drain(..) {
            // A panic was printed by its own hook; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// An error with what holds in spite of it.
fn going_on(error: &Error, what: &str) -> Error {
    Error::Reload { why: format!("{error}; {what}") }
}

/// Whoever may change the policies has root's hooks, drains and restarts at his call.
fn read_policies(path: &Path) -> Result<Policies, Error> {
    own_files::expect_own(path).map_err(|why| Error::Unusable { what: path.display().to_string(), why })?;
    Ok(Policies::read(path)?)
}

/// How the steps of this controller are done and recorded.
struct Recorder {
    record: Option<Record>,
    name: String,
    own_host: String,
    machine: MachineId,
    lost_count: Arc<AtomicU64>,
    /// Whom rechecks ask.
    notifier: Option<Notifier>,
}

impl Recorder {
    fn hands(&self, policies: &Policies, book: &Book) -> Result<Arc<dyn Act>, Error> {
        // What is asked of Surefoot itself is asked of the program that runs.
        let surefoot = std::env::current_exe().ok();
        let config = HandsConfig { own_host: self.own_host.clone(), surefoot, ..HandsConfig::of(policies)? };
        let recorded = |hands: Hands| -> Arc<dyn Act> {
            let Some(record) = self.record.clone() else { return Arc::new(hands) };
            let lost_count = Arc::clone(&self.lost_count);
            Arc::new(Recorded::of_controller(Arc::new(hands), record, &self.name, &self.own_host, lost_count))
        };
        let dispatch = Dispatch::new(config, self.machine.clone(), book.another(), recorded);
        Ok(Arc::new(dispatch.asking(self.notifier.clone())))
    }
}

fn loaded(actor: &str, policy: &Path, count: usize) -> AuditEntry {
    AuditEntry {
        at_realtime_ns: 0,
        case: 0,
        actor: format!("controller {actor}"),
        action: "policy_loaded".into(),
        target: policy.display().to_string(),
        reason: if count == 1 { "1 policy".into() } else { format!("{count} policies") },
    }
}

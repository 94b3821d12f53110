//! `surefoot remedy serve`.

use super::node_name;
use super::place::{LISTEN, StoreOptions};
use crate::args::record;
use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::units::parse_time;
use surefoot_controller::{Config, Fleet, Listen, Notifier, TlsFiles};
use surefoot_hostfs::Root;
use surefoot_outside::address::shown;
use surefoot_outside::http::Trust;
use surefoot_outside::own::is_private;
use surefoot_remedy::act::machine;
use surefoot_remedy::decide::LEASE_NS_MAX;
use surefoot_sys::roles::OfController;
use surefoot_sys::signals;

/// How often the policies are looked at for changes.
const LOOK_PERIOD: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);
/// How often Alertmanager is asked for silences.
const NOTIFY_PERIOD: Duration = Duration::from_secs(10);
/// The shortest lease: one that runs out while a store writes to its disk is none.
const LEASE_MIN: Duration = Duration::from_secs(1);
const LEASE_MAX: Duration = Duration::from_nanos(LEASE_NS_MAX);

#[derive(Args)]
pub struct ServeOptions {
    /// The policies: which fault leads to which steps, and under which limits; read again when the file changes
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    #[command(flatten)]
    store: StoreOptions,
    /// Where to listen, 127.0.0.1:PORT, unix:PATH, or with TLS any address; may be repeated
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    listen: Vec<Listen>,
    /// The server's certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// The authority that signs certificates of clients, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_client_authority: Option<PathBuf>,
    /// Who may do what: tokens, certificates and users with their roles. Without it, root and this user may do everything
    #[arg(long, value_name = "FILE")]
    who: Option<PathBuf>,
    /// The controller's name in the audit trail [default: the host's name]
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    /// The host on which this runs, as alerts name it: its steps are done here [default: the node name]
    #[arg(long, value_name = "HOST")]
    own_host: Option<String>,
    /// How long a silent controller keeps its step; then, and again a third of that later, another controller looks for the
    /// step's outcome. 1s to 10m, the same for all controllers of a store
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_time)]
    lease: Duration,
    /// The Alertmanager whose silences are heeded, and which is told what agents find
    #[arg(long, value_name = "URL")]
    alertmanager: Option<String>,
    /// The file with the bearer token that is shown to --alertmanager
    #[arg(long, value_name = "FILE", requires = "alertmanager")]
    alertmanager_token_file: Option<PathBuf>,
    /// The authority that signed the certificate of --alertmanager, PEM
    #[arg(long, value_name = "FILE", requires = "alertmanager")]
    alertmanager_authority: Option<PathBuf>,
    /// Where a host's own page is, for links on the page, such as https://{host}:9470/
    #[arg(long, value_name = "URL", value_parser = surefoot_controller::host_page)]
    host_page: Option<String>,
    /// Journal of the steps of this controller [default: /var/lib/surefoot/deeds.jsonl]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

impl ServeOptions {
    /// Files that it writes: the store, its sockets and its journal.
    fn written(&self) -> Vec<PathBuf> {
        let store = self.store.store.as_deref().and_then(|store| store.strip_prefix("sqlite:")).map(PathBuf::from);
        let sockets = self.listen.iter().filter_map(|listen| match listen {
            Listen::Unix(path) => Some(path.clone()),
            Listen::Tcp(_) => None,
        });
        store.into_iter().chain(sockets).chain(self.journal.clone()).collect()
    }

    fn notifier(&self) -> anyhow::Result<Option<Notifier>> {
        let Some(url) = &self.alertmanager else { return Ok(None) };
        ensure!(
            url.starts_with("http://") || url.starts_with("https://"),
            "--alertmanager {}: write http://127.0.0.1:9093 or https://HOST:PORT",
            shown(url)
        );
        if let Some(file) = &self.alertmanager_token_file {
            surefoot_controller::secret(file).map_err(|why| anyhow!("--alertmanager-token-file {why}"))?;
            ensure!(
                is_private(url),
                "--alertmanager {}: a token would go over the network in the clear; write https://",
                shown(url)
            );
        }
        let trust = self.alertmanager_authority.clone().map_or(Trust::System, Trust::Signer);
        let token_file = self.alertmanager_token_file.clone();
        Ok(Some(Notifier { url: url.clone(), token_file, trust, period: NOTIFY_PERIOD }))
    }
}

pub fn run(options: &ServeOptions) -> anyhow::Result<Outcome> {
    let Some(book) = options.store.book()? else {
        bail!("name the store: --store sqlite:PATH for one host, --store postgres://USER@HOST/DATABASE for a fleet")
    };
    ensure!(
        (LEASE_MIN..=LEASE_MAX).contains(&options.lease),
        "--lease {:?}: from {LEASE_MIN:?} to {LEASE_MAX:?} are possible",
        options.lease
    );
    let stop = signals::stop_flag()?;
    let node = node_name();
    let root = Root::host();
    // Before any thread starts and any request is read.
    let has_own_host = options.own_host.as_deref() != Some("");
    let privileges = OfController::to_begin(&root, has_own_host, &options.written())
        .context("privileges that a controller does not need")?;
    let tls = options.tls_certificate.clone().zip(options.tls_key.clone());
    let new_store = options.store.new_file();
    let fleet = Fleet::start(Config {
        listen: options.listen.clone(),
        tls: tls.map(|(certificate, key)| TlsFiles {
            certificate,
            key,
            client_authority: options.tls_client_authority.clone(),
        }),
        who: options.who.clone(),
        book,
        policy: options.policy.clone(),
        name: if options.name.is_empty() { node.clone() } else { options.name.clone() },
        own_host: options.own_host.clone().unwrap_or(node),
        machine: machine::of(&root),
        lease: options.lease,
        notifier: options.notifier()?,
        host_page: options.host_page.clone(),
        record: Some(record(&root, options.journal.as_deref())?),
    })?;
    privileges.go_on(&root).context("privileges that a controller needs no more")?;
    if let Some(path) = new_store {
        surefoot_console::tell!("surefoot remedy: new store {}: there was no such file", path.display());
    }
    options.store.tell_saved();
    let scheme = if options.tls_certificate.is_some() { "https" } else { "http" };
    for address in fleet.addresses() {
        match address {
            Listen::Tcp(address) => surefoot_console::tell!("surefoot remedy: listening on {scheme}://{address}"),
            Listen::Unix(path) => surefoot_console::tell!("surefoot remedy: listening on unix:{}", path.display()),
        }
    }
    tell_doubts(&fleet);
    let states = || fleet.files().into_iter().map(|path| (state_of(&path), path)).collect::<Vec<_>>();
    let mut seen = states();
    let mut looked = Instant::now();
    let mut is_unheard = false;
    let mut lost_told = 0;
    let mut rivals_told = Vec::new();
    let mut silent_since: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        if !fleet.is_alive() {
            bail!("the engine ended; start the server again");
        }
        if looked.elapsed() < LOOK_PERIOD {
            continue;
        }
        looked = Instant::now();
        match fleet.alertmanager_error() {
            Some(why) if !is_unheard => {
                surefoot_console::tell!(
                    "surefoot remedy: Alertmanager: {why}; what it said last holds, and it is asked again"
                );
                is_unheard = true;
            }
            None if is_unheard => {
                surefoot_console::tell!("surefoot remedy: Alertmanager answers again");
                is_unheard = false;
            }
            _ => {}
        }
        if let Some(refused) = fleet.refusals() {
            surefoot_console::tell!("surefoot remedy: {refused}");
        }
        let lost = fleet.lost_deed_count();
        if lost > 0 && lost_told == 0 {
            surefoot_console::tell!(
                "surefoot remedy: steps cannot be recorded in this host's journal of deeds (--journal); they are in the store's trail"
            );
        }
        lost_told = lost;
        // A store that does not answer says nothing: what was told stays told.
        match (fleet.store_error(), silent_since) {
            (Some(why), None) => {
                surefoot_console::tell!(
                    "surefoot remedy: {why}; until the store takes something again, reports and alerts are refused (503)"
                );
                silent_since = Some(Instant::now());
            }
            (None, Some(since)) => {
                let seconds = since.elapsed().as_secs();
                surefoot_console::tell!("surefoot remedy: the store takes reports again, after {seconds} s");
                silent_since = None;
            }
            _ => {}
        }
        if let Some(rivals) = fleet.rivals() {
            for two in rivals.iter().filter(|two| !rivals_told.contains(*two)) {
                surefoot_console::tell!(
                    "surefoot remedy: {two}; rename one, or end its agent: `surefoot remedy release` has more"
                );
            }
            rivals_told = rivals;
        }
        let now = states();
        if now != seen {
            let outcome = fleet.reload();
            // Other policies may name other files. Those that were there count as they were before they were read.
            seen = states();
            for one in &mut seen {
                if let Some(before) = now.iter().find(|before| before.1 == one.1) {
                    one.clone_from(before);
                }
            }
            match outcome {
                Ok(()) => {
                    surefoot_console::tell!("surefoot remedy: policies reloaded");
                    tell_doubts(&fleet);
                }
                Err(error) => surefoot_console::tell!("surefoot remedy: {error}"),
            }
        }
    }
    fleet.stop();
    Ok(Outcome::Done)
}

/// Says what looks like a slip in the policies, and what their steps need that is not here.
fn tell_doubts(fleet: &Fleet) {
    for doubt in fleet.doubts() {
        surefoot_console::tell!("surefoot remedy: note: {doubt}");
    }
}

/// Device, inode, length and time of the last change of a file, also of its mode.
type State = (u64, u64, u64, i64, i64);

/// What tells one state of a file from the next.
fn state_of(path: &Path) -> Option<State> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.len(), about.ctime(), about.ctime_nsec()))
}

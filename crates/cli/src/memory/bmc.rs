//! Options that name a management controller, whose counts are laid beside those of the kernel.

use anyhow::{Context, ensure};
use clap::Args;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_memory::bmc::Sources;
use surefoot_memory::bmc::event_log::Controller;
use surefoot_memory::bmc::redfish::{MachineIdentity, Service, Trust};
use surefoot_outside::address::shown;

/// The port of RMCP+.
const IPMI_PORT: u16 = 623;
/// What stands for this machine's own management controller.
const OWN: &str = "own";
/// The longest password that a file may hold.
const PASSWORD_BYTES_MAX: u64 = 1024;

/// Management controllers.
#[derive(Args, Clone, Default)]
pub struct BmcOptions {
    #[allow(rustdoc::bare_urls, reason = "it is the text of --help")]
    /// Also read error counts (MemoryMetrics) from this Redfish service, such as https://bmc17.example
    #[arg(long, value_name = "URL")]
    redfish: Option<String>,
    /// This machine's system in that service (path, UUID or serial number), if it has several and this machine's UUID is unknown
    #[arg(long, value_name = "SYSTEM", requires = "redfish")]
    redfish_system: Option<String>,
    /// CA certificate of the Redfish service, instead of the system's
    #[arg(long, value_name = "FILE", requires = "redfish", conflicts_with = "redfish_insecure")]
    redfish_ca: Option<PathBuf>,
    /// Do not verify certificates: a man in the middle can read the password
    #[arg(long, requires = "redfish")]
    redfish_insecure: bool,
    /// Also read errors from the event log of this machine's BMC, or of a BMC over the network; needs ipmitool
    #[arg(long, value_name = "HOST[:PORT]", num_args = 0..=1, default_missing_value = OWN, require_equals = true)]
    event_log: Option<String>,
    /// User name for the BMC
    #[arg(long, value_name = "NAME", requires = "bmc_password_file")]
    bmc_user: Option<String>,
    /// File with that user's password on its first line; only its owner may be able to read it
    #[arg(long, value_name = "FILE", requires = "bmc_user")]
    bmc_password_file: Option<PathBuf>,
    /// Timeout for an answer of the BMC or Redfish service
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = surefoot_console::units::parse_time)]
    bmc_timeout: Duration,
}

impl BmcOptions {
    /// Takes over what is set, except what `is_given` by an option.
    pub fn set(&mut self, set: &surefoot_settings::Memory, is_given: impl Fn(&str) -> bool) {
        fn take<T: Clone>(to: &mut T, from: &T, is_given: bool) {
            if !is_given {
                to.clone_from(from);
            }
        }
        take(&mut self.redfish, &set.redfish, is_given("memory.redfish"));
        take(&mut self.redfish_system, &set.redfish_system, is_given("memory.redfish_system"));
        take(&mut self.redfish_ca, &set.redfish_ca, is_given("memory.redfish_ca"));
        take(&mut self.redfish_insecure, &set.redfish_insecure, is_given("memory.redfish_insecure"));
        take(&mut self.event_log, &set.event_log, is_given("memory.event_log"));
        take(&mut self.bmc_user, &set.bmc_user, is_given("memory.bmc_user"));
        take(&mut self.bmc_password_file, &set.bmc_password_file, is_given("memory.bmc_password_file"));
        take(&mut self.bmc_timeout, &set.bmc_timeout, is_given("memory.bmc_timeout"));
    }

    /// The controllers that are named, of the machine whose files these are.
    pub fn sources(&self, root: &Root) -> anyhow::Result<Sources> {
        let redfish = self.redfish.as_ref().map(|url| self.service(url, root)).transpose()?;
        let event_log = self.event_log.as_ref().map(|place| self.controller(place)).transpose()?;
        let sources = Sources { redfish, event_log, patience: self.bmc_timeout };
        ensure!(
            !self.bmc_timeout.is_zero(),
            "--bmc-timeout 0: a management controller needs seconds to answer; give a time such as 30s"
        );
        ensure!(self.bmc_user.is_none() || sources.is_any(), "--bmc-user needs --redfish URL or --event-log=HOST");
        Ok(sources)
    }

    fn service(&self, url: &str, root: &Root) -> anyhow::Result<Service> {
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let is_plain =
            |rest: &str| !rest.is_empty() && !rest.contains(['@', '?', '#']) && !rest.contains(char::is_whitespace);
        ensure!(
            rest.is_some_and(is_plain),
            "--redfish {}: name a service such as https://bmc17.example; a user goes into --bmc-user, a password into \
             --bmc-password-file, and a path is not needed",
            shown(url)
        );
        let user = match (&self.bmc_user, &self.bmc_password_file) {
            (Some(name), Some(file)) => Some((name.clone(), password(file)?)),
            _ => None,
        };
        let trust = match (&self.redfish_ca, self.redfish_insecure) {
            (_, true) => Trust::Anything,
            (Some(file), false) => Trust::Signer(file.clone()),
            (None, false) => Trust::System,
        };
        Ok(Service {
            url: url.trim_end_matches('/').to_owned(),
            user,
            trust,
            patience: self.bmc_timeout,
            system: self.redfish_system.clone(),
            own: MachineIdentity::of_host(root),
            host: root.read(root.proc("sys/kernel/hostname")).map(|name| name.trim().to_owned()).unwrap_or_default(),
        })
    }

    fn controller(&self, place: &str) -> anyhow::Result<Controller> {
        if place == OWN {
            return Ok(Controller::Own);
        }
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (
                host,
                port.parse().ok().filter(|port| *port > 0).with_context(|| {
                    format!(
                        "--event-log={place}: '{port}' is no port; leave it out for {IPMI_PORT}, or give 1 to 65535"
                    )
                })?,
            ),
            _ => (place, IPMI_PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | ':' | '_');
        ensure!(
            !host.is_empty() && !host.starts_with('-') && host.chars().all(is_name),
            "--event-log={place}: '{host}' is neither a name nor an address of a host"
        );
        let (Some(user), Some(file)) = (&self.bmc_user, &self.bmc_password_file) else {
            anyhow::bail!("--event-log={place}: another machine's event log needs --bmc-user and --bmc-password-file");
        };
        password(file)?;
        // ipmitool is started in another folder.
        let password_file =
            std::path::absolute(file).with_context(|| format!("--bmc-password-file {}", file.display()))?;
        Ok(Controller::Remote { host: host.to_owned(), port, user: user.clone(), password_file })
    }
}

/// The first line of a file that no other user may read.
fn password(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    let file = surefoot_foreign::hold(path).and_then(|held| held.regular());
    let file = file.with_context(|| format!("--bmc-password-file {name}"))?;
    let mode = file.about().mode;
    ensure!(
        mode & 0o077 == 0,
        "--bmc-password-file {name}: others may read or write it (mode {:o}); chmod 600 it",
        mode & 0o777
    );
    let mut text = String::new();
    file.open()
        .and_then(|file| file.take(PASSWORD_BYTES_MAX + 1).read_to_string(&mut text))
        .with_context(|| format!("--bmc-password-file {name} is no text"))?;
    let password = text.lines().next().unwrap_or_default();
    ensure!(
        !password.is_empty() && text.len() as u64 <= PASSWORD_BYTES_MAX,
        "--bmc-password-file {name}: its first line holds no password, or it is longer than {PASSWORD_BYTES_MAX} bytes"
    );
    Ok(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn options(file: &Path) -> BmcOptions {
        BmcOptions {
            bmc_user: Some("tester".into()),
            bmc_password_file: Some(file.to_owned()),
            bmc_timeout: Duration::from_secs(30),
            ..BmcOptions::default()
        }
    }

    #[test]
    fn controllers_are_named_by_host_and_port() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "secret\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let of = |place: &str| BmcOptions { event_log: Some(place.into()), ..options(&file) }.sources(&Root::host());
        for (place, wanted) in
            [("bmc17", ("bmc17", 623)), ("10.0.0.7:6230", ("10.0.0.7", 6230)), ("[fe80::1]:9", ("fe80::1", 9))]
        {
            let Some(Controller::Remote { host, port, .. }) = of(place).unwrap().event_log else { panic!("{place}") };
            assert_eq!((host.as_str(), port), wanted);
        }
        assert_eq!(of(OWN).unwrap().event_log, Some(Controller::Own));
        for (place, why) in
            [("bmc:0", "no port"), ("bmc:x", "no port"), ("-oProxy", "neither a name"), ("a b", "neither a name")]
        {
            assert!(of(place).unwrap_err().to_string().contains(why), "{place}");
        }
        let of = |url: &str| BmcOptions { redfish: Some(url.into()), ..options(&file) }.sources(&Root::host());
        assert_eq!(of("https://bmc/").unwrap().redfish.map(|service| service.url), Some("https://bmc".into()));
        for url in ["bmc17", "https://", "https://user:secret@bmc", "file:///etc/passwd"] {
            let refusal = of(url).unwrap_err().to_string();
            assert!(refusal.contains("name a service") && !refusal.contains("secret"), "{refusal}");
        }
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(of("https://bmc").unwrap_err().to_string().contains("others may read"));
        assert!(options(&file).sources(&Root::host()).unwrap_err().to_string().contains("--bmc-user needs"));
    }
}

use super::redfish::Bmc;
use super::{Drainer, HandsConfig, HookRule, Ipmi, Kubernetes, Slurm, TicketSystem, Times};
use crate::policy::{Drain, Policies, TicketWay};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use surefoot_outside::http::{Identity, Trust};

/// The longest token or password.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

impl HandsConfig {
    /// What a policy file says of the fleet. Tokens and passwords are read from their files now.
    ///
    /// # Errors
    /// [`Error::PolicyFile`] where such a file cannot be read.
    pub fn of(policies: &Policies) -> Result<HandsConfig> {
        let usual = Times::default();
        let mut config = HandsConfig {
            stress_mebibytes: policies.stress_mebibytes,
            reboot: Times {
                settle: policies.reboot.settle.unwrap_or(usual.settle),
                limit: policies.reboot.limit.unwrap_or(usual.limit),
            },
            adapters: policies.debug.adapters.clone(),
            history: policies.debug.history.clone(),
            hosts: policies.hosts.clone(),
            ..HandsConfig::default()
        };
        let slurm = Slurm {
            configuration: policies.slurm.conf.clone(),
            requeues_jobs: policies.slurm.requeues_jobs,
            ..Slurm::default()
        };
        for service in &policies.services {
            let drainer = match service.drain {
                Drain::None => Drainer::None,
                Drain::Slurm => Drainer::Slurm(slurm.clone()),
                Drain::Kubernetes => Drainer::Kubernetes(kubernetes(policies, &service.name)?),
            };
            config.drainers.insert(service.name.clone(), drainer);
        }
        for hook in &policies.hooks {
            let rule =
                HookRule { time_limit: hook.time_limit, is_repeatable: hook.is_repeatable, can_find: hook.can_find };
            config.hooks.insert(hook.path.clone(), rule);
        }
        for ticket in &policies.tickets {
            let system = match &ticket.way {
                TicketWay::Webhook { url, token_file, ca_file } => TicketSystem::Webhook {
                    url: url.clone(),
                    identity: token_file.as_deref().map(secret).transpose()?.map_or(Identity::None, Identity::Token),
                    trust: ca_file.clone().map_or(Trust::System, Trust::Signer),
                },
                TicketWay::Email { to } => TicketSystem::Mail { to: to.clone() },
                TicketWay::Directory { path } => TicketSystem::Directory(path.clone()),
            };
            config.tickets.insert(ticket.name.clone(), system);
        }
        for bmc in &policies.bmcs {
            if let (true, Some((user, file))) = (bmc.is_ipmi(), &bmc.user) {
                // ipmitool reads the file itself; that others may not is asked now.
                secret(file)?;
                let failed = |why| Error::PolicyFile { file: "the policies".into(), why };
                let ipmi = Ipmi::new(&bmc.url, user, file.clone()).map_err(failed)?;
                config.ipmis.insert(bmc.host.clone(), Ipmi { system: bmc.system.clone(), ..ipmi });
                continue;
            }
            let identity = match &bmc.user {
                Some((user, file)) => Identity::User(user.clone(), secret(file)?),
                None => Identity::None,
            };
            let trust = bmc.ca_file.clone().map_or(Trust::System, Trust::Signer);
            let reached = Bmc { url: bmc.url.clone(), identity, trust, system: bmc.system.clone(), ..Bmc::default() };
            config.bmcs.insert(bmc.host.clone(), reached);
        }
        // A machine has its controller by whichever name.
        for names in policies.hosts.all() {
            let bmc = names.iter().find_map(|name| config.bmcs.get(name)).cloned();
            let ipmi = names.iter().find_map(|name| config.ipmis.get(name)).cloned();
            for name in names {
                if config.bmcs.contains_key(name) || config.ipmis.contains_key(name) {
                    continue;
                }
                match (&bmc, &ipmi) {
                    (Some(bmc), _) => drop(config.bmcs.insert(name.clone(), bmc.clone())),
                    (None, Some(ipmi)) => drop(config.ipmis.insert(name.clone(), ipmi.clone())),
                    (None, None) => {}
                }
            }
        }
        Ok(config)
    }
}

/// The files with tokens and passwords that policies name, each once: who replaces one wants the new one used.
pub fn secret_files(policies: &Policies) -> BTreeSet<PathBuf> {
    let of_tickets = policies.tickets.iter().filter_map(|ticket| match &ticket.way {
        TicketWay::Webhook { token_file, .. } => token_file.clone(),
        TicketWay::Email { .. } | TicketWay::Directory { .. } => None,
    });
    let of_bmcs = policies.bmcs.iter().filter_map(|bmc| bmc.user.as_ref().map(|(_, file)| file.clone()));
    let of_kubernetes = policies.kubernetes.iter().map(|kubernetes| kubernetes.token_file.clone());
    of_tickets.chain(of_bmcs).chain(of_kubernetes).collect()
}

/// The cluster that a service's hosts are nodes of.
fn kubernetes(policies: &Policies, service: &str) -> Result<Kubernetes> {
    let Some(said) = &policies.kubernetes else {
        let why = format!("service {service} is drained by Kubernetes: it needs a table [kubernetes]");
        return Err(Error::PolicyFile { file: "the policies".into(), why });
    };
    Ok(Kubernetes {
        server: said.server.clone(),
        identity: Identity::Token(secret(&said.token_file)?),
        trust: said.ca_file.clone().map_or(Trust::System, Trust::Signer),
        force: said.force,
        delete_emptydir_data: said.delete_emptydir_data,
    })
}

/// The first line of a file that holds a secret. It is refused where others may read it.
pub(super) fn secret(path: &Path) -> Result<String> {
    let failed = |why: String| Error::PolicyFile { file: path.display().to_string(), why };
    let file = surefoot_foreign::hold(path).and_then(|held| held.regular());
    let file = file.map_err(|error| failed(error.to_string()))?;
    let mode = file.about().mode;
    // Its group may read it, because a service often gets its secrets so.
    if mode & 0o037 != 0 {
        return Err(failed(format!("it holds a secret, and its mode {:o} lets others at it; chmod 600", mode & 0o777)));
    }
    let bytes = file.read(SECRET_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("it is not text in UTF-8".into()))?;
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(failed("it is empty".into())),
    }
}

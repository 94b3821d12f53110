//! A cluster of Slurm with two nodes on this machine, in a directory of its own: real `slurmctld`, `slurmd` and `munged`.

use crate::place::free_ports;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_sys::program;

/// The programs that it needs.
const PROGRAMS: [&str; 5] = ["munged", "slurmctld", "slurmd", "scontrol", "sbatch"];
/// How long the cluster may take until its nodes are there.
const START_TIME: Duration = Duration::from_secs(60);

/// A running cluster, with the nodes `n1` and `n2`; dropping it ends it.
pub struct Cluster {
    folder: tempfile::TempDir,
    /// In the order in which they were started.
    programs: Vec<Child>,
}

impl Cluster {
    /// Why no cluster can be started here; `None` where one can.
    pub fn unsupported() -> Option<String> {
        if surefoot_hostfs::privilege::effective_user() != 0 {
            return Some("starting Slurm needs root".into());
        }
        let missing = PROGRAMS.into_iter().find(|name| program::find(name).is_none())?;
        Some(format!("Slurm is not installed: there is no {missing}"))
    }

    /// Starts the cluster, and waits until both nodes are idle.
    ///
    /// # Errors
    /// What did not start, with the end of its log.
    pub fn start() -> io::Result<Cluster> {
        // Short: a socket's whole name has 107 bytes at most.
        let folder = tempfile::Builder::new().prefix("sf-slurm").tempdir_in("/tmp")?;
        let mut cluster = Cluster { folder, programs: Vec::new() };
        cluster.lay_out()?;
        cluster.start_munge()?;
        cluster.spawn("slurmctld", &["-D", "-c", "-f"])?;
        for node in ["n1", "n2"] {
            cluster.spawn_node(node)?;
        }
        let begun = Instant::now();
        while !(cluster.state("n1") == "idle" && cluster.state("n2") == "idle") {
            if begun.elapsed() > START_TIME {
                let log = fs::read_to_string(cluster.path("log/slurmctld")).unwrap_or_default();
                let end: Vec<&str> = log.lines().rev().take(5).collect();
                return Err(io::Error::other(format!("the nodes of Slurm are not idle after a minute: {end:?}")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(cluster)
    }

    /// Its slurm.conf.
    pub fn configuration(&self) -> PathBuf {
        self.path("slurm.conf")
    }

    /// A file of its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The state of a node in `sinfo`'s words, without marks: `idle`, `drained`, `draining`, `mixed`, `allocated`.
    pub fn state(&self, node: &str) -> String {
        let text = self.ask("sinfo", &["--noheader", "--nodes", node, "--format=%T"]);
        text.lines().next().unwrap_or_default().trim().trim_end_matches(['*', '~', '#', '$', '@', '^', '-']).to_owned()
    }

    /// What one of Slurm's commands prints.
    pub fn ask(&self, name: &str, arguments: &[&str]) -> String {
        let output = self.command(name).args(arguments).stdin(Stdio::null()).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }

    /// One of Slurm's commands, for this cluster.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program::find(name).unwrap_or_else(|| PathBuf::from(name)));
        command.env("SLURM_CONF", self.configuration()).current_dir(self.folder.path());
        command
    }

    fn lay_out(&self) -> io::Result<()> {
        for folder in ["state", "log", "spool", "spool/n1", "spool/n2"] {
            fs::create_dir(self.path(folder))?;
        }
        let [controller, first, second] = free_ports()?;
        let d = self.folder.path().display();
        let text = format!(
            "ClusterName=try\nSlurmctldHost=localhost(127.0.0.1)\nAuthType=auth/munge\nAuthInfo=socket={d}/m.sock\n\
             CredType=cred/munge\nSlurmUser=root\nSlurmdUser=root\nStateSaveLocation={d}/state\nSlurmdSpoolDir={d}/spool/%n\n\
             SlurmctldPidFile={d}/slurmctld.pid\nSlurmdPidFile={d}/%n.pid\nSlurmctldLogFile={d}/log/slurmctld\n\
             SlurmdLogFile={d}/log/%n\nSlurmctldPort={controller}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=1\nJobRequeue=1\nMpiDefault=none\n\
             SwitchType=switch/none\n\
             NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={first} CPUs=1\n\
             NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={second} CPUs=1\n\
             PartitionName=p Nodes=n1,n2 Default=YES State=UP\n"
        );
        fs::write(self.configuration(), text)
    }

    fn start_munge(&mut self) -> io::Result<()> {
        let key: Vec<u8> = (0..1024_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(self.path("munge.key"), key)?;
        fs::set_permissions(self.path("munge.key"), fs::Permissions::from_mode(0o400))?;
        let option = |name: &str, file: &str| format!("--{name}={}", self.path(file).display());
        let arguments = [
            "--foreground".to_owned(),
            "--force".to_owned(),
            option("key-file", "munge.key"),
            option("socket", "m.sock"),
            option("pid-file", "m.pid"),
            option("log-file", "log/munge"),
            option("seed-file", "m.seed"),
        ];
        let path = program::find("munged").unwrap_or_else(|| PathBuf::from("munged"));
        let child = spawn(Command::new(path).args(&arguments), &self.path("log/munged.out"))?;
        self.programs.push(child);
        let begun = Instant::now();
        while !self.path("m.sock").exists() && begun.elapsed() < START_TIME {
            std::thread::sleep(Duration::from_millis(20));
        }
        // Slurm's programs reach the socket as whoever they are.
        fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o755))
    }

    fn spawn(&mut self, name: &str, arguments: &[&str]) -> io::Result<()> {
        let log = self.path(&format!("log/{name}.out"));
        let child = spawn(self.command(name).args(arguments).arg(self.configuration()), &log)?;
        self.programs.push(child);
        Ok(())
    }

    fn spawn_node(&mut self, node: &str) -> io::Result<()> {
        let log = self.path(&format!("log/{node}.out"));
        let child = spawn(self.command("slurmd").args(["-D", "-N", node, "-f"]).arg(self.configuration()), &log)?;
        self.programs.push(child);
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.programs.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spawn(command: &mut Command, log: &Path) -> io::Result<Child> {
    let log = File::create(log)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    surefoot_sys::children::kill_with_starter(command);
    command.spawn()
}

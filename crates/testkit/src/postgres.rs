//! A PostgreSQL server of a test's own: in its own folder, reached through a socket there, ended with the test.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Where Debian puts the programs of a server.
const FOLDERS: &str = "/usr/lib/postgresql";

/// A server that runs.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    home: TempDir,
}

impl Postgres {
    /// Makes a database and starts its server.
    ///
    /// # Errors
    /// Why there is none, for [`crate::not_run::not_run`]: the programs are missing, or the server did not start.
    pub fn start() -> Result<Postgres, String> {
        let programs = programs().ok_or("PostgreSQL's server is not installed: apt-get install postgresql-15")?;
        // Short, because the name of a socket must be.
        let home = tempfile::Builder::new().prefix("sf-pg").tempdir().map_err(|error| error.to_string())?;
        let server = Postgres { programs, home };
        if is_root() {
            // The server refuses to run as root.
            ran(Command::new("chown").arg("nobody").arg(server.home.path()))?;
        }
        let data = server.home.path().join("d");
        ran(server.program("initdb").arg("-D").arg(&data).args(["-A", "trust", "-U", "surefoot", "--no-sync"]))?;
        server.up()?;
        Ok(server)
    }

    /// The address of its database.
    pub fn url(&self) -> String {
        format!("postgres://surefoot@/postgres?host={}", self.home.path().display())
    }

    /// The address of a new and empty database of this name.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn database(&self, name: &str) -> Result<String, String> {
        let home = self.home.path();
        let create = format!("CREATE DATABASE {name}");
        ran(self.program("psql").arg("-h").arg(home).args(["-U", "surefoot", "-qc", &create, "postgres"]))?;
        Ok(format!("postgres://surefoot@/{name}?host={}", home.display()))
    }

    /// Starts the server again after [`Postgres::down`].
    ///
    /// # Errors
    /// Why it did not start.
    pub fn up(&self) -> Result<(), String> {
        let home = self.home.path();
        let options = format!("-k {} -c listen_addresses= -c max_connections=40 -c fsync=off", home.display());
        ran(self.control().arg("-o").arg(options).arg("-l").arg(home.join("log")).arg("start"))
    }

    /// Ends the server at once, as a crash does: what was committed is there when it comes back.
    ///
    /// # Errors
    /// Why it did not end.
    pub fn down(&self) -> Result<(), String> {
        ran(self.control().args(["-m", "immediate", "stop"]))
    }

    fn control(&self) -> Command {
        let mut command = self.program("pg_ctl");
        command.arg("-D").arg(self.home.path().join("d")).args(["-w", "-s"]);
        command
    }

    fn program(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        command.current_dir("/").env("HOME", self.home.path());
        command
    }

    /// Cuts every connection, as a network that breaks does; whoever had one may connect again at once.
    ///
    /// # Errors
    /// What the server says.
    pub fn cut(&self) -> Result<(), String> {
        const CUT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        ran(self.program("psql").arg("-h").arg(self.home.path()).args(["-U", "surefoot", "-qtc", CUT, "postgres"]))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.down();
    }
}

/// The programs of the newest server that is installed.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(FOLDERS).ok()?.flatten().map(|version| version.path().join("bin"));
    versions.filter(|folder| folder.join("initdb").is_file() && folder.join("pg_ctl").is_file()).max()
}

fn is_root() -> bool {
    std::fs::metadata(Path::new("/proc/self")).is_ok_and(|own| own.uid() == 0)
}

fn ran(command: &mut Command) -> Result<(), String> {
    // A server that is started in the background keeps what it is given: a pipe would never end.
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

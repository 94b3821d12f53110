//! A real Alertmanager of a test's own, in its own folder and on a free port of loopback.

use std::fs::{self, File};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use surefoot_sys::{children, program};
use tempfile::TempDir;

/// One that runs until it is dropped.
pub struct Alertmanager {
    home: TempDir,
    child: Child,
    port: u16,
}

impl Alertmanager {
    /// Starts one with this configuration. It takes a moment until it answers.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn start(configuration: &str) -> Result<Alertmanager, String> {
        // Nobody else is given the port meanwhile: the system goes through all others first.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(|error| error.to_string())?;
        Alertmanager::start_at(port.port(), configuration)
    }

    /// As [`Alertmanager::start`], on this port.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn start_at(port: u16, configuration: &str) -> Result<Alertmanager, String> {
        let path = program::find("prometheus-alertmanager")
            .ok_or("Alertmanager is not installed: apt-get install prometheus-alertmanager")?;
        let failed = |error: std::io::Error| error.to_string();
        let home = tempfile::tempdir().map_err(failed)?;
        fs::write(home.path().join("alertmanager.yml"), configuration).map_err(failed)?;
        let log = File::create(home.path().join("log")).map_err(failed)?;
        let mut command = Command::new(path);
        command.args(["--config.file=alertmanager.yml", "--storage.path=data", "--cluster.listen-address="]);
        command.arg(format!("--web.listen-address=127.0.0.1:{port}")).current_dir(home.path());
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(failed)?).stderr(log);
        children::kill_with_starter(&mut command);
        let child = command.spawn().map_err(failed)?;
        Ok(Alertmanager { home, child, port })
    }

    /// Gives it another configuration, which it takes at its next `POST /-/reload`.
    ///
    /// # Errors
    /// When its file cannot be written.
    pub fn configure(&self, configuration: &str) -> std::io::Result<()> {
        fs::write(self.home.path().join("alertmanager.yml"), configuration)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it wrote of itself.
    pub fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        // One that has ended by itself is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

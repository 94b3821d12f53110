//! A baseboard controller that speaks Redfish: the emulator of sushy-tools in front of libvirt's test driver, which keeps the settings of a
//! machine's firmware and restarts it without one.

use crate::place::{self, free_ports};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to listen.
const START_TIME: Duration = Duration::from_secs(60);

/// A running controller with one machine, which is on; dropping it ends it.
pub struct Controller {
    folder: tempfile::TempDir,
    address: SocketAddr,
    program: Child,
}

impl Controller {
    /// Why none can be started here; `None` where one can.
    pub fn unsupported() -> Option<String> {
        (!program().is_file()).then(|| "sushy-tools is not installed; xtask/setup.sh test brings it".to_owned())
    }

    /// Starts it, and waits until it answers.
    ///
    /// # Errors
    /// What went wrong.
    pub fn start() -> io::Result<Controller> {
        let folder = tempfile::tempdir()?;
        let [port] = free_ports()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let configuration = folder.path().join("emulator.conf");
        // The test driver forgets all when its last connection closes; this one stays.
        let text = "import libvirt\nSUSHY_EMULATOR_LIBVIRT_URI = 'test:///default'\n\
                    SUSHY_EMULATOR_KEPT_OPEN = libvirt.open('test:///default')\n";
        fs::write(&configuration, text)?;
        let log = File::create(folder.path().join("log"))?;
        let mut command = Command::new(program());
        command.arg("--config").arg(&configuration).args(["-i", "127.0.0.1", "-p", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        surefoot_sys::children::kill_with_starter(&mut command);
        let controller = Controller { folder, address, program: command.spawn()? };
        let begun = Instant::now();
        while !controller.get("/redfish/v1/Systems").contains("200 OK") {
            if begun.elapsed() > START_TIME {
                let log = fs::read_to_string(controller.folder.path().join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("the emulator does not answer: {log}")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(controller)
    }

    /// Its address, such as `http://127.0.0.1:8000`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The whole answer to a GET, with its head; empty where there is none.
    pub fn get(&self, path: &str) -> String {
        let ask = || -> io::Result<String> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        ask().unwrap_or_default()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn program() -> PathBuf {
    place::tools().join("redfish/bin/sushy-emulator")
}

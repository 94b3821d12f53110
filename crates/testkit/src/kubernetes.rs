//! A Kubernetes API server with its etcd, without nodes: real programs in a directory of their own. Nodes and pods are objects that a
//! test makes.

use crate::place::{self, free_ports};
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use surefoot_outside::http::{self, Answer, Identity, Request, Trust};

/// How long it may take to be ready.
const START_TIME: Duration = Duration::from_secs(180);
/// Who may do everything.
const TOKEN: &str = "a-token-of-the-test";

/// A running API server; dropping it ends it.
pub struct ApiServer {
    folder: tempfile::TempDir,
    port: u16,
    programs: Vec<Child>,
}

impl ApiServer {
    /// Why none can be started here; `None` where one can.
    pub fn unsupported() -> Option<String> {
        let missing = ["kube-apiserver", "etcd"].into_iter().find(|name| !tool(name).is_file())?;
        Some(format!("there is no {missing}; `make test-kubernetes` builds it, with Go"))
    }

    /// Starts both, and waits until the server is ready.
    ///
    /// # Errors
    /// What went wrong, with the end of the log.
    pub fn start() -> io::Result<ApiServer> {
        let folder = tempfile::tempdir()?;
        let [client, peer, port] = free_ports()?;
        let mut server = ApiServer { folder, port, programs: Vec::new() };
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let data = server.path("etcd").display().to_string();
        let (client_url, peer_url) = (url(client), url(peer));
        let cluster = format!("default={peer_url}");
        server.spawn(
            "etcd",
            &[
                "--data-dir",
                &data,
                "--listen-client-urls",
                &client_url,
                "--advertise-client-urls",
                &client_url,
                "--listen-peer-urls",
                &peer_url,
                "--initial-advertise-peer-urls",
                &peer_url,
                "--initial-cluster",
                &cluster,
                "--unsafe-no-fsync",
            ],
        )?;
        server.make_key()?;
        fs::write(server.path("tokens.csv"), format!("{TOKEN},admin,1,\"system:masters\"\n"))?;
        let option = |name: &str, value: String| format!("--{name}={value}");
        let file = |server: &ApiServer, name: &str| server.path(name).display().to_string();
        let arguments = [
            option("etcd-servers", client_url.clone()),
            option("secure-port", port.to_string()),
            option("bind-address", Ipv4Addr::LOCALHOST.to_string()),
            option("cert-dir", file(&server, "certificates")),
            option("service-account-key-file", file(&server, "key")),
            option("service-account-signing-key-file", file(&server, "key")),
            option("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
            option("token-auth-file", file(&server, "tokens.csv")),
            option("authorization-mode", "RBAC".to_owned()),
            option("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
            option("disable-admission-plugins", "ServiceAccount".to_owned()),
        ];
        server.spawn("kube-apiserver", &arguments.each_ref().map(String::as_str))?;
        let begun = Instant::now();
        while server.ask("GET", "/readyz", "").is_none_or(|answer| answer.status != 200) {
            if begun.elapsed() > START_TIME {
                let log = fs::read_to_string(server.path("kube-apiserver.log")).unwrap_or_default();
                let end: Vec<&str> = log.lines().rev().take(5).collect();
                return Err(io::Error::other(format!("the API server is not ready: {end:?}")));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(server)
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Who may do everything.
    pub fn token(&self) -> &'static str {
        TOKEN
    }

    /// One request; `None` where there is no answer.
    pub fn ask(&self, method: &'static str, path: &str, body: &str) -> Option<Answer> {
        self.send(method, path, "application/json", body)
    }

    /// Asks for a change of an object by a strategic merge patch; `None` where there is no answer.
    pub fn patch(&self, path: &str, body: &str) -> Option<Answer> {
        self.send("PATCH", path, "application/strategic-merge-patch+json", body)
    }

    /// Makes the object that a manifest describes.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn make(&self, path: &str, manifest: &str) -> Answer {
        self.send("POST", path, "application/yaml", manifest).unwrap_or_else(|| panic!("{path} has no answer"))
    }

    fn send(&self, method: &'static str, path: &str, kind: &str, body: &str) -> Option<Answer> {
        let headers = vec![format!("Content-Type: {kind}")];
        let (url, body) = (format!("{}{path}", self.url()), body.to_owned());
        let identity = Identity::Token(TOKEN.to_owned());
        let request = Request { method, url, headers, body, identity, trust: Trust::Anything, socket: None };
        http::ask(&request, Duration::from_secs(20), &AtomicBool::new(false)).ok()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The key with which it signs what it hands to pods; nobody uses it here.
    fn make_key(&self) -> io::Result<()> {
        let made = Command::new("openssl")
            .args(["genrsa", "-out"])
            .arg(self.path("key"))
            .arg("2048")
            .stderr(Stdio::null())
            .status()?;
        if made.success() { Ok(()) } else { Err(io::Error::other("openssl makes no key")) }
    }

    fn spawn(&mut self, name: &str, arguments: &[&str]) -> io::Result<()> {
        let log = File::create(self.path(&format!("{name}.log")))?;
        let mut command = Command::new(tool(name));
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .current_dir(self.folder.path());
        surefoot_sys::children::kill_with_starter(&mut command);
        self.programs.push(command.spawn()?);
        Ok(())
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        for program in self.programs.iter_mut().rev() {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

fn tool(name: &str) -> PathBuf {
    place::tools().join("kubernetes").join(name)
}

//! A server of the remedies in a folder of its own, and a client.

use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use surefoot_controller::{Book, Config, Fleet, Listen};
use surefoot_testkit::not_run::not_run;

/// Longer than any of it takes, even where two cores do the work of ten.
const PATIENCE: Duration = Duration::from_secs(90);

/// As a server has it without being told.
pub const LEASE: Duration = Duration::from_secs(15);

/// What a server needs.
pub struct Setup {
    home: tempfile::TempDir,
    store: String,
    who: RefCell<Option<PathBuf>>,
}

impl Setup {
    pub fn new(policy: &str) -> Setup {
        let home = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", home.path().join("cases.sqlite").display());
        let setup = Setup { home, store, who: RefCell::default() };
        setup.policy(policy);
        setup
    }

    /// One whose policy runs a hook that notes each run; `None`, and said, where hooks cannot be trusted.
    pub fn with_hook(test: &str) -> Option<Setup> {
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            not_run(&format!("fleet::{test}"), "a hook must belong to root");
            return None;
        }
        let setup = Setup::new("");
        let runs = setup.home.path().join("runs");
        let script = format!(
            "#!/bin/sh\necho \"$SUREFOOT_HOST $SUREFOOT_FAULT $SUREFOOT_SUBJECT\" >> {0}\necho \"seen: $(tail -n 1 {0})\"\n",
            runs.display()
        );
        setup.file("hook", &script, 0o755);
        // Every folder above must be root's alone as well.
        std::fs::set_permissions(setup.home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        setup.policy(&setup.hook_policy("", true));
        Some(setup)
    }

    pub fn hook_policy(&self, limits: &str, approves: bool) -> String {
        let hook = format!("run:{}", self.home.path().join("hook").display());
        // The same hook twice: the first time as it is, the second by another name.
        let link = self.home.path().join("hook2");
        if !link.exists() {
            std::fs::copy(self.home.path().join("hook"), &link).unwrap();
        }
        let second = format!("run:{}", link.display());
        let approve = if approves { format!("approve = [\"{second}\"]\n") } else { String::new() };
        format!(
            "[[policy]]\nservice = \"web\"\nmatch = {{ room = \"memory\" }}\nsteps = [\"{hook}\", \"{second}\"]\n{limits}{approve}"
        )
    }

    /// Has both hooks tell whether they have run for a host; the tables that say so in a policy file.
    pub fn hooks_that_find(&self) -> String {
        let runs = self.home.path().join("runs");
        // The first hook of a host has run where there is a line, the second where there are two.
        let tables = [("hook", 1), ("hook2", 2)].map(|(name, count)| {
            let script = format!(
                "#!/bin/sh\nif [ \"$1\" = find ]; then [ \"$(grep -c \"^$SUREFOOT_HOST \" {0})\" -ge {count} ] && exit 0; exit 3; fi\n\
                 echo \"$SUREFOOT_HOST $SUREFOOT_FAULT $SUREFOOT_SUBJECT\" >> {0}\necho \"seen: $(tail -n 1 {0})\"\n",
                runs.display()
            );
            format!("[[hook]]\npath = \"{}\"\ncan_find = true\n", self.file(name, &script, 0o755).display())
        });
        tables.concat()
    }

    /// The file of its store.
    pub fn store_file(&self) -> PathBuf {
        self.home.path().join("cases.sqlite")
    }

    pub fn store(self, store: &str) -> Setup {
        Setup { store: store.to_owned(), ..self }
    }

    pub fn policy(&self, text: &str) {
        self.file("policy.toml", text, 0o644);
    }

    pub fn who(&self, text: &str) -> &Setup {
        *self.who.borrow_mut() = Some(self.file("who.toml", text, 0o600));
        self
    }

    pub fn secret(&self, name: &str, text: &str) -> PathBuf {
        self.file(name, text, 0o600)
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    pub fn config(&self) -> Config {
        Config {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            tls: None,
            who: self.who.borrow().clone(),
            book: Book::new(self.store.parse().unwrap(), None),
            policy: self.home.path().join("policy.toml"),
            name: "test".into(),
            own_host: "here".into(),
            machine: Default::default(),
            lease: LEASE,
            notifier: None,
            host_page: None,
            record: None,
        }
    }

    pub fn start(&self) -> Fleet {
        Fleet::start(self.config()).unwrap()
    }

    /// What the hook noted.
    pub fn runs(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.path().join("runs")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A client.
#[derive(Clone)]
pub struct Ask {
    pub address: SocketAddr,
    token: Option<String>,
}

impl Ask {
    pub fn of(fleet: &Fleet) -> Ask {
        let address = fleet.addresses().iter().find_map(|listen| match listen {
            Listen::Tcp(address) => Some(*address),
            Listen::Unix(_) => None,
        });
        Ask { address: address.unwrap(), token: None }
    }

    /// Of a server of somebody else on this machine.
    pub fn at(port: u16) -> Ask {
        Ask { address: SocketAddr::from(([127, 0, 0, 1], port)), token: None }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn with_token(self, token: &str) -> Ask {
        Ask { token: Some(token.to_owned()), ..self }
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "")
    }

    pub fn get_text(&self, path: &str) -> (u16, String) {
        self.raw(&self.request("GET", path, ""))
    }

    pub fn post(&self, path: &str, body: &str) -> (u16, Value) {
        self.ask("POST", path, body)
    }

    pub fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, text) = self.raw(&self.request(method, path, body));
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    fn request(&self, method: &str, path: &str, body: &str) -> String {
        let token = self.token.as_ref().map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{token}Content-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )
    }

    /// Status and body of the answer to these bytes.
    pub fn raw(&self, request: &str) -> (u16, String) {
        let mut client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        // One who is refused early may be cut off while it still sends.
        let _ = client.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, body.to_owned())
    }

    /// The story of a case as soon as it is so.
    pub fn until(&self, id: u64, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let (_, story) = self.get(&format!("/api/v1/cases/{id}"));
            if is_so(&story["case"]) {
                return story;
            }
            assert!(begun.elapsed() < PATIENCE, "case {id} is not {what}: {story}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A message of Alertmanager about a DIMM of a host, whose label of the subject would like to be a command.
pub fn webhook(host: &str, status: &str, number: u64) -> String {
    message(vec![one(host, status, &format!("{number:016x}"))])
}

/// The same about each of these hosts.
pub fn alerts_of(hosts: impl Iterator<Item = String>) -> String {
    let fingerprint = |host: &str| host.bytes().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    message(hosts.map(|host| one(&host, "firing", &fingerprint(&host))).collect())
}

fn one(host: &str, status: &str, fingerprint: &str) -> Value {
    json!({
        "status": status, "fingerprint": fingerprint, "generatorURL": "",
        "labels": {"alertname": "MemoryErrors", "host": host, "service": "web", "severity": "critical",
            "room": "memory", "rule": "rate", "subject": "$(reboot)"},
        "annotations": {"summary": "It has errors."},
        "startsAt": "2026-01-01T00:00:00Z", "endsAt": "0001-01-01T00:00:00Z",
    })
}

fn message(alerts: Vec<Value>) -> String {
    json!({
        "receiver": "surefoot", "status": "firing", "version": "4", "groupKey": "{}:{}", "truncatedAlerts": 0,
        "groupLabels": {}, "commonLabels": {}, "commonAnnotations": {}, "externalURL": "http://localhost:9093",
        "alerts": alerts,
    })
    .to_string()
}

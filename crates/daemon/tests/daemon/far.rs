//! Places beside 127.0.0.1: roles of certificates, tokens and users, by TLS and by a socket.

use crate::client::PATIENCE;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_daemon::{Config, Listen, Listening, Server, TlsFiles};
use surefoot_model::{Event, Notice};
use surefoot_testkit::certificates::{authority, can_be_made, curl, signed};
use surefoot_testkit::not_run::not_run;

const TOKEN: &str = "a-token-of-24-characters";

/// A folder with authorities and certificates.
struct Home(tempfile::TempDir);

impl Home {
    /// `None`, and said, without openssl and curl.
    fn new(test: &str) -> Option<Home> {
        if !can_be_made() {
            not_run(test, "openssl and curl are needed");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        authority(home.path(), "ca");
        authority(home.path(), "other");
        let of_ca = [("server", "host17"), ("prometheus", "prometheus"), ("anna", "anna")];
        for (authority, (name, common_name)) in
            of_ca.into_iter().map(|one| ("ca", one)).chain([("other", ("stranger", "anna"))])
        {
            signed(home.path(), authority, name, common_name, "");
        }
        Some(Home(home))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn tls(&self, has_authority: bool) -> TlsFiles {
        let at = |name: &str| self.path().join(name);
        let client_authority = has_authority.then(|| at("ca.pem"));
        TlsFiles { certificate: at("server.pem"), key: at("server.key"), client_authority }
    }

    fn listening(&self, roles: Option<&str>) -> Listening {
        let places = vec!["0.0.0.0:0".parse().unwrap()];
        let roles = roles.map(|text| self.file("roles", text));
        Listening { places, tls: Some(self.tls(true)), roles }
    }

    /// The status of curl's answer of the first place, which shows this.
    fn status(&self, server: &Server, path: &str, shown: &[&str]) -> u16 {
        let Listen::Tcp(address) = &server.places()[0] else { panic!("no address") };
        curl(self.path(), &format!("https://127.0.0.1:{}{path}", address.port()), shown, None).0
    }
}

fn start(listen: Listening) -> Server {
    Server::start(Config { listen, ..Config::default() }).unwrap()
}

/// Why a server does not start so, which [`Listening::check`] says beforehand.
fn why_not(listen: Listening) -> String {
    let said = listen.check().err().map(|error| error.to_string());
    let why = Server::start(Config { listen, ..Config::default() }).err().map(|error| error.to_string());
    assert_eq!(said, why);
    why.unwrap_or_default()
}

/// Live events as curl gets them.
struct Stream(Child);

impl Stream {
    fn open(home: &Home, server: &Server, shown: &[&str]) -> Stream {
        let Listen::Tcp(address) = &server.places()[0] else { panic!("no address") };
        let url = format!("https://127.0.0.1:{}/api/v1/events", address.port());
        let mut command = Command::new("curl");
        command.args(["-sN", "--cacert", "ca.pem"]).args(shown).arg(url).current_dir(home.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        Stream(child)
    }

    /// Whether it ends while things go on happening.
    fn ends(&mut self, server: &Server, patience: Duration) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            server.publish(Event::Notice(Notice { at_ns: 1, text: "It happened.".to_owned() }));
            if self.0.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PROMETHEUS: &[&str] = &["--cert", "prometheus.pem", "--key", "prometheus.key"];
const ANNA: &[&str] = &["--cert", "anna.pem", "--key", "anna.key"];
const STRANGER: &[&str] = &["--cert", "stranger.pem", "--key", "stranger.key"];

#[test]
fn without_roles_a_certificate_of_the_authority_shows_the_metrics_alone() {
    let Some(home) = Home::new("far::without_roles_a_certificate_of_the_authority_shows_the_metrics_alone") else {
        return;
    };
    let server = start(home.listening(None));
    let status = |path: &str, shown: &[&str]| home.status(&server, path, shown);
    assert_eq!(status("/metrics", PROMETHEUS), 200);
    // Behind any name, as the certificate says whose it is.
    assert_eq!(status("/metrics", &[PROMETHEUS, &["-H", "Host: host17.example"]].concat()), 200);
    for path in ["/", "/api/v1", "/api/v1/overview", "/api/v1/events", "/open?key=x", "/no-such", "/metrics/"] {
        assert_eq!(status(path, PROMETHEUS), 403, "{path}");
    }
    // Root of this machine is nobody here, nor is one of another authority; and nothing is said without TLS.
    assert_eq!((status("/metrics", &[]), status("/metrics", STRANGER)), (401, 0));
    let Listen::Tcp(address) = &server.places()[0] else { panic!("no address") };
    assert_eq!(curl(home.path(), &format!("http://127.0.0.1:{}/metrics", address.port()), PROMETHEUS, None).0, 0);
    // The page of another site, and a method that would change something.
    assert_eq!(status("/metrics", &[PROMETHEUS, &["-H", "Sec-Fetch-Site: cross-site"]].concat()), 403);
    assert_eq!(status("/metrics", &[PROMETHEUS, &["-X", "POST"]].concat()), 405);
    server.stop();
}

#[test]
fn roles_say_who_sees_what() {
    let Some(home) = Home::new("far::roles_say_who_sees_what") else { return };
    let token = home.file("token", TOKEN);
    let roles = format!(
        "[[who]]\nname = \"grafana\"\nroles = [\"page\"]\ntoken_file = \"{}\"\n\
         [[who]]\nname = \"anna\"\nroles = [\"all\"]\ncertificate = \"anna\"\n\
         [[who]]\nname = \"scraper\"\nroles = [\"metrics\"]\ncertificate = \"prometheus\"\n",
        token.display()
    );
    let socket = home.path().join("s");
    let mut listening = home.listening(Some(&roles));
    listening.places.push(Listen::Unix(socket.clone()));
    let server = start(listening);
    let status = |path: &str, shown: &[&str]| home.status(&server, path, shown);
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let (by_token, by_password): (&[&str], &[&str]) = (&["-H", &bearer], &["-u", &format!("x:{TOKEN}")]);
    assert_eq!((status("/metrics", PROMETHEUS), status("/", PROMETHEUS)), (200, 403));
    assert_eq!((status("/", by_token), status("/", by_password), status("/metrics", by_token)), (200, 200, 200));
    assert_eq!(status("/", &["-u", "x:another-of-24-characters"]), 401);
    let sees_all = |shown: &[&str]| {
        let Listen::Tcp(address) = &server.places()[0] else { panic!("no address") };
        let url = format!("https://127.0.0.1:{}/api/v1/overview", address.port());
        let (status, body) = curl(home.path(), &url, shown, None);
        assert_eq!(status, 200, "{body}");
        let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
        answer["access"]["sees_all"].as_bool().unwrap()
    };
    assert!(sees_all(ANNA) && !sees_all(by_token));
    // A key for browsers of this machine lets nobody in here.
    assert_eq!(status("/open?key=x", ANNA), 404);
    // Over the socket the kernel says who asks: this user sees everything, another one nothing.
    let of_socket = |words: &[&str]| {
        let words = [words, &["--unix-socket", socket.to_str().unwrap()]].concat();
        curl(home.path(), "http://localhost/api/v1/overview", &words, None).0
    };
    assert_eq!(of_socket(&[]), 200);
    assert_eq!(of_socket(&["-H", "Authorization: Bearer wrong-and-24-characters"]), 401);
    // A token that was taken back, and a file of roles that was changed.
    home.file("token", "another-of-24-characters");
    assert_eq!(status("/", by_token), 401);
    let reloader = server.reloader();
    let settings = || surefoot_settings::Effective::of(None, &[], &[]);
    home.file("roles", &roles.replace("\"all\"", "\"metrics\""));
    reloader.reload(settings());
    assert_eq!((status("/", ANNA), status("/metrics", ANNA)), (403, 200));
    home.file("roles", "[[who]]\nname = \"x\"\nroles = [\"root\"]\n");
    server.take_notices();
    reloader.reload(settings());
    let notices = server.take_notices();
    assert!(notices.iter().any(|notice| notice.text.contains("unknown variant `root`")), "{notices:?}");
    assert_eq!((status("/", ANNA), status("/metrics", ANNA)), (403, 200), "as it was read last");
    server.stop();
    assert!(!socket.exists());
}

#[test]
fn a_renewed_certificate_is_shown_after_a_reload() {
    let Some(home) = Home::new("far::a_renewed_certificate_is_shown_after_a_reload") else { return };
    let server = start(home.listening(None));
    let reloader = server.reloader();
    let by_other = [PROMETHEUS, &["--cacert", "other.pem"]].concat();
    let statuses = || (home.status(&server, "/metrics", PROMETHEUS), home.status(&server, "/metrics", &by_other));
    signed(home.path(), "other", "renewed", "host17", "");
    fs::rename(home.path().join("renewed.key"), home.path().join("server.key")).unwrap();
    server.take_notices();
    reloader.reload(surefoot_settings::Effective::of(None, &[], &[]));
    let notices = server.take_notices();
    assert!(notices.iter().any(|notice| notice.text.contains("the certificate from before is shown")), "{notices:?}");
    assert_eq!(statuses(), (200, 0));
    fs::rename(home.path().join("renewed.pem"), home.path().join("server.pem")).unwrap();
    reloader.reload(surefoot_settings::Effective::of(None, &[], &[]));
    assert_eq!(statuses(), (0, 200));
    server.stop();
}

#[test]
fn live_events_end_with_the_right_to_see_them() {
    let Some(home) = Home::new("far::live_events_end_with_the_right_to_see_them") else { return };
    let token = home.file("token", TOKEN);
    let roles = format!(
        "[[who]]\nname = \"operators\"\nroles = [\"all\"]\ntoken_file = \"{}\"\n\
         [[who]]\nname = \"anna\"\nroles = [\"all\"]\ncertificate = \"anna\"\n\
         [[who]]\nname = \"prometheus\"\nroles = [\"page\"]\ncertificate = \"prometheus\"\n",
        token.display()
    );
    let server = start(home.listening(Some(&roles)));
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let mut by_token = Stream::open(&home, &server, &["-H", &bearer]);
    let (mut anna, mut prometheus) = (Stream::open(&home, &server, ANNA), Stream::open(&home, &server, PROMETHEUS));
    assert!(!anna.ends(&server, Duration::from_secs(3)), "a right that lasts");
    fs::remove_file(&token).unwrap();
    assert!(by_token.ends(&server, PATIENCE), "a token that was deleted");
    let reloader = server.reloader();
    let reload = || reloader.reload(surefoot_settings::Effective::of(None, &[], &[]));
    home.file("roles", &roles.replace("[\"page\"]", "[\"metrics\"]"));
    reload();
    assert!(prometheus.ends(&server, PATIENCE), "a role that does not show them");
    assert!(!anna.ends(&server, Duration::from_secs(2)), "a right that lasts");
    // The connection was made while the authority was trusted.
    fs::copy(home.path().join("other.pem"), home.path().join("ca.pem")).unwrap();
    reload();
    assert!(anna.ends(&server, PATIENCE), "a certificate of an authority that was replaced");
    server.stop();
}

#[test]
fn a_reload_says_what_changed_and_waits_for_no_file() {
    let Some(home) = Home::new("far::a_reload_says_what_changed_and_waits_for_no_file") else { return };
    let roles = "[[who]]\nname = \"anna\"\nroles = [\"all\"]\ncertificate = \"anna\"\n";
    let server = start(home.listening(Some(roles)));
    let told = || {
        server.take_notices();
        let reloader = server.reloader();
        let done = std::thread::spawn(move || drop(reloader.reload(surefoot_settings::Effective::of(None, &[], &[]))));
        let begun = Instant::now();
        while !done.is_finished() {
            assert!(begun.elapsed() < PATIENCE, "it waits");
            std::thread::sleep(Duration::from_millis(20));
        }
        server.take_notices().into_iter().map(|notice| notice.text).collect::<Vec<_>>().join("|")
    };
    assert_eq!(told(), "The settings were read again; nothing that is in use changed.");
    home.file("roles", &roles.replace("anna", "prometheus"));
    let path = home.path().join("roles").display().to_string();
    assert_eq!(told(), format!("The roles at --listen changed; {path} has 1 entry."));
    home.file("roles", "");
    let none = "no entry: only root and the user of this server have rights";
    assert_eq!(told(), format!("The roles at --listen changed; {path} has {none}."));
    fs::copy(home.path().join("other.pem"), home.path().join("ca.pem")).unwrap();
    assert_eq!(told(), "The certificate or the clients' authority of --listen changed.");
    // Whoever can change this file lets in whom he likes.
    fs::set_permissions(home.path().join("ca.pem"), fs::Permissions::from_mode(0o666)).unwrap();
    let open = told();
    assert!(open.contains("ca.pem") && open.contains("other users can write"), "{open}");
    fs::set_permissions(home.path().join("ca.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(home.path().join("server.pem")).unwrap();
    assert!(Command::new("mkfifo").arg(home.path().join("server.pem")).status().unwrap().success());
    let fifo = told();
    assert!(fifo.contains("server.pem: it is not a regular file but a FIFO"), "{fifo}");
    server.stop();
}

#[test]
fn who_is_turned_away_is_counted_from_the_start() {
    let Some(home) = Home::new("far::who_is_turned_away_is_counted_from_the_start") else { return };
    let server = start(home.listening(None));
    let counts = || {
        let Listen::Tcp(address) = &server.places()[0] else { panic!("no address") };
        let url = format!("https://127.0.0.1:{}/metrics", address.port());
        let text = curl(home.path(), &url, PROMETHEUS, None).1;
        let of = |why: &str| {
            let name = format!("surefoot_watch_listen_refused_total{{why=\"{why}\"}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(name.as_str()));
            line.unwrap_or_else(|| panic!("{why}: {text}")).parse::<u64>().unwrap()
        };
        ["no_place", "handshake", "unknown", "role", "rate"].map(of)
    };
    assert_eq!(counts(), [0; 5]);
    home.status(&server, "/metrics", STRANGER);
    home.status(&server, "/metrics", &[]);
    home.status(&server, "/", PROMETHEUS);
    assert_eq!(counts(), [0, 1, 1, 1, 0]);
    server.stop();
}

#[test]
fn a_place_that_would_be_open_or_let_nobody_in_is_refused() {
    let Some(home) = Home::new("far::a_place_that_would_be_open_or_let_nobody_in_is_refused") else { return };
    let listening = home.listening(None);
    let open = why_not(Listening { tls: None, ..listening.clone() });
    assert!(open.contains("--listen 0.0.0.0:0: only TLS is spoken over the network"), "{open}");
    let shut = why_not(Listening { tls: Some(home.tls(false)), ..listening.clone() });
    assert!(shut.contains("no client would be let in by TLS"), "{shut}");
    let near = Listening { places: vec!["127.0.0.1:0".parse().unwrap()], ..listening.clone() };
    let shut = why_not(Listening { tls: Some(home.tls(false)), ..near });
    assert!(shut.contains("no client would be let in by TLS"), "{shut}");
    let of_users = home.file("roles", "[[who]]\nname = \"x\"\nroles = [\"all\"]\nuid = 1\n");
    let shut = why_not(Listening { roles: Some(of_users), ..listening.clone() });
    assert!(shut.contains("no client would be let in by TLS"), "{shut}");
    let roles = home.file("roles", "[[who]]\nname = \"x\"\nroles = [\"all\"]\ncertificate = \"*\"\n");
    fs::set_permissions(&roles, fs::Permissions::from_mode(0o666)).unwrap();
    let unsafe_file = why_not(Listening { roles: Some(roles), ..listening.clone() });
    assert!(unsafe_file.contains("roles"), "{unsafe_file}");
    fs::set_permissions(home.path().join("server.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let key = why_not(listening);
    assert!(key.contains("server.key") && key.contains("any user can read"), "{key}");
}

//! A small server of `rustls`, with certificates that openssl makes.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::http::{Answer, NoAnswer, Request, ask_up_to};
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection};
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_testkit::not_run::not_run;

fn openssl(folder: &Path, words: &str) -> bool {
    let done = Command::new("openssl").args(words.split(' ')).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&done.stderr));
    true
}

/// A certificate and its key, signed by itself or by `signer`.
fn certificate(folder: &Path, name: &str, extensions: &str, days: i32, signer: Option<&str>) {
    let key = format!("-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.csr");
    openssl(folder, &format!("req {key} -subj /CN={name}"));
    std::fs::write(folder.join("extensions"), extensions).unwrap();
    let by =
        signer.map_or(format!("-signkey {name}.key"), |by| format!("-CA {by}.pem -CAkey {by}.key -CAcreateserial"));
    openssl(folder, &format!("x509 -req -in {name}.csr {by} -days {days} -extfile extensions -out {name}.pem"));
}

const HERE: &str = "subjectAltName=IP:127.0.0.1\n";
const AUTHORITY: &str = "basicConstraints=critical,CA:TRUE\n";

struct Certificates(tempfile::TempDir);

impl Certificates {
    /// `None` where there is no openssl.
    fn make(test: &'static str) -> Option<Certificates> {
        if Command::new("openssl").arg("version").output().is_err() {
            not_run(test, "openssl is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let own = |extensions: &str| format!("{HERE}{extensions}");
        certificate(folder.path(), "ca", AUTHORITY, 2, None);
        certificate(folder.path(), "other", AUTHORITY, 2, None);
        certificate(folder.path(), "server", HERE, 2, Some("ca"));
        certificate(folder.path(), "elsewhere", "subjectAltName=DNS:elsewhere.example\n", 2, Some("ca"));
        certificate(folder.path(), "old", HERE, -1, Some("ca"));
        certificate(folder.path(), "itself", &own(AUTHORITY), 2, None);
        certificate(folder.path(), "itself-old", &own(AUTHORITY), -1, None);
        certificate(folder.path(), "itself-elsewhere", &format!("{AUTHORITY}subjectAltName=DNS:b.example\n"), 2, None);
        certificate(folder.path(), "client", "basicConstraints=CA:FALSE\n", 2, Some("ca"));
        Some(Certificates(folder))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Answers once, to a client with a certificate of `ca` if `clients`; gives the answer back that the client saw.
    fn ask(&self, server: &str, answer: &'static str, clients: bool, request: Request) -> Result<Answer, NoAnswer> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = match clients {
            false => builder.unwrap().with_no_client_auth(),
            true => {
                let mut roots = RootCertStore::empty();
                roots.add(certificates(&self.path("ca.pem")).unwrap().remove(0)).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                builder.unwrap().with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_file(self.path(&format!("{server}.key"))).unwrap();
        let chain = certificates(&self.path(&format!("{server}.pem"))).unwrap();
        let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.flush();
            // No close_notify, as whoever cuts a connection sends none.
        });
        let request = Request { method: "GET", url, ..request };
        let said = ask_up_to(100, &request, Duration::from_secs(20), &AtomicBool::new(false));
        serving.join().unwrap();
        said
    }

    fn trusting(&self, signer: &str) -> Request {
        Request { trust: Trust::Signer(self.path(&format!("{signer}.pem"))), ..Request::default() }
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

#[test]
fn a_server_is_known_by_its_signer_its_name_and_its_time() {
    let Some(made) = Certificates::make("a_server_is_known_by_its_signer_its_name_and_its_time") else { return };
    let ask = |server: &str, signer: &str| {
        let said = made.ask(server, OK, false, made.trusting(signer));
        said.map(|answer| answer.body).map_err(|why| why.to_string())
    };
    assert_eq!(ask("server", "ca").as_deref(), Ok("{}"));
    for (server, signer, why) in [
        ("server", "other", "not signed by a trusted authority"),
        ("elsewhere", "ca", "is for another name"),
        ("old", "ca", "has expired"),
        // Signed by itself and named by the file, as those of management controllers.
        ("itself", "ca", "self-signed"),
        ("itself-old", "itself-old", "has expired"),
        ("itself-elsewhere", "itself-elsewhere", "is for another name"),
        ("server", "missing", "No such file"),
    ] {
        let said = ask(server, signer).unwrap_err();
        assert!(said.starts_with("no answer: ") && said.contains(why), "{server} by {signer}: {said}");
    }
    assert_eq!(ask("itself", "itself").as_deref(), Ok("{}"));
    assert!(made.ask("server", OK, false, Request::default()).is_err(), "the system does not trust this authority");
    let anything = || Request { trust: Trust::Anything, ..Request::default() };
    for server in ["server", "old", "elsewhere", "itself"] {
        assert_eq!(made.ask(server, OK, false, anything()).unwrap().body, "{}");
    }
}

#[test]
fn a_client_shows_its_certificate() {
    let Some(made) = Certificates::make("a_client_shows_its_certificate") else { return };
    let identity = Identity::Certificate(made.path("client.pem"), made.path("client.key"));
    let request = Request { identity, ..made.trusting("ca") };
    assert_eq!(made.ask("server", OK, true, request).unwrap().body, "{}");
    assert!(made.ask("server", OK, true, made.trusting("ca")).is_err());
}

#[test]
fn an_answer_without_a_length_ends_with_close_notify_and_no_other_way() {
    let Some(made) = Certificates::make("an_answer_without_a_length_ends_with_close_notify_and_no_other_way") else {
        return;
    };
    let said = made.ask("server", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", false, made.trusting("ca"));
    assert!(matches!(&said, Err(NoAnswer::Unreadable(why)) if why.contains("close_notify")), "{said:?}");
}

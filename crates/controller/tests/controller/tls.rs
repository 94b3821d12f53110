//! TLS with certificates of clients, made by openssl and shown by curl.

use crate::remedies::{Setup, webhook};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use surefoot_controller::{Config, Fleet, Listen, TlsFiles};
use surefoot_testkit::certificates::{self, authority, signed};
use surefoot_testkit::not_run::not_run;

fn curl(folder: &Path, url: &str, shown: &[&str], body: Option<&str>) -> (u16, Value) {
    let (status, body) = certificates::curl(folder, url, shown, body);
    (status, serde_json::from_str(&body).unwrap_or_default())
}

#[test]
fn over_the_network_certificates_and_tokens_say_who_asks() {
    if !certificates::can_be_made() {
        return not_run("tls::over_the_network_certificates_and_tokens_say_who_asks", "openssl and curl are needed");
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    authority(folder, "ca");
    authority(folder, "other");
    for (of, name, common_name) in
        [("ca", "server", "surefoot"), ("ca", "anna", "anna"), ("ca", "node1", "Node1"), ("other", "stranger", "anna")]
    {
        signed(folder, of, name, common_name, "");
    }
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\", \"return\"]\n");
    let token = setup.secret("token", "alertmanager-0123456789");
    let agents = "[[who]]\nname = \"agents\"\nroles = [\"agent\"]\ncertificate = \"*\"\n";
    let anna = "[[who]]\nname = \"anna\"\nroles = [\"operate\"]\ncertificate = \"anna\"\n";
    let am = format!("[[who]]\nname = \"am\"\nroles = [\"report\"]\ntoken_file = \"{}\"\n", token.display());
    setup.who(&format!("{agents}{anna}{am}"));
    let tls = |authority: Option<&str>| TlsFiles {
        certificate: folder.join("server.pem"),
        key: folder.join("server.key"),
        client_authority: authority.map(|name| folder.join(name)),
    };
    let config =
        || Config { listen: vec!["0.0.0.0:0".parse().unwrap()], tls: Some(tls(Some("ca.pem"))), ..setup.config() };
    let fleet = Fleet::start(config()).unwrap();
    let Listen::Tcp(address) = &fleet.addresses()[0] else { panic!() };
    let url = |path: &str| format!("https://127.0.0.1:{}{path}", address.port());
    let ask = |path: &str, shown: &[&str], body: Option<&str>| curl(folder, &url(path), shown, body);
    let (anna, node): (&[&str], &[&str]) =
        (&["--cert", "anna.pem", "--key", "anna.key"], &["--cert", "node1.pem", "--key", "node1.key"]);
    let bearer: &[&str] = &["-H", "Authorization: Bearer alertmanager-0123456789"];
    // A browser is asked for a token on its way to the page, and shows it so; a wrong one shows nothing.
    assert_eq!(ask("/", &["-u", "x:alertmanager-0123456789"], None).0, 200);
    assert_eq!(ask("/", &["-u", "x:wrong-0123456789abcdef"], None).0, 401);
    assert_eq!(
        ask("/api/v1/alertmanager", &["-u", ":alertmanager-0123456789"], Some(&webhook("node1", "resolved", 1))).0,
        200
    );
    let head =
        Command::new("curl").args(["-sI", "--cacert", "ca.pem", &url("/")]).current_dir(folder).output().unwrap();
    let head = String::from_utf8_lossy(&head.stdout).to_ascii_lowercase();
    assert!(head.contains("www-authenticate: basic realm") && head.contains("www-authenticate: bearer"), "{head}");
    // Root on this machine is nobody over the network.
    assert_eq!(ask("/api/v1/cases", &[], None).0, 401);
    assert_eq!(ask("/api/v1/cases", anna, None).0, 200);
    assert_eq!(ask("/api/v1/cases/1/approve", anna, Some("{}")).0, 403);
    assert_eq!(ask("/api/v1/alertmanager", bearer, Some(&webhook("node1", "firing", 1))).0, 200);
    assert_eq!(ask("/api/v1/alertmanager", anna, Some(&webhook("node1", "firing", 1))).0, 403);
    let findings = |host: &str| json!({"host": host, "findings": []}).to_string();
    assert_eq!(ask("/api/v1/findings", node, Some(&findings("node1"))).0, 200);
    assert_eq!(ask("/api/v1/findings", node, Some(&findings("node2"))).0, 403);
    assert_eq!(
        ask("/api/v1/cases", &["--cert", "stranger.pem", "--key", "stranger.key"], None).0,
        0,
        "of another authority"
    );
    // Without TLS there is no answer at all.
    assert_eq!(curl(folder, &url("/api/v1/cases").replace("https", "http"), &[], None).0, 0);
    // A certificate that was renewed is shown from the next reload on; one that cannot be read leaves the one before.
    signed(folder, "other", "renewed", "surefoot", "");
    let other: &[&str] = &["--cert", "anna.pem", "--key", "anna.key", "--cacert", "other.pem"];
    assert!(fleet.files().contains(&folder.join("server.pem")));
    std::fs::rename(folder.join("renewed.key"), folder.join("server.key")).unwrap();
    let why = fleet.reload().unwrap_err().to_string();
    assert!(why.contains("server.pem") && why.contains("the certificate from before is shown"), "{why}");
    assert_eq!((ask("/api/v1/cases", anna, None).0, ask("/api/v1/cases", other, None).0), (200, 0));
    std::fs::rename(folder.join("renewed.pem"), folder.join("server.pem")).unwrap();
    fleet.reload().unwrap();
    assert_eq!((ask("/api/v1/cases", anna, None).0, ask("/api/v1/cases", other, None).0), (0, 200));
    drop(fleet);
    // What cannot be used is said.
    std::fs::write(folder.join("poem"), "a poem").unwrap();
    let error = |tls: Option<TlsFiles>| Fleet::start(Config { tls, ..config() }).err().unwrap().to_string();
    assert!(error(None).contains("only TLS is spoken"));
    assert!(error(Some(tls(Some("poem")))).contains("no certificate"));
    assert!(error(Some(tls(Some("none")))).contains("none"));
    let wrong_key = TlsFiles { key: folder.join("anna.key"), ..tls(None) };
    assert!(error(Some(wrong_key)).contains("server.pem"));
    let nobody = Fleet::start(Config { who: None, ..config() }).err().unwrap().to_string();
    assert!(nobody.contains("no network client would have any role"), "{nobody}");
}

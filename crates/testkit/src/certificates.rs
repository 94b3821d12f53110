//! Authorities and certificates that openssl makes, and curl, which shows them.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Stdio};

/// Whether there are openssl and curl.
pub fn can_be_made() -> bool {
    ["openssl", "curl"].iter().all(|program| Command::new(program).arg("version").output().is_ok())
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

/// The authority NAME.pem with its key, NAME.key, in a folder.
pub fn authority(folder: &Path, name: &str) {
    openssl(folder, &format!("req -x509 {KEY} -days 2 -subj /CN=authority -keyout {name}.key -out {name}.pem"));
}

/// The certificate NAME.pem that an authority signed, with its key, NAME.key. It is of 127.0.0.1, localhost and `also`, which is written
/// as openssl writes names: `,IP:192.0.2.1`.
pub fn signed(folder: &Path, authority: &str, name: &str, common_name: &str, also: &str) {
    std::fs::write(folder.join("names"), format!("subjectAltName=IP:127.0.0.1,DNS:localhost{also}\n")).unwrap();
    openssl(folder, &format!("req {KEY} -keyout {name}.key -out {name}.csr -subj /O=Surefoot/CN={common_name}"));
    let by = format!("-CA {authority}.pem -CAkey {authority}.key -CAcreateserial");
    openssl(folder, &format!("x509 -req -in {name}.csr {by} -days 2 -extfile names -out {name}.pem"));
}

fn openssl(folder: &Path, words: &str) {
    let done = Command::new("openssl").args(words.split(' ')).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Status and body of an answer that curl gets; status 0 where there is none. It trusts ca.pem of the folder.
pub fn curl(folder: &Path, url: &str, shown: &[&str], body: Option<&str>) -> (u16, String) {
    let mut command = Command::new("curl");
    command.args("-s --max-time 60 --cacert ca.pem -w".split(' ')).arg("\n%{http_code}");
    command.args(["-H", "Content-Type: application/json"]).args(shown).current_dir(folder);
    if let Some(body) = body {
        command.args(["--data-raw", body]);
    }
    let output = command.arg(url).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}

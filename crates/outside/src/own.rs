//! Surefoot's own servers, asked over HTTP: who may be asked, and as whom.
//!
//! On this machine a server is asked with a secret, or obeyed, only where it is a process of root or of this user: whoever took its port
//! while it is not running would be shown the secret, or obeyed.

use crate::address::shown;
use crate::http::{self, Identity, NoAnswer, Trust};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_hostfs::privilege::effective_user;
use surefoot_hostfs::{Root, listening};
use surefoot_sys::peer;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer: a case with its whole trail.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Why a server of ours was not asked, or gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It must not be asked, or not so.
    #[error("{0}")]
    Refused(String),
    /// It does not answer.
    #[error("{at}: {why}; is `surefoot remedy serve` running there? Name it with --server, or its store with --store")]
    Unreachable {
        /// Where it should be.
        at: String,
        /// Why.
        why: NoAnswer,
    },
    /// Its answer is a refusal, or another server's.
    #[error("{0}")]
    Answer(String),
    /// Its answer is JSON of another version.
    #[error("{at}: the answer is not one of this version")]
    OtherVersion {
        /// Where it is.
        at: String,
        /// The first difference.
        source: serde_json::Error,
    },
    /// What was to be sent cannot be written as JSON.
    #[error("{0}")]
    Body(#[source] serde_json::Error),
}

fn json(body: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(body).map_err(Error::Body)
}

/// Refuses a server of another user who is not root, and one that is not of this machine and shows no certificate.
fn check(base: &str, socket: Option<&Path>) -> Result<(), Error> {
    if let Some(path) = socket {
        // That nobody is there is told by whoever asks.
        let Ok(stream) = UnixStream::connect(path) else { return Ok(()) };
        let of = peer::credentials(stream.as_fd())
            .ok_or_else(|| Error::Refused("the kernel does not say who listens there".into()))?;
        return is_trusted(of.uid, &format!("unix:{}", path.display()));
    }
    if !base.starts_with("http://") {
        return Ok(());
    }
    let Some((host, port)) = listening::loopback(base) else {
        return Err(Error::Refused(format!("{base}: http:// can be intercepted on the way; use https:// or unix:")));
    };
    let owners = listening::owners(&Root::host(), host, port).map_err(|error| {
        Error::Refused(format!("{base}: who listens there is unknown: {error}; ask by unix: or https://"))
    })?;
    owners.into_iter().try_for_each(|uid| is_trusted(uid, base))
}

fn is_trusted(uid: u32, place: &str) -> Result<(), Error> {
    if uid == 0 || uid == effective_user() {
        return Ok(());
    }
    Err(Error::Refused(format!("{place} belongs to user {uid}, who is neither you nor root: refused")))
}

/// Whether an address without a scheme is a port of this machine.
fn is_here(address: &str) -> bool {
    let has_port = address.parse::<SocketAddr>().is_ok() || address.starts_with("localhost:");
    has_port && listening::loopback(&format!("http://{address}")).is_some()
}

/// Whether the connection to a URL is private: to this machine itself, or by TLS.
pub fn is_private(url: &str) -> bool {
    !url.starts_with("http://") || listening::loopback(url).is_some()
}

/// A server that is asked over HTTP.
pub struct Server {
    base: String,
    socket: Option<PathBuf>,
    identity: Identity,
    trust: Trust,
    /// Whether its answers are obeyed.
    is_obeyed: bool,
}

impl Server {
    /// The server at `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`, or on this machine at `127.0.0.1:PORT`, as whom it is asked, and the authority that signed its
    /// certificate if that is not one of the system's.
    ///
    /// # Errors
    /// [`Error::Refused`] for another address, and where a secret would go over the network in the clear.
    pub fn new(address: &str, identity: Identity, authority: Option<PathBuf>) -> Result<Server, Error> {
        let address = address.trim_end_matches('/');
        let (base, socket) = match address.strip_prefix("unix:") {
            Some(path) => ("http://localhost".to_owned(), Some(PathBuf::from(path))),
            // As where a server listens.
            None if is_here(address) => (format!("http://{address}"), None),
            None => (address.to_owned(), None),
        };
        let refused = |why: &str| Err(Error::Refused(format!("--server {}: {why}", shown(address))));
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return refused("write http://127.0.0.1:PORT, https://HOST:PORT or unix:PATH");
        }
        if !is_private(&base) && socket.is_none() && identity != Identity::None {
            return refused("a token would go over the network in the clear; write https://");
        }
        let trust = authority.map_or(Trust::System, Trust::Signer);
        Ok(Server { base, socket, identity, trust, is_obeyed: false })
    }

    /// One whose answers are obeyed: on this machine it must be a process of root or of this user, elsewhere it must show a certificate.
    ///
    /// # Errors
    /// [`Error::Refused`] for `http://` over the network.
    pub fn obeyed(self) -> Result<Server, Error> {
        if self.socket.is_none() && !is_private(&self.base) {
            return Err(Error::Refused(format!(
                "--server {}: http:// can be intercepted on the way, and orders forged; use https://",
                self.base
            )));
        }
        Ok(Server { is_obeyed: true, ..self })
    }

    /// The answer to a GET of this path.
    ///
    /// # Errors
    /// [`Error`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.ask("GET", path, String::new())
    }

    /// The answer to a POST of this body as JSON.
    ///
    /// # Errors
    /// [`Error`].
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.ask("POST", path, json(body)?)
    }

    /// Whether the server accepted it; `false` where it answers that the subject does not exist, or is past this (404 and 409).
    ///
    /// # Errors
    /// [`Error`], for every other answer that is no success.
    pub fn post_or_refused(&self, path: &str, body: &impl Serialize) -> Result<bool, Error> {
        let answer = self.answer("POST", path, json(body)?)?;
        // A proxy that knows no such path says 404, too, and nothing of what this is about.
        let is_its_own = || answer.json().is_ok_and(|said| said["error"].is_string());
        if matches!(answer.status, 404 | 409) && is_its_own() {
            return Ok(false);
        }
        self.taken::<serde_json::Value>(&answer).map(|_| true)
    }

    fn ask<T: DeserializeOwned>(&self, method: &'static str, path: &str, body: String) -> Result<T, Error> {
        self.taken(&self.answer(method, path, body)?)
    }

    /// Where the server is, for messages.
    fn at(&self) -> String {
        match &self.socket {
            Some(socket) => format!("unix:{}", socket.display()),
            None => shown(&self.base),
        }
    }

    fn answer(&self, method: &'static str, path: &str, body: String) -> Result<http::Answer, Error> {
        let request = http::Request {
            method,
            url: format!("{}{path}", self.base),
            headers: vec!["Content-Type: application/json".into()],
            body,
            identity: self.identity.clone(),
            trust: self.trust.clone(),
            socket: self.socket.clone(),
        };
        let at = self.at();
        let has_secret = self.identity != Identity::None;
        if has_secret || self.is_obeyed {
            check(&self.base, self.socket.as_deref())?;
        }
        let answer = http::ask_up_to(ANSWER_BYTES_MAX, &request, PATIENCE, &AtomicBool::new(false));
        let answer = answer.map_err(|why| Error::Unreachable { at, why })?;
        if self.is_obeyed {
            // Another one may have taken the place meanwhile.
            check(&self.base, self.socket.as_deref())?;
        }
        Ok(answer)
    }

    fn taken<T: DeserializeOwned>(&self, answer: &http::Answer) -> Result<T, Error> {
        let at = self.at();
        if !answer.is_success() {
            let said = answer.json().unwrap_or_default();
            let why = said["error"].as_str().unwrap_or("it gave no reason");
            return Err(Error::Answer(format!("{at}: {why} ({})", answer.status_text())));
        }
        if answer.is_web_page() {
            return Err(Error::Answer(format!(
                "{at}: it answers with a web page: a login page or a proxy is in its place"
            )));
        }
        serde_json::from_str(&answer.body).map_err(|source| Error::OtherVersion { at, source })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn without_a_certificate_only_this_machine_is_asked() {
        for other in ["https://127.0.0.1:7078", "http://example.org:7078", "http://127.0.0.2:7078"] {
            assert_eq!(check(other, None).is_ok(), other.starts_with("https://"), "{other}");
        }
        let secret = || Identity::Token("secret".into());
        let why = Server::new("http://example.org:7078", secret(), None).err().unwrap().to_string();
        assert!(why.contains("in the clear"), "{why}");
        for private in ["http://127.0.0.1:7078/", "https://example.org", "unix:/run/x"] {
            Server::new(private, secret(), None).unwrap().obeyed().unwrap();
        }
        // As `--listen` takes it.
        for (written, base) in [
            ("127.0.0.1:7078", "http://127.0.0.1:7078"),
            ("[::1]:1/", "http://[::1]:1"),
            ("localhost:5", "http://localhost:5"),
        ] {
            assert_eq!(Server::new(written, secret(), None).unwrap().base, base);
        }
        for other in ["127.0.0.1", "localhost:x", "127.0.0.2:7078", "example.org:7078", "7078", ""] {
            assert!(Server::new(other, Identity::None, None).err().unwrap().to_string().contains("write "), "{other}");
        }
        let clear = Server::new("http://example.org:7078", Identity::None, None).unwrap();
        assert!(clear.obeyed().is_err(), "orders would be forged on the way");
    }

    #[test]
    fn an_own_server_is_believed_and_that_of_a_stranger_is_not() {
        let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        check(&format!("http://{}", own.local_addr().unwrap()), None).unwrap();
        let why = is_trusted(effective_user().wrapping_add(1), "http://127.0.0.1:7078").unwrap_err().to_string();
        assert!(why.contains("who is neither you nor root"), "{why}");
    }
}

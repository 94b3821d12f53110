//! The transport: `ureq` over TCP or a Unix socket.

use super::{Answer, Identity, NoAnswer, Request, body, socket, tls};
use crate::address::shown;
use base64::Engine;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use surefoot_foreign::said;
use surefoot_model::Digits;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};
use ureq::{Agent, http};

/// The longest head of an answer; one with more than 128 lines is refused as well.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How often a caller's wish to stop is looked at.
const STOP_PERIOD: Duration = Duration::from_millis(20);

/// Sends each of these once, those with the same identity, trust and socket over one connection to each service. There are as many
/// answers as requests.
pub(super) fn ask(
    bytes_max: u64,
    requests: &[Request],
    patience: Duration,
    stop: &AtomicBool,
) -> Vec<Result<Answer, NoAnswer>> {
    let begun = Instant::now();
    let mut answers = Vec::new();
    for alike in requests.chunk_by(is_alike) {
        let agent = agent(&alike[0], patience, None);
        let left = patience.saturating_sub(begun.elapsed());
        let asked = agent.and_then(|agent| ask_alike(bytes_max, &agent, alike, left, stop));
        answers.extend(asked.unwrap_or_else(|why| alike.iter().map(|_| Err(NoAnswer::Away(why.clone()))).collect()));
    }
    answers
}

/// Sends a request over this connection.
pub(super) fn ask_over(
    stream: UnixStream,
    bytes_max: u64,
    request: &Request,
    patience: Duration,
) -> Result<Answer, NoAnswer> {
    let agent = agent(request, patience, Some(stream)).map_err(NoAnswer::Away)?;
    ask_one(&agent, request, bytes_max, false)
}

fn is_alike(one: &Request, other: &Request) -> bool {
    (&one.identity, &one.trust, &one.socket) == (&other.identity, &other.trust, &other.socket)
}

/// A client for requests that are alike. No cookies, no proxy, no redirects, and nothing repeated.
fn agent(request: &Request, patience: Duration, open: Option<UnixStream>) -> Result<Agent, String> {
    let config = Agent::config_builder()
        .timeout_global(Some(patience))
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        // What comes encoded is decoded; none is asked for, as some services then answer with what they cannot write.
        .accept_encoding("identity")
        .user_agent(concat!("surefoot/", env!("CARGO_PKG_VERSION")))
        .max_response_header_size(HEAD_BYTES_MAX)
        .build();
    let connector = socket::SocketConnector::new(request.socket.clone(), open)
        .chain(TcpConnector::default())
        .chain(tls::TlsConnector::new(request.identity.clone(), request.trust.clone()));
    Ok(Agent::with_parts(config, connector, DefaultResolver::default()))
}

/// Sends them one after the other in a thread of their own, which is left behind where `stop` or the time ends the wait: its connections
/// are closed, and it can open no other.
fn ask_alike(
    bytes_max: u64,
    agent: &Agent,
    requests: &[Request],
    patience: Duration,
    stop: &AtomicBool,
) -> Result<Vec<Result<Answer, NoAnswer>>, String> {
    let ends = Instant::now() + patience;
    let (sender, answered) = mpsc::channel();
    let (own, asked) = (agent.clone(), requests.to_vec());
    let run = move || {
        for (place, request) in asked.iter().enumerate() {
            if sender.send(ask_one(&own, request, bytes_max, place > 0)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("http".into())
        .spawn(run)
        .map_err(|error| format!("no thread for it: {}", said(&error)))?;
    let mut answers = Vec::new();
    let mut why = "no answer".to_owned();
    while answers.len() < requests.len() {
        let left = ends.saturating_duration_since(Instant::now());
        match answered.recv_timeout(left.min(STOP_PERIOD)) {
            Ok(answer) => answers.push(answer),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                why = "no answer: stopped".into();
                break;
            }
            Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                why = format!("no answer in {patience:.0?}");
                break;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    agent.clone().shutdown();
    answers.resize_with(requests.len(), || Err(NoAnswer::Away(why.clone())));
    Ok(answers)
}

/// `is_later`: whether an earlier request may have left its connection open.
fn ask_one(agent: &Agent, request: &Request, bytes_max: u64, is_later: bool) -> Result<Answer, NoAnswer> {
    let away = |why: String| NoAnswer::Away(why);
    let (parts, body) = prepared(request).map_err(away)?.into_parts();
    // Some services refuse a GET that tells the length of its body, even if that is 0.
    let has_none = request.method == "GET" && body.is_empty();
    let send = || match has_none {
        true => agent.run(http::Request::from_parts(parts.clone(), ())),
        false => agent.run(http::Request::from_parts(parts.clone(), body.as_str())),
    };
    let mut outcome = send();
    // A service that closes its connections after each answer without a word may do so while the next request is under way.
    if is_later && request.method == "GET" && outcome.as_ref().is_err_and(is_closed) {
        outcome = send();
    }
    let response = outcome.map_err(|error| away(format!("no answer: {}", words(&error))))?;
    let status = response.status().as_u16();
    let headers = response.headers().iter();
    let headers: Vec<(String, String)> = headers
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let mut answer = Answer { status, headers, body: String::new() };
    let encoding = answer.header("Content-Encoding").unwrap_or_default().to_owned();
    let length = answer.header("Content-Length").and_then(|length| length.digits::<u64>());
    if encoding.is_empty() && length.is_some_and(|length| length > bytes_max) && request.method != "HEAD" {
        return Err(NoAnswer::TooLong(bytes_max));
    }
    let body = body::read(response.into_body().into_reader(), &encoding, bytes_max)?;
    answer.body = String::from_utf8_lossy(&body).into_owned();
    Ok(answer)
}

fn is_closed(error: &ureq::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let ureq::Error::Io(error) = error else { return false };
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// What went wrong, without the number of an error of the system.
pub(super) fn words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "it timed out".into(),
        ureq::Error::HostNotFound => "its name has no address".into(),
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => "it closed the connection".into(),
        ureq::Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(error) => tls::words(error),
            None => said(error),
        },
        other => surefoot_model::one_line(&other.to_string()),
    }
}

/// Whether requests to this host of an address stay on this machine.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether a request may be sent at all: its address, its headers, and that no secret goes in clear text over the network.
///
/// # Errors
/// What is wrong, in words.
pub fn check(request: &Request) -> Result<(), String> {
    prepared(request).map(drop)
}

/// The request as `ureq` takes it.
fn prepared(request: &Request) -> Result<http::Request<String>, String> {
    let words = request.headers.iter().chain([&request.url]);
    let secret: [&str; 2] = match &request.identity {
        Identity::User(name, password) => [name, password],
        Identity::Token(token) => [token, ""],
        Identity::None | Identity::Certificate(..) => ["", ""],
    };
    if words.map(String::as_str).chain(secret).any(|word| word.chars().any(char::is_control)) {
        return Err("an address, a header, a name or a password contains a control character".into());
    }
    let url: http::Uri =
        request.url.parse().map_err(|error| format!("'{}' is not an address: {error}", shown(&request.url)))?;
    if !matches!(url.scheme_str(), Some("http" | "https")) {
        return Err(format!(
            "'{}' is not an http or https address: it begins with http:// or https://",
            shown(&request.url)
        ));
    }
    let is_clear = url.scheme_str() == Some("http") && request.socket.is_none() && !url.host().is_some_and(is_loopback);
    if is_clear && matches!(request.identity, Identity::User(..) | Identity::Token(_)) {
        return Err(format!(
            "'{}' would send a token or password in clear text over the network; use https",
            shown(&request.url)
        ));
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("the address contains a user name; configure it apart from the address".into());
    }
    let mut builder = http::Request::builder().method(request.method).uri(url);
    for header in &request.headers {
        let (name, value) = header.split_once(':').ok_or_else(|| format!("the header '{header}' has no colon"))?;
        builder = builder.header(name.trim(), value.trim());
    }
    let authorization = match &request.identity {
        Identity::User(name, password) => {
            let plain = format!("{name}:{password}");
            Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(plain)))
        }
        Identity::Token(token) => Some(format!("Bearer {token}")),
        Identity::None | Identity::Certificate(..) => None,
    };
    if let Some(value) = authorization {
        builder = builder.header("Authorization", value);
    }
    builder.body(request.body.clone()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::http::Trust;

    #[test]
    fn no_secret_goes_in_clear_text_over_the_network() {
        let request = |url: &str, identity: &Identity| Request {
            method: "GET",
            url: url.to_owned(),
            headers: Vec::new(),
            body: String::new(),
            identity: identity.clone(),
            trust: Trust::System,
            socket: None,
        };
        let (token, user) = (Identity::Token("t".into()), Identity::User("u".into(), "p".into()));
        for url in [
            "http://192.0.2.1:9093/",
            "http://alertmanager/",
            "HTTP://[2001:db8::1]/",
            "http://localhost.example/",
            "http://127.0.0.1.example/",
        ] {
            for secret in [&token, &user] {
                let why = check(&request(url, secret)).unwrap_err();
                assert!(why.contains("clear text") && why.contains("use https"), "{url}: {why}");
            }
            assert!(check(&request(url, &Identity::None)).is_ok(), "{url}");
            let over_socket = Request { socket: Some("/run/s".into()), ..request(url, &token) };
            assert!(check(&over_socket).is_ok(), "{url}");
        }
        for url in [
            "https://192.0.2.1/",
            "http://127.0.0.1:1/",
            "http://localhost/",
            "http://[::1]:9093/",
            "http://[::ffff:127.0.0.1]/",
        ] {
            assert!(check(&request(url, &token)).is_ok(), "{url}");
        }
    }
}

//! Requests to services of others, by `curl`, which speaks TLS as the system's administrators have set it up. What is secret goes to it over
//! standard input, so that it stands in no list of processes.

use crate::program::{self, Broken};
use crate::without_number;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How curl ends where an answer is longer than it may be.
const FILE_TOO_LONG: i32 = 63;

/// The longest answer that is taken.
pub const ANSWER_BYTES_MAX: u64 = program::ANSWER_BYTES_MAX / 2;

/// Which certificates are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that the system believes.
    #[default]
    System,
    /// Those that this file signs.
    Signer(PathBuf),
    /// Any: who sits between could read what is secret.
    Anything,
}

/// Who asks.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Identity {
    /// Nobody.
    #[default]
    None,
    /// A user's name and password.
    User(String, String),
    /// A bearer token.
    Token(String),
    /// A client's certificate and its key.
    Certificate(PathBuf, PathBuf),
}

/// Without what is secret.
impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Identity::None => "None",
            Identity::User(..) => "User",
            Identity::Token(_) => "Token",
            Identity::Certificate(..) => "Certificate",
        })
    }
}

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, `PATCH`, `PUT` or `DELETE`.
    pub method: &'static str,
    /// The whole address, `http` or `https`.
    pub url: String,
    /// Lines such as `Content-Type: application/json`.
    pub headers: Vec<String>,
    /// What is sent; nothing where it is empty.
    pub body: String,
    /// Who asks.
    pub identity: Identity,
    /// Whom it believes.
    pub trust: Trust,
    /// A socket that is spoken to instead of the host in the address.
    pub socket: Option<PathBuf>,
}

/// An answer, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// The body, with `?` for what is no UTF-8.
    pub body: String,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Nobody is known to be there.
    #[error("{0}")]
    Away(String),
    /// There is one, which is not taken.
    #[error("the answer has more than {0} bytes")]
    TooLong(u64),
}

/// Asks. Redirections are not followed.
///
/// # Errors
/// Why there is no answer, in words: the service may be asked again later. One of more than [`ANSWER_BYTES_MAX`] is none.
pub fn ask(request: &Request, patience: Duration, stop: &AtomicBool) -> Result<Answer, String> {
    ask_up_to(ANSWER_BYTES_MAX, request, patience, stop).map_err(|why| why.to_string())
}

/// As [`ask`], with another limit for the answer.
///
/// # Errors
/// [`NoAnswer`]; the service may be asked again later.
pub fn ask_up_to(bytes_max: u64, request: &Request, patience: Duration, stop: &AtomicBool) -> Result<Answer, NoAnswer> {
    const MISSING: &str = "services are asked through curl, which is not installed: install curl";
    let away = |why: String| NoAnswer::Away(why);
    let path = program::find("curl").ok_or_else(|| away(MISSING.into()))?;
    let mut command = Command::new(path);
    command.args(["-q", "-K", "-"]).env_clear().env("LC_ALL", "C").current_dir("/");
    let configuration = configuration(request, bytes_max, patience).map_err(away)?;
    // Behind the body stands a line of curl's.
    let said_max = bytes_max.saturating_add(program::ANSWER_BYTES_MAX / 2);
    let ended =
        program::run_up_to(said_max, command, configuration.as_bytes(), patience + Duration::from_secs(1), stop);
    let ended = ended.map_err(|broken| match broken {
        Broken::TookTooLong(_) => away(format!("no answer in {patience:?}")),
        other => away(other.to_string()),
    })?;
    if ended.code == FILE_TOO_LONG || ended.dropped_bytes > 0 {
        return Err(NoAnswer::TooLong(bytes_max));
    }
    let text = String::from_utf8_lossy(&ended.output);
    let (body, said) = text.rsplit_once('\n').ok_or_else(|| away("curl said nothing".into()))?;
    let (status, why) = said.split_once(' ').unwrap_or((said, ""));
    match status.parse() {
        Ok(status) if status != 0 && ended.code == 0 => Ok(Answer { status, body: body.to_owned() }),
        _ if why.is_empty() => Err(away(format!("no answer (curl ended with {})", ended.code))),
        _ => Err(away(format!("no answer: {}", surefoot_model::one_line(why)))),
    }
}

fn configuration(request: &Request, bytes_max: u64, patience: Duration) -> Result<String, String> {
    let mut lines = vec![
        "silent".to_owned(),
        "globoff".to_owned(),
        "proto = \"=http,https\"".to_owned(),
        format!("request = {}", quoted(request.method)?),
        format!("max-filesize = {bytes_max}"),
        format!("max-time = {}", patience.as_secs().max(1)),
        // After the body, on a line of its own.
        "write-out = \"\\n%{http_code} %{errormsg}\"".to_owned(),
        format!("url = {}", quoted(&request.url)?),
    ];
    for header in &request.headers {
        lines.push(format!("header = {}", quoted(header)?));
    }
    if !request.body.is_empty() {
        lines.push(format!("data-raw = {}", quoted_body(&request.body)?));
    }
    match &request.identity {
        Identity::None => {}
        Identity::User(name, password) => lines.push(format!("user = {}", quoted(&format!("{name}:{password}"))?)),
        Identity::Token(token) => {
            lines.push(format!("header = {}", quoted(&format!("Authorization: Bearer {token}"))?))
        }
        Identity::Certificate(certificate, key) => {
            lines.push(format!("cert = {}", quoted_path(certificate)?));
            lines.push(format!("key = {}", quoted_path(key)?));
        }
    }
    match &request.trust {
        Trust::System => {}
        Trust::Signer(file) => lines.push(format!("cacert = {}", quoted_path(file)?)),
        Trust::Anything => lines.push("insecure".to_owned()),
    }
    if let Some(socket) = &request.socket {
        lines.push(format!("unix-socket = {}", quoted_path(socket)?));
    }
    Ok(lines.join("\n") + "\n")
}

/// A word of curl's configuration, for whoever asks curl otherwise than by [`ask`].
///
/// # Errors
/// That the word holds a control character, which could begin another line.
pub fn quoted(word: &str) -> Result<String, String> {
    if word.chars().any(char::is_control) {
        return Err("an address, a header, a name or a password holds a control character".into());
    }
    quoted_body(word)
}

/// A path as it is meant where this process is: curl runs elsewhere.
fn quoted_path(path: &Path) -> Result<String, String> {
    let path = std::path::absolute(path).map_err(|error| format!("{}: {}", path.display(), without_number(&error)))?;
    quoted(&path.to_string_lossy())
}

fn quoted_body(text: &str) -> Result<String, String> {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\0' => return Err("what is to be sent holds a NUL".into()),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(quoted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    /// Answers one request, and hands on what was asked.
    fn serve(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/a?b=c", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut asked, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(count) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = count.trim().parse().unwrap();
                }
                asked.push_str(&line);
                if line == "\r\n" {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            asked.push_str(&String::from_utf8(body).unwrap());
            let _ = stream.write_all(answer.as_bytes());
            asked
        });
        (url, thread)
    }

    fn ask_for(request: &Request) -> Result<Answer, String> {
        ask(request, Duration::from_secs(20), &AtomicBool::new(false))
    }

    #[test]
    fn what_is_asked_arrives_as_it_is_and_so_does_the_answer() {
        let (url, served) = serve("HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nnot\nnow 1");
        let body = "{\"a\":\"@\\\"\\\\ü\t\"}\n".to_owned();
        let headers = vec!["Content-Type: application/json".to_owned(), "Idempotency-Key: 17.2.1".to_owned()];
        let identity = Identity::Token("s3\"cret".to_owned());
        let request = Request { method: "PATCH", url, headers, body: body.clone(), identity, ..Request::default() };
        assert_eq!(ask_for(&request), Ok(Answer { status: 503, body: "not\nnow 1".to_owned() }));
        let asked = served.join().unwrap();
        assert!(asked.starts_with("PATCH /a?b=c HTTP/1.1\r\n"), "{asked}");
        assert!(
            asked.contains("Authorization: Bearer s3\"cret\r\n") && asked.contains("Idempotency-Key: 17.2.1\r\n"),
            "{asked}"
        );
        assert!(asked.ends_with(&format!("\r\n\r\n{body}")), "{asked}");
        assert!(!format!("{request:?}").contains("cret"));
    }

    #[test]
    fn an_answer_may_be_as_long_as_who_asks_says() {
        let long = usize::try_from(ANSWER_BYTES_MAX).unwrap() * 3;
        let answer: &'static str =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {long}\r\n\r\n{}", "y".repeat(long)).leak();
        let request = |url| Request { method: "GET", url, ..Request::default() };
        // Who takes no answer so long may hang up while it is written.
        assert_eq!(ask_for(&request(serve(answer).0)).unwrap_err(), "the answer has more than 524288 bytes");
        let stop = AtomicBool::new(false);
        let asked = ask_up_to(4 * ANSWER_BYTES_MAX, &request(serve(answer).0), Duration::from_secs(20), &stop);
        assert_eq!(asked.unwrap().body.len(), long);
    }

    #[test]
    fn nobody_there_and_words_that_are_orders_to_curl_are_told() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let request = Request { method: "GET", url: format!("http://{closed}/"), ..Request::default() };
        assert!(ask_for(&request).unwrap_err().starts_with("no answer: "));
        let sly = Request { url: "http://127.0.0.1/\"\noutput = \"/etc/passwd".to_owned(), ..request.clone() };
        assert!(ask_for(&sly).unwrap_err().contains("control character"));
        let file = Request { url: "file:///etc/passwd".to_owned(), ..request };
        assert!(ask_for(&file).is_err());
    }

    #[test]
    fn files_are_those_of_this_process_though_curl_runs_elsewhere() {
        let identity = Identity::Certificate("a.pem".into(), "/k/a.key".into());
        let request =
            Request { identity, trust: Trust::Signer("ca.pem".into()), socket: Some("s".into()), ..Request::default() };
        let text = configuration(&request, ANSWER_BYTES_MAX, Duration::from_secs(1)).unwrap();
        let here = std::env::current_dir().unwrap().display().to_string();
        for line in
            ["cert = \"HERE/a.pem\"", "key = \"/k/a.key\"", "cacert = \"HERE/ca.pem\"", "unix-socket = \"HERE/s\""]
        {
            assert!(text.lines().any(|one| one == line.replace("HERE", &here)), "{line}: {text}");
        }
    }
}

//! The transport: `curl` as a program.

use super::{Answer, Identity, NoAnswer, Request, Trust};
use crate::program::{self, Broken};
use crate::without_number;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How curl ends where an answer is longer than it may be.
const FILE_TOO_LONG: &str = "63";
/// Heads of one answer, and the line of ours behind it.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// Lines of one head that are kept, and bytes of one.
const HEADERS_MAX: usize = 100;
const HEADER_BYTES_MAX: usize = 4_096;

/// Asks all of these in one run of curl, as they are: nothing is followed and nothing repeated. There are as many answers as requests.
pub(super) fn ask(
    bytes_max: u64,
    requests: &[Request],
    patience: Duration,
    stop: &AtomicBool,
) -> Vec<Result<Answer, NoAnswer>> {
    const MISSING: &str = "services are asked through curl, which is not installed: install curl";
    let all = |why: NoAnswer| requests.iter().map(|_| Err(why.clone())).collect();
    let Some(path) = program::find("curl") else { return all(NoAnswer::Away(MISSING.into())) };
    let mut command = Command::new(path);
    command.args(["-q", "-K", "-"]).env_clear().env("LC_ALL", "C").current_dir("/");
    // No service knows it, so that none can write it.
    let boundary = format!("--{:016x}--", RandomState::new().build_hasher().finish());
    let configurations: Vec<Result<String, String>> =
        requests.iter().map(|request| configuration(request, &boundary, bytes_max, patience)).collect();
    let asked: Vec<&str> = configurations.iter().filter_map(|one| one.as_deref().ok()).collect();
    let text = asked.join("next\n");
    let said_max = bytes_max.saturating_add(HEAD_BYTES_MAX).saturating_mul(asked.len() as u64);
    let ended = match asked.is_empty() {
        true => Ok(None),
        false => {
            program::run_up_to(said_max, command, text.as_bytes(), patience + Duration::from_secs(1), stop).map(Some)
        }
    };
    let ended = match ended {
        Ok(ended) => ended,
        Err(Broken::TookTooLong(_)) => return all(NoAnswer::Away(format!("no answer in {patience:?}"))),
        Err(other) => return all(NoAnswer::Away(other.to_string())),
    };
    let (mut bodies, mut heads, mut is_cut, mut code) = (String::new(), String::new(), false, 0);
    if let Some(ended) = ended {
        bodies = String::from_utf8_lossy(&ended.output).into_owned();
        heads = String::from_utf8_lossy(&ended.complaint).into_owned();
        (is_cut, code) = (ended.dropped_bytes > 0, ended.code);
    }
    let mut said = Said { bodies: &bodies, heads: &heads, boundary: &boundary };
    let one = |configuration: Result<String, String>| match configuration {
        Err(why) => Err(NoAnswer::Away(why)),
        Ok(_) => said.next(bytes_max).unwrap_or_else(|| match is_cut {
            true => Err(NoAnswer::TooLong(bytes_max)),
            false => Err(NoAnswer::Away(format!("no answer (curl ended with {code})"))),
        }),
    };
    configurations.into_iter().map(one).collect()
}

/// What curl wrote and has not been taken yet: the bodies, and the heads beside them.
struct Said<'a> {
    bodies: &'a str,
    heads: &'a str,
    boundary: &'a str,
}

impl Said<'_> {
    /// The next answer; `None` where nothing more was said.
    fn next(&mut self, bytes_max: u64) -> Option<Result<Answer, NoAnswer>> {
        let (body, rest) = self.bodies.split_once(&format!("\n{}", self.boundary))?;
        let (said, rest) = rest.split_once('\n').unwrap_or((rest, ""));
        self.bodies = rest;
        let (head, rest) = self.heads.split_once(&format!("{}\n", self.boundary)).unwrap_or((self.heads, ""));
        self.heads = rest;
        let mut words = said.splitn(3, ' ');
        let [status, code, why] = [words.next(), words.next(), words.next()].map(Option::unwrap_or_default);
        let status: u16 = status.parse().unwrap_or(0);
        let why = match why.is_empty() {
            true => format!("curl ended with {code}"),
            false => surefoot_model::one_line(why),
        };
        Some(match code {
            _ if body.len() as u64 > bytes_max => Err(NoAnswer::TooLong(bytes_max)),
            FILE_TOO_LONG => Err(NoAnswer::TooLong(bytes_max)),
            "0" if status != 0 => Ok(Answer { status, headers: headers(head), body: body.to_owned() }),
            _ if status != 0 => Err(NoAnswer::Unreadable(why)),
            _ => Err(NoAnswer::Away(format!("no answer: {why}"))),
        })
    }
}

/// The lines of the last head: before it may stand others, such as `HTTP/1.1 100 Continue`.
fn headers(text: &str) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for line in text.lines() {
        if line.starts_with("HTTP/") {
            headers.clear();
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        if headers.len() < HEADERS_MAX && line.len() <= HEADER_BYTES_MAX {
            headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    headers
}

/// What curl is told about one request.
fn configuration(request: &Request, boundary: &str, bytes_max: u64, patience: Duration) -> Result<String, String> {
    let mut lines = vec![
        "silent".to_owned(),
        "globoff".to_owned(),
        "proto = \"=http,https\"".to_owned(),
        format!("request = {}", quoted(request.method)?),
        format!("max-filesize = {bytes_max}"),
        format!("max-time = {}", patience.as_secs().max(1)),
        // What comes encoded is decoded; none is asked for, as some services then answer with what they cannot write.
        "compressed".to_owned(),
        "header = \"Accept-Encoding:\"".to_owned(),
        // The heads go another way than the bodies, which may hold anything.
        "dump-header = \"/dev/stderr\"".to_owned(),
        // After the body, on a line of its own, and after the head.
        format!("write-out = \"\\n{boundary}%{{http_code}} %{{exitcode}} %{{errormsg}}\\n%{{stderr}}{boundary}\\n\""),
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

/// A word of curl's configuration, for whoever asks curl otherwise than by `ask`.
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

    #[test]
    fn files_are_those_of_this_process_though_curl_runs_elsewhere() {
        let identity = Identity::Certificate("a.pem".into(), "/k/a.key".into());
        let request =
            Request { identity, trust: Trust::Signer("ca.pem".into()), socket: Some("s".into()), ..Request::default() };
        let text = configuration(&request, "--", 1 << 20, Duration::from_secs(1)).unwrap();
        let here = std::env::current_dir().unwrap().display().to_string();
        for line in
            ["cert = \"HERE/a.pem\"", "key = \"/k/a.key\"", "cacert = \"HERE/ca.pem\"", "unix-socket = \"HERE/s\""]
        {
            assert!(text.lines().any(|one| one == line.replace("HERE", &here)), "{line}: {text}");
        }
    }
}

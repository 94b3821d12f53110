//! Requests to services of others: one client with one policy.
//!
//! - TLS 1.2 and 1.3, with the certificates that the system trusts, those of a file, or any. A server's certificate needs its name as a
//!   subject alternative name; the common name is not read.
//! - No proxy is used: the variables `http_proxy`, `https_proxy` and `all_proxy` are not read.
//! - What is encoded (gzip, deflate) is decoded, asked for or not. An unknown encoding and a body that ends early are errors.
//! - Only a GET is ever repeated: after a redirection to the same scheme, host and port, and after 429 or 503 with `Retry-After` while there is
//!   time. Nothing is sent to another address.
//! - [`Answer::json`] is strict: an empty body, a web page and a key with two values are errors.

mod body;
mod json;
pub mod redfish;
mod socket;
mod tls;
mod transport;

pub use transport::check;

use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_model::Digits;

/// The longest answer that is taken.
pub const ANSWER_BYTES_MAX: u64 = 512 << 10;

/// Redirections and waits of one request.
const REPEATS_MAX: usize = 4;

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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// The lines of its head, each a name and a value.
    pub headers: Vec<(String, String)>,
    /// The body, decoded, with `?` for what is no UTF-8.
    pub body: String,
}

impl Answer {
    /// The value of a line of the head; names are the same in capitals.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether the service did what it was asked: 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// What it is instead, or the key that has two values.
    pub fn json(&self) -> Result<Value, String> {
        if self.body.trim().is_empty() {
            return Err("no JSON: the answer is empty".into());
        }
        if self.is_web_page() {
            return Err("no JSON but a web page: a login page or a proxy answers in its place".into());
        }
        json::parse(&self.body)
    }

    /// Whether it is written for a browser: what a login page or a proxy answers in a service's place, often with 200.
    pub fn is_web_page(&self) -> bool {
        let kind = self.header("Content-Type").unwrap_or_default().to_ascii_lowercase();
        let begins: String = self.body.trim_start().chars().take(15).collect::<String>().to_ascii_lowercase();
        let is_html = begins.starts_with("<!doctype html") || begins.starts_with("<html");
        is_html || (kind.starts_with("text/html") && begins.starts_with('<'))
    }

    /// The status in words, with where it leads if that is not followed.
    pub fn status_text(&self) -> String {
        match (self.status, self.header("Location")) {
            (300..=399, Some(place)) => format!(
                "HTTP {}: it redirects to {}, which is not followed; configure that address if it is the right one",
                self.status,
                crate::address::shown(place)
            ),
            (status, _) => format!("HTTP {status}"),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Nobody is known to be there.
    #[error("{0}")]
    Away(String),
    /// A service answers, and the answer cannot be read: it ends early, or has an unknown encoding.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    /// There is one, which is not taken.
    #[error("the answer has more than {0} bytes")]
    TooLong(u64),
}

/// Asks.
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
    let mut answers = ask_each(bytes_max, std::slice::from_ref(request), patience, stop);
    answers.pop().unwrap_or_else(|| Err(NoAnswer::Away("nothing was asked".into())))
}

/// Asks all of these, those of one service over one connection: one answer or its absence for each, in their order. All together take no
/// longer than `patience`.
pub fn ask_each(
    bytes_max: u64,
    requests: &[Request],
    patience: Duration,
    stop: &AtomicBool,
) -> Vec<Result<Answer, NoAnswer>> {
    let ends = Instant::now() + patience;
    let mut answers = transport::ask(bytes_max, requests, patience, stop);
    for (request, answer) in requests.iter().zip(&mut answers) {
        follow(bytes_max, request, answer, ends, stop);
    }
    answers
}

/// Sends a request over this connection, once: for a service whose process was looked at through it.
///
/// # Errors
/// As [`ask_up_to`].
pub fn ask_over(stream: UnixStream, bytes_max: u64, request: &Request, patience: Duration) -> Result<Answer, NoAnswer> {
    transport::ask_over(stream, bytes_max, request, patience)
}

/// Goes where a service sends a GET, and asks again when it said to. Whatever changes something is never asked for twice.
fn follow(bytes_max: u64, request: &Request, answer: &mut Result<Answer, NoAnswer>, ends: Instant, stop: &AtomicBool) {
    if request.method != "GET" {
        return;
    }
    let mut request = request.clone();
    for _ in 0..REPEATS_MAX {
        let Ok(said) = &*answer else { return };
        let wait = match (redirected(&request.url, said), retry_after(said)) {
            (Some(url), _) => {
                request.url = url;
                Duration::ZERO
            }
            (None, Some(wait)) => wait,
            (None, None) => return,
        };
        let is_in_time = Instant::now().checked_add(wait).is_some_and(|then| then < ends);
        if !is_in_time || !waited(wait, stop) {
            return;
        }
        let left = ends.saturating_duration_since(Instant::now());
        if let Some(next) = transport::ask(bytes_max, &[request.clone()], left, stop).pop() {
            *answer = next;
        }
    }
}

/// Where an answer sends who asked, if that is the same service.
fn redirected(url: &str, answer: &Answer) -> Option<String> {
    if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let place = answer.header("Location")?;
    if !place.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let own = origin(url)?;
    if place.starts_with('/') && !place.starts_with("//") {
        return Some(format!("{own}{place}"));
    }
    origin(place)?.eq_ignore_ascii_case(own).then(|| place.to_owned())
}

/// Scheme, host and port of an address.
fn origin(url: &str) -> Option<&str> {
    let begin = url.find("://")? + 3;
    let end = url[begin..].find(['/', '?', '#']).map_or(url.len(), |at| begin + at);
    (end > begin).then(|| &url[..end])
}

/// How long a service that is busy wants to be left alone. One that names a date, or nothing, is asked by the caller's own clock.
fn retry_after(answer: &Answer) -> Option<Duration> {
    let is_busy = matches!(answer.status, 429 | 503);
    let seconds = answer.header("Retry-After").filter(|_| is_busy)?.trim();
    // A moment at least: who says 0 is not asked in a circle.
    seconds.digits().map(|seconds: u64| Duration::from_secs(seconds.clamp(1, 86_400)))
}

/// Waits; `false` if it was told to stop.
fn waited(time: Duration, stop: &AtomicBool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < time && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20).min(time));
    }
    !stop.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    /// Answers as many requests as there are answers, over any number of connections, and hands on what was asked.
    fn serve_each(answers: Vec<Vec<u8>>) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/a?b=c", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let (mut asked, mut answers) = (Vec::new(), answers.into_iter().peekable());
            while answers.peek().is_some() {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while answers.peek().is_some() {
                    let Some(head) = head(&mut reader) else { break };
                    asked.push(head);
                    let answer = answers.next().unwrap();
                    let _ = stream.write_all(&answer);
                    if String::from_utf8_lossy(&answer).contains("Connection: close") {
                        break;
                    }
                }
            }
            asked
        });
        (url, thread)
    }

    /// One request; `None` at the end of a connection.
    fn head(reader: &mut impl BufRead) -> Option<String> {
        let (mut asked, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
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
        Some(asked)
    }

    fn serve(answer: &str) -> (String, std::thread::JoinHandle<Vec<String>>) {
        serve_each(vec![answer.as_bytes().to_vec()])
    }

    fn get(url: &str) -> Request {
        Request { method: "GET", url: url.to_owned(), ..Request::default() }
    }

    fn ok(head: &str, body: &[u8]) -> Vec<u8> {
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{head}\r\n", body.len()).as_bytes(), body].concat()
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
        let answer = ask_for(&request).unwrap();
        assert_eq!((answer.status, &*answer.body, answer.header("content-LENGTH")), (503, "not\nnow 1", Some("9")));
        let asked = served.join().unwrap().remove(0);
        assert!(asked.starts_with("PATCH /a?b=c HTTP/1.1\r\n"), "{asked}");
        assert!(
            asked.contains("authorization: Bearer s3\"cret\r\n") && asked.contains("idempotency-key: 17.2.1\r\n"),
            "{asked}"
        );
        assert!(asked.ends_with(&format!("\r\n\r\n{body}")), "{asked}");
        assert!(!format!("{request:?}").contains("cret"));
    }

    #[test]
    fn an_answer_may_be_as_long_as_who_asks_says() {
        let long = usize::try_from(ANSWER_BYTES_MAX).unwrap() * 3;
        let answer = &*format!("HTTP/1.1 200 OK\r\nContent-Length: {long}\r\n\r\n{}", "y".repeat(long));
        let request = |url: String| get(&url);
        // Who takes no answer so long may hang up while it is written.
        assert_eq!(ask_for(&request(serve(answer).0)).unwrap_err(), "the answer has more than 524288 bytes");
        let stop = AtomicBool::new(false);
        let asked = ask_up_to(4 * ANSWER_BYTES_MAX, &request(serve(answer).0), Duration::from_secs(20), &stop);
        assert_eq!(asked.unwrap().body.len(), long);
    }

    #[test]
    fn a_closed_port_a_control_character_and_another_scheme_are_errors() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let request = Request { method: "GET", url: format!("http://{closed}/"), ..Request::default() };
        assert!(ask_for(&request).unwrap_err().starts_with("no answer: "));
        let sly = Request { url: "http://127.0.0.1/\"\noutput = \"/etc/passwd".to_owned(), ..request.clone() };
        assert!(ask_for(&sly).unwrap_err().contains("control character"));
        let file = Request { url: "file:///etc/passwd".to_owned(), ..request };
        assert!(ask_for(&file).is_err());
    }

    const GZIP: &[u8] =
        &[31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 74, 84, 178, 50, 172, 5, 0, 175, 172, 27, 86, 7, 0, 0, 0];

    /// As HPE iLO 5 does with parts of its tree, unasked.
    #[test]
    fn an_answer_that_comes_encoded_is_decoded_and_an_unknown_encoding_is_an_error() {
        let (url, served) = serve_each(vec![ok("Content-Encoding: gzip\r\n", GZIP)]);
        assert_eq!(ask_for(&get(&url)).unwrap().json().unwrap()["a"], 1);
        let asked = served.join().unwrap()[0].to_lowercase();
        assert!(asked.contains("accept-encoding: identity\r\n") && !asked.contains("content-length"), "{asked}");
        let unread = |answer: Vec<u8>| match ask_up_to(
            ANSWER_BYTES_MAX,
            &get(&serve_each(vec![answer]).0),
            Duration::from_secs(20),
            &AtomicBool::new(false),
        ) {
            Err(NoAnswer::Unreadable(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(unread(ok("Content-Encoding: rot13\r\n", b"{}")).contains("ncoding"));
        assert!(unread(ok("Content-Encoding: gzip\r\n", &GZIP[..14])).contains("ends early"));
        // Two members are one text, and what follows an end is not dropped.
        let twice =
            ask_for(&get(&serve_each(vec![ok("Content-Encoding: gzip\r\n", &[GZIP, GZIP].concat())]).0)).unwrap();
        assert_eq!(twice.body, "{\"a\":1}{\"a\":1}");
        unread(ok("Content-Encoding: gzip\r\n", &[GZIP, b"more"].concat()));
        let deflated = &GZIP[10..GZIP.len() - 8];
        let (url, _) = serve_each(vec![ok("Content-Encoding: deflate\r\n", deflated)]);
        assert_eq!(ask_for(&get(&url)).unwrap().body, "{\"a\":1}");
        assert!(unread(ok("Content-Encoding: deflate\r\n", &[deflated, b"more"].concat())).contains("after its end"));
        // It ends before its own length, or before its last piece.
        unread(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\nConnection: close\r\n\r\n{}".to_vec());
        unread(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n".to_vec());
        let pieces =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n";
        let answer = ask_for(&get(&serve_each(vec![pieces.to_vec()]).0)).unwrap();
        assert_eq!(answer.body, "{}");
    }

    #[test]
    fn what_is_no_json_is_named() {
        let body = |kind: &str, body: &str| {
            let headers = vec![("Content-Type".to_owned(), kind.to_owned())];
            Answer { status: 200, headers, body: body.to_owned() }.json().unwrap_err()
        };
        assert!(body("application/json", " \n").contains("the answer is empty"));
        assert!(body("text/html", "<p>Log in</p>").contains("a web page"));
        assert!(body("", "\n<!DOCTYPE html><html>").contains("a web page"));
        assert!(body("application/json", "{\"a\":1,\"a\":2}").contains("two values"));
    }

    /// One connection for all: a management controller takes seconds for each.
    #[test]
    fn many_questions_have_as_many_answers_in_their_order() {
        let answers =
            vec![ok("A: 1\r\n", b"one"), ok("", b""), b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec()];
        let (url, served) = serve_each(answers);
        let wrong = get("http://127.0.0.1/\n");
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let requests = [get(&url), wrong, get(&url), get(&format!("http://{closed}/")), get(&url)];
        let said = ask_each(100, &requests, Duration::from_secs(20), &AtomicBool::new(false));
        served.join().unwrap();
        let seen: Vec<(u16, &str)> =
            said.iter().flatten().map(|answer| (answer.status, answer.body.as_str())).collect();
        assert_eq!(seen, [(200, "one"), (200, ""), (404, "")]);
        assert!(said[1].is_err() && matches!(said[3], Err(NoAnswer::Away(_))), "{said:?}");
        assert_eq!((said[0].as_ref().unwrap().header("a"), said[2].as_ref().unwrap().header("a")), (Some("1"), None));
    }

    #[test]
    fn a_connection_that_closes_instead_of_a_second_answer_costs_a_get_nothing_and_no_order_is_sent_again() {
        for (method, answers) in [("GET", 2), ("PATCH", 1)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let serving = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                head(&mut reader).unwrap();
                stream.write_all(&ok("", b"1")).unwrap();
                head(&mut reader).unwrap();
                drop((stream, reader));
                listener.set_nonblocking(true).unwrap();
                let until = Instant::now() + Duration::from_secs(1);
                while Instant::now() < until {
                    let Ok((mut stream, _)) = listener.accept() else { continue };
                    stream.set_nonblocking(false).unwrap();
                    head(&mut BufReader::new(stream.try_clone().unwrap())).unwrap();
                    stream.write_all(&ok("", b"2")).unwrap();
                    return 2;
                }
                1
            });
            let both = [get(&url), Request { method, ..get(&url) }];
            let said = ask_each(100, &both, Duration::from_secs(20), &AtomicBool::new(false));
            assert_eq!(
                (said.iter().flatten().count(), serving.join().unwrap()),
                (answers, answers),
                "{method}: {said:?}"
            );
        }
    }

    #[test]
    fn a_get_follows_its_own_service_and_nothing_goes_to_another() {
        let to =
            |place: &str| format!("HTTP/1.1 308 Go\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n").into_bytes();
        let token = Identity::Token("secret".to_owned());
        let (url, served) = serve_each(vec![to("/redfish/v1/"), ok("", b"{}")]);
        let answer = ask_for(&Request { identity: token.clone(), ..get(&url) }).unwrap();
        let asked = served.join().unwrap();
        assert_eq!((answer.status, asked.len()), (200, 2));
        assert!(asked[1].starts_with("GET /redfish/v1/ ") && asked[1].contains("secret"), "{asked:?}");
        for elsewhere in
            ["https://127.0.0.1:1/", "//127.0.0.1:1/", "http://127.0.0.1:1/a", "file:///etc/passwd", "/a b"]
        {
            let (url, served) = serve_each(vec![to(elsewhere)]);
            let answer = ask_for(&Request { identity: token.clone(), ..get(&url) }).unwrap();
            assert_eq!((answer.status, served.join().unwrap().len()), (308, 1));
            assert!(answer.status_text().contains("is not followed"), "{}", answer.status_text());
        }
        // A circle ends.
        let (url, served) = serve_each(vec![to("/a"); 1 + REPEATS_MAX]);
        assert_eq!(ask_for(&get(&url)).unwrap().status, 308);
        served.join().unwrap();
        // What changes something is sent once, wherever it is sent on to.
        let (url, served) = serve_each(vec![to("/b")]);
        assert_eq!(ask_for(&Request { method: "POST", body: "{}".into(), ..get(&url) }).unwrap().status, 308);
        assert_eq!(served.join().unwrap().len(), 1);
    }

    #[test]
    fn a_busy_service_is_waited_for_as_long_as_there_is_time_and_no_order_is_sent_twice() {
        let busy = |after: &str| format!("HTTP/1.1 503 Busy\r\n{after}Content-Length: 0\r\n\r\n").into_bytes();
        let (url, served) = serve_each(vec![busy("Retry-After: 0\r\n"), ok("", b"{}")]);
        assert_eq!(ask_for(&get(&url)).unwrap().status, 200);
        assert_eq!(served.join().unwrap().len(), 2);
        for after in
            ["", "Retry-After: 3600\r\n", "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n", "Retry-After: +1\r\n"]
        {
            assert_eq!(ask_for(&get(&serve_each(vec![busy(after)]).0)).unwrap().status, 503, "{after}");
        }
        let (url, _) = serve_each(vec![busy("Retry-After: 1\r\n")]);
        assert_eq!(ask_for(&Request { method: "PATCH", body: "{}".into(), ..get(&url) }).unwrap().status, 503);
    }
}

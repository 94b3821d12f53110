//! Just enough HTTP to ask the page for something.

use crate::command::PATIENCE;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// An answer: its status, its head and its body.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The head, in small letters.
    pub head: String,
    /// The body.
    pub body: String,
}

/// Asks in the words of HTTP 1.0, whose answers come in one piece and end with the connection.
fn ask(address: &str, path: &str, more: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n{more}\r\n").unwrap();
    BufReader::new(stream)
}

fn head(stream: &mut BufReader<TcpStream>) -> (u16, String) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "the answer ends in its head: {head}");
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {head}")), head.to_ascii_lowercase())
}

/// Asks for a path and reads the whole answer.
pub fn get(address: &str, path: &str) -> Answer {
    read(ask(address, path, ""))
}

fn read(mut stream: BufReader<TcpStream>) -> Answer {
    let (status, head) = head(&mut stream);
    let mut body = Vec::new();
    stream.read_to_end(&mut body).unwrap();
    Answer { status, head, body: String::from_utf8_lossy(&body).into_owned() }
}

/// Posts JSON and reads the whole answer.
pub fn post(address: &str, path: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let kind = "application/json";
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    read(BufReader::new(stream))
}

/// Listens to a stream of server-sent events until one of this name comes; returns its data.
pub fn event(address: &str, path: &str, name: &str) -> String {
    let mut stream = ask(address, path, "Accept: text/event-stream\r\n");
    let (status, head) = head(&mut stream);
    assert_eq!(status, 200, "{head}");
    assert!(head.contains("text/event-stream"), "{head}");
    let mut is_it = false;
    let mut line = String::new();
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended without an event '{name}'");
        let text = line.trim_end();
        if let Some(event) = text.strip_prefix("event:") {
            is_it = event.trim() == name;
        } else if let (true, Some(data)) = (is_it, text.strip_prefix("data:")) {
            return data.trim().to_owned();
        }
    }
}

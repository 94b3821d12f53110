//! An HTTP client of a few lines: what goes over the wire is what the test wrote.

use crate::schema;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A test that waits longer than this for anything has failed.
pub const PATIENCE: Duration = Duration::from_secs(90);

pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The sentence of an error answer.
    pub fn error(&self) -> String {
        let answer = self.json();
        schema::hold("any refusal", &answer);
        answer["error"].as_str().unwrap().to_owned()
    }
}

/// Where a server listens that was told to.
pub fn address(server: &surefoot_daemon::Server) -> SocketAddr {
    server.address().expect("it listens")
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    request(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

/// Asks for JSON that must be there.
pub fn get_json(address: SocketAddr, path: &str) -> Value {
    let answer = get(address, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    let json = answer.json();
    schema::hold(&format!("GET {}", path.split('?').next().unwrap()), &json);
    json
}

/// Sends exactly this and reads until the server closes.
pub fn request(address: SocketAddr, text: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(text.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let (status, headers) = read_head(&mut reader);
    let mut body = Vec::new();
    if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
        Chunked { reader, left: 0, complete: false }.read_to_end(&mut body).unwrap();
    } else {
        reader.read_to_end(&mut body).unwrap();
    }
    Answer { status, headers, body }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn read_head(reader: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let line = read_line(reader);
    let status = line.split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader);
        if line.is_empty() {
            return (status, headers);
        }
        let (name, value) = line.split_once(": ").unwrap();
        headers.push((name.to_owned(), value.to_owned()));
    }
}

fn read_line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Asks again and again until the answer is as wanted.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// One server-sent event; a comment has neither name nor data.
#[derive(Debug, Default, Clone)]
pub struct Message {
    pub event: String,
    pub id: Option<u64>,
    pub data: String,
    pub retry: Option<u64>,
    pub comment: String,
}

impl Message {
    pub fn json(&self) -> Value {
        let json = serde_json::from_str(&self.data).unwrap();
        schema::hold("GET /api/v1/events", &json);
        json
    }
}

/// An open stream of server-sent events.
pub struct Live {
    reader: BufReader<Chunked>,
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

impl Live {
    pub fn open(address: SocketAddr) -> Self {
        Self::open_with(address, "")
    }

    pub fn open_with(address: SocketAddr, headers: &str) -> Self {
        let mut stream = connect(address);
        write!(stream, "GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader);
        Live { reader: BufReader::new(Chunked { reader, left: 0, complete: false }), status, headers }
    }

    /// The next message; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<Message> {
        let mut message = Message::default();
        let mut lines = 0;
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            if line.is_empty() {
                if lines > 0 {
                    return Some(message);
                }
                continue;
            }
            lines += 1;
            let (field, value) = line.split_once(':').unwrap();
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match field {
                "event" => message.event = value,
                "id" => message.id = Some(value.parse().unwrap()),
                "data" => message.data = value,
                "retry" => message.retry = Some(value.parse().unwrap()),
                "" => message.comment = value,
                other => panic!("unknown field {other}"),
            }
        }
    }

    /// Whether the server ended the stream, and did not just cut the connection.
    pub fn is_complete(&self) -> bool {
        self.reader.get_ref().complete
    }

    /// The next message with data, other than news of findings, which come when they come.
    pub fn next_event(&mut self) -> Message {
        self.next_that(|message| !message.event.is_empty() && message.event != "findings")
    }

    /// The next message that is wanted.
    pub fn next_that(&mut self, is_wanted: impl Fn(&Message) -> bool) -> Message {
        loop {
            let message = self.next().expect("the stream ended");
            if is_wanted(&message) {
                return message;
            }
        }
    }
}

/// The body of an answer in chunks.
struct Chunked {
    reader: BufReader<TcpStream>,
    left: usize,
    /// Whether the last chunk came, and not just the end of the connection.
    complete: bool,
}

impl Read for Chunked {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                // The connection was cut without a last chunk.
                return Ok(0);
            }
            self.left = usize::from_str_radix(line.trim(), 16).unwrap() + 2;
            if self.left == 2 {
                self.complete = true;
                return Ok(0);
            }
        }
        // The line end after the chunk is skipped.
        let wanted = buffer.len().min(self.left.saturating_sub(2));
        let count = self.reader.read(&mut buffer[..wanted])?;
        self.left -= count;
        if self.left == 2 {
            self.reader.read_exact(&mut [0; 2])?;
            self.left = 0;
        }
        Ok(count)
    }
}

//! A service of HTTP that answers as a test says, well or ill.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    pub path: String,
    /// The value of `If-Match`.
    pub if_match: Option<String>,
    pub body: String,
}

/// An answer: its status, lines of its head, and its body.
pub struct Reply(pub u16, pub Vec<String>, pub String);

impl Reply {
    pub fn json(status: u16, body: &serde_json::Value) -> Reply {
        Reply(status, vec!["Content-Type: application/json".to_owned()], body.to_string())
    }
}

/// A running service: it answers until the test's process ends.
pub struct Service {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    pub fn start(answer: impl FnMut(&Asked) -> Reply + Send + 'static) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (keeps, answer) = (Arc::clone(&asked), Arc::new(Mutex::new(answer)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (keeps, answer) = (Arc::clone(&keeps), Arc::clone(&answer));
                std::thread::spawn(move || _ = speak(&stream, &keeps, &mut *answer.lock().unwrap()));
            }
        });
        Service { url, asked }
    }

    /// What was asked by this method.
    pub fn asked(&self, method: &str) -> Vec<Asked> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.method == method).cloned().collect()
    }
}

/// One request of one connection, which is closed after it.
fn speak(
    mut stream: &TcpStream,
    keeps: &Mutex<Vec<Asked>>,
    answer: &mut dyn FnMut(&Asked) -> Reply,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length, mut if_match) = (String::new(), 0, None);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some((name, value)) = line.trim_end().split_once(": ") {
            match name.to_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "if-match" => if_match = Some(value.to_owned()),
                _ => {}
            }
        }
        if line == "\r\n" {
            break;
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut words = head.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let asked = Asked { method, path, if_match, body: String::from_utf8_lossy(&body).into_owned() };
    keeps.lock().unwrap().push(asked.clone());
    let Reply(status, lines, body) = answer(&asked);
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    write!(stream, "HTTP/1.1 {status} So\r\n{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

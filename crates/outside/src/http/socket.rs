//! Connections over a Unix socket: one that is named, or one that is open already.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;
use ureq::Error;
use ureq::unversioned::transport::time::Duration;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, ShutdownHandle, Transport,
};

/// Connects to a socket if there is one; otherwise the next connector's turn comes.
#[derive(Debug)]
pub(super) struct SocketConnector {
    path: Option<PathBuf>,
    open: Mutex<Option<UnixStream>>,
}

impl SocketConnector {
    /// With `open` there is one connection, and no other is made.
    pub(super) fn new(path: Option<PathBuf>, open: Option<UnixStream>) -> SocketConnector {
        SocketConnector { path, open: Mutex::new(open) }
    }
}

impl Connector<()> for SocketConnector {
    type Out = SocketTransport;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<SocketTransport>, Error> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stream = match (open, &self.path) {
            (Some(stream), _) => stream,
            (None, Some(path)) => UnixStream::connect(path)?,
            (None, None) => return Ok(None),
        };
        let stream = Arc::new(Stream(stream));
        let handle: Weak<dyn ShutdownHandle> = Arc::downgrade(&stream) as Weak<dyn ShutdownHandle>;
        (details.register_shutdown)(handle)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(SocketTransport { stream, buffers }))
    }
}

#[derive(Debug)]
struct Stream(UnixStream);

impl ShutdownHandle for Stream {
    fn shutdown(&self) {
        // It fails where the other end has closed it.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

#[derive(Debug)]
pub(super) struct SocketTransport {
    stream: Arc<Stream>,
    buffers: LazyBuffers,
}

/// Runs one system call at a time until it is done or the time is over.
fn within<T>(
    timeout: NextTimeout,
    set: impl Fn(Option<std::time::Duration>) -> io::Result<()>,
    mut call: impl FnMut() -> io::Result<T>,
) -> Result<T, Error> {
    let ends = match timeout.after {
        Duration::Exact(left) => Instant::now().checked_add(left),
        Duration::NotHappening => None,
    };
    loop {
        let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::Timeout(timeout.reason));
        }
        set(left)?;
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(Error::Timeout(timeout.reason));
            }
            done => return Ok(done?),
        }
    }
}

impl Transport for SocketTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let stream = &self.stream.0;
        let output = &self.buffers.output()[..amount];
        let mut sent = 0;
        while sent < amount {
            let count = within(
                timeout.for_write(),
                |left| stream.set_write_timeout(left),
                || {
                    let mut stream = stream;
                    stream.write(&output[sent..])
                },
            )?;
            if count == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            sent += count;
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let stream = &self.stream.0;
        let input = self.buffers.input_append_buf();
        let count = within(
            timeout.for_read(),
            |left| stream.set_read_timeout(left),
            || {
                let mut stream = stream;
                stream.read(input)
            },
        )?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        let mut stream = &self.stream.0;
        if stream.set_nonblocking(true).is_err() {
            return false;
        }
        // Bytes that nobody asked for end a connection as well as its end does.
        let waits = matches!(stream.read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        waits && stream.set_nonblocking(false).is_ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::http::{Request, ask, ask_each, ask_over};
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn asked(stream: &mut UnixStream) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).unwrap(), 1, "{head:?}");
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap()
    }

    fn request(socket: Option<PathBuf>) -> Request {
        Request { method: "GET", url: "http://localhost/a".into(), socket, ..Request::default() }
    }

    #[test]
    fn a_socket_is_asked_over_one_connection_and_so_is_an_open_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        assert!(ask(&request(Some(path.clone())), PATIENCE, &AtomicBool::new(false)).is_err(), "nobody is there");
        let listener = UnixListener::bind(&path).unwrap();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut heads = Vec::new();
            for body in ["one", "two"] {
                heads.push(asked(&mut stream));
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{body}").unwrap();
            }
            heads
        });
        let both = [request(Some(path.clone())), request(Some(path))];
        let said = ask_each(100, &both, PATIENCE, &AtomicBool::new(false));
        let bodies: Vec<&str> = said.iter().flatten().map(|answer| answer.body.as_str()).collect();
        assert_eq!(bodies, ["one", "two"]);
        let heads = serving.join().unwrap();
        assert!(heads[0].starts_with("GET /a HTTP/1.1\r\n") && heads[0].contains("host: localhost\r\n"), "{heads:?}");

        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || {
            asked(&mut theirs);
            write!(theirs, "HTTP/1.1 200 OK\r\n\r\nto the end").unwrap();
        });
        assert_eq!(ask_over(ours, 100, &request(None), PATIENCE).unwrap().body, "to the end");
        serving.join().unwrap();
    }

    #[test]
    fn who_is_told_to_stop_does_not_wait_for_the_answer_and_sends_nothing_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            asked(&mut stream);
            told.store(true, std::sync::atomic::Ordering::Relaxed);
            // It ends because the other end is closed, and no other connection comes.
            let rest = stream.read(&mut [0]).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            listener.set_nonblocking(true).unwrap();
            (rest, listener.accept().is_err())
        });
        let begun = Instant::now();
        let both = [request(Some(path.clone())), request(Some(path))];
        let said = ask_each(100, &both, PATIENCE, &stop);
        assert!(begun.elapsed() < PATIENCE / 2);
        assert!(
            said.iter().all(|answer| answer.as_ref().is_err_and(|why| why.to_string().contains("stopped"))),
            "{said:?}"
        );
        assert_eq!(serving.join().unwrap(), (0, true));
    }
}

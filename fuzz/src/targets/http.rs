use std::cell::RefCell;
use surefoot_daemon::unconnected;
use surefoot_http::unconnected::Unconnected;

/// A request to the page, as bytes.
pub fn head(bytes: &[u8]) {
    thread_local!(static KEPT: RefCell<Option<Unconnected>> = const { RefCell::new(None) });
    KEPT.with_borrow_mut(|kept| {
        let server = kept.get_or_insert_with(|| {
            unconnected().unwrap_or_else(|error| panic!("the server cannot be started: {error}"))
        });
        let answer = server.answer(bytes);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
        // Every answer of ours is dressed; what is no request has its answer from the library below.
        if !answer.is_empty() && !answer.starts_with(b"HTTP/1.1 400 ") && !answer.starts_with(b"HTTP/1.1 431 ") {
            let head = String::from_utf8_lossy(&answer[..answer.len().min(4096)]).to_ascii_lowercase();
            let is_dressed = head.contains("x-content-type-options: nosniff") || head.starts_with("http/1.1 100 ");
            assert!(is_dressed || head.starts_with("http/1.1 414"), "{head}");
        }
    });
}

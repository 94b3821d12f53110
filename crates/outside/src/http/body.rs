//! The body of an answer, decoded and within its limit.

use super::NoAnswer;
use flate2::bufread::{DeflateDecoder, ZlibDecoder};
use flate2::read::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};

/// Reads a body to its end.
pub(super) fn read(body: impl Read, encoding: &str, bytes_max: u64) -> Result<Vec<u8>, NoAnswer> {
    match encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => up_to(body, bytes_max),
        // RFC 1952: a file has one member or several.
        "gzip" | "x-gzip" => up_to(MultiGzDecoder::new(body), bytes_max),
        "deflate" => {
            let mut body = BufReader::new(body);
            // RFC 9110 means zlib's format; some send its content without the head.
            let first = body.fill_buf().map_err(unreadable)?.first().copied().unwrap_or_default();
            match first & 0x0f == 8 {
                true => up_to(ZlibDecoder::new(&mut body), bytes_max),
                false => up_to(DeflateDecoder::new(&mut body), bytes_max),
            }
            .and_then(|bytes| match body.fill_buf().map_err(unreadable)?.is_empty() {
                true => Ok(bytes),
                false => Err(NoAnswer::Unreadable("it goes on after its end".into())),
            })
        }
        other => Err(NoAnswer::Unreadable(format!("unknown Content-Encoding '{}'", surefoot_model::one_line(other)))),
    }
}

fn up_to(body: impl Read, bytes_max: u64) -> Result<Vec<u8>, NoAnswer> {
    let mut bytes = Vec::new();
    body.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > bytes_max { Err(NoAnswer::TooLong(bytes_max)) } else { Ok(bytes) }
}

fn unreadable(error: io::Error) -> NoAnswer {
    NoAnswer::Unreadable(match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends early".into(),
        _ => super::transport::words(&ureq::Error::from(error)),
    })
}

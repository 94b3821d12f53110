//! `Authorization: Basic`, by which a browser shows a token: it asks its user for a name, which is not looked at, and a password, which is the
//! token. RFC 7617.

use axum::http::{HeaderMap, header};
use std::borrow::Cow;

/// The token that a request shows, as a bearer or as a password. Whoever shows something else in its place shows a wrong one.
pub fn token(headers: &HeaderMap) -> Option<Cow<'_, [u8]>> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let bearer = after_scheme(value, b"bearer");
    Some(bearer.map(Cow::Borrowed).unwrap_or_else(|| Cow::Owned(password(value).unwrap_or_default())))
}

/// The password that the value of the header holds.
pub fn password(value: &[u8]) -> Option<Vec<u8>> {
    let decoded = decoded(after_scheme(value, b"basic")?)?;
    let colon = decoded.iter().position(|&byte| byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
}

/// What follows the name of a scheme, in whatever case, and its spaces. RFC 9110, 11.4.
fn after_scheme<'a>(value: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (word, rest) = value.split_at_checked(scheme.len())?;
    let is_it = word.eq_ignore_ascii_case(scheme) && rest.first() == Some(&b' ');
    is_it.then(|| rest.trim_ascii_start())
}

/// Base64 with its usual letters, RFC 4648; `None` for anything else.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
    let (letters, is_whole) = (&text[..text.len() - padding], text.len().is_multiple_of(4));
    if !is_whole || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for piece in letters.chunks(4) {
        let values: Vec<u32> = piece.iter().map(|&letter| value(letter)).collect::<Option<_>>()?;
        let bits = values.iter().fold(0, |bits, value| bits << 6 | value) << (6 * (4 - piece.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..piece.len()]);
    }
    Some(bytes)
}

fn value(letter: u8) -> Option<u32> {
    Some(match letter {
        b'A'..=b'Z' => u32::from(letter - b'A'),
        b'a'..=b'z' => u32::from(letter - b'a') + 26,
        b'0'..=b'9' => u32::from(letter - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_what_comes_after_the_first_colon() {
        // By base64 of coreutils.
        for (value, password_is) in [
            (&b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="[..], Some(&b"open sesame"[..])),
            (b"basic OnRva2Vu", Some(b"token")),
            (b"BASIC  OnRva2Vu", Some(b"token")),
            (b"BasicOnRva2Vu", None),
            (b"Basic YTpiOmM=", Some(b"b:c")),
            (b"Basic YTo=", Some(b"")),
            (b"Basic ", None),
            (b"Basic YWJj", None),
            (b"Basic YTpi=", None),
            (b"Basic YTpi====", None),
            (b"Basic YT*i", None),
            (b"Bearer YTpi", None),
            (b"", None),
        ] {
            assert_eq!(password(value).as_deref(), password_is, "{}", String::from_utf8_lossy(value));
        }
        for (value, token_is) in
            [("Bearer a", "a"), ("BEARER   a b", "a b"), ("bearer ", ""), ("Bearera", ""), ("Digest a", "")]
        {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            assert_eq!(token(&headers).as_deref(), Some(token_is.as_bytes()), "{value}");
        }
        let all: Vec<u8> = (0..=255).collect();
        let text = b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV5fYGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6e3x9fn+AgYKDhIWGh4iJiouMjY6PkJGSk5SVlpeYmZqbnJ2en6ChoqOkpaanqKmqq6ytrq+wsbKztLW2t7i5uru8vb6/wMHCw8TFxsfIycrLzM3Oz9DR0tPU1dbX2Nna29zd3t/g4eLj5OXm5+jp6uvs7e7v8PHy8/T19vf4+fr7/P3+/w==";
        assert_eq!(decoded(text), Some(all));
    }
}

//! Names and texts from the network: what of them is taken, and how much.

use std::net::Ipv6Addr;
use surefoot_model::one_line;

/// The longest name of a host, by RFC 1035.
const HOST_BYTES_MAX: usize = 253;
/// The longest other name, and the longest text.
const NAME_CHARACTERS_MAX: usize = 200;
const TEXT_CHARACTERS_MAX: usize = 1_000;
/// The longest key. An index of PostgreSQL takes 2,704 bytes, host and key together; one message that it refuses would take others with it.
const KEY_BYTES_MAX: usize = 1_000;

/// A host's name, without a port behind it: letters, digits, `.`, `-` and `_`, as schedulers and name services have them, or an IPv6 address,
/// which Prometheus writes as `[2001:db8::7]:9100`. Nothing else is one, so that no name can be an option, a path, or words of a shell.
pub fn host(text: &str) -> Option<String> {
    written(text).filter(|host| surefoot_outside::host_name::is_of_one_host(host))
}

fn written(text: &str) -> Option<String> {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let address = match bracketed {
        Some((address, "")) => address,
        Some((address, port)) if port.strip_prefix(':').is_some_and(is_port) => address,
        Some(_) => return None,
        None => text,
    };
    if let Ok(address) = address.parse::<Ipv6Addr>() {
        // One address has many forms, and a host has one name: that of IPv4 where the address is one.
        return Some(address.to_ipv4_mapped().map_or_else(|| address.to_string(), |of_ipv4| of_ipv4.to_string()));
    }
    if bracketed.is_some() {
        return None;
    }
    let name = match text.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => text,
    };
    // The name service knows it without the dot by the same name.
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let begins_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    (begins_well && name.len() <= HOST_BYTES_MAX && name.bytes().all(is_allowed)).then(|| name.to_ascii_lowercase())
}

/// A name: on one line, and cut.
pub(super) fn name(text: &str) -> String {
    one_line(text).chars().take(NAME_CHARACTERS_MAX).collect()
}

/// A sentence or a line of evidence: on one line, and cut.
pub(super) fn text(text: &str) -> String {
    one_line(text).chars().take(TEXT_CHARACTERS_MAX).collect()
}

/// A key: on one line; one that is too long keeps its beginning, and has a number of the whole as its end.
pub(super) fn key(text: &str) -> String {
    let mut key = one_line(text);
    if key.len() > KEY_BYTES_MAX {
        let number = hash(key.bytes());
        let end = (0..=KEY_BYTES_MAX - 17).rev().find(|end| key.is_char_boundary(*end));
        key.truncate(end.unwrap_or(0));
        key += &format!("#{number:016x}");
    }
    key
}

/// FNV-1a with 64 bits: the same in every release.
pub(super) fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_names_of_hosts_are_hosts() {
        for (given, name) in [
            ("Node17", "node17"),
            ("node17.example:9100", "node17.example"),
            ("10.0.0.7:9100", "10.0.0.7"),
            ("n_1", "n_1"),
            ("n1.example.", "n1.example"),
            ("n1.:9100", "n1"),
            ("[2001:db8::7]:9100", "2001:db8::7"),
            ("[2001:0DB8:0:0::7]", "2001:db8::7"),
            ("2001:db8::7", "2001:db8::7"),
            ("[::ffff:10.0.0.7]:9100", "10.0.0.7"),
            ("::FFFF:10.0.0.7", "10.0.0.7"),
        ] {
            assert_eq!(host(given).unwrap(), name);
        }
        let long = "a".repeat(254);
        for wrong in [
            "[2001:db8::7",
            "[2001:db8::7]9100",
            "[2001:db8::7]:",
            "[n1]:9100",
            "[::1]:a",
            "[fe80::1%eth0]:9100",
            "1:2:3",
        ] {
            assert_eq!(host(wrong), None, "{wrong:?}");
        }
        for every in [
            "localhost:9100",
            "LOCALHOST",
            "127.0.0.1:9100",
            "[::1]:9100",
            "::ffff:127.0.0.1",
            "0",
            "127.1",
            "ALL",
            "0.0.0.0",
        ] {
            assert_eq!(host(every), None, "{every:?}");
        }
        for wrong in ["", "-f", "../etc", "a/b", "a b", "a;b", "$(id)", "a\nb", ".x", "a:b", "näme", ":9100", &long] {
            assert_eq!(host(wrong), None, "{wrong:?}");
        }
    }
    #[test]
    fn long_keys_are_short_and_still_two() {
        assert_eq!(key("memory/rate/dimm/A1\n"), "memory/rate/dimm/A1?");
        let long = |last: &str| key(&("m/".to_owned() + &"\u{10348}".repeat(1_000) + last));
        assert!(long("a").len() <= 1_000 && long("a").starts_with("m/\u{10348}"), "{}", long("a"));
        assert!(long("a") != long("b") && long("a") == long("a"));
    }
}

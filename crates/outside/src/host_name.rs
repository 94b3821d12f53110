//! Names of hosts, as other systems tell them: whether two of them are of one host.

use std::net::{IpAddr, Ipv4Addr};
use surefoot_model::is_filler;

/// Whether two names can only be those of two hosts. An address says nothing of a name.
pub fn is_other_host(name: &str, host: &str) -> bool {
    is_name(name) && is_name(host) && first_label(name) != first_label(host)
}

/// Whether two names are those of one host: equal, or one is the other without its domain.
pub fn is_same_host(name: &str, host: &str) -> bool {
    let is_short = |name: &str| !name.contains('.');
    let is_same = match is_short(name) || is_short(host) {
        true => first_label(name) == first_label(host),
        false => name.eq_ignore_ascii_case(host),
    };
    is_name(name) && is_name(host) && is_same
}

/// Names that machines have before anybody gave them one.
const UNSET: [&str; 5] = ["localhost", "localhost.localdomain", "localhost4", "localhost6", "host"];

/// The longest name, and the longest of its parts, by RFC 1035.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// A host's name as a part of another address, such as that of its management controller: an IPv6 address stands in brackets. Every host's own
/// name for itself, such as `localhost`, would lead to one machine for all of them.
///
/// # Errors
/// Why it can be no part of one.
pub fn in_address(host: &str) -> Result<String, String> {
    let wrong = |why: &str| {
        let shown: String = surefoot_model::one_line(host).chars().take(64).collect();
        Err(format!("'{shown}' is no host's name that could be part of an address: {why}"))
    };
    if !is_of_one_host(host) {
        return wrong("it does not tell one host from others");
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(if address.is_ipv6() { format!("[{address}]") } else { host.to_owned() });
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(is_plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if host.len() > NAME_BYTES_MAX || !host.split('.').all(is_label) {
        return wrong("it must be labels of letters, digits and hyphens with dots between them");
    }
    Ok(host.to_owned())
}

/// Whether a name or an address can be that of one host alone. `localhost`, 127.0.0.1 and what the name service takes for them lead every
/// machine to itself, and `all` is every node to a scheduler.
pub fn is_of_one_host(host: &str) -> bool {
    let is_one = |address: IpAddr| {
        let address = address.to_canonical();
        let everywhere = address.is_loopback() || address.is_unspecified() || address.is_multicast();
        !everywhere && address != IpAddr::V4(Ipv4Addr::BROADCAST)
    };
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return is_one(address);
    }
    // The name service takes digits for an address, also in fewer parts than four: 127.1 is 127.0.0.1, and so is 0x7f000001.
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number =
        is_number(last) && (host.contains('.') || number(host).is_none_or(|bits| !is_one(IpAddr::V4(bits.into()))));
    is_name(host) && !is_number && !host.eq_ignore_ascii_case("all")
}

fn is_number(label: &str) -> bool {
    label.bytes().all(|byte| byte.is_ascii_digit()) || label.starts_with("0x")
}

/// The number that an address of one part is, as `inet_aton` reads it.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let next = |number: u32, digit: char| number.checked_mul(radix)?.checked_add(digit.to_digit(radix)?);
    digits.chars().try_fold(0, next)
}

/// Whether this is a name that tells one host from others.
fn is_name(text: &str) -> bool {
    let is_address = text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    !text.is_empty() && !is_address && !is_filler(text) && !UNSET.contains(&text.to_ascii_lowercase().as_str())
}

fn first_label(name: &str) -> String {
    name.split('.').next().unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_host_is_a_part_of_an_address_or_none() {
        for (host, part) in
            [("n1.example", "n1.example"), ("17", "17"), ("10.0.0.7", "10.0.0.7"), ("2001:db8::7", "[2001:db8::7]")]
        {
            assert_eq!(in_address(host).unwrap(), part);
        }
        let long = ["a"; 127].join(".") + ".a";
        for host in [
            "",
            "n1:80",
            "a/b",
            "n1@b",
            "[::1]",
            "::1%eth0",
            "localhost",
            "LocalHost",
            "127.0.0.1",
            "::1",
            "0.0.0.0",
            "::",
            "ff02::1",
            "-v",
            "a-",
            "a..b",
            ".a",
            "a.",
            "a_b",
            "{host}",
            "none",
            "127.1",
            "a.0x7f",
            "0",
            "00",
            "2130706433",
            "017700000001",
            "0x7f000001",
            "all",
            "255.255.255.255",
            &"a".repeat(64),
            &long,
        ] {
            assert!(in_address(host).is_err(), "{host}");
        }
    }
}

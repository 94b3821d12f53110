//! Names of hosts, as other systems tell them: whether two of them are of one host.

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

/// Whether this is a name that tells one host from others.
fn is_name(text: &str) -> bool {
    const UNSET: [&str; 3] = ["localhost", "localhost.localdomain", "host"];
    let is_address = text.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    !text.is_empty() && !is_address && !is_filler(text) && !UNSET.contains(&text.to_ascii_lowercase().as_str())
}

fn first_label(name: &str) -> String {
    name.split('.').next().unwrap_or_default().to_ascii_lowercase()
}

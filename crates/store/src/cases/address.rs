use crate::{Error, Result};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where cases are kept: `sqlite:PATH`, or `postgres://USER@HOST/DATABASE` with PostgreSQL's own parameters behind `?`. Printed, it
/// has no password.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// A file.
    Sqlite(PathBuf),
    /// A server of PostgreSQL.
    Postgres(String),
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Address::Sqlite(path.into())),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => Ok(Address::Postgres(text.to_owned())),
            _ => {
                let is_path = !text.is_empty() && !text.contains([':', '@']);
                Err(Error::CaseStore {
                    address: format!("'{}'", without_password(text).chars().take(40).collect::<String>()),
                    why: match is_path {
                        true => format!("write sqlite:{text}"),
                        false => "no store of cases; write sqlite:PATH or postgres://USER@HOST/DATABASE".into(),
                    },
                })
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Address::Postgres(url) => f.write_str(&without_password(url)),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The password stands between the first colon and the last `@` of what names user and host; parameters may hold one, too.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.find("//").map_or(("", url), |at| url.split_at(at + 2));
    let (rest, has_parameters) = rest.split_once('?').map_or((rest, false), |(rest, _)| (rest, true));
    let rest = match rest.rsplit_once('@') {
        Some((user, place)) => format!("{}@{place}", user.split(':').next().unwrap_or_default()),
        None => rest.to_owned(),
    };
    format!("{scheme}{rest}{}", if has_parameters { "?..." } else { "" })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_password_is_never_printed() {
        for (given, printed) in [
            ("sqlite:/var/lib/x", "sqlite:/var/lib/x"),
            ("postgres://u@h/d", "postgres://u@h/d"),
            ("postgres://u:se:c@ret@h:5432/d", "postgres://u@h:5432/d"),
            ("postgresql:///d?host=/run&password=secret", "postgresql:///d?..."),
        ] {
            let address: Address = given.parse().unwrap();
            assert_eq!(address.to_string(), printed);
            assert_eq!(format!("{address:?}"), printed);
        }
        for wrong in ["", "sqlite:", "mysql://x", "postgres:x", "u:secret@h/d"] {
            let told = wrong.parse::<Address>().unwrap_err().to_string();
            assert!(told.contains("write sqlite:PATH") && !told.contains("secret"), "{wrong}: {told}");
        }
    }

    #[test]
    fn a_path_without_its_scheme_is_told_with_it() {
        let told = |text: &str| text.parse::<Address>().unwrap_err().to_string();
        assert_eq!(told("rem/cases.db"), "'rem/cases.db': write sqlite:rem/cases.db");
        assert_eq!(told("/var/lib/x"), "'/var/lib/x': write sqlite:/var/lib/x");
    }
}

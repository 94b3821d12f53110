//! Who may do what: `[[who]]` tables of a file, and on this machine the user that the kernel names.
//!
//! ```toml
//! [[who]]
//! name = "alertmanager"
//! roles = ["report"]
//! token_file = "/etc/surefoot/alertmanager.token"
//!
//! [[who]]
//! name = "anna"
//! roles = ["operate", "approve"]
//! certificate = "anna"            # the common name of a certificate that the authority signed
//!
//! [[who]]
//! name = "agents"
//! roles = ["agent"]
//! certificate = "*"               # any other one: the agent of the host that it is named after
//!
//! [[who]]
//! name = "prometheus"
//! roles = ["read"]                # it scrapes `/metrics`
//! uid = 118                       # a user of this machine, over loopback or the socket
//! ```
//!
//! Without a file, root and the server's own user may do everything, and nobody else anything.

use crate::{Error, is_same, own_files};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use surefoot_hostfs::privilege::effective_user;
use surefoot_model::one_line;

/// The longest file of who may do what.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The shortest token: one that can be guessed is none.
const TOKEN_BYTES_MIN: usize = 16;

/// One who is known, and what he may do: the roles of a server are its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller<R> {
    /// As in an audit trail.
    pub name: String,
    /// What the caller may do.
    pub roles: Vec<R>,
    /// The hosts that the caller speaks for; empty for all.
    pub hosts: Vec<String>,
}

/// Reads the text of a file of who may do what, or says what is wrong with it.
pub type Parse<R> = fn(&str) -> Result<File<R>, String>;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File<R> {
    #[serde(default = "Vec::new")]
    who: Vec<Who<R>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Who<R> {
    name: String,
    roles: Vec<R>,
    token_file: Option<PathBuf>,
    certificate: Option<String>,
    uid: Option<u32>,
    /// The hosts whose agent it is. Where it names none: with a certificate the host that this is named after, else any.
    #[serde(default)]
    hosts: Vec<String>,
}

/// By what somebody is known.
#[derive(Clone, PartialEq, Eq)]
enum Proof {
    Token(Vec<u8>),
    CommonName(String),
    AnyCertificate,
    Uid(u32),
}

#[derive(Clone, PartialEq)]
struct Known<R> {
    name: String,
    roles: Vec<R>,
    hosts: Vec<String>,
    proof: Proof,
    /// Where the token of `proof` stands.
    token_file: Option<PathBuf>,
}

/// Users that one message names.
const NAMED_MAX: usize = 20;

/// What is wrong with a file that was read again.
#[derive(Debug)]
pub enum Wrong {
    /// The whole of it.
    File {
        /// What is wrong.
        error: Error,
        /// Who has which rights until it is mended, in words.
        rights: String,
    },
    /// Some tokens; whoever shows one of them may do nothing until they are mended.
    Tokens(Vec<Error>),
}

/// Everybody who may do something.
pub struct Access<R> {
    known: Vec<Known<R>>,
    /// What root and the server's own user may do on this machine, without a file.
    own_roles: Vec<R>,
    /// The files of tokens.
    pub token_files: Vec<PathBuf>,
}

/// One who asks, as the connection and the request show him.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown<'a> {
    /// The user on this machine, over loopback or the socket.
    pub uid: Option<u32>,
    /// The common name of a certificate that was checked.
    pub common_name: Option<&'a str>,
    /// The bearer token.
    pub token: Option<&'a [u8]>,
}

impl<R: Copy> Access<R> {
    /// Root and the server's own user alone, in these roles.
    pub fn own(own_roles: &[R]) -> Access<R> {
        Access { known: Vec::new(), own_roles: own_roles.to_vec(), token_files: Vec::new() }
    }

    /// The same, and whoever shows a certificate that the authority signed, in these roles.
    pub fn and_any_certificate(mut self, roles: &[R]) -> Access<R> {
        self.known.push(Known {
            name: "certificate".to_owned(),
            roles: roles.to_vec(),
            hosts: Vec::new(),
            proof: Proof::AnyCertificate,
            token_file: None,
        });
        self
    }

    /// What a file says. Root and the server's own user have `own_roles` in any case: they could change the file.
    ///
    /// # Errors
    /// [`Error::Unusable`] with what is wrong where.
    pub fn read(path: &Path, own_roles: &[R], parse: Parse<R>) -> Result<Access<R>, Error> {
        let (access, left_out) = Access::read_on(path, own_roles, parse)?;
        left_out.into_iter().next().map_or(Ok(access), Err)
    }

    /// The same while the server runs: whoever has no token any more may do nothing, and keeps no right of anybody else's from being
    /// taken away. Also what is wrong with those tokens.
    ///
    /// # Errors
    /// As [`Access::read`] but for tokens.
    pub fn read_on(path: &Path, own_roles: &[R], parse: Parse<R>) -> Result<(Access<R>, Vec<Error>), Error> {
        let failed = |why: String| Error::Unusable { what: path.display().to_string(), why };
        let text = own_files::text(path, FILE_BYTES_MAX).map_err(failed)?;
        let file: File<R> = parse(&text).map_err(failed)?;
        let token_files = file.who.iter().filter_map(|who| who.token_file.clone()).collect();
        let (mut known, mut left_out) = (Vec::new(), Vec::new());
        for who in file.who {
            let about = |why: &str| failed(format!("who '{}': {why}", one_line(&who.name)));
            if who.name.is_empty() || who.roles.is_empty() {
                return Err(about("it needs a name and roles"));
            }
            let proof = match (&who.token_file, &who.certificate, who.uid) {
                (Some(file), None, None) => match token(file) {
                    Ok(token) => Proof::Token(token),
                    Err(why) => {
                        left_out.push(about(&why));
                        continue;
                    }
                },
                (None, Some(name), None) if name == "*" => Proof::AnyCertificate,
                (None, Some(name), None) => Proof::CommonName(name.clone()),
                (None, None, Some(uid)) => Proof::Uid(uid),
                _ => return Err(about("it needs one of token_file, certificate and uid, and no two of them")),
            };
            if let Some(before) = known.iter().find(|one: &&Known<R>| one.proof == proof) {
                let name = one_line(&before.name);
                return Err(about(&format!("'{name}' before it is known by the same; name all roles there")));
            }
            let token_file = who.token_file;
            known.push(Known { name: who.name, roles: who.roles, hosts: who.hosts, proof, token_file });
        }
        // Whoever is named counts before whoever has just any certificate.
        known.sort_by_key(|one| matches!(one.proof, Proof::AnyCertificate));
        Ok((Access { known, own_roles: own_roles.to_vec(), token_files }, left_out))
    }

    /// Reads the file again. Where that fails, some rights go on, as [`Access::without_file`] says.
    pub fn reread(&self, path: &Path, parse: Parse<R>) -> (Access<R>, Option<Wrong>) {
        match Access::read_on(path, &self.own_roles, parse) {
            Ok((access, left_out)) => {
                let wrong = (!left_out.is_empty()).then_some(Wrong::Tokens(left_out));
                (access, wrong)
            }
            Err(error) => {
                let (access, rights) = self.without_file(path);
                (access, Some(Wrong::File { error, rights }))
            }
        }
    }

    /// What is left of these rights while their file cannot be read again, and that in words. A token counts as its own file has it now: one
    /// that is gone or was changed lets nobody in any more. If other users can change the file, nobody has rights by it.
    pub fn without_file(&self, path: &Path) -> (Access<R>, String) {
        let none = |why: &str| {
            (
                Access::own(&self.own_roles),
                format!("{why}, only root and the user of this server have rights until it is mended"),
            )
        };
        if own_files::expect_own(path).is_err() {
            return none("because it is unsafe");
        }
        let (mut known, mut gone) = (Vec::new(), Vec::new());
        for one in &self.known {
            match one.now() {
                Ok(now) => known.push(now),
                Err(why) => gone.push(format!("{} ({why})", one_line(&one.name))),
            }
        }
        // Who it is that shows it cannot be told.
        let is_twice = |one: &Known<R>| known.iter().filter(|other| other.proof == one.proof).count() > 1;
        let (twice, once): (Vec<bool>, Vec<String>) =
            known.iter().map(|one| (is_twice(one), one_line(&one.name))).unzip();
        gone.extend(
            twice
                .iter()
                .zip(&once)
                .filter(|(twice, _)| **twice)
                .map(|(_, name)| format!("{name} (another user has the same token)")),
        );
        let mut twice = twice.into_iter();
        known.retain(|_| !twice.next().unwrap_or(false));
        if known.is_empty() && gone.is_empty() {
            return none("as before");
        }
        let keep: Vec<String> = known.iter().map(Known::with_proof).collect();
        let mut words = match keep.is_empty() {
            true => "no user keeps rights by it".to_owned(),
            false => format!("as it was read last, these users keep their rights: {}", named(&keep)),
        };
        if !gone.is_empty() {
            words += &format!("; these have none any more: {}", named(&gone));
        }
        let token_files = known.iter().filter_map(|one| one.token_file.clone()).collect();
        (Access { known, own_roles: self.own_roles.clone(), token_files }, words)
    }

    /// Whether anybody could do something over the network.
    pub fn has_remote(&self) -> bool {
        self.known.iter().any(|one| !matches!(one.proof, Proof::Uid(_)))
    }

    /// Who it is. A token that is shown counts alone: a wrong one is not made good by a user.
    ///
    /// # Errors
    /// Why it is nobody.
    pub fn caller(&self, shown: &Shown<'_>) -> Result<Caller<R>, &'static str> {
        let found = |holds: &dyn Fn(&Proof) -> bool| self.known.iter().find(|one| holds(&one.proof));
        if let Some(shown) = shown.token {
            let known = found(&|proof| matches!(proof, Proof::Token(known) if is_same(known, shown)));
            let known = known.ok_or("unknown token")?;
            // What was read some time ago may have been taken back since.
            let is_still = |file: &PathBuf| token(file).is_ok_and(|now| is_same(&now, shown));
            return match known.token_file.as_ref().is_none_or(is_still) {
                true => Ok(caller(known, None)),
                false => Err("this token was changed or deleted"),
            };
        }
        if let Some(name) = shown.common_name {
            let by_name = found(&|proof| matches!(proof, Proof::CommonName(known) if known == name));
            let known = by_name.or_else(|| found(&|proof| matches!(proof, Proof::AnyCertificate)));
            return known.map(|one| caller(one, Some(name))).ok_or("the certificate's subject has no role");
        }
        let Some(uid) = shown.uid else { return Err("show a client's certificate or a bearer token") };
        if let Some(known) = found(&|proof| matches!(proof, Proof::Uid(known) if *known == uid)) {
            return Ok(caller(known, None));
        }
        if !self.own_roles.is_empty() && (uid == 0 || uid == effective_user()) {
            return Ok(Caller { name: format!("user {uid}"), roles: self.own_roles.clone(), hosts: Vec::new() });
        }
        Err("this user has no role here; name it in the file of roles, or show a bearer token")
    }
}

impl<R: PartialEq> Access<R> {
    /// Whether the same users have the same rights by the same proofs.
    pub fn is_same(&self, other: &Access<R>) -> bool {
        self.known == other.known
    }

    /// How many users the file gives rights to.
    pub fn known_count(&self) -> usize {
        self.known.len()
    }
}

impl<R: Copy> Known<R> {
    /// The same with the token that is in its file now.
    fn now(&self) -> Result<Known<R>, String> {
        let proof = match (&self.token_file, &self.proof) {
            (Some(file), _) => Proof::Token(token(file)?),
            (None, Proof::Token(_)) => return Err("its token has no file".into()),
            (None, Proof::CommonName(name)) => Proof::CommonName(name.clone()),
            (None, Proof::AnyCertificate) => Proof::AnyCertificate,
            (None, Proof::Uid(uid)) => Proof::Uid(*uid),
        };
        let Known { name, roles, hosts, token_file, .. } = self;
        Ok(Known {
            name: name.clone(),
            roles: roles.clone(),
            hosts: hosts.clone(),
            proof,
            token_file: token_file.clone(),
        })
    }

    /// The name, and by what the user is known; no token.
    fn with_proof(&self) -> String {
        let name = one_line(&self.name);
        match (&self.proof, &self.token_file) {
            (Proof::Token(_), Some(file)) => format!("{name} (token in {})", file.display()),
            (Proof::Token(_), None) => format!("{name} (token)"),
            (Proof::CommonName(common), _) => format!("{name} (certificate '{}')", one_line(common)),
            (Proof::AnyCertificate, _) => format!("{name} (any certificate)"),
            (Proof::Uid(uid), _) => format!("{name} (uid {uid})"),
        }
    }
}

fn named(users: &[String]) -> String {
    let more = users.len().saturating_sub(NAMED_MAX);
    let words = users[..users.len() - more].join(", ");
    if more > 0 { format!("{words} and {more} more") } else { words }
}

fn caller<R: Copy>(known: &Known<R>, common_name: Option<&str>) -> Caller<R> {
    let is_any = matches!(known.proof, Proof::AnyCertificate);
    let hosts = match common_name {
        // A certificate is that of one host, unless the file says which others it speaks for.
        Some(name) if is_any || known.hosts.is_empty() => vec![name.to_ascii_lowercase()],
        _ => known.hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
    };
    let name = match common_name.filter(|_| is_any) {
        Some(host) => format!("agent {}", one_line(host)),
        None => format!("user {}", one_line(&known.name)),
    };
    Caller { name, roles: known.roles.clone(), hosts }
}

fn token(path: &Path) -> Result<Vec<u8>, String> {
    let text = own_files::secret(path)?;
    if text.len() < TOKEN_BYTES_MIN {
        return Err(format!("{}: a token has {TOKEN_BYTES_MIN} characters or more", path.display()));
    }
    Ok(text.into_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Role {
        Read,
        Approve,
        Report,
        Agent,
    }

    const OWN: [Role; 1] = [Role::Read];

    fn parse(text: &str) -> Result<File<Role>, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    fn file(home: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = home.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn access(text: &str) -> Result<Access<Role>, String> {
        access_in(tempfile::tempdir().unwrap().path(), text)
    }

    fn access_in(home: &Path, text: &str) -> Result<Access<Role>, String> {
        file(home, "token", "0123456789abcdef\n", 0o600);
        file(home, "open", "0123456789abcdef\n", 0o644);
        file(home, "short", "12345\n", 0o600);
        let text = text.replace("HOME", &home.display().to_string());
        Access::read(&file(home, "who", &text, 0o644), &OWN, parse).map_err(|error| error.to_string())
    }

    const WHO: &str = "
        [[who]]
        name = \"agents\"
        roles = [\"agent\"]
        certificate = \"*\"
        [[who]]
        name = \"anna\"
        roles = [\"approve\"]
        certificate = \"anna\"
        [[who]]
        name = \"am\"
        roles = [\"report\"]
        token_file = \"HOME/token\"
        [[who]]
        name = \"local\"
        roles = [\"read\"]
        uid = 4000000
    ";

    #[test]
    fn everybody_is_known_by_what_he_shows() {
        let home = tempfile::tempdir().unwrap();
        let access = access_in(home.path(), WHO).unwrap();
        let name = |shown: Shown<'_>| access.caller(&shown).map(|caller| (caller.name, caller.hosts));
        let known = |name: &str, hosts: &[&str]| Ok((name.to_owned(), hosts.iter().map(ToString::to_string).collect()));
        let nobody = Shown::default();
        assert_eq!(name(Shown { token: Some(b"0123456789abcdef"), ..nobody }), known("user am", &[]));
        // Whoever is named by a certificate is the agent of no other host.
        assert_eq!(name(Shown { common_name: Some("anna"), ..nobody }), known("user anna", &["anna"]));
        assert_eq!(name(Shown { common_name: Some("Node17"), ..nobody }), known("agent Node17", &["node17"]));
        assert_eq!(name(Shown { uid: Some(4_000_000), ..nobody }), known("user local", &[]));
        assert_eq!(name(Shown { uid: Some(0), ..nobody }), known("user 0", &[]));
        // A wrong token is not made good by anything else.
        for shown in [
            nobody.clone(),
            Shown { uid: Some(4_000_001), ..nobody },
            Shown { token: Some(b"0123456789abcdeX"), uid: Some(0), ..nobody },
            Shown { token: Some(b""), uid: Some(0), ..nobody },
        ] {
            assert!(access.caller(&shown).is_err(), "{shown:?}");
        }
        assert!(access.has_remote() && !Access::own(&OWN).has_remote());
        assert!(Access::own(&OWN).caller(&Shown { token: Some(b""), uid: Some(0), ..nobody }).is_err());
    }

    #[test]
    fn a_token_that_was_taken_back_lets_nobody_in_though_nothing_was_read_again() {
        let home = tempfile::tempdir().unwrap();
        let access = access_in(home.path(), WHO).unwrap();
        let (path, shown) = (home.path().join("token"), "0123456789abcdef");
        let may = || access.caller(&Shown { token: Some(shown.as_bytes()), ..Shown::default() }).is_ok();
        assert!(may());
        std::fs::write(&path, "fedcba9876543210").unwrap();
        assert!(!may(), "changed");
        std::fs::write(&path, shown).unwrap();
        assert!(may());
        std::fs::remove_file(&path).unwrap();
        assert!(!may(), "deleted");
    }

    #[test]
    fn a_file_that_says_something_wrong_is_refused_in_words() {
        let one = |more: &str| format!("[[who]]\nname = \"x\"\nroles = [\"read\"]\n{more}");
        for (text, why) in [
            (one(""), "needs one of token_file, certificate and uid"),
            (one("uid = 1\ncertificate = \"x\""), "no two of them"),
            (one("uid = 1\nadmin = true"), "unknown field `admin`"),
            (one("uid = 1\n") + &one("uid = 1"), "'x' before it is known by the same"),
            (one("token_file = \"HOME/token\"\n") + &one("token_file = \"HOME/token\""), "known by the same"),
            (one("token_file = \"HOME/open\""), "change its mode to 600"),
            (one("token_file = \"HOME/short\""), "16 characters or more"),
            (one("token_file = \"HOME\""), "not a regular file"),
            (one("token_file = \"HOME/none\""), "No such file"),
            ("[[who]]\nname = \"x\"\nroles = [\"root\"]\nuid = 1".into(), "unknown variant `root`"),
            ("[[who]]\nname = \"x\"\nroles = []\nuid = 1".into(), "needs a name and roles"),
            ("x".into(), "line 1"),
        ] {
            let error = access(&text).err().unwrap_or_default();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

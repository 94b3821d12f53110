//! Options that say where the cases are: at a server, or in a store.

use anyhow::{Context, anyhow};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use surefoot_controller::{Book, CaseAccess};
use surefoot_model::one_line;
use surefoot_outside::http::Identity;
use surefoot_outside::own::Server;
use surefoot_store::cases::{Address, CaseStore};

/// Where `remedy serve` listens unless it is told otherwise.
pub const LISTEN: &str = "127.0.0.1:7078";

/// Which server.
#[derive(Args, Clone)]
pub struct ServerOptions {
    /// The server: 127.0.0.1:PORT, https://HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value_t = format!("http://{LISTEN}"))]
    pub server: String,
    /// The file with the bearer token that is shown to the server
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The certificate that is shown to the server, PEM; its key is --key
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "token_file")]
    pub certificate: Option<PathBuf>,
    /// The key of --certificate, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// The authority that signed the server's certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
}

/// An address that was typed, or a word for it where it holds a password.
fn without_password(address: &str) -> String {
    let user = address.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(user, _)| user);
    if user.is_some_and(|user| user.contains(':')) { "ADDRESS".to_owned() } else { address.to_owned() }
}

/// As one word of a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/:.,@%+=_-[]".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A server or a store.
#[derive(Args, Clone)]
pub struct PlaceOptions {
    #[command(flatten)]
    pub server: ServerOptions,
    #[command(flatten)]
    pub store: StoreOptions,
}

/// Which store.
#[derive(Args, Clone)]
pub struct StoreOptions {
    /// The store, without a server in between: sqlite:PATH or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "STORE")]
    pub store: Option<String>,
    /// The file with the password of --store
    #[arg(long, value_name = "FILE", requires = "store")]
    pub store_password_file: Option<PathBuf>,
}

impl StoreOptions {
    /// The file of a store in SQLite that is not there yet.
    pub fn new_file(&self) -> Option<PathBuf> {
        match self.store.as_ref()?.parse::<Address>().ok()? {
            Address::Sqlite(path) => path.try_exists().is_ok_and(|is_there| !is_there).then_some(path),
            Address::Postgres(_) => None,
        }
    }

    /// Says which copies lie beside the store of what it held when its file was replaced or deleted, and how to take one up again.
    pub fn tell_saved(&self) {
        let Some(address) = self.store.as_ref().and_then(|store| store.parse::<Address>().ok()) else { return };
        // A directory that cannot be read is told by whoever opens the store.
        for saved in CaseStore::saved_beside(&address).unwrap_or_default() {
            surefoot_console::tell!(
                "surefoot remedy: note: {0} holds the cases of a store that was here before and was replaced or deleted while its controller \
                 ran; {address} is another file. To take them up again, stop the controller and start it with --store sqlite:{0}; to end this \
                 note, move that file away",
                saved.display()
            );
        }
    }

    /// The book of the store, which is made where there is none; `None` where no store is named.
    pub fn book(&self) -> anyhow::Result<Option<Book>> {
        self.book_by(Book::new)
    }

    fn book_by(&self, open: impl FnOnce(Address, Option<Arc<str>>) -> Book) -> anyhow::Result<Option<Book>> {
        let Some(store) = &self.store else { return Ok(None) };
        let address = store.parse().context("--store")?;
        let password = self.store_password_file.as_deref().map(surefoot_controller::secret).transpose();
        let password = password.map_err(|why| anyhow!("--store-password-file {why}"))?;
        Ok(Some(open(address, password.map(Arc::from))))
    }
}

impl PlaceOptions {
    /// The options that lead to this place once more, for a command that is printed; empty where the default does.
    pub fn words(&self) -> String {
        let (server, store) = (&self.server, &self.store);
        let file = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let is_default = server.server == format!("http://{LISTEN}");
        let address = Some(without_password(&server.server)).filter(|_| store.store.is_none() && !is_default);
        let of_store = store.store.as_deref().map(without_password);
        let options = [
            ("server", address),
            ("token-file", file(&server.token_file)),
            ("certificate", file(&server.certificate)),
            ("key", file(&server.key)),
            ("authority", file(&server.authority)),
            ("store", of_store),
            ("store-password-file", file(&store.store_password_file)),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.map(|(name, value)| format!(" --{name} {}", quoted(&one_line(&value)))).collect()
    }

    /// The place, to change something in it.
    pub fn open(&self) -> anyhow::Result<CaseAccess> {
        // A store that is mistyped is not an empty one.
        self.open_by(Book::existing)
    }

    /// The place, only to read: a store in a file stays as it is, with all that lies beside it.
    pub fn open_to_read(&self) -> anyhow::Result<CaseAccess> {
        self.open_by(Book::to_read)
    }

    fn open_by(&self, book: impl FnOnce(Address, Option<Arc<str>>) -> Book) -> anyhow::Result<CaseAccess> {
        Ok(match self.store.book_by(book)? {
            Some(book) => CaseAccess::Store(Box::new(book)),
            None => CaseAccess::Server(self.server.server()?),
        })
    }
}

impl ServerOptions {
    /// The server that they name.
    pub fn server(&self) -> anyhow::Result<Server> {
        let identity = match (&self.token_file, &self.certificate, &self.key) {
            (Some(file), _, _) => {
                Identity::Token(surefoot_controller::secret(file).map_err(|why| anyhow!("--token-file {why}"))?)
            }
            (None, Some(certificate), Some(key)) => Identity::Certificate(certificate.clone(), key.clone()),
            _ => Identity::None,
        };
        Ok(Server::new(&self.server, identity, self.authority.clone())?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        place: PlaceOptions,
    }

    #[test]
    fn a_printed_command_leads_to_the_place_that_was_asked_and_shows_no_password() {
        let words = |options: &[&str]| Command::parse_from([&["surefoot"], options].concat()).place.words();
        assert_eq!(words(&[]), "");
        assert_eq!(words(&["--server", "http://127.0.0.1:7078"]), "");
        let far = words(&["--server", "https://ctl:7443", "--token-file", "/etc/my token"]);
        assert_eq!(far, " --server https://ctl:7443 --token-file '/etc/my token'");
        assert_eq!(words(&["--server", "unix:/run/ctl"]), " --server unix:/run/ctl");
        assert_eq!(
            words(&["--store", "sqlite:/var/lib/surefoot/cases.db"]),
            " --store sqlite:/var/lib/surefoot/cases.db"
        );
        assert_eq!(words(&["--store", "postgres://anna@db/cases"]), " --store postgres://anna@db/cases");
        assert_eq!(words(&["--store", "postgres://anna:secret@db/cases"]), " --store ADDRESS");
    }
}

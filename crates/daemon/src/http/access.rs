//! Who asks, and what he may see.
//!
//! Everybody on the machine can connect to a port on 127.0.0.1; the kernel's table of sockets says which user did. Sums
//! and causes are for everybody. Root, the user whose daemon this is and the members of one named group see everything;
//! anybody else sees of jobs only his own, and neither stacks nor raisers nor the past. A browser of another user gets the
//! same with the address in the file `page-url`, which only the daemon's user can read: it works once, for one user, and for a
//! day. Whoever may remove that file (root, the daemon's user) takes back with it all that it let in; a new one follows.

use crate::config::{Config, Mode};
use crate::keep::run_directory::{Readers, RunDirectory};
use axum::http::{HeaderMap, header};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use surefoot_hostfs::privilege::effective_user;
use surefoot_hostfs::{Root, clock};
use surefoot_http::connections::Peer;
use surefoot_http::{is_same, lock};
use surefoot_rooms::viewer::Viewer;
use surefoot_sys::peer;
use surefoot_sys::peer::Holder;

/// The file in the run directory that holds the address for a browser.
pub(crate) const FILE_NAME: &str = "page-url";
/// Where a browser gets its cookie.
pub(crate) const PATH: &str = "/open";
/// Browsers that were let in and are remembered: the newest.
const SESSIONS_MAX: usize = 16;
/// How long a browser is let in.
pub(crate) const SESSION_TIME: Duration = Duration::from_secs(24 * 3600);
/// Random bytes of a key.
const KEY_BYTES: usize = 32;

/// Asks again what the one who asks may see; `None` where that is nothing any more. For answers that go on: a token, a certificate, a
/// role, a group or a cookie may be taken back meanwhile.
#[derive(Clone)]
pub(crate) struct Again(Arc<dyn Fn() -> Option<Viewer> + Send + Sync>);

impl Again {
    pub(crate) fn new(viewer: impl Fn() -> Option<Viewer> + Send + Sync + 'static) -> Self {
        Again(Arc::new(viewer))
    }

    pub(crate) fn viewer(&self) -> Option<Viewer> {
        (self.0)()
    }
}

/// One who may see everything.
#[cfg(test)]
pub(crate) const SEES_ALL: Viewer = Viewer { uid: None, sees_all: true, named: None };

/// With whom a viewer shares what there is little of.
pub(crate) fn holder(viewer: &Viewer) -> Holder {
    viewer.named.map_or_else(|| Holder::of(&Root::host(), viewer.uid), Holder::Named)
}

/// What the one who asks may see.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Access")]
pub(crate) struct AccessView {
    /// Whether everything is shown.
    sees_all: bool,
    /// What is not shown, and how to get it; empty where everything is.
    pub(crate) why: String,
}

/// Who may see everything.
pub(crate) struct Access {
    root: Root,
    /// The daemon's own user, where nobody else looks like him.
    own: Option<u32>,
    group: Option<String>,
    /// What is shown is no machine's: nobody is to be kept from it.
    is_made_up: bool,
    /// Whether roles let somebody in at other places.
    has_roles: bool,
    keys: Mutex<Keys>,
    /// The file with the address, once the port is known.
    file: Mutex<Option<(Arc<RunDirectory>, String)>>,
}

#[derive(Default)]
struct Keys {
    /// Opens the page once.
    next: Option<String>,
    sessions: VecDeque<Session>,
}

/// A browser that was let in.
struct Session {
    cookie: String,
    /// To whom the cookie was given.
    uid: Option<u32>,
    /// Of `CLOCK_BOOTTIME`: the time in which the machine slept counts.
    until_ns: u64,
}

impl Access {
    pub(crate) fn new(config: &Config) -> Self {
        let (root, group) = (Root::host(), config.page_group.clone());
        let own = Some(effective_user()).filter(|&own| own != peer::unknown_user(&root));
        let is_made_up = matches!(config.mode, Mode::Demo { .. });
        let has_roles = !config.listen.places.is_empty();
        Access { root, own, group, is_made_up, has_roles, keys: Mutex::default(), file: Mutex::default() }
    }

    /// Publishes an address that opens the page once.
    ///
    /// # Errors
    /// When the file cannot be written or there are no random numbers; then only users decide.
    pub(crate) fn publish(&self, directory: Arc<RunDirectory>, page: &str) -> io::Result<()> {
        *lock(&self.file) = Some((directory, page.to_owned()));
        self.renew()
    }

    /// Takes back the key and every cookie if somebody removed the file with the address, and tells another address. A file that was never
    /// told, or that another daemon took over, is nobody's word.
    pub(crate) fn heed_removal(&self) {
        let directory = lock(&self.file).as_ref().map(|(directory, _)| Arc::clone(directory));
        if directory.is_some_and(|directory| directory.has_lost(FILE_NAME)) {
            *lock(&self.keys) = Keys::default();
            // What fails is tried again with everything else that is told.
            let _ = self.renew();
        }
    }

    fn renew(&self) -> io::Result<()> {
        let Some((directory, page)) = lock(&self.file).clone() else { return Ok(()) };
        let key = random_key()?;
        let text = format!("{page}{}?key={key}\n", &PATH[1..]);
        // The key first: who reads the file may come with it at once.
        lock(&self.keys).next = Some(key);
        directory.tell(FILE_NAME, text, Readers::Own)
    }

    /// Lets a browser in that has the key; returns its cookie. The key is void then, and there is another.
    pub(crate) fn open(&self, peer: Peer, key: &str) -> Option<String> {
        self.heed_removal();
        {
            let mut keys = lock(&self.keys);
            keys.next.as_deref().filter(|next| is_same(next.as_bytes(), key.as_bytes()))?;
            keys.next = None;
        }
        let cookie = random_key().ok()?;
        let mut keys = lock(&self.keys);
        if keys.sessions.len() == SESSIONS_MAX {
            keys.sessions.pop_front();
        }
        let until_ns = boot_ns().saturating_add(SESSION_TIME.as_nanos() as u64);
        keys.sessions.push_back(Session { cookie: cookie.clone(), uid: peer.uid, until_ns });
        drop(keys);
        // Without another the page is still there for who is let in by his user.
        let _ = self.renew();
        Some(cookie)
    }

    /// Who asks over this connection with these headers.
    pub(crate) fn viewer(&self, peer: Peer, headers: &HeaderMap) -> Viewer {
        let is_of_user = |uid: u32| {
            let is_member = |group: &String| peer::users_of_group(&self.root, group).contains(&uid);
            uid == 0 || Some(uid) == self.own || self.group.as_ref().is_some_and(is_member)
        };
        let sees_all = self.is_made_up || peer.uid.is_some_and(is_of_user) || self.has_cookie(peer, headers);
        Viewer { uid: peer.uid, sees_all, named: None }
    }

    /// Whether a cookie of ours came from the user to whom it was given: browsers send cookies to every port of this
    /// machine, so that a server of another user may know it.
    fn has_cookie(&self, peer: Peer, headers: &HeaderMap) -> bool {
        let name = cookie_name(peer.port);
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut ours = values
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .filter(|(found, _)| *found == name)
            .peekable();
        if ours.peek().is_none() {
            return false;
        }
        self.heed_removal();
        let mut keys = lock(&self.keys);
        let now_ns = boot_ns();
        keys.sessions.retain(|session| now_ns < session.until_ns);
        ours.any(|(_, value)| {
            keys.sessions
                .iter()
                .any(|session| session.uid == peer.uid && is_same(session.cookie.as_bytes(), value.as_bytes()))
        })
    }

    /// What a viewer is told of it.
    pub(crate) fn view(&self, viewer: Viewer) -> AccessView {
        let mut why = String::new();
        if !viewer.sees_all {
            why = "Stacks, raisers, names of programs, notices, jobs of other users and the history are not shown to this user.".to_owned();
            if let Some(group) = &self.group {
                why += &format!(" Members of the group {group} see them.");
            }
            match &*lock(&self.file) {
                Some((directory, _)) if directory.tells(FILE_NAME) => {
                    let path = directory.path().join(FILE_NAME);
                    why +=
                        &format!(" To see them here, open the address that this prints: sudo cat {}", path.display());
                }
                _ => why += " The user who started the daemon sees them, and root.",
            }
        }
        if !viewer.sees_all && self.has_roles {
            why += " At the places of --listen, the role `all` shows them.";
        }
        AccessView { sees_all: viewer.sees_all, why }
    }
}

/// The name of the cookie: one for each port, so that two daemons do not overwrite each other's.
pub(crate) fn cookie_name(port: u16) -> String {
    format!("surefoot-{port}")
}

/// `CLOCK_BOOTTIME`.
fn boot_ns() -> u64 {
    clock::monotonic_ns().saturating_add(clock::boot_offset_ns())
}

fn random_key() -> io::Result<String> {
    let mut bytes = [0; KEY_BYTES];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use std::os::unix::fs::PermissionsExt;

    fn peer(uid: Option<u32>) -> Peer {
        Peer { uid, port: 7171 }
    }

    fn with_cookie(cookie: &str) -> HeaderMap {
        let value = HeaderValue::from_str(&format!("a=b; surefoot-7171={cookie}")).unwrap();
        HeaderMap::from_iter([(header::COOKIE, value)])
    }

    #[test]
    fn root_and_the_daemons_user_see_everything_and_others_do_not() {
        let access = Access::new(&Config::default());
        let sees_all = |uid| access.viewer(peer(uid), &HeaderMap::new()).sees_all;
        assert!(sees_all(Some(0)) && sees_all(Some(effective_user())));
        assert!(!sees_all(Some(65_533)) && !sees_all(None));
        assert!(access.view(Viewer { uid: None, sees_all: false, named: None }).why.contains("Stacks"));
    }

    #[test]
    fn the_address_in_the_file_works_once_and_for_the_user_who_opened_it() {
        let home = tempfile::tempdir().unwrap();
        let access = Access::new(&Config::default());
        let directory = Arc::new(RunDirectory::open(home.path()).unwrap());
        access.publish(Arc::clone(&directory), "http://127.0.0.1:7171/").unwrap();
        let path = home.path().join(FILE_NAME);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        let key = text.trim().strip_prefix("http://127.0.0.1:7171/open?key=").unwrap().to_owned();
        assert!(access.open(peer(Some(1000)), "").is_none() && access.open(peer(Some(1000)), &key[1..]).is_none());
        let cookie = access.open(peer(Some(1000)), &key).unwrap();
        assert!(access.open(peer(Some(1001)), &key).is_none(), "it works once");
        assert_ne!(fs::read_to_string(&path).unwrap(), text, "there is another");
        assert!(access.viewer(peer(Some(1000)), &with_cookie(&cookie)).sees_all);
        assert!(!access.viewer(peer(Some(1001)), &with_cookie(&cookie)).sees_all, "another user's browser");
        assert!(!access.viewer(peer(Some(1000)), &with_cookie("")).sees_all);
        directory.close(&[]);
        assert!(!path.exists());
    }

    #[test]
    fn a_cookie_ends_with_its_day_and_with_the_file_that_gave_it() {
        let home = tempfile::tempdir().unwrap();
        let access = Access::new(&Config::default());
        let directory = Arc::new(RunDirectory::open(home.path()).unwrap());
        access.publish(Arc::clone(&directory), "http://127.0.0.1:7171/").unwrap();
        let path = home.path().join(FILE_NAME);
        let key = || fs::read_to_string(&path).unwrap().trim().rsplit_once('=').unwrap().1.to_owned();
        let sees_all = |cookie: &str| access.viewer(peer(Some(1000)), &with_cookie(cookie)).sees_all;
        let old = access.open(peer(Some(1000)), &key()).unwrap();
        assert!(sees_all(&old));
        lock(&access.keys).sessions[0].until_ns = boot_ns();
        assert!(!sees_all(&old), "its day is over");
        let cookie = access.open(peer(Some(1000)), &key()).unwrap();
        let unused = key();
        assert!(sees_all(&cookie));
        fs::remove_file(&path).unwrap();
        assert!(access.open(peer(Some(1000)), &unused).is_none(), "the address that was in the file");
        assert!(path.exists() && key() != unused, "there is another");
        assert!(!sees_all(&cookie), "taken back");
        let cookie = access.open(peer(Some(1000)), &key()).unwrap();
        assert!(sees_all(&cookie));
        fs::remove_file(&path).unwrap();
        assert!(!sees_all(&cookie), "also without a word of the address");
        assert!(path.exists());
    }
}

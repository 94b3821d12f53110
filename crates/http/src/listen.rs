//! Where the server listens: loopback and sockets in the file system, and over the network by TLS alone.

use crate::Error;
use crate::connections::{Connection, Times};
use crate::refused::{Refused, Why};
use crate::shares::{self, Limits, Shares};
use crate::socket::SocketFile;
use crate::tls::{ClientCertificate, Tls};
use crate::who::Shown;
use crate::{lock, own_files};
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use surefoot_foreign::said;
use surefoot_hostfs::Root;
use surefoot_sys::peer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::server::TlsStream;

/// Connections at one time over the network, and those of one address.
const CONNECTIONS_MAX: usize = 1_024;
const CONNECTIONS_OF_ADDRESS_MAX: usize = 64;
/// Connections of this machine, over loopback and sockets: one user, who may be anybody, keeps no other out.
const NEAR: Limits = Limits { all: 1_024, of_user: 512, kept: 64 };
/// Connections that shake hands at one time, those of one address or of one user of this machine, and how long one may take for it.
const HANDSHAKES_MAX: usize = 128;
const HANDSHAKES_OF_ADDRESS_MAX: usize = 32;
const NEAR_HANDSHAKES: Limits = Limits { all: HANDSHAKES_MAX, of_user: HANDSHAKES_OF_ADDRESS_MAX, kept: 16 };
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// After a failed accept, for want of file descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A place to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err("unix:PATH names no path".into()) } else { Ok(Listen::Unix(path.into())) };
        }
        // As a client writes it.
        let text = text.strip_prefix("http://").map_or(text, |rest| rest.strip_suffix('/').unwrap_or(rest));
        let named = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        let address = named.as_deref().unwrap_or(text).parse();
        address
            .map(Listen::Tcp)
            .map_err(|_| format!("'{text}' is no address: write 127.0.0.1:7078, [::1]:7078 or unix:PATH"))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The user on this machine; `None` over the network, and where the kernel does not say.
    pub uid: Option<u32>,
    /// Its certificate, where it showed one that has a common name and was checked.
    pub certificate: Option<ClientCertificate>,
    /// Whether the requests must name this machine: over loopback, where a browser may be made to ask.
    pub is_loopback: bool,
    /// Where it is, for counting.
    pub address: Option<IpAddr>,
}

impl Peer {
    /// By what it is known, with the token that its request shows.
    ///
    /// # Errors
    /// That its certificate is not valid any more.
    pub fn shown<'a>(&'a self, token: Option<&'a [u8]>) -> Result<Shown<'a>, &'static str> {
        // A token counts alone.
        let certificate = self.certificate.as_ref().filter(|_| token.is_none());
        let over = "the client's certificate has expired, or its authority is not trusted any more";
        let common_name = certificate.map(|one| one.common_name().ok_or(over)).transpose()?;
        Ok(Shown { uid: self.uid, common_name, token })
    }
}

/// The ways in.
pub enum Stream {
    /// Over loopback.
    Tcp(TcpStream),
    /// Over a socket in the file system.
    Unix(UnixStream),
    /// With TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

macro_rules! on {
    ($stream:expr, $inner:ident => $does:expr) => {
        match $stream {
            Stream::Tcp($inner) => $does,
            Stream::Unix($inner) => $does,
            Stream::Tls($inner) => $does,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on!(&mut *self, inner => Pin::new(inner).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on!(&mut *self, inner => Pin::new(inner).poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(&mut *self, inner => Pin::new(inner).poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(&mut *self, inner => Pin::new(inner).poll_shutdown(context))
    }
}

/// How many places each address has taken.
type Taken = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// The place of a connection, until it is dropped.
pub struct ConnectionSlot {
    _held: Held,
}

enum Held {
    /// One of this machine's users.
    Near { _of_user: shares::ClientSlot },
    /// One of the network.
    Far { _of_address: OfAddress },
}

/// One of all, and of those of its address, until it is dropped.
struct OfAddress {
    _all: OwnedSemaphorePermit,
    address: IpAddr,
    taken: Taken,
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        match taken.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = taken.remove(&self.address),
        }
    }
}

/// Places that addresses share, so that one that takes all it can keeps no other out.
#[derive(Clone)]
struct Addresses {
    all: Arc<Semaphore>,
    of_address_max: usize,
    taken: Taken,
}

impl Addresses {
    fn new(all_max: usize, of_address_max: usize) -> Addresses {
        Addresses { all: Arc::new(Semaphore::new(all_max)), of_address_max, taken: Arc::default() }
    }

    /// A place for one more of this address, if there is one.
    fn place(&self, address: IpAddr) -> Option<OfAddress> {
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        let address = one_of(address);
        let mut taken = lock(&self.taken);
        let count = taken.entry(address).or_default();
        if *count >= self.of_address_max {
            return None;
        }
        *count += 1;
        Some(OfAddress { _all: all, address, taken: Arc::clone(&self.taken) })
    }
}

#[derive(Clone)]
struct Places {
    near: Shares,
    far: Addresses,
    /// Of users of this machine, who all have one address.
    near_handshakes: Shares,
    far_handshakes: Addresses,
}

impl Places {
    fn new() -> Places {
        Places {
            near: Shares::new(NEAR),
            far: Addresses::new(CONNECTIONS_MAX, CONNECTIONS_OF_ADDRESS_MAX),
            near_handshakes: Shares::new(NEAR_HANDSHAKES),
            far_handshakes: Addresses::new(HANDSHAKES_MAX, HANDSHAKES_OF_ADDRESS_MAX),
        }
    }

    /// A place for one more of this user; `None` is somebody on this machine whom the kernel does not know.
    fn near(&self, uid: Option<u32>) -> Option<ConnectionSlot> {
        self.near.place(uid).map(|of_user| ConnectionSlot { _held: Held::Near { _of_user: of_user } })
    }

    /// A place for one more handshake: of this user on this machine, of this address elsewhere.
    fn handshake(&self, is_near: bool, uid: Option<u32>, address: IpAddr) -> Option<ConnectionSlot> {
        if is_near {
            return self
                .near_handshakes
                .place(uid)
                .map(|of_user| ConnectionSlot { _held: Held::Near { _of_user: of_user } });
        }
        self.far_handshakes
            .place(address)
            .map(|of_address| ConnectionSlot { _held: Held::Far { _of_address: of_address } })
    }

    /// A place for one more of this address.
    fn far(&self, address: IpAddr) -> Option<ConnectionSlot> {
        self.far.place(address).map(|of_address| ConnectionSlot { _held: Held::Far { _of_address: of_address } })
    }
}

/// What counts as one address: of IPv6 a network of 64 bits, of which one machine may have every address.
fn one_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_none() => IpAddr::V6((u128::from(six) >> 64 << 64).into()),
        other => other.to_canonical(),
    }
}

/// A client with its place.
pub type Client = Connection<Stream, ConnectionSlot>;

/// All places at which the server listens, as one.
pub struct Doors {
    ready: mpsc::Receiver<(Client, Peer)>,
}

impl Listener for Doors {
    type Io = Client;
    type Addr = Peer;

    async fn accept(&mut self) -> (Client, Peer) {
        match self.ready.recv().await {
            Some(client) => client,
            // All doors have closed; the server is about to end.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer { uid: None, certificate: None, is_loopback: false, address: None })
    }
}

impl Connected<IncomingStream<'_, Doors>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Doors>) -> Self {
        stream.remote_addr().clone()
    }
}

/// A door before it is opened to clients.
pub enum Door {
    /// An address.
    Tcp(std::net::TcpListener, SocketAddr),
    /// A socket in the file system, and its file.
    Unix(std::os::unix::net::UnixListener, SocketFile),
}

impl Door {
    /// Whether a place may be opened at all: anything but loopback needs TLS, and no other user may replace a socket. Opens nothing.
    ///
    /// # Errors
    /// [`Error::Unusable`].
    pub fn check(listen: &Listen, has_tls: bool) -> Result<(), Error> {
        let failed = |why: String| Error::Unusable { what: format!("--listen {listen}"), why };
        match listen {
            Listen::Tcp(address) if !address.ip().is_loopback() && !has_tls => Err(failed(
                "only TLS is spoken over the network: name a certificate and its key, or listen on 127.0.0.1".into(),
            )),
            Listen::Tcp(_) => Ok(()),
            Listen::Unix(path) => {
                // Whoever may replace the file chooses which one everybody may then write to.
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                if !folder.is_dir() {
                    return Err(failed(format!("{} is no directory; create it first", folder.display())));
                }
                own_files::expect_own(folder).map_err(failed)
            }
        }
    }

    /// Opens a place.
    ///
    /// # Errors
    /// As [`Door::check`], and where another process has it or no interface has its address.
    pub fn open(listen: &Listen, has_tls: bool) -> Result<Door, Error> {
        Door::check(listen, has_tls)?;
        let failed =
            |error: io::Error| Error::Unusable { what: format!("--listen {listen}"), why: words(listen, &error) };
        match listen {
            Listen::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?;
                Ok(Door::Tcp(listener, address))
            }
            Listen::Unix(path) => {
                let (listener, file) = socket(path).map_err(failed)?;
                Ok(Door::Unix(listener, file))
            }
        }
    }

    /// Where it is.
    pub fn address(&self) -> Listen {
        match self {
            Door::Tcp(_, address) => Listen::Tcp(*address),
            Door::Unix(_, file) => Listen::Unix(file.path().to_owned()),
        }
    }
}

/// Why a place cannot be opened, and what to do about it.
fn words(listen: &Listen, error: &io::Error) -> String {
    let said = said(error);
    match (listen, error.kind()) {
        (Listen::Tcp(address), io::ErrorKind::AddrNotAvailable) => {
            let all = if address.is_ipv6() { "[::]" } else { "0.0.0.0" };
            format!(
                "no interface has this address now; listen on {all}:{} to serve whichever there are",
                address.port()
            )
        }
        (Listen::Tcp(SocketAddr::V6(address)), io::ErrorKind::InvalidInput) if address.scope_id() == 0 => {
            format!(
                "{said}; a link-local address needs the number of its interface, as `ip link` shows it: [{}%2]:{}",
                address.ip(),
                address.port()
            )
        }
        _ => said,
    }
}

/// The caller sees to it that nobody else may replace the file.
fn socket(path: &Path) -> io::Result<(std::os::unix::net::UnixListener, SocketFile)> {
    // Only the socket that a dead process left may be replaced.
    if let Ok(about) = std::fs::symlink_metadata(path) {
        let in_use = |why: &str| io::Error::new(io::ErrorKind::AddrInUse, why);
        if !about.file_type().is_socket() {
            return Err(in_use("a file that is not a socket is there"));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(in_use("another process listens there"));
        }
    }
    let (listener, mut file) = SocketFile::prepare(path)?;
    file.publish()?;
    Ok((listener, file))
}

/// Opens the doors. To be called within the runtime that serves.
///
/// # Errors
/// When the system has no place for them in its event queue.
pub fn doors(doors: Vec<Door>, tls: Option<Arc<Tls>>, refused: Arc<Refused>) -> io::Result<Doors> {
    let (send, ready) = mpsc::channel(HANDSHAKES_MAX);
    let places = Places::new();
    for door in doors {
        let send = send.clone();
        let (places, refused) = (places.clone(), Arc::clone(&refused));
        match door {
            Door::Tcp(listener, address) => {
                let listener = TcpListener::from_std(listener)?;
                tokio::spawn(accept_tcp(listener, address, tls.clone(), places, refused, send));
            }
            Door::Unix(listener, file) => {
                let listener = UnixListener::from_std(listener)?;
                tokio::spawn(accept_unix(listener, file, places, refused, send));
            }
        }
    }
    Ok(Doors { ready })
}

async fn accept_tcp(
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    places: Places,
    refused: Arc<Refused>,
    send: mpsc::Sender<(Client, Peer)>,
) {
    let root = Root::host();
    loop {
        let Ok((stream, client)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let is_near = client.ip().to_canonical().is_loopback();
        let uid = if is_near { peer::user_of(&root, client, stream.local_addr().unwrap_or(address)) } else { None };
        let place = if is_near { places.near(uid) } else { places.far(client.ip()) };
        let Some(place) = place else {
            refused.count(Why::NoPlace);
            continue;
        };
        // Small answers go out at once; without it they only come later.
        let _ = stream.set_nodelay(true);
        let mut peer =
            Peer { uid: None, certificate: None, is_loopback: address.ip().is_loopback(), address: Some(client.ip()) };
        match &tls {
            None => {
                peer.uid = uid;
                let connection = Connection::new(Stream::Tcp(stream), Times::default(), place);
                if send.send((connection, peer)).await.is_err() {
                    return;
                }
            }
            Some(tls) => {
                let Some(turn) = places.handshake(is_near, uid, client.ip()) else {
                    refused.count(Why::NoPlace);
                    continue;
                };
                let (tls, refused, send) = (Arc::clone(tls), Arc::clone(&refused), send.clone());
                tokio::spawn(async move {
                    // One that does not shake hands in time, or shows a certificate of others, is gone.
                    let shaken = tokio::time::timeout(HANDSHAKE_TIME_MAX, tls.acceptor().accept(stream)).await;
                    drop(turn);
                    let Ok(Ok(stream)) = shaken else { return refused.count(Why::Handshake) };
                    peer.certificate = tls.certificate_of(&stream);
                    peer.is_loopback = false;
                    let connection = Connection::new(Stream::Tls(Box::new(stream)), Times::default(), place);
                    let _ = send.send((connection, peer)).await;
                });
            }
        }
    }
}

async fn accept_unix(
    listener: UnixListener,
    _file: SocketFile,
    places: Places,
    refused: Arc<Refused>,
    send: mpsc::Sender<(Client, Peer)>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let uid = peer::credentials(stream.as_fd()).map(|peer| peer.uid);
        let Some(place) = places.near(uid) else {
            refused.count(Why::NoPlace);
            continue;
        };
        let peer = Peer { uid, certificate: None, is_loopback: false, address: None };
        if send.send((Connection::new(Stream::Unix(stream), Times::default(), place), peer)).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written_and_the_network_needs_tls() {
        for text in ["127.0.0.1:7078", "[::1]:1", "unix:/run/surefoot/remedy.sock"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for (written, place) in
            [("localhost:5", "127.0.0.1:5"), ("http://127.0.0.1:5", "127.0.0.1:5"), ("http://[::1]:5/", "[::1]:5")]
        {
            assert_eq!(written.parse::<Listen>().unwrap().to_string(), place);
        }
        for wrong in [
            "",
            "7078",
            "unix:",
            "example.org:80",
            "127.0.0.1",
            "https://127.0.0.1:5",
            "http://127.0.0.1:5/x",
            "http://unix:/x",
        ] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
        let error = |place: &str, has_tls| Door::open(&place.parse().unwrap(), has_tls).err().unwrap().to_string();
        assert!(error("0.0.0.0:0", false).contains("only TLS is spoken"));
        // Of the block for documentation, which no interface has.
        let absent = error("192.0.2.1:7079", true);
        assert!(absent.contains("no interface has this address now; listen on 0.0.0.0:7079"), "{absent}");
        let error = error("unix:/no/such/folder/s", false);
        assert!(error.ends_with("/no/such/folder is no directory; create it first"), "{error}");
    }

    #[test]
    fn no_user_and_no_address_takes_the_places_of_others() {
        let places = Places::new();
        let one: Vec<ConnectionSlot> = std::iter::from_fn(|| places.near(Some(1000))).collect();
        let unknown: Vec<ConnectionSlot> = std::iter::from_fn(|| places.near(None)).collect();
        assert_eq!((one.len(), unknown.len()), (512, 512));
        assert!(
            places.near(Some(1000)).is_none() && places.near(Some(1001)).is_some() && places.near(Some(0)).is_some()
        );
        // One machine may have each address of an IPv6 network.
        let six = |last: u128| IpAddr::V6((0x2001_0db8_u128 << 96 | last).into());
        let far: Vec<ConnectionSlot> = (1..100).map_while(|last| places.far(six(last))).collect();
        assert_eq!(far.len(), CONNECTIONS_OF_ADDRESS_MAX);
        assert!(places.far(six(1 << 64)).is_some() && places.far("192.0.2.7".parse().unwrap()).is_some());
        drop((one, far));
        assert!(places.near(Some(1000)).is_some() && places.far(six(1)).is_some());
        assert!(lock(&places.far.taken).is_empty());
        // Nor does one that shakes no hands.
        let shaking: Vec<ConnectionSlot> = std::iter::from_fn(|| places.handshake(false, None, six(1))).collect();
        assert_eq!(shaking.len(), HANDSHAKES_OF_ADDRESS_MAX);
        assert!(places.handshake(false, None, six(1 << 64)).is_some());
        // On this machine all have one address, and one user holds up nobody else.
        let own = |uid| places.handshake(true, Some(uid), IpAddr::from([127, 0, 0, 1]));
        let shaking: Vec<ConnectionSlot> = std::iter::from_fn(|| own(1000)).collect();
        assert_eq!(shaking.len(), HANDSHAKES_OF_ADDRESS_MAX);
        assert!(own(0).is_some() && own(1001).is_some());
    }

    #[test]
    fn no_socket_is_made_where_others_could_replace_it() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let open_to_all = home.path().join("all");
        std::fs::create_dir(&open_to_all).unwrap();
        std::fs::set_permissions(&open_to_all, std::fs::Permissions::from_mode(0o777)).unwrap();
        let why = Door::open(&Listen::Unix(open_to_all.join("s")), false).err().unwrap().to_string();
        assert!(why.contains("chmod go-w") && !open_to_all.join("s").exists(), "{why}");
        assert!(Door::open(&Listen::Unix(home.path().join("s")), false).is_ok());
    }

    #[test]
    fn a_socket_takes_the_place_of_a_dead_one_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("s");
        let open = || Door::open(&Listen::Unix(path.clone()), false);
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let door = open().unwrap();
        assert!(open().err().unwrap().to_string().contains("another process listens there"));
        let Door::Unix(listener, file) = door else { panic!() };
        drop((listener, file));
        assert!(!path.exists());
        std::fs::write(&path, "a file").unwrap();
        assert!(open().err().unwrap().to_string().contains("not a socket"));
        assert_eq!(std::fs::read(&path).unwrap(), b"a file");
    }
}

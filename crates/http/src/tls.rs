//! TLS with certificates of clients.

use crate::{Error, lock, own_files};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The longest common name that is taken.
const NAME_BYTES_MAX: usize = 253;
/// The longest file of certificates: some hundred of them.
const CERTIFICATES_BYTES_MAX: u64 = 1 << 20;
/// The longest file of a key, with certificates beside it.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// The files of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and those between it and its authority, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// The authority that signs the clients' certificates, PEM; without one, clients show tokens.
    pub client_authority: Option<PathBuf>,
}

/// What shakes hands with clients, by the files as they were read last.
pub struct Tls {
    files: TlsFiles,
    now: Mutex<Now>,
}

/// The files as they were read.
#[derive(Clone)]
struct Now {
    acceptor: TlsAcceptor,
    /// What checks the certificates of clients; `None` without an authority.
    checks: Option<Arc<dyn ClientCertVerifier>>,
    /// Stands for what the files say.
    content: u64,
}

/// The certificate that a client showed when hands were shaken. A connection lasts as long as its client likes, so it is checked again
/// whenever it counts: its time may be over by then, or its authority's.
#[derive(Clone)]
pub struct ClientCertificate {
    name: String,
    chain: Arc<[CertificateDer<'static>]>,
    tls: Arc<Tls>,
}

impl ClientCertificate {
    /// The common name of its subject; `None` where the certificate is not valid any more.
    pub fn common_name(&self) -> Option<&str> {
        let checks = lock(&self.tls.now).checks.clone()?;
        let (first, between) = self.chain.split_first()?;
        checks.verify_client_cert(first, between, UnixTime::now()).ok()?;
        Some(&self.name)
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientCertificate").field(&self.name).finish()
    }
}

impl Tls {
    /// Reads the files. A client may show no certificate, and a bearer token instead.
    ///
    /// # Errors
    /// [`Error::Unusable`] with what is wrong with which file.
    pub fn read(files: TlsFiles) -> Result<Tls, Error> {
        let now = Mutex::new(Now::read(&files)?);
        Ok(Tls { files, now })
    }

    /// Reads the files again: a certificate lasts for months and a server for years. Connections that are open stay, and their clients'
    /// certificates are checked by what was read now. Whether anything changed.
    ///
    /// # Errors
    /// As [`Tls::read`]; the files as they were read before go on then.
    pub fn reload(&self) -> Result<bool, Error> {
        let read = Now::read(&self.files)?;
        let mut now = lock(&self.now);
        let has_changed = read.content != now.content;
        *now = read;
        Ok(has_changed)
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.files.certificate, &self.files.key].into_iter().chain(&self.files.client_authority)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        lock(&self.now).acceptor.clone()
    }

    /// The certificate that the client showed; `None` for one who showed none, or one without a common name.
    pub(crate) fn certificate_of(self: &Arc<Self>, stream: &TlsStream<TcpStream>) -> Option<ClientCertificate> {
        let (_, connection) = stream.get_ref();
        let chain = connection.peer_certificates()?;
        let name = common_name(chain.first()?)?;
        let chain = chain.iter().map(|one| one.clone().into_owned()).collect();
        Some(ClientCertificate { name, chain, tls: Arc::clone(self) })
    }
}

impl Now {
    fn read(files: &TlsFiles) -> Result<Now, Error> {
        let failed = |path: &Path, why: String| Error::Unusable { what: path.display().to_string(), why };
        let mut content = DefaultHasher::new();
        let mut read = |path: &Path, text: Result<String, String>| {
            let text = text.map_err(|why| failed(path, why))?;
            text.hash(&mut content);
            Ok(text)
        };
        let text = read(&files.certificate, own_files::text_of_anybody(&files.certificate, CERTIFICATES_BYTES_MAX))?;
        let chain = certificates(&files.certificate, &text)?;
        let key = read(&files.key, own_files::secret_text(&files.key, KEY_BYTES_MAX))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| failed(&files.key, format!("no key in PEM: {error}")))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&files.certificate, error.to_string()))?;
        let (builder, checks) = match &files.client_authority {
            None => (builder.with_no_client_auth(), None),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                // Whoever can change this file lets in whom he likes.
                let text = read(path, own_files::text(path, CERTIFICATES_BYTES_MAX))?;
                for certificate in certificates(path, &text)? {
                    roots.add(certificate).map_err(|error| failed(path, error.to_string()))?;
                }
                let checks = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let checks = checks.allow_unauthenticated().build();
                let checks = checks.map_err(|error| failed(path, error.to_string()))?;
                (builder.with_client_cert_verifier(Arc::clone(&checks)), Some(checks))
            }
        };
        let mut config =
            builder.with_single_cert(chain, key).map_err(|error| failed(&files.certificate, error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Now { acceptor: TlsAcceptor::from(Arc::new(config)), checks, content: content.finish() })
    }
}

fn certificates(path: &Path, text: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let failed = |why: String| Error::Unusable { what: path.display().to_string(), why };
    let all = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| failed(format!("no certificate: {error}")))?;
    if all.is_empty() { Err(failed("it holds no certificate in PEM".into())) } else { Ok(all) }
}

/// The common name of a certificate's subject: the last one, which is the most specific. DER as RFC 5280 lays it out.
fn common_name(certificate: &[u8]) -> Option<String> {
    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    const VERSION: u8 = 0xa0;
    /// 2.5.4.3
    const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
    let (_, certificate, _) = element(certificate)?;
    let (_, mut fields, _) = element(certificate)?;
    // The version may be left out; then come serial number, signature, issuer and validity.
    let skipped = if fields.first() == Some(&VERSION) { 5 } else { 4 };
    for _ in 0..skipped {
        (_, _, fields) = element(fields)?;
    }
    let (tag, mut names, _) = element(fields)?;
    let mut found = None;
    while tag == SEQUENCE && !names.is_empty() {
        let (tag, mut set, rest) = element(names)?;
        names = rest;
        while tag == SET && !set.is_empty() {
            let (_, pair, rest) = element(set)?;
            set = rest;
            let (_, kind, value) = element(pair)?;
            let (tag, text, _) = element(value)?;
            // UTF8String, PrintableString and IA5String.
            if kind == COMMON_NAME && matches!(tag, 0x0c | 0x13 | 0x16) {
                found = std::str::from_utf8(text).ok();
            }
        }
    }
    let name = found?;
    let is_plain = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
    is_plain.then(|| name.to_owned())
}

/// The first element: its tag, its content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 || count > rest.len() {
            return None;
        }
        let (digits, after) = rest.split_at(count);
        length = digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit));
        rest = after;
    }
    (length <= rest.len()).then(|| (tag, &rest[..length], &rest[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let mut bytes = vec![tag, 0x82];
        bytes.extend((content.len() as u16).to_be_bytes());
        bytes.extend(content);
        bytes
    }

    fn named(names: &[(&[u8], &str)], has_version: bool) -> Vec<u8> {
        let pairs: Vec<Vec<u8>> = names
            .iter()
            .map(|(kind, name)| {
                wrapped(0x31, &[&wrapped(0x30, &[&wrapped(6, &[kind]), &wrapped(0x0c, &[name.as_bytes()])])])
            })
            .collect();
        let subject = wrapped(0x30, &pairs.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let version = if has_version { wrapped(0xa0, &[&[2, 1, 2]]) } else { Vec::new() };
        let empty = wrapped(0x30, &[]);
        let fields = wrapped(0x30, &[&version, &[2, 1, 7], &empty, &empty, &empty, &subject, &empty]);
        wrapped(0x30, &[&fields, &empty])
    }

    #[test]
    fn the_common_name_is_that_of_the_subject() {
        let (common, country): (&[u8], &[u8]) = (&[0x55, 4, 3], &[0x55, 4, 6]);
        for has_version in [true, false] {
            let certificate = named(&[(country, "AT"), (common, "surefoot"), (common, "node17")], has_version);
            assert_eq!(common_name(&certificate).as_deref(), Some("node17"));
            // However it is cut, or what byte of it is another, nothing breaks.
            for end in 0..certificate.len() {
                let _ = common_name(&certificate[..end]);
                let mut other = certificate.clone();
                other[end] ^= 0xff;
                let _ = common_name(&other);
            }
        }
        assert_eq!(common_name(&named(&[(country, "AT")], true)), None);
        assert_eq!(common_name(&named(&[(common, "a\nb")], true)), None);
        assert_eq!(common_name(&[]), None);
    }
}

//! TLS with certificates of clients.

use crate::{Error, lock, own_files};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The longest common name that is taken.
const NAME_BYTES_MAX: usize = 253;

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
    now: Mutex<TlsAcceptor>,
}

impl Tls {
    /// Reads the files. A client may show no certificate, and a bearer token instead.
    ///
    /// # Errors
    /// [`Error::Unusable`] with what is wrong with which file.
    pub fn read(files: TlsFiles) -> Result<Tls, Error> {
        let now = Mutex::new(acceptor(&files)?);
        Ok(Tls { files, now })
    }

    /// Reads the files again: a certificate lasts for months and a server for years. Connections that are open stay.
    ///
    /// # Errors
    /// As [`Tls::read`]; the files as they were read before go on then.
    pub fn reload(&self) -> Result<(), Error> {
        let read = acceptor(&self.files)?;
        *lock(&self.now) = read;
        Ok(())
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.files.certificate, &self.files.key].into_iter().chain(&self.files.client_authority)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        lock(&self.now).clone()
    }
}

fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, Error> {
    let failed = |path: &Path, why: String| Error::Unusable { what: path.display().to_string(), why };
    let chain = certificates(&files.certificate)?;
    own_files::secret(&files.key).map_err(|why| failed(&files.key, why))?;
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| failed(&files.key, format!("no key: {error}")))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&files.certificate, error.to_string()))?;
    let builder = match &files.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| failed(path, error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.map_err(|error| failed(path, error.to_string()))?)
        }
    };
    let mut config =
        builder.with_single_cert(chain, key).map_err(|error| failed(&files.certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let failed = |why: String| Error::Unusable { what: path.display().to_string(), why };
    let read = CertificateDer::pem_file_iter(path).map_err(|error| failed(format!("no certificate: {error}")))?;
    let all = read.collect::<Result<Vec<_>, _>>().map_err(|error| failed(format!("no certificate: {error}")))?;
    if all.is_empty() { Err(failed("it holds no certificate in PEM".into())) } else { Ok(all) }
}

/// The common name of the client's certificate, which was checked when hands were shaken.
pub fn common_name_of(stream: &TlsStream<TcpStream>) -> Option<String> {
    let (_, connection) = stream.get_ref();
    common_name(connection.peer_certificates()?.first()?)
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

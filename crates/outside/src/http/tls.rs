//! TLS by `rustls`: 1.2 and 1.3, with the system's certificates, a file's, or any.

use super::{Identity, Trust};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// Wraps a connection in TLS where the address is `https`.
#[derive(Debug)]
pub(super) struct TlsConnector {
    identity: Identity,
    trust: Trust,
    /// Made when it is needed: who speaks `http` has no use for certificates that cannot be read.
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl TlsConnector {
    pub(super) fn new(identity: Identity, trust: Trust) -> TlsConnector {
        TlsConnector { identity, trust, config: OnceLock::new() }
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport<In>>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let config = self.config.get_or_init(|| config(&self.identity, &self.trust));
        let config = config.clone().map_err(io::Error::other)?;
        let host = details.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut below = TransportAdapter::new(transport, Arc::clone(&details.current_time));
        below.set_timeout(details.timeout);
        connection.complete_io(&mut below)?;
        let sizes = details.config;
        let buffers = LazyBuffers::new(sizes.input_buffer_size(), sizes.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { stream: StreamOwned::new(connection, below), buffers })))
    }
}

pub(super) struct TlsTransport<In: Transport> {
    stream: StreamOwned<ClientConnection, TransportAdapter<In>>,
    buffers: LazyBuffers,
}

impl<In: Transport> std::fmt::Debug for TlsTransport<In> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsTransport")
    }
}

impl<In: Transport> Transport for TlsTransport<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        Ok(self.stream.write_all(&self.buffers.output()[..amount])?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let count = self.stream.read(self.buffers.input_append_buf()).map_err(|error| match error.kind() {
            // Not an end: whoever cuts the connection would choose where the answer ends.
            io::ErrorKind::UnexpectedEof => io::Error::other("the connection ended without TLS close_notify"),
            _ => error,
        })?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

fn config(identity: &Identity, trust: &Trust) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let checks: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anything => Arc::new(Unchecked(Arc::clone(&provider))),
        Trust::System => from_roots(&system()?, "the system's", Vec::new(), &provider)?,
        Trust::Signer(path) => {
            let all = certificates(path)?;
            from_roots(&all, &path.display().to_string(), all.clone(), &provider)?
        }
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(checks);
    let config = match identity {
        Identity::Certificate(certificate, key) => {
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unread(key, &error))?;
            let config = builder.with_client_auth_cert(certificates(certificate)?, secret);
            config.map_err(|error| format!("{}: {error}", certificate.display()))?
        }
        Identity::None | Identity::User(..) | Identity::Token(_) => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// Whether a server was refused because its certificate is that of an authority.
fn is_of_an_authority(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(CertificateError::Other(why)) = error else { return false };
    why.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}

/// Why there is no TLS, and what to do about it where that is known.
pub(super) fn words(error: &rustls::Error) -> String {
    use CertificateError::{Expired, ExpiredContext, NotValidForName, NotValidForNameContext, UnknownIssuer};
    match error {
        rustls::Error::InvalidCertificate(UnknownIssuer) => {
            "its certificate is not signed by a trusted authority; configure the file of the authority that signed it"
                .into()
        }
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => "its certificate has expired".into(),
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            "its certificate is for another name; the name or address asked must be among its subject alternative names"
                .into()
        }
        other if is_of_an_authority(other) => {
            "its certificate is self-signed; to trust it, configure the certificate's file".into()
        }
        other => other.to_string(),
    }
}

/// The certificates that the system trusts. Those that cannot be read are left out, unless that is all.
fn system() -> Result<Vec<CertificateDer<'static>>, String> {
    let found = rustls_native_certs::load_native_certs();
    match (found.certs.is_empty(), found.errors.first()) {
        (false, _) => Ok(found.certs),
        (true, Some(error)) => Err(format!("the system's certificates cannot be read: {error}")),
        (true, None) => Err("the system has no certificates; install ca-certificates".into()),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| unread(path, &error))?;
    let all = read.collect::<Result<Vec<_>, _>>().map_err(|error| unread(path, &error))?;
    if all.is_empty() { Err(format!("{}: no certificate in PEM", path.display())) } else { Ok(all) }
}

fn unread(path: &Path, error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => {
            format!("{}: {}", path.display(), surefoot_foreign::said(error))
        }
        other => format!("{}: {other}", path.display()),
    }
}

fn from_roots(
    roots: &[CertificateDer<'static>],
    whose: &str,
    own: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots.iter().cloned());
    let by_roots = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
        .build()
        .map_err(|error| format!("{whose} certificates: {error}"))?;
    Ok(Arc::new(Checked { by_roots, own }))
}

/// Checks a chain up to the roots. A certificate that the file itself holds is trusted as it is, for its names and its time: that of
/// a management controller is often signed by itself and marked as an authority, which no chain may end in.
#[derive(Debug)]
struct Checked {
    by_roots: Arc<WebPkiServerVerifier>,
    own: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Checked {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let checked = self.by_roots.verify_server_cert(server, between, name, ocsp, now);
        // Its time was checked before this.
        let is_authority = checked.as_ref().is_err_and(is_of_an_authority);
        if !is_authority || !self.own.iter().any(|own| own == server) {
            return checked;
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_roots.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_roots.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_roots.supported_verify_schemes()
    }
}

/// Takes any certificate, whose key must still have signed the handshake.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;

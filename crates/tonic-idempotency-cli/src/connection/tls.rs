//! TLS as libpq has it: what of the server's certificate is verified, and by whose certificates.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};

use crate::failure::Failure;

/// The part of the server's certificate that is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verified {
    Nothing,
    Authority,
    /// The authority, and that the certificate is the host's.
    Host,
}

pub(super) struct Tls {
    pub(super) verified: Verified,
    /// The file with the authorities' certificates; the system's without it.
    pub(super) roots: Option<PathBuf>,
}

impl Tls {
    pub(super) fn client_config(&self) -> Result<ClientConfig, Failure> {
        let provider = Arc::new(ring::default_provider());
        let authority = match self.verified {
            Verified::Nothing => None,
            Verified::Authority | Verified::Host => {
                let roots = authorities(self.roots.as_deref());
                let roots = Arc::new(roots.map_err(|error| Failure::Input(format!("sslrootcert {error}")))?);
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
                Some(verifier.map_err(|error| Failure::Input(format!("sslrootcert: {error}")))?)
            }
        };
        let verifier = Verifier { authority, host: self.verified == Verified::Host, provider: Arc::clone(&provider) };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::Input(error.to_string()))?;
        Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
    }
}

/// Reads the certificates of authorities: a file's, or the system's.
pub(crate) fn authorities(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut authorities = RootCertStore::empty();
    let Some(path) = file else {
        authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(authorities);
    };
    let unread = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unread(&error))? {
        let certificate = certificate.map_err(|error| unread(&error))?;
        authorities.add(certificate).map_err(|error| unread(&error))?;
    }
    Ok(authorities)
}

#[derive(Debug)]
struct Verifier {
    authority: Option<Arc<WebPkiServerVerifier>>,
    host: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // It is checked last, when the rest was right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.host => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

//! Whom probes trust, and how they speak TLS.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, ClientConfig, RootCertStore,
        client::Resumption,
        crypto::ring,
        pki_types::{CertificateDer, pem::PemObject},
    },
};

/// Why probes cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ProbeSetupError {
    /// The file given by `--probe-ca-file` is missing, unreadable or broken.
    #[error("cannot read the CA file {path}: {source}")]
    ReadCa {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: rustls::pki_types::pem::Error,
    },
    /// It holds no PEM certificate.
    #[error("the CA file {path} holds no certificate")]
    NoCa {
        /// The file.
        path: PathBuf,
    },
    /// One of its certificates is none.
    #[error("certificate {number} of the CA file {path} cannot be used: {source}")]
    BadCa {
        /// The file.
        path: PathBuf,
        /// Which one, from 1.
        number: usize,
        /// What is wrong with it.
        source: rustls::Error,
    },
    /// The crypto library knows no protocol version.
    #[error("cannot set up TLS: {0}")]
    Tls(rustls::Error),
}

/// The connector that all probes share.
pub(super) fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, ProbeSetupError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    add_system(&mut roots);
    if roots.is_empty() {
        tracing::warn!(
            "no CA certificates found on this system and no --probe-ca-file given: \
             every health check of an https URL will fail"
        );
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(ProbeSetupError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A resumed session would skip the certificate, and so part of what is to be proved.
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), ProbeSetupError> {
    let path = path.to_owned();
    let certificates = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect);
    let certificates: Vec<_> = match certificates {
        Ok(certificates) => certificates,
        Err(source) => return Err(ProbeSetupError::ReadCa { path, source }),
    };
    if certificates.is_empty() {
        return Err(ProbeSetupError::NoCa { path });
    }
    for (certificate, number) in certificates.into_iter().zip(1..) {
        if let Err(source) = roots.add(certificate) {
            return Err(ProbeSetupError::BadCa {
                path,
                number,
                source,
            });
        }
    }
    Ok(())
}

/// Takes what is usable: one odd certificate among the system's hundred must not stop the program.
fn add_system(roots: &mut RootCertStore) {
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::debug!(%error, "part of the system's CA store cannot be read");
    }
    let (added, ignored) = roots.add_parsable_certificates(system.certs);
    tracing::debug!(added, ignored, "system CA certificates loaded");
}

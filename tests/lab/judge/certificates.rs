//! The judge's CAs and what its listeners show.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::{
    ServerConfig, crypto::ring, pki_types::PrivateKeyDer, server::NoServerSessionStorage,
};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// A CA of its own.
pub fn authority(name: &str) -> anyhow::Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

/// TLS with a leaf of `issuer` for `names`. The key is P-256, the cheapest to sign with.
pub fn acceptor(
    issuer: &CertifiedIssuer<'static, KeyPair>,
    names: Vec<String>,
) -> anyhow::Result<TlsAcceptor> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "judge");
    params.use_authority_key_identifier_extension = true;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let leaf = params.signed_by(&key, issuer)?;
    // Named, not the process's default: the judge must not care who installed one.
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone(), issuer.der().clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )?;
    // No probe resumes a session, and tickets are work.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

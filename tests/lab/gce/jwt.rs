//! Service accounts: keys, and what is signed with them.

use super::tokens::CLOUD_PLATFORM;
use anyhow::{Context as _, bail, ensure};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

/// Whom a token that an account signs itself may be for.
const AUDIENCE: &str = "https://compute.googleapis.com/";
/// The longest that such a token may be good from now on, seconds.
const LONGEST: i64 = 3600;
/// How far a clock may be ahead, seconds; Google's own clients allow for as much.
const SKEW: i64 = 15;

/// Accounts and the public halves of their keys.
#[derive(Default)]
pub struct Accounts {
    /// By key ID: whose it is, and the key.
    keys: HashMap<String, (String, Vec<u8>)>,
}

impl Accounts {
    /// Makes a key for `email` and answers the file that Google gives for it. Runs `openssl`.
    ///
    /// # Errors
    /// No `openssl`.
    pub fn create_key(&mut self, email: &str, token_uri: &str) -> anyhow::Result<Value> {
        let made = Command::new("openssl")
            .args([
                "genpkey",
                "-algorithm",
                "RSA",
                "-pkeyopt",
                "rsa_keygen_bits:2048",
            ])
            .output()
            .context("openssl")?;
        ensure!(made.status.success(), "openssl made no key");
        let pem = String::from_utf8(made.stdout)?;
        let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let key = RsaKeyPair::from_pkcs8(&BASE64.decode(base64.as_bytes())?);
        let key = key.map_err(|error| anyhow::anyhow!("a key of openssl's: {error}"))?;
        let id = format!("{:040x}", rand::random::<u128>());
        let public = key.public_key().as_ref().to_vec();
        self.keys.insert(id.clone(), (email.to_owned(), public));
        let project = email.split(['@', '.']).nth(1).unwrap_or("");
        Ok(json!({
            "type": "service_account",
            "project_id": project,
            "private_key_id": id,
            "private_key": pem,
            "client_email": email,
            "client_id": "103948201938470192837",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": token_uri,
            "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
            "universe_domain": "googleapis.com",
        }))
    }

    /// From now on no key of `email` is good.
    pub fn delete_keys(&mut self, email: &str) {
        self.keys.retain(|_, (whose, _)| whose != email);
    }

    /// Whose a token is that an account signed itself, and the scopes that it is for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn self_signed(&self, token: &str) -> anyhow::Result<(String, Vec<String>)> {
        let (email, claims) = self.verified(token)?;
        ensure!(claims["sub"] == email.as_str(), "sub is not {email}");
        let scopes = claims["scope"].as_str().unwrap_or("");
        let scopes: Vec<String> = scopes.split_whitespace().map(ToOwned::to_owned).collect();
        match claims["aud"].as_str() {
            Some(AUDIENCE) => Ok((email, vec![CLOUD_PLATFORM.into()])),
            Some(other) => bail!("the audience is {other}"),
            None if scopes.is_empty() => bail!("neither audience nor scope"),
            None => Ok((email, scopes)),
        }
    }

    /// Whose an assertion is that asks for a token at `audience`, and for which scopes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn assertion(&self, token: &str, audience: &str) -> anyhow::Result<(String, Vec<String>)> {
        let (email, claims) = self.verified(token)?;
        let given = claims["aud"].as_str().unwrap_or("");
        ensure!(given == audience, "the audience is {given}");
        let scopes = claims["scope"].as_str().unwrap_or("");
        Ok((
            email,
            scopes.split_whitespace().map(ToOwned::to_owned).collect(),
        ))
    }

    fn verified(&self, token: &str) -> anyhow::Result<(String, Value)> {
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts[..] else {
            bail!("no JWT");
        };
        let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes());
        let head: Value = serde_json::from_slice(&decode(header)?)?;
        ensure!(head["alg"] == "RS256", "alg is {}", head["alg"]);
        let id = head["kid"].as_str().context("no kid")?;
        let (email, public) = self.keys.get(id).context("nobody's key")?;
        let signed = format!("{header}.{claims}");
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public)
            .verify(signed.as_bytes(), &decode(signature)?)
            .map_err(|_| anyhow::anyhow!("the signature is wrong"))?;
        let claims: Value = serde_json::from_slice(&decode(claims)?)?;
        ensure!(claims["iss"] == email.as_str(), "iss is not {email}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let now = i64::try_from(now)?;
        let time = |name: &str| claims[name].as_i64().with_context(|| format!("no {name}"));
        let (issued, expires) = (time("iat")?, time("exp")?);
        ensure!(issued <= now + SKEW, "issued in the future");
        ensure!(expires > now, "expired");
        ensure!(expires <= now + LONGEST + SKEW, "good for too long");
        Ok((email.clone(), claims))
    }
}

//! Access tokens: which there are, for what, and how long.

use super::{
    faults::{insufficient_scopes, no_credentials, unauthenticated},
    jwt::Accounts,
    refusal::Refusal,
};
use http::{HeaderMap, header};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// The scope that is enough for everything.
pub const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Tokens that were issued, and whom one is issued to.
pub struct Tokens {
    issued: HashMap<String, Grant>,
    /// How long a new one is good.
    pub lifetime: Duration,
    /// Service accounts, which may also sign tokens themselves.
    pub accounts: Accounts,
    /// Refresh tokens that are good, with client ID and client secret.
    pub refresh: Vec<[String; 3]>,
    /// The service account of the machine, at the metadata server; none if it has none.
    pub machine: Option<String>,
}

/// What a token is good for.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Whom it was issued to.
    pub user: String,
    /// Scopes that it is for.
    pub scopes: Vec<String>,
    expires: Instant,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            issued: HashMap::new(),
            lifetime: Duration::from_secs(3599),
            accounts: Accounts::default(),
            refresh: Vec::new(),
            machine: Some("415104041262-compute@developer.gserviceaccount.com".into()),
        }
    }
}

impl Tokens {
    /// A new token of `user`, good for `lifetime` from now on.
    pub fn issue(&mut self, user: &str, scopes: &[&str]) -> String {
        let now = Instant::now();
        self.issued.retain(|_, grant| grant.expires > now);
        let token = format!(
            "ya29.{:032x}{:032x}",
            rand::random::<u128>(),
            rand::random::<u128>()
        );
        let grant = Grant {
            user: user.to_owned(),
            scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
            expires: now + self.lifetime,
        };
        self.issued.insert(token.clone(), grant);
        token
    }

    /// From now on no token that was issued is good.
    pub fn revoke_all(&mut self) {
        self.issued.clear();
    }

    /// Whose a request is.
    ///
    /// # Errors
    /// 401 if it has no token that is good, 403 if that is for none of `scopes`.
    pub fn whose(&self, headers: &HeaderMap, scopes: &[String]) -> Result<String, Refusal> {
        let value = headers
            .get(header::AUTHORIZATION)
            .ok_or_else(no_credentials)?;
        let value = value.to_str().map_err(|_| unauthenticated())?;
        let (kind, token) = value.split_once(' ').ok_or_else(unauthenticated)?;
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(unauthenticated());
        }
        let grant = match self.issued.get(token) {
            Some(grant) if grant.expires > Instant::now() => {
                (grant.user.clone(), grant.scopes.clone())
            }
            Some(_) => return Err(unauthenticated()),
            None => self
                .accounts
                .self_signed(token)
                .map_err(|_| unauthenticated())?,
        };
        if grant.1.iter().any(|scope| scopes.contains(scope)) {
            Ok(grant.0)
        } else {
            Err(insufficient_scopes())
        }
    }
}

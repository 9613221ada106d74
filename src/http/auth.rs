//! Who may use the API: whoever sends the bearer token, where one is set.
//!
//! A token file is read again every second, whatever its times say: it is small, and a Secret's
//! volume is swapped by symbolic links. Requests read the latest digest and never the file.

use sha2::{Digest, Sha256};
use std::{path::PathBuf, time::Duration};
use subtle::ConstantTimeEq;
use tokio::{io::AsyncReadExt, sync::watch};
use tokio_util::task::AbortOnDropHandle;

/// How often a token file is read again.
pub const REREAD: Duration = Duration::from_secs(1);

/// A token file longer than this is a mistake (the wrong file), not a token.
const MAX_TOKEN: u64 = 4096;

/// What is guarded by a token, and the variables that the token comes from.
#[derive(Debug, PartialEq, Eq)]
pub struct Guarded {
    /// What it is, in a sentence.
    pub what: &'static str,
    /// Holds the token.
    pub value: &'static str,
    /// Names a file that holds it.
    pub file: &'static str,
}

/// The lease API.
pub static LEASE_API: Guarded = Guarded {
    what: "the lease API",
    value: "DISCOVERY_TOKEN",
    file: "DISCOVERY_TOKEN_FILE",
};

/// The admin server.
pub static ADMIN: Guarded = Guarded {
    what: "the admin server",
    value: "ADMIN_TOKEN",
    file: "ADMIN_TOKEN_FILE",
};

/// Why a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Set, but to nothing: surely not meant as "everybody".
    #[error("the token of {0} is empty; unset it to serve without one")]
    EmptyToken(&'static str),
    /// Two sources, and no way to tell which is meant.
    #[error("{} and {} are both set; set one", .0.value, .0.file)]
    TwoSources(&'static Guarded),
}

/// Why a token file gives no token.
#[derive(Debug, thiserror::Error)]
enum TokenFileError {
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("is empty")]
    Empty,
    #[error("is longer than {MAX_TOKEN} bytes")]
    TooLong,
}

/// Digests are compared, so that the time taken tells nothing of the token, not even its length.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Admits {
    Everybody,
    Nobody,
    Bearer([u8; 32]),
}

/// The rule that decides about a request's `Authorization` header.
pub struct Auth {
    admits: watch::Receiver<Admits>,
    _reader: Option<AbortOnDropHandle<()>>,
}

impl Auth {
    /// That of the lease API; see [`Auth::of`].
    ///
    /// # Errors
    /// [`AuthError`].
    pub async fn new(
        token: Option<String>,
        file: Option<PathBuf>,
        reread: Duration,
    ) -> Result<Self, AuthError> {
        Self::of(&LEASE_API, token, file, reread).await
    }

    /// Takes what the environment says: a token, a file that holds one, or neither.
    ///
    /// A file that cannot be used refuses everybody until it can be; that is logged, not an error,
    /// since the file may be about to appear.
    ///
    /// # Errors
    /// [`AuthError`].
    pub async fn of(
        guarded: &'static Guarded,
        token: Option<String>,
        file: Option<PathBuf>,
        reread: Duration,
    ) -> Result<Self, AuthError> {
        match (token, file) {
            (Some(_), Some(_)) => Err(AuthError::TwoSources(guarded)),
            (Some(token), None) => {
                let token = token.trim();
                if token.is_empty() {
                    return Err(AuthError::EmptyToken(guarded.what));
                }
                Ok(Self::fixed(Admits::Bearer(digest(token))))
            }
            (None, Some(path)) => Ok(Self::watching(guarded.what, path, reread).await),
            (None, None) => {
                let Guarded { what, value, file } = guarded;
                tracing::warn!("{what} serves UNAUTHENTICATED: neither {value} nor {file} is set");
                Ok(Self::fixed(Admits::Everybody))
            }
        }
    }

    fn fixed(admits: Admits) -> Self {
        Self {
            admits: watch::channel(admits).1,
            _reader: None,
        }
    }

    async fn watching(what: &'static str, path: PathBuf, reread: Duration) -> Self {
        let (publish, admits) = watch::channel(Admits::Nobody);
        let mut file = TokenFile {
            what,
            path,
            said: None,
            publish,
        };
        file.read().await;
        let reader = tokio::spawn(async move {
            loop {
                tokio::time::sleep(reread).await;
                file.read().await;
            }
        });
        Self {
            admits,
            _reader: Some(AbortOnDropHandle::new(reader)),
        }
    }

    /// Whether a token is needed at all.
    #[must_use]
    pub fn required(&self) -> bool {
        *self.admits.borrow() != Admits::Everybody
    }

    /// Whether a request with this `Authorization` header may go on.
    #[must_use]
    pub fn admits(&self, authorization: Option<&[u8]>) -> bool {
        let expected = match *self.admits.borrow() {
            Admits::Everybody => return true,
            Admits::Nobody => return false,
            Admits::Bearer(expected) => expected,
        };
        let Some((scheme, token)) = authorization.and_then(|header| header.split_at_checked(7))
        else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"bearer ")
            && bool::from(digest(token.trim_ascii()).ct_eq(&expected))
    }
}

fn digest(token: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(token).into()
}

struct TokenFile {
    what: &'static str,
    path: PathBuf,
    said: Option<String>,
    publish: watch::Sender<Admits>,
}

impl TokenFile {
    async fn read(&mut self) {
        let (admits, problem) = match self.token().await {
            Ok(digest) => (Admits::Bearer(digest), None),
            Err(error) => (Admits::Nobody, Some(error.to_string())),
        };
        let changed = self.publish.send_if_modified(|current| {
            let changed = *current != admits;
            *current = admits;
            changed
        });
        let (what, path) = (self.what, self.path.display());
        match &problem {
            Some(why) if self.said != problem => {
                tracing::error!("{what} refuses EVERYBODY: its token file {path} {why}");
            }
            None if changed => tracing::info!("the token of {what} was read from {path}"),
            _ => {}
        }
        self.said = problem;
    }

    async fn token(&self) -> Result<[u8; 32], TokenFileError> {
        let mut text = Vec::new();
        let file = tokio::fs::File::open(&self.path).await?;
        file.take(MAX_TOKEN + 1).read_to_end(&mut text).await?;
        if text.len() as u64 > MAX_TOKEN {
            return Err(TokenFileError::TooLong);
        }
        match text.trim_ascii() {
            b"" => Err(TokenFileError::Empty),
            token => Ok(digest(token)),
        }
    }
}

#[cfg(test)]
#[path = "auth_test.rs"]
mod tests;

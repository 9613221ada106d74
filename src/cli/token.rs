//! Where a bearer token comes from: the environment, so that it shows in no process list.

use crate::http::auth::Guarded;
use std::{env, fmt, fs, io, path::PathBuf};

/// The source of the token that clients must send. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// The token itself (`DISCOVERY_TOKEN`, `ADMIN_TOKEN`), not empty.
    Value(String),
    /// A file that holds it (`…_TOKEN_FILE`) and may change while the program runs.
    File(PathBuf),
}

/// Why the environment names no usable token. An unusable one must never mean "no token".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Nobody can tell which of two is meant.
    #[error("both {} and {} are set: set one", .0.value, .0.file)]
    Both(&'static Guarded),
    /// Set to nothing, most likely by a Secret's empty key.
    #[error("{0} is set but empty: unset it to serve without a token")]
    Empty(&'static str),
    /// A client could not send it in a header.
    #[error("{0} holds characters other than visible ASCII")]
    Unsendable(&'static str),
}

impl TokenSource {
    /// What the environment says; `None` when it names no token.
    ///
    /// # Errors
    /// [`TokenError`]
    pub fn from_env(of: &'static Guarded) -> Result<Option<Self>, TokenError> {
        Self::choose(
            of,
            env::var_os(of.value).map(|value| value.to_string_lossy().into_owned()),
            env::var_os(of.file).map(PathBuf::from),
        )
    }

    /// The token itself, as a client sends it.
    ///
    /// # Errors
    /// An unreadable file.
    pub fn read(self) -> io::Result<String> {
        match self {
            Self::Value(token) => Ok(token),
            Self::File(file) => Ok(fs::read_to_string(file)?.trim().to_owned()),
        }
    }

    /// The token and the file that may hold it, at most one of them, as
    /// [`crate::http::Auth::of`] takes them.
    #[must_use]
    pub fn value_or_file(source: Option<Self>) -> (Option<String>, Option<PathBuf>) {
        match source {
            None => (None, None),
            Some(Self::Value(token)) => (Some(token), None),
            Some(Self::File(file)) => (None, Some(file)),
        }
    }

    fn choose(
        of: &'static Guarded,
        value: Option<String>,
        file: Option<PathBuf>,
    ) -> Result<Option<Self>, TokenError> {
        match (value, file) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(TokenError::Both(of)),
            (Some(value), None) if value.trim().is_empty() => Err(TokenError::Empty(of.value)),
            (None, Some(file)) if file.as_os_str().is_empty() => Err(TokenError::Empty(of.file)),
            (Some(value), None) => {
                // Blanks around the token are an editor's, not a part of it.
                let value = value.trim();
                if value.bytes().all(|c| c.is_ascii_graphic()) {
                    Ok(Some(Self::Value(value.to_owned())))
                } else {
                    Err(TokenError::Unsendable(of.value))
                }
            }
            (None, Some(file)) => Ok(Some(Self::File(file))),
        }
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value(..)"),
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::auth::LEASE_API;

    #[test]
    fn a_token_is_taken_from_one_place_and_never_from_nothing() {
        let value = |text: &str| Some(text.to_owned());
        let file = |text: &str| Some(PathBuf::from(text));
        let taken = |text: &str| Ok(Some(TokenSource::Value(text.to_owned())));
        for (case, found, want) in [
            (
                "none",
                TokenSource::choose(&LEASE_API, None, None),
                Ok(None),
            ),
            (
                "value",
                TokenSource::choose(&LEASE_API, value("s3cret"), None),
                taken("s3cret"),
            ),
            (
                "line end",
                TokenSource::choose(&LEASE_API, value("s3cret\n"), None),
                taken("s3cret"),
            ),
            (
                "file",
                TokenSource::choose(&LEASE_API, None, file("/t")),
                Ok(Some(TokenSource::File("/t".into()))),
            ),
            (
                "both",
                TokenSource::choose(&LEASE_API, value("a"), file("/t")),
                Err(TokenError::Both(&LEASE_API)),
            ),
            (
                "empty",
                TokenSource::choose(&LEASE_API, value(" \n"), None),
                Err(TokenError::Empty(LEASE_API.value)),
            ),
            (
                "empty file",
                TokenSource::choose(&LEASE_API, None, file("")),
                Err(TokenError::Empty(LEASE_API.file)),
            ),
            (
                "space",
                TokenSource::choose(&LEASE_API, value("two words"), None),
                Err(TokenError::Unsendable(LEASE_API.value)),
            ),
            (
                "umlaut",
                TokenSource::choose(&LEASE_API, value("tür"), None),
                Err(TokenError::Unsendable(LEASE_API.value)),
            ),
        ] {
            assert_eq!(found, want, "{case}");
        }
    }

    #[test]
    fn a_token_is_never_printed() {
        let source = TokenSource::Value("sentinel".into());
        assert!(!format!("{source:?}").contains("sentinel"));
    }
}

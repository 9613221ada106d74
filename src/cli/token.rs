//! Where the lease API's bearer token comes from: the environment, so that it shows in no process
//! list.

use std::{env, fmt, path::PathBuf};

const VALUE: &str = "DISCOVERY_TOKEN";
const FILE: &str = "DISCOVERY_TOKEN_FILE";

/// The source of the token that clients must send. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// The token itself (`DISCOVERY_TOKEN`), not empty.
    Value(String),
    /// A file that holds it (`DISCOVERY_TOKEN_FILE`) and may change while the program runs.
    File(PathBuf),
}

/// Why the environment names no usable token. An unusable one must never mean "no token".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Nobody can tell which of two is meant.
    #[error("both {VALUE} and {FILE} are set: set one")]
    Both,
    /// Set to nothing, most likely by a Secret's empty key.
    #[error("{0} is set but empty: unset it to serve without a token")]
    Empty(&'static str),
    /// A client could not send it in a header.
    #[error("{VALUE} holds characters other than visible ASCII")]
    Unsendable,
}

impl TokenSource {
    /// What the environment says; `None` when it names no token.
    ///
    /// # Errors
    /// [`TokenError`]
    pub fn from_env() -> Result<Option<Self>, TokenError> {
        Self::choose(
            env::var_os(VALUE).map(|value| value.to_string_lossy().into_owned()),
            env::var_os(FILE).map(PathBuf::from),
        )
    }

    fn choose(value: Option<String>, file: Option<PathBuf>) -> Result<Option<Self>, TokenError> {
        match (value, file) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(TokenError::Both),
            (Some(value), None) if value.trim().is_empty() => Err(TokenError::Empty(VALUE)),
            (None, Some(file)) if file.as_os_str().is_empty() => Err(TokenError::Empty(FILE)),
            (Some(value), None) => {
                // A line end behind the token is an editor's, not a part of it.
                let value = value.trim_end_matches(['\r', '\n']);
                if value.bytes().all(|c| c.is_ascii_graphic()) {
                    Ok(Some(Self::Value(value.to_owned())))
                } else {
                    Err(TokenError::Unsendable)
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

    #[test]
    fn a_token_is_taken_from_one_place_and_never_from_nothing() {
        let value = |text: &str| Some(text.to_owned());
        let file = |text: &str| Some(PathBuf::from(text));
        let taken = |text: &str| Ok(Some(TokenSource::Value(text.to_owned())));
        for (case, found, want) in [
            ("none", TokenSource::choose(None, None), Ok(None)),
            (
                "value",
                TokenSource::choose(value("s3cret"), None),
                taken("s3cret"),
            ),
            (
                "line end",
                TokenSource::choose(value("s3cret\n"), None),
                taken("s3cret"),
            ),
            (
                "file",
                TokenSource::choose(None, file("/t")),
                Ok(Some(TokenSource::File("/t".into()))),
            ),
            (
                "both",
                TokenSource::choose(value("a"), file("/t")),
                Err(TokenError::Both),
            ),
            (
                "empty",
                TokenSource::choose(value(" \n"), None),
                Err(TokenError::Empty(VALUE)),
            ),
            (
                "empty file",
                TokenSource::choose(None, file("")),
                Err(TokenError::Empty(FILE)),
            ),
            (
                "space",
                TokenSource::choose(value("two words"), None),
                Err(TokenError::Unsendable),
            ),
            (
                "umlaut",
                TokenSource::choose(value("tür"), None),
                Err(TokenError::Unsendable),
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

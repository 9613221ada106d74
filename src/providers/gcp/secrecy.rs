//! What must not be told: tokens, keys, and user-data, wherever somebody quotes them.

use actors::provider::contract::UserData;
use google_cloud_gax::error::Error;
use std::error::Error as StdError;

/// Shorter pieces of user-data are words that stand everywhere.
const TELLING: usize = 8;
/// The errors that a token server may give, by RFC 6749.
const OAUTH: [&str; 7] = [
    "invalid_grant",
    "invalid_client",
    "invalid_request",
    "invalid_scope",
    "unauthorized_client",
    "unsupported_grant_type",
    "access_denied",
];
/// In the place of words that may quote user-data.
const WITHHELD: &str = "Google's words are withheld, for they may quote the user-data";

/// `words` of Google's, unless they may quote metadata, as complaints about its fields do.
#[must_use]
pub fn guarded(words: &str) -> String {
    let signs = ["resource.metadata", "user-data", "#cloud-config"];
    if signs.iter().any(|sign| words.contains(sign)) {
        return withheld(words);
    }
    words.to_owned()
}

/// That words are withheld, and the field that they are about, `resource.metadata.items[0].value`.
fn withheld(words: &str) -> String {
    let path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '[' | ']' | '_');
    let mut quoted = words.split('\'').skip(1).step_by(2);
    match quoted.next() {
        Some(field) if field.starts_with("resource.") && field.chars().all(path) => {
            format!("{field}: {WITHHELD}")
        }
        _ => WITHHELD.to_owned(),
    }
}

/// As [`guarded`], for words about a request that carried this user-data.
#[must_use]
pub fn guarded_of(words: &str, user_data: Option<&UserData>) -> String {
    let guarded = guarded(words);
    if user_data.is_some_and(|data| quotes(&guarded, data.bytes())) {
        return withheld(&guarded);
    }
    guarded
}

/// Whether a piece of `secret` that tells something stands in `words`. It may stand there in one line or as
/// a JSON string, so lines are cut where such a string has escapes; or encoded.
fn quotes(words: &str, secret: &[u8]) -> bool {
    let text = String::from_utf8_lossy(secret);
    let mut pieces = text
        .split(['\n', '\r', '\t', '"', '\\', '\'', '<', '>', '&', '\u{fffd}'])
        .map(str::trim);
    if pieces.any(|piece| piece.len() >= TELLING && words.contains(piece)) {
        return true;
    }
    let encoded = data_encoding::BASE64.encode(secret);
    encoded.get(..16).is_some_and(|start| words.contains(start))
}

/// What is wrong with getting a token, said in words that hold nothing of what the token server said but
/// its error's name.
#[must_use]
pub fn token_trouble(error: &(dyn StdError + 'static)) -> String {
    let mut known = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(http) = cause.downcast_ref::<reqwest::Error>() {
            if let Some(status) = http.status() {
                known.push(format!("the token server answers {}", status.as_u16()));
            } else if http.is_decode() {
                known.push("the token server's answer is not understood".to_owned());
            } else if http.is_timeout() {
                known.push("the token server does not answer in time".to_owned());
            } else if http.is_connect() || http.is_request() {
                known.push("the token server cannot be reached".to_owned());
            }
        } else if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            known.push(io.to_string());
        } else if let Some(code) = cause
            .downcast_ref::<Error>()
            .and_then(Error::http_status_code)
        {
            known.push(format!("the token server answers {code}"));
        }
        let said = cause.to_string();
        known.extend(
            OAUTH
                .iter()
                .filter(|name| said.contains(**name))
                .map(|name| (*name).to_owned()),
        );
        next = cause.source();
    }
    let mut words = "no access token can be had".to_owned();
    let mut told: Vec<&String> = Vec::new();
    for part in &known {
        if !told.contains(&part) {
            words += ": ";
            words += part;
            told.push(part);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_quote_user_data_are_withheld() {
        let data = UserData::from(b"#cloud-config\npassword: \"s3ntinel-b7e1\"\n".to_vec());
        for words in [
            "no 'resource.x of user-data': 'x'",
            "cannot take s3ntinel-b7e1",
            "bad: I2Nsb3VkLWNvbmZpZwpwYXNz",
            "bad: #cloud-config",
        ] {
            assert_eq!(guarded_of(words, Some(&data)), WITHHELD, "{words}");
        }
        let about = "Invalid value for field 'resource.metadata.items[0].value': 'x'";
        assert_eq!(
            guarded(about),
            format!("resource.metadata.items[0].value: {WITHHELD}")
        );
        let harmless = "The resource 'projects/p/global/images/x' was not found";
        assert_eq!(guarded_of(harmless, Some(&data)), harmless);
        assert_eq!(guarded_of(harmless, None), harmless);
    }

    #[test]
    fn of_a_token_server_only_the_name_of_its_error_is_told() {
        let error =
            std::io::Error::other("body=<{\"error\":\"invalid_grant\", \"t\": \"secret\"}>");
        let outer = google_cloud_auth::errors::CredentialsError::new(false, "no token", error);
        let words = token_trouble(&outer);
        assert!(words.contains("invalid_grant"), "{words}");
    }
}

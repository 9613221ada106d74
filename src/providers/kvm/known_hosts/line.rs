//! One line of a `known_hosts` file, read as OpenSSH reads it.

use super::{names::matches, same_type};
use data_encoding::BASE64;
use russh::keys::{Algorithm, PublicKey, ssh_key::public::KeyData};

/// Longer markers than this are none (OpenSSH reads them into 32 bytes).
const LONGEST_MARKER: usize = 31;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    CertAuthority,
    Revoked,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// Counted from 1.
    pub(super) number: usize,
    pub(super) marker: Option<Marker>,
    pub(super) key: KeyData,
}

/// The lines about a host of this name that can be read.
pub(super) fn about<'a>(file_text: &'a str, name: &'a str) -> impl Iterator<Item = Line> + 'a {
    let numbered = file_text.split('\n').zip(1..);
    numbered.filter_map(|(text, number)| read(text, number, name))
}

fn read(text: &str, number: usize, name: &str) -> Option<Line> {
    let text = text.trim_start_matches(BLANKS);
    if text.is_empty() || text.starts_with('#') {
        return None;
    }
    let (marker, text) = read_marker(text)?;
    let (hosts, rest) = split_word(text)?;
    if !matches(name, hosts) {
        return None;
    }
    let key = read_key(rest)?;
    Some(Line {
        number,
        marker,
        key,
    })
}

const BLANKS: [char; 2] = [' ', '\t'];

/// The first word and what follows it. A word that ends the text has nothing to say.
fn split_word(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.split_once(BLANKS)?;
    Some((word, rest.trim_start_matches(BLANKS)))
}

/// `None` for a marker that OpenSSH does not know, or a second one: it skips such a line.
fn read_marker(text: &str) -> Option<(Option<Marker>, &str)> {
    if !text.starts_with('@') {
        return Some((None, text));
    }
    // Up to the first space, and only without any up to the first tab: a tab right after the marker
    // makes OpenSSH ignore the line if it has a space further on.
    let end = text.find(' ').or_else(|| text.find('\t'))?;
    let (marker, rest) = text.split_at(end);
    let marker = match marker {
        _ if marker.len() > LONGEST_MARKER => return None,
        "@cert-authority" => Marker::CertAuthority,
        "@revoked" => Marker::Revoked,
        _ => return None,
    };
    let rest = rest.trim_start_matches(BLANKS);
    (!rest.starts_with('@')).then_some((Some(marker), rest))
}

/// The key's type and its base64; what follows is a comment.
fn read_key(text: &str) -> Option<KeyData> {
    let (name, rest) = split_word(text)?;
    let blob = rest.split(BLANKS).next()?;
    // The end of a line from Windows.
    let blob = blob.trim_end_matches('\r');
    let bytes = BASE64.decode(blob.as_bytes()).ok()?;
    let key = PublicKey::from_bytes(&bytes).ok()?;
    let said = Algorithm::new(name).ok()?;
    let is_known = !matches!(said, Algorithm::Other(_));
    (is_known && same_type(&said, &key.algorithm())).then(|| key.key_data().clone())
}

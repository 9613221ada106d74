//! The vendor-data: what every guest is told beside its own user-data.

use super::super::config::Document;
use data_encoding::{BASE64, HEXLOWER};
use sha2::{Digest, Sha256};

/// Installs and starts the guest agent. A script, since cloud-init drops what a vendor's cloud-config
/// says as soon as the user's says something under the same key.
const GUEST_AGENT: &str = include_str!("guest-agent.sh");
/// How many characters a line of base64 has.
const LINE: usize = 76;

/// What goes into the vendor-data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vendor {
    /// Whether the guest is to install the QEMU guest agent.
    pub install_guest_agent: bool,
    /// The document from the config.
    pub document: Option<Document>,
}

impl Vendor {
    /// The file: empty, or the one thing that there is, or both in a MIME multipart.
    pub(super) fn file(&self) -> Vec<u8> {
        let document = self.document.as_ref().map(Document::bytes);
        match document.filter(|document| !document.is_empty()) {
            None if self.install_guest_agent => GUEST_AGENT.as_bytes().to_vec(),
            None => Vec::new(),
            Some(document) if self.install_guest_agent => multipart(document),
            Some(document) => document.to_vec(),
        }
    }
}

/// The script and the document. cloud-init looks for the MIME-Version in the first 4096 bytes.
fn multipart(document: &[u8]) -> Vec<u8> {
    let digest = HEXLOWER.encode(&Sha256::digest(document));
    // A document that held its own digest could hold this.
    let boundary = format!("proxy-operator-{}", &digest[..16]);
    let script = part("text/x-shellscript", GUEST_AGENT.as_bytes());
    let mut message = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{boundary}\"\n\n\
         --{boundary}\n{script}--{boundary}\n"
    )
    .into_bytes();
    if is_mime(document) {
        // cloud-init looks into nested messages, but not for them in what is encoded.
        message.extend_from_slice(document);
        message.push(b'\n');
    } else {
        // As plain text, so that cloud-init finds out what it is.
        message.extend(part("text/plain", document).into_bytes());
    }
    message.extend(format!("--{boundary}--\n").into_bytes());
    message
}

fn part(kind: &str, content: &[u8]) -> String {
    let encoded = BASE64.encode(content);
    let mut part =
        format!("MIME-Version: 1.0\nContent-Type: {kind}\nContent-Transfer-Encoding: base64\n\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        part.push_str(line);
        part.push('\n');
        rest = after;
    }
    part
}

/// Whether the document is itself a multipart message.
fn is_mime(document: &[u8]) -> bool {
    ["mime-version:", "content-type: multipart/"]
        .iter()
        .any(|begin| {
            let start = document.get(..begin.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(begin.as_bytes()))
        })
}

#[cfg(test)]
mod tests;

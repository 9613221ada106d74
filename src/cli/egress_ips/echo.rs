//! The address in a page, however it is wrapped.

use std::net::IpAddr;

/// How much of a page is shown that holds none.
const SHOWN: usize = 60;

/// The first word of a page that is an IP address: of plain text, of JSON, of HTML.
///
/// # Errors
/// What the page holds instead.
pub(super) fn address_in(page: &[u8]) -> Result<IpAddr, String> {
    let text = String::from_utf8_lossy(page);
    let of_address = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
    let words = text.split(|c| !of_address(c));
    let address = words
        .map(|word| word.trim_end_matches(['.', ':']))
        .find_map(|word| word.parse().ok());
    address.ok_or_else(|| {
        let shown: String = text.trim().chars().take(SHOWN).collect();
        format!("the page holds no address: {shown:?}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_however_it_is_wrapped() {
        for (page, address) in [
            ("203.0.113.9", "203.0.113.9"),
            ("203.0.113.9\r\n", "203.0.113.9"),
            ("2001:db8::1\n", "2001:db8::1"),
            (r#"{"ip":"203.0.113.9","port":1}"#, "203.0.113.9"),
            (r#"{"origin": "203.0.113.9, 10.0.0.1"}"#, "203.0.113.9"),
            ("<b>Your address: 203.0.113.9.</b>", "203.0.113.9"),
            ("fl=1f2\nip=2001:db8::7\nts=1.5", "2001:db8::7"),
        ] {
            let expected = Ok(address.parse().expect("an address"));
            assert_eq!(address_in(page.as_bytes()), expected, "{page}");
        }
    }

    #[test]
    fn a_page_without_one_is_shown() {
        for page in ["", "added beef: dead", "1.2.3", "256.1.1.1", "\u{fffd}"] {
            let why = address_in(page.as_bytes()).expect_err(page);
            assert!(why.contains(&format!("{page:?}")), "{why}");
        }
        assert!(address_in(&[b'x'; 1000]).expect_err("none").len() < 120);
    }
}

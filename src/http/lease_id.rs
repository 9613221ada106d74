//! A lease's identity as text: 26 characters of upper-case base32 (RFC 4648, unpadded).

use actors::leases::terms::LeaseId;
use data_encoding::BASE32_NOPAD;

/// What [`text`] writes and [`parse`] takes. The last character carries 3 bits, so few fit there.
pub const PATTERN: &str = "^[A-Z2-7]{25}[AEIMQUY4]$";

/// The identity as clients see it.
#[must_use]
pub fn text(id: LeaseId) -> String {
    BASE32_NOPAD.encode(&id.0.to_be_bytes())
}

/// The identity that `text` spells; `None` for anything that [`text`] would not write.
#[must_use]
pub fn parse(text: &str) -> Option<LeaseId> {
    if text.len() != 26 {
        return None;
    }
    let mut bytes = [0; 16];
    BASE32_NOPAD.decode_mut(text.as_bytes(), &mut bytes).ok()?;
    Some(LeaseId(u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_identity_survives_its_text(id: u128) {
            let written = text(LeaseId(id));
            prop_assert_eq!(written.len(), 26);
            prop_assert_eq!(parse(&written), Some(LeaseId(id)));
        }

        #[test]
        fn what_parses_is_what_would_be_written(guess in "[A-Za-z0-9=]{24,28}") {
            if let Some(id) = parse(&guess) {
                prop_assert_eq!(text(id), guess);
            }
        }
    }

    #[test]
    fn only_the_exact_spelling_is_taken() {
        let good = text(LeaseId(u128::MAX));
        assert_eq!(good, "77777777777777777777777774");
        for bad in [
            "",
            "7",
            "77777777777777777777777777",     // spare bits set
            "7777777777777777777777777",      // 25 characters
            "777777777777777777777777744",    // 27 characters
            "aaaaaaaaaaaaaaaaaaaaaaaaaa",     // lower case
            "AAAAAAAAAAAAAAAAAAAAAAAAA1",     // not in the alphabet
            "AAAAAAAAAAAAAAAAAAAAAAAA======", // padding
            "ÄAAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}

//! The tables against OpenSSH itself are in the whole tests; here is what they cannot show.

use super::{Verdict, about, algorithms, verdict};
use russh::keys::{Algorithm, PublicKey};

const ED25519: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKxYgx5pKYtnwDmli6Iu7le2HTy1KvcGdVZF9x5Vpd6m";
const ECDSA: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBHuvsW2IsnVULpIrPhP0pOvN6Y6dXM3JZ8QLj4+/HHfy0QVKsFprmGglwXwUbOrwd2IxPFDQtFVSYdHk4Nd0vKM=";
/// Of [`ED25519`], made by `ssh-keygen -H` for `[127.0.0.1]:2222`.
const HASHED: &str = "|1|e01eQmHTvLlzUR+rYitoJvbbcrM=|xPiv4A0kO1Xlv06KI1PvvxVtQC8=";

fn key(text: &str) -> PublicKey {
    text.parse().expect("a key")
}

#[test]
fn the_line_is_counted_from_one() {
    let offered = key(ED25519);
    let of = |file: &str| verdict(file, "h", 22, &offered);
    assert_eq!(
        of(&format!("# x\n\nh {ECDSA}\n")),
        Verdict::OtherType { line: 3 }
    );
    let revoked = format!("h {ED25519}\n@revoked h {ED25519}\n");
    assert_eq!(of(&revoked), Verdict::Revoked { line: 2 });
    let authority = format!("\n@cert-authority h {ECDSA}\n");
    assert_eq!(of(&authority), Verdict::OnlyCertAuthority { line: 2 });
    let changed = format!("broken\nh {}\n", ED25519.replace("KxYgx5", "KxYgx6"));
    assert_eq!(of(&changed), Verdict::Changed { line: 2 });
}

#[test]
fn a_hashed_name_has_its_port() {
    let file = format!("{HASHED} {ED25519}\n");
    let of = |host, port| verdict(&file, host, port, &key(ED25519));
    assert_eq!(of("127.0.0.1", 2222), Verdict::Accepted);
    assert_eq!(of("127.0.0.1", 22), Verdict::Unknown);
    assert_eq!(of("127.0.0.2", 2222), Verdict::Unknown);
}

#[test]
fn what_is_known_of_others_says_nothing_of_a_host() {
    let of = |file: &str| about(file, "h", 2222);
    let file = format!("[h]:2222 {ED25519}\n");
    for same in [
        format!("# moved\nother {ECDSA}\n{file}"),
        format!("{file}[h]:22 {ECDSA}\nbroken\n"),
    ] {
        assert_eq!(of(&file), of(&same), "{same}");
    }
    for differs in [
        String::new(),
        format!("[h]:2222 {ECDSA}\n"),
        format!("{file}h {ECDSA}\n"),
        format!("{file}@revoked * {ED25519}\n"),
    ] {
        assert_ne!(of(&file), of(&differs), "{differs}");
    }
}

#[test]
fn the_types_that_are_known_come_first() {
    let first = |file: &str| algorithms(file, "h", 22).first().map(Algorithm::to_string);
    let ecdsa = Some("ecdsa-sha2-nistp256".to_owned());
    let ed25519 = Some("ssh-ed25519".to_owned());
    for (file, expected) in [
        (String::new(), &ed25519),
        (format!("h {ECDSA}\n"), &ecdsa),
        (format!("h {ECDSA}\nh {ED25519}\n"), &ed25519),
        (format!("other {ECDSA}\n"), &ed25519),
        (format!("@cert-authority h {ECDSA}\n"), &ed25519),
        (format!("h {ECDSA}\n@revoked h {ECDSA}\n"), &ed25519),
    ] {
        assert_eq!(&first(&file), expected, "{file}");
        assert_eq!(algorithms(&file, "h", 22).len(), 6, "{file}");
    }
}

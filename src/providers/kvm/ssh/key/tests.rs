use super::parse;

/// Real keys are in the whole tests; here is what is told without one.
#[test]
fn what_is_no_key_is_told() {
    let pem = |kind: &str, inside: &str| {
        format!("-----BEGIN {kind}-----\n{inside}\n-----END {kind}-----\n").into_bytes()
    };
    let rows: [(Vec<u8>, &str); 12] = [
        (b"".to_vec(), "is empty"),
        (b" \n".to_vec(), "is empty"),
        (vec![0x30, 0x82, 0xff], "holds no private key"),
        (b"hello".to_vec(), "holds no private key"),
        (b"ssh-ed25519 AAAA me@host".to_vec(), "is a public key"),
        (b"ecdsa-sha2-nistp256 AAAA".to_vec(), "is a public key"),
        (pem("PUBLIC KEY", "AAAA"), "is a public key"),
        (pem("ENCRYPTED PRIVATE KEY", "AAAA"), "is encrypted"),
        (
            pem(
                "RSA PRIVATE KEY",
                "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA",
            ),
            "is encrypted",
        ),
        (pem("DSA PRIVATE KEY", "AAAA"), "ssh-dss"),
        (pem("OPENSSH PRIVATE KEY", "AAAA"), "cannot be read"),
        (b"PuTTY-User-Key-File-3: ssh-ed25519".to_vec(), "PuTTY"),
    ];
    for (bytes, says) in rows {
        let error = parse(&bytes).expect_err(says).to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}

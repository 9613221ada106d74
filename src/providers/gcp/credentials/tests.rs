use super::*;
use serde_json::json;
use std::{fs, process::Command};

fn user(token_uri: &str) -> Value {
    json!({
        "type": "authorized_user", "client_id": "c", "client_secret": "s3ntinel",
        "refresh_token": "s3ntinel", "token_uri": token_uri,
    })
}

fn account(key: &str) -> Value {
    json!({
        "type": "service_account", "client_email": "op@p.iam.gserviceaccount.com",
        "private_key_id": "k1", "private_key": key, "project_id": "p",
    })
}

/// A new private key, as Google's console gives it out.
fn rsa_key() -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    let made = Command::new("ssh-keygen")
        .args([
            "-q", "-t", "rsa", "-b", "2048", "-m", "PKCS8", "-N", "", "-f",
        ])
        .arg(&path)
        .status();
    assert!(made.expect("ssh-keygen").success());
    fs::read_to_string(path).expect("a key")
}

#[tokio::test]
async fn a_missing_file_is_transient_and_heals_when_it_appears() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key.json");
    let adc = Adc::new(Source::File(path.clone()));
    for _ in 0..2 {
        let fault = adc.ready().await.expect_err("no file");
        assert_eq!(fault.class(), ErrorClass::Transient);
        assert!(fault.to_string().contains("key.json"), "{fault}");
        assert!(adc.headers().await.is_err());
    }
    fs::write(&path, user("http://127.0.0.1:1").to_string()).expect("writes");
    adc.ready().await.expect("is there");
    fs::remove_file(&path).expect("removes");
    adc.ready().await.expect_err("is gone again");
}

#[tokio::test]
async fn a_service_account_signs_its_own_token_and_a_rotated_file_is_used_at_once() {
    crate::providers::gcp::testing::install_ring();
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), account(&rsa_key()).to_string()).expect("writes");
    let adc = Adc::new(Source::File(file.path().into()));
    let mut tokens = Vec::new();
    for rotate in [false, true] {
        if rotate {
            fs::write(file.path(), account(&rsa_key()).to_string()).expect("writes");
        }
        for _ in 0..2 {
            adc.ready().await.expect("reads");
            let headers = adc.headers().await.expect("signs");
            let token = headers["authorization"].to_str().expect("text").to_owned();
            assert!(token.starts_with("Bearer ey"), "{token}");
            tokens.push(token);
        }
    }
    assert_eq!(tokens[0], tokens[1], "unchanged, so the token is the same");
    assert_eq!(tokens[2], tokens[3]);
    assert_ne!(tokens[1], tokens[2], "another key");
}

#[tokio::test]
async fn what_does_not_parse_is_permanent_and_says_where_without_showing_anything() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let adc = Adc::new(Source::File(file.path().into()));
    let without = |field: &str| {
        let mut json = account("x");
        json.as_object_mut().expect("an object").remove(field);
        json.to_string()
    };
    for (content, complaint) in [
        (String::new(), "is no JSON, at line 1, column 0"),
        (
            "{\"type\": \"s3ntinel\", oops".to_owned(),
            "is no JSON, at line 1, column",
        ),
        ("\"s3ntinel\"".to_owned(), "is no JSON object"),
        ("{}".to_owned(), "has no field `type`"),
        ("{\"type\": 1}".to_owned(), "`type` that is no string"),
        (
            "{\"type\": \"gdch\"}".to_owned(),
            "is of the type \"gdch\"; known: service_account",
        ),
        (without("client_email"), "has no field `client_email`"),
        (without("private_key"), "has no field `private_key`"),
        (
            account("s3ntinel").to_string(),
            "`private_key` that is no private key in PEM",
        ),
        (
            account("-----BEGIN PRIVATE KEY-----\nczNudGluZWw=\n-----END PRIVATE KEY-----\n")
                .to_string(),
            "`private_key` that is no usable private key",
        ),
        (
            json!({"type": "authorized_user", "client_id": "c", "client_secret": 5}).to_string(),
            "`client_secret` that is no string",
        ),
        (
            json!({"type": "external_account", "audience": ["s3ntinel"]}).to_string(),
            "is no external_account",
        ),
    ] {
        fs::write(file.path(), &content).expect("writes");
        let fault = adc.ready().await.expect_err(complaint);
        assert_eq!(fault.class(), ErrorClass::Permanent, "{fault}");
        let told = fault.to_string();
        assert!(told.contains(complaint), "{complaint}: {told}");
        assert!(told.contains(&file.path().display().to_string()), "{told}");
        assert!(!told.contains("s3ntinel"), "{told}");
        assert!(adc.headers().await.is_err(), "the ones before are not used");
    }
    fs::write(file.path(), user("http://127.0.0.1:1").to_string()).expect("writes");
    adc.ready().await.expect("is good");
}

#[tokio::test]
async fn what_cannot_be_read_now_is_transient() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = folder.path().join("large");
    fs::write(&large, vec![b' '; 65_537]).expect("writes");
    for (path, complaint) in [
        (folder.path().to_owned(), "no regular file"),
        (large, "larger than 64 KiB"),
    ] {
        let fault = Adc::new(Source::File(path)).ready().await;
        let fault = fault.expect_err(complaint);
        assert_eq!(fault.class(), ErrorClass::Transient);
        assert!(fault.to_string().contains(complaint), "{fault}");
    }
}

#[tokio::test]
async fn gcloud_s_file_is_used_where_it_is_and_else_the_metadata_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("adc.json");
    let adc = Adc::new(Source::Perhaps(path.clone()));
    adc.ready().await.expect("the metadata server will do");
    let content = |adc: &Adc| adc.held().now.as_ref().expect("held").content;
    assert_eq!(content(&adc), None);
    fs::write(&path, user("http://127.0.0.1:1").to_string()).expect("writes");
    adc.ready().await.expect("the file");
    assert!(content(&adc).is_some());
}

#[tokio::test(start_paused = true)]
async fn doubted_credentials_are_made_anew_but_not_at_every_request() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), user("http://127.0.0.1:1").to_string()).expect("writes");
    let adc = Adc::new(Source::File(file.path().into()));
    adc.ready().await.expect("reads");
    let since = |adc: &Adc| adc.held().now.as_ref().expect("held").since;
    let first = since(&adc);
    adc.doubt();
    adc.ready().await.expect("reads");
    assert_eq!(since(&adc), first, "too early");
    tokio::time::advance(PAUSE).await;
    adc.ready().await.expect("reads");
    assert!(since(&adc) > first);
    tokio::time::advance(PAUSE).await;
    let second = since(&adc);
    adc.ready().await.expect("reads");
    assert_eq!(since(&adc), second, "nobody doubts them");
}

#[test]
fn nothing_of_credentials_is_printed() {
    let adc = Adc::new(Source::Metadata);
    assert_eq!(format!("{adc:?}"), "Adc(Metadata)");
}

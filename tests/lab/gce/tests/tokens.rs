//! Who may ask.

use super::{Fixture, read, why};
use crate::gce::tokens::CLOUD_PLATFORM;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use reqwest::Method;
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const EMAIL: &str = "operator@lab-project.iam.gserviceaccount.com";
const METADATA: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

async fn allowed(lab: &mut Fixture, token: &str) -> (u16, String) {
    token.clone_into(&mut lab.token);
    let (status, answer) = lab.get("/aggregated/instances").await;
    let reason = answer["error"]["details"][0]["reason"].as_str();
    (status, reason.unwrap_or("").to_owned())
}

#[tokio::test]
async fn only_a_token_that_was_issued_and_is_good_is_taken() {
    let mut lab = Fixture::new().await;
    let good = lab.token.clone();
    assert_eq!(allowed(&mut lab, &good).await.0, 200);
    let expired = (401, "ACCESS_TOKEN_EXPIRED".to_owned());
    assert_eq!(allowed(&mut lab, "guess").await, expired);
    lab.gce.tokens().lifetime = Duration::from_millis(50);
    let short = lab.gce.token();
    assert_eq!(allowed(&mut lab, &short).await.0, 200);
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(allowed(&mut lab, &short).await, expired);
    lab.gce.tokens().revoke_all();
    assert_eq!(allowed(&mut lab, &good).await, expired);

    let url = format!("{}/compute/v1/projects/lab-project", lab.gce.endpoint());
    let (status, refused) = read(lab.client.get(url).send().await.unwrap()).await;
    assert_eq!((status, why(&refused).1), (401, "required"));
}

#[tokio::test]
async fn a_token_is_for_its_scopes() {
    let mut lab = Fixture::new().await;
    let read_only = "https://www.googleapis.com/auth/compute.readonly";
    let token = lab.gce.tokens().issue("reader", &[read_only]);
    assert_eq!(allowed(&mut lab, &token).await.0, 200);
    let (status, refused) = lab.insert(&super::body("a")).await;
    assert_eq!((status, why(&refused).1), (403, "insufficientPermissions"));
}

#[tokio::test]
async fn a_user_gets_a_token_for_a_refresh_token() {
    let mut lab = Fixture::new().await;
    let file = lab.gce.user();
    let url = file["token_uri"].as_str().unwrap();
    let text = |name: &str| file[name].as_str().unwrap();
    let fields = |refresh: &str, secret: &str| {
        json!({
            "grant_type": "refresh_token", "refresh_token": refresh,
            "client_id": file["client_id"], "client_secret": secret,
        })
    };
    let (refresh, secret) = (text("refresh_token"), text("client_secret"));
    let asked = lab.client.post(url).json(&fields(refresh, secret));
    let (status, given) = read(asked.send().await.unwrap()).await;
    assert_eq!((status, &given["token_type"]), (200, &json!("Bearer")));
    assert_eq!(given["expires_in"], 3599);
    let token = given["access_token"].as_str().unwrap();
    assert_eq!(allowed(&mut lab, token).await.0, 200);

    for (refresh, secret, status, error) in [
        ("1//revoked", secret, 400, "invalid_grant"),
        (refresh, "guess", 401, "invalid_client"),
    ] {
        // Forms are as good as JSON.
        let fields: HashMap<String, String> =
            serde_json::from_value(fields(refresh, secret)).unwrap();
        let form = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        let answer = lab.client.post(url).body(form).send().await.unwrap();
        let (given, refused) = read(answer).await;
        assert_eq!((given, &refused["error"]), (status, &json!(error)));
    }
    assert_eq!(lab.gce.count("token"), 3);
}

#[tokio::test]
async fn a_machine_gets_a_token_from_its_metadata_server() {
    let mut lab = Fixture::new().await;
    let url = format!("{}{METADATA}", lab.gce.endpoint());
    let asked = lab.client.get(&url).header("metadata-flavor", "Google");
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.headers()["metadata-flavor"], "Google");
    let (status, given) = read(answer).await;
    assert_eq!(status, 200);
    let token = given["access_token"].as_str().unwrap();
    assert_eq!(allowed(&mut lab, token).await.0, 200);

    // Without the header it might be anybody's browser.
    assert_eq!(lab.client.get(&url).send().await.unwrap().status(), 403);
    lab.gce.tokens().machine = None;
    let asked = lab.client.get(&url).header("metadata-flavor", "Google");
    assert_eq!(asked.send().await.unwrap().status(), 404);
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

/// A JWT of these claims, signed with the key of a service account's file.
fn signed(file: &Value, claims: &Value) -> String {
    let head = json!({ "alg": "RS256", "typ": "JWT", "kid": file["private_key_id"] });
    let encode = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let text = format!("{}.{}", encode(&head), encode(claims));
    let pem = file["private_key"].as_str().unwrap();
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let key = RsaKeyPair::from_pkcs8(&BASE64.decode(base64.as_bytes()).unwrap()).unwrap();
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        text.as_bytes(),
        &mut signature,
    )
    .unwrap();
    format!("{text}.{}", BASE64URL_NOPAD.encode(&signature))
}

fn claims() -> Value {
    json!({
        "iss": EMAIL, "sub": EMAIL, "scope": CLOUD_PLATFORM, "iat": now() - 10, "exp": now() + 3500,
    })
}

#[tokio::test]
async fn a_service_account_signs_its_own_token() {
    let mut lab = Fixture::new().await;
    let file = lab.gce.service_account(EMAIL).unwrap();
    assert_eq!(file["project_id"], "lab-project");
    let token = signed(&file, &claims());
    assert_eq!(allowed(&mut lab, &token).await.0, 200);
    for (name, value) in [
        ("iss", json!("somebody@else.iam.gserviceaccount.com")),
        ("sub", json!("somebody@else.iam.gserviceaccount.com")),
        ("scope", json!("")),
        ("aud", json!("https://storage.googleapis.com/")),
        ("exp", json!(now() - 1)),
        ("exp", json!(now() + 4000)),
        ("iat", json!(now() + 60)),
        ("iat", Value::Null),
    ] {
        let mut wrong = claims();
        wrong[name] = value;
        let token = signed(&file, &wrong);
        assert_eq!(allowed(&mut lab, &token).await.0, 401, "{wrong}");
    }
    let mut narrow = claims();
    narrow["scope"] = "https://www.googleapis.com/auth/devstorage.read_only".into();
    assert_eq!(allowed(&mut lab, &signed(&file, &narrow)).await.0, 403);
    let mut forged = token.clone();
    forged.replace_range(token.len() - 8..token.len() - 4, "AAAA");
    assert_eq!(allowed(&mut lab, &forged).await.0, 401);
    lab.gce.tokens().accounts.delete_keys(EMAIL);
    assert_eq!(allowed(&mut lab, &token).await.0, 401);
}

#[tokio::test]
async fn a_service_account_gets_a_token_for_what_it_signed() {
    let mut lab = Fixture::new().await;
    let uri = format!("{}/token", lab.gce.endpoint());
    let file = lab.gce.service_account(EMAIL).unwrap();
    for (audience, status) in [
        (uri.as_str(), 200),
        ("https://oauth2.googleapis.com/token", 400),
    ] {
        let mut claims = claims();
        claims["aud"] = audience.into();
        let body = json!({
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": signed(&file, &claims),
        });
        let (given, answer) = read(lab.client.post(&uri).json(&body).send().await.unwrap()).await;
        assert_eq!(given, status, "{answer}");
        if let Some(token) = answer["access_token"].as_str() {
            assert_eq!(allowed(&mut lab, token).await.0, 200);
        }
    }
    assert_eq!(lab.send(Method::GET, "/nothing", None).await.status(), 404);
}

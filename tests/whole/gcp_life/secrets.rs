//! What no log tells, at any level: user-data, tokens, and what tokens are got with.

use super::google::{AT_ONCE, Google, INSERT, ZONE};
use crate::lab::{
    Scene,
    gce::{
        faults::{Act, On, forbidden, server_error, unauthenticated},
        refusal::Refusal,
    },
    operator::{Launch, Operator},
    proxy::Draft,
};
use anyhow::{Context as _, ensure};
use crds::{Phase, conditions::ConditionType};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::fs;

const PLANTED: &str = "sentinel-4d0c77";

fn user_data() -> String {
    format!("#cloud-config\npassword: {PLANTED}\n")
}

/// With the key of a service account, while Google and whoever stands between quote what they were sent.
pub async fn no_secret_is_logged_of_an_account(scene: Scene) -> anyhow::Result<()> {
    let google = Google::new(&scene, AT_ONCE).await?;
    let key = google.write_key()?;
    let pem = key["private_key"].as_str().context("a key")?;
    let secrets = pem.lines().filter(|line| line.len() > 40);
    let secrets: Vec<String> = secrets.map(str::to_owned).collect();
    let quoted = user_data();
    for act in [
        Act::refuse(server_error(500)),
        Act::refuse(forbidden("compute.instances.create", &quoted)),
        Act::Raw(
            502,
            "text/html; charset=UTF-8",
            format!("<html>{quoted}</html>"),
        ),
    ] {
        google.gce.order(On::method(INSERT), 1, act);
    }
    let launch = google.with_file(scene.operator());
    lives_and_fails(&google, &scene, launch, secrets).await
}

/// With what gcloud writes for a person, while the token server is talkative.
pub async fn no_secret_is_logged_of_a_person(scene: Scene) -> anyhow::Result<()> {
    let google = Google::new(&scene, AT_ONCE).await?;
    let user = google.gce.user();
    fs::write(&google.file, user.to_string())?;
    let mut secrets = Vec::new();
    for field in ["client_secret", "refresh_token"] {
        let value = user[field].as_str().context("a field")?;
        secrets.push(value.to_owned());
    }
    let talk = format!("{{\"error\": \"invalid_grant\", \"error_description\": \"{PLANTED}\"}}");
    let talk = Act::Raw(400, "application/json", talk);
    google.gce.order(On::method("token"), 1, talk);
    let launch = google.with_file(scene.operator());
    lives_and_fails(&google, &scene, launch, secrets).await
}

/// With the metadata server, while answers are lost and tokens refused.
pub async fn no_secret_is_logged_of_a_machine(scene: Scene) -> anyhow::Result<()> {
    let google = Google::new(&scene, AT_ONCE).await?;
    for act in [Act::Truncate, Act::refuse(unauthenticated())] {
        google.gce.order(On::method(INSERT), 1, act);
    }
    let launch = google.by_metadata(scene.operator());
    lives_and_fails(&google, &scene, launch, Vec::new()).await
}

/// A life and a refusal, everything logged, and payloads in full.
async fn lives_and_fails(
    google: &Google,
    scene: &Scene,
    launch: Launch,
    mut secrets: Vec<String>,
) -> anyhow::Result<()> {
    let user_data = user_data();
    scene.secret("init", &user_data).await?;
    let full = ("PROXY_OPERATOR_GCP_WIRE_LOG_FULL_PAYLOADS", "true");
    let launch = launch.logging("trace").env(full.0, full.1);
    let operator = launch.start().await?;
    let a = scene.apply(secretive(google, "a")).await?;
    a.becomes(Phase::Ready).await?;
    let instance = google.instance(&a).await?;
    ensure!(
        instance.metadata("user-data") == Some(&user_data),
        "{instance:?}"
    );
    let quoting = Refusal::invalid("resource.metadata", &user_data, "It is no good.");
    google
        .gce
        .order(On::method(INSERT), 1, Act::refuse(quoting));
    let b = scene.apply(secretive(google, "b")).await?;
    let object = b.says(ConditionType::Provisioned, "PermanentError").await?;
    let status = serde_json::to_string(&object.status)?;
    let annotations = serde_json::to_string(object.annotations())?;
    for proxy in [&a, &b] {
        proxy.delete().await?;
    }
    for proxy in [&a, &b] {
        proxy.is_gone().await?;
    }

    let encoded = data_encoding::BASE64.encode(user_data.as_bytes());
    secrets.extend([
        PLANTED.to_owned(),
        // Base64 of what stands at another offset looks different but for its middle.
        data_encoding::BASE64.encode(PLANTED.as_bytes())[..12].to_owned(),
        encoded[..encoded.len() - 4].to_owned(),
        // What every token begins with that is signed here, and what every other one does.
        "eyJ".to_owned(),
        "ya29.".to_owned(),
    ]);
    nothing_is_told(scene, operator, &secrets, status + &annotations).await?;
    google.is_left_clean()
}

fn secretive(google: &Google, name: &str) -> Draft {
    let draft = google.proxy(name, ZONE).with(json!({"cloudInit": null}));
    draft.cloud_init_from("init")
}

async fn nothing_is_told(
    scene: &Scene,
    mut operator: Operator,
    secrets: &[String],
    status: String,
) -> anyhow::Result<()> {
    let mut said = vec![
        ("a status", status),
        ("the metrics", operator.scrape().await?),
    ];
    for event in scene.events().await? {
        said.push(("an event", serde_json::to_string(&event)?));
    }
    operator.stop().await?;
    let log = operator.log()?;
    let is_wire = |line: &Value| line["msg"] == "Compute Engine" && line["direction"] == "request";
    let wire: Vec<Value> = operator.said("Compute Engine")?;
    let inserts = wire
        .iter()
        .filter(|line| is_wire(line) && line["method"] == "POST");
    ensure!(inserts.count() >= 2, "the wire log is off");
    said.push(("the log", log));
    for secret in secrets {
        for (place, text) in &said {
            let line = text.lines().find(|line| line.contains(secret.as_str()));
            ensure!(line.is_none(), "{place} tells {secret}: {line:?}");
        }
    }
    Ok(())
}

//! The definitions against a real API server: what it takes, what it refuses and in which words, what
//! it fills in, and what `kubectl` makes of it. No operator runs here: a bad object never reaches one.

mod objects;
mod rows;

use ::crds::{HealthCheck, ProviderHealth, Proxy};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
    runtime::{conditions::is_crd_established, wait::await_condition},
};
pub use objects::Kubectl;
use objects::{Objects, parse, say, squeeze};
use rows::{Change, Row};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

type Outcome = Result<(), String>;

/// Long enough for a busy machine, short enough to notice.
const PATIENCE: Duration = Duration::from_mins(1);

/// Installs both definitions from the files that ship, and waits until the API serves them.
pub async fn install(client: &Client) -> Outcome {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for (file, text) in [
        (
            "proxies",
            include_str!("../../crds/proxies.crawl.example.com.yaml"),
        ),
        (
            "providerhealths",
            include_str!("../../crds/providerhealths.crawl.example.com.yaml"),
        ),
    ] {
        let definition: CustomResourceDefinition = serde_yaml::from_str(text).map_err(say(file))?;
        let name = definition.name_any();
        let params = PatchParams::apply("whole-test").force();
        api.patch(&name, &params, &Patch::Apply(&definition))
            .await
            .map_err(say(file))?;
        let established = await_condition(api.clone(), &name, is_crd_established());
        timeout(PATIENCE, established)
            .await
            .map_err(say(file))?
            .map_err(say(file))?;
    }
    // Established is a promise that the server keeps a moment later.
    timeout(PATIENCE, async {
        let (proxies, health) = (
            Api::<Proxy>::all(client.clone()),
            Api::<ProviderHealth>::all(client.clone()),
        );
        let few = ListParams::default().limit(1);
        while proxies.list(&few).await.is_err() || health.list(&few).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .map_err(say("the API never served the resources"))
}

/// Every row of [`rows::creations`], as a dry run: the server's whole chain except the write.
pub async fn accepts_and_refuses_on_create(client: Client, namespace: &str) -> Outcome {
    let proxies = Objects::proxies(&client, namespace);
    let mut wrong = Vec::new();
    for row in rows::creations() {
        let answer = proxies.dry_create("row", &parse(&row.spec)?).await;
        wrong.extend(judge(&row, answer));
    }
    none(&wrong)
}

/// Every row of [`rows::updates`]: the object as it was is written, the change is a dry run.
pub async fn accepts_and_refuses_on_update(client: Client, namespace: &str) -> Outcome {
    let proxies = Objects::proxies(&client, namespace);
    let mut wrong = Vec::new();
    for Change { before, row } in rows::updates() {
        let made = proxies.create("update", &before).await?;
        let answer = proxies.dry_replace(&made, &parse(&row.spec)?).await;
        wrong.extend(judge(&row, answer));
        proxies.remove("update").await?;
    }
    none(&wrong)
}

/// What is left out is filled in by the server, and what is given stays, a 0 too.
pub async fn fills_in_the_defaults(client: Client, namespace: &str) -> Outcome {
    let proxies = Objects::proxies(&client, namespace);
    let mut wrong = Vec::new();
    for (spec, path, value) in rows::defaults() {
        let made = proxies.create("defaults", spec).await?;
        let found = made.data.pointer(path).unwrap_or(&Value::Null);
        if *found != value {
            wrong.push(format!("{spec}: {path} is {found}, not {value}"));
        }
        proxies.remove("defaults").await?;
    }
    none(&wrong)
}

/// The Rust types fill in what the server fills in: reading and writing back makes no generation.
pub async fn types_and_server_agree_on_defaults(client: Client, namespace: &str) -> Outcome {
    let proxies = Objects::proxies(&client, namespace);
    let typed: Api<Proxy> = Api::namespaced(client, namespace);
    let name = "agreement";
    let mut wrong = Vec::new();
    for spec in [rows::LEAST_MANAGED, rows::LEAST_EXTERNAL] {
        proxies.create(name, spec).await?;
        let served = typed.get(name).await.map_err(say(spec))?;
        let mut ours = served.clone();
        ours.spec = serde_yaml::from_str(spec).map_err(say(spec))?;
        if ours.spec != served.spec || served.spec.health_check != HealthCheck::default() {
            wrong.push(format!(
                "{spec} is {:?}, served as {:?}",
                ours.spec, served.spec
            ));
        }
        let written = typed
            .replace(name, &PostParams::default(), &ours)
            .await
            .map_err(say(spec))?;
        if written.metadata.generation != served.metadata.generation {
            wrong.push(format!("{spec} written back as {:?}", written.spec));
        }
        proxies.remove(name).await?;
    }
    none(&wrong)
}

/// The status of a Proxy is a subresource, its conditions are a map, and its phases are known words.
pub async fn keeps_a_proxys_status_apart(client: Client, namespace: &str) -> Outcome {
    let proxies = Objects::proxies(&client, namespace);
    let name = "status";
    let mut wrong = Vec::new();

    proxies.create(name, rows::LEAST_MANAGED).await?;
    let by_the_user = json!({"status": {"phase": "Ready"}, "spec": {"port": 1}});
    let after = proxies.merge(name, by_the_user).await?;
    if after.data.get("status").is_some() || after.data["spec"]["port"] != 1 {
        wrong.push(format!("a user's write became {}", after.data));
    }
    let by_the_operator = json!({"status": {"phase": "Ready"}, "spec": {"port": 2}});
    let after = proxies
        .merge_status(name, by_the_operator)
        .await
        .map_err(say(name))?;
    if after.data["status"]["phase"] != "Ready" || after.data["spec"]["port"] != 1 {
        wrong.push(format!("a status write became {}", after.data));
    }
    for (manager, type_) in [("first", "Healthy"), ("second", "Synced")] {
        let status = json!({"conditions": [condition(type_)]});
        proxies.apply_status(name, manager, status).await?;
    }
    let after = proxies.get(name).await?;
    if after.data["status"]["conditions"].as_array().map(Vec::len) != Some(2) {
        wrong.push(format!("two writers left {}", after.data["status"]));
    }
    let unknown = json!({"status": {"phase": "Sleeping"}});
    let answer = proxies.merge_status(name, unknown).await.map(drop);
    wrong.extend(refuses("status.phase", answer));

    proxies.remove(name).await?;
    none(&wrong)
}

/// A `ProviderHealth` has no spec; its targets are a map with bounded messages.
pub async fn bounds_a_providers_health(client: Client) -> Outcome {
    let health = Objects::provider_health(&client);
    let name = "bounds";
    let mut wrong = Vec::new();

    let made = health.create(name, "{left: over}").await?;
    if made.data.get("spec").is_some() {
        wrong.push(format!("a spec was kept: {}", made.data));
    }
    let target = |name: &str, length: usize| json!({"name": name, "ready": true, "message": "ü".repeat(length)});
    for target in [target("a", 1024), target("b", 0)] {
        let manager = target["name"].as_str().unwrap_or_default().to_owned();
        let status = json!({"type": "kvm", "targets": [target]});
        health.apply_status(name, &manager, status).await?;
    }
    let after = health.get(name).await?;
    if after.data["status"]["targets"].as_array().map(Vec::len) != Some(2) {
        wrong.push(format!("two writers left {}", after.data["status"]));
    }
    for (path, status) in [
        (
            "status.targets[0].message",
            json!({"targets": [target("a", 1025)]}),
        ),
        (
            "status.targets[0].name",
            json!({"targets": [{"ready": true}]}),
        ),
        (
            "status.targets[0].ready",
            json!({"targets": [{"name": "a"}]}),
        ),
        ("status.type", json!({"type": "vmware"})),
    ] {
        let answer = health
            .merge_status(name, json!({"status": status}))
            .await
            .map(drop);
        wrong.extend(refuses(path, answer));
    }

    health.remove(name).await?;
    none(&wrong)
}

/// The columns of `kubectl get`, both resources, narrow and wide.
pub async fn prints_the_columns(client: Client, kubectl: &Kubectl<'_>, namespace: &str) -> Outcome {
    let proxies = Objects::proxies(&client, namespace);
    let health = Objects::provider_health(&client);
    let name = "columns";
    proxies.create(name, rows::LEAST_MANAGED).await?;
    let status = json!({"phase": "Ready", "ip": "192.0.2.7", "latencyMillis": 42, "providerID": "kvm://h/1",
        "conditions": [condition("Healthy"), condition("Provisioned")]});
    proxies.apply_status(name, "columns", status).await?;
    health.create(name, "{}").await?;
    let status = json!({"type": "gcp", "targetsReady": "1/1", "lastCheckTime": "2026-01-01T00:00:00Z",
        "conditions": [condition("Ready")]});
    health.apply_status(name, "columns", status).await?;

    let mut wrong = Vec::new();
    for (arguments, header, values) in rows::COLUMNS {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let table = kubectl.run(namespace, &arguments).await?;
        let lines: Vec<String> = table.lines().map(squeeze).collect();
        if !matches!(lines.as_slice(), [printed, row] if printed == header && row.contains(values))
        {
            wrong.push(format!("{arguments:?} printed\n{table}"));
        }
    }
    proxies.remove(name).await?;
    health.remove(name).await?;
    none(&wrong)
}

/// `kubectl explain` lists every field and has something to say about it.
pub async fn explains_every_field(kubectl: &Kubectl<'_>, namespace: &str) -> Outcome {
    let mut wrong = Vec::new();
    for (path, fields) in rows::EXPLAINED {
        let text = kubectl.run(namespace, &["explain", path]).await?;
        if text.contains("<no description>") {
            wrong.push(format!("{path} has a field without description:\n{text}"));
        }
        // FIELDS lists a name and its type behind a tab, indented by two.
        let listed: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.split_once('\t'))
            .map(|(field, _)| field)
            .collect();
        if listed != fields.split(' ').collect::<Vec<_>>() {
            wrong.push(format!(
                "{path} has the fields {listed:?}, not {fields}:\n{text}"
            ));
        }
    }
    none(&wrong)
}

fn condition(type_: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": "Because", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// Whether the server did with the row what it should.
fn judge(row: &Row, answer: Result<(), kube::Error>) -> Option<String> {
    let complaint = match (row.refused, answer) {
        (None, Ok(())) => return None,
        (None, Err(error)) => format!("was refused: {error}"),
        (Some(path), answer) => refuses(path, answer)?,
    };
    Some(format!("{} {}: {complaint}", row.what, shorten(&row.spec)))
}

/// Complains unless the answer is a 422 whose message names the field.
fn refuses(path: &str, answer: Result<(), kube::Error>) -> Option<String> {
    match answer {
        Ok(()) => Some(format!("was accepted, despite {path}")),
        Err(kube::Error::Api(status)) if status.code == 422 && status.message.contains(path) => {
            None
        }
        Err(error) => Some(format!("was refused without naming {path}: {error}")),
    }
}

fn none(wrong: &[String]) -> Outcome {
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// A spec for a message: the long ones are long for a reason that the row's name gives.
fn shorten(spec: &str) -> String {
    spec.chars().take(120).collect()
}

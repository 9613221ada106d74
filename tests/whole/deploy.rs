//! The manifests in `deploy/`, as kustomize builds them and the API server takes them; and that the rights
//! in them are enough.

use crate::{
    lab::{Scene, eventually, operator::Operator, proxy},
    whole::collector,
};
use anyhow::{Context as _, ensure};
use crds::{Phase, ProviderHealth};
use kube::{Api, config::Kubeconfig};
use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};

/// `ProviderHealth` objects are in no namespace, so no other scenario's provider is called so.
const BY_RIGHT: &str =
    "providers: [{name: by-right, type: kubernetes, kubernetes: {image: 'lab.local/squid:1'}}]";
/// How long it takes until rights count.
const PATIENCE: Duration = Duration::from_mins(1);

/// Two replicas that are elected among, with no more rights than one of them needs.
pub async fn a_second_replica_may_lead(scene: Scene) -> anyhow::Result<()> {
    let built = build(&scene, &["leader-election"]).await?;
    let mut objects = objects(&built)?;
    let deployment = of(&objects, "Deployment", "proxy-operator")?;
    let spec = &deployment["spec"];
    ensure!(spec["replicas"] == 2, "{spec}");
    ensure!(spec["strategy"]["type"] == "RollingUpdate", "{spec}");
    let container = &spec["template"]["spec"]["containers"][0];
    let names = container["env"].as_array().context("an environment")?;
    let has = |name: &str| {
        names
            .iter()
            .filter(|variable| variable["name"] == name)
            .count()
            == 1
    };
    for name in [
        "PROXY_OPERATOR_LEADER_ELECT",
        "POD_IP",
        "POD_NAMESPACE",
        "DISCOVERY_TOKEN",
    ] {
        ensure!(has(name), "{name} is not there once: {container}");
    }
    of(&objects, "PodDisruptionBudget", "proxy-operator")?;
    let service = of(&objects, "Service", "proxy-operator")?;
    let selector = &service["spec"]["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    let name = "app.kubernetes.io/name";
    ensure!(selector[name] == labels[name], "{selector} {labels}");
    ensure!(
        selector.as_object().is_some_and(|all| all.len() == 1),
        "{selector}"
    );

    // There is no image to run here.
    let deployments = objects
        .iter_mut()
        .filter(|object| object["kind"] == "Deployment");
    deployments.for_each(|deployment| deployment["spec"]["replicas"] = 0.into());
    let file = scene.path("deploy.json");
    fs::write(
        &file,
        json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
    )?;
    let file = file.to_string_lossy();
    kubectl(&scene, &["apply", "-f", &file]).await?;
    let led = leads_by_right(&scene).await;
    // Some of it is in no namespace.
    kubectl(&scene, &["delete", "--wait=false", "-f", &file]).await?;
    led
}

/// Nobody would ever lead, and nobody know why.
pub async fn a_missing_namespace_of_the_election_is_told(scene: Scene) -> anyhow::Result<()> {
    let operator = scene
        .operator()
        .env("PROXY_OPERATOR_LEADER_ELECT", "true")
        .env("PROXY_OPERATOR_LEADER_ELECTION_NAMESPACE", "no-such")
        .env("POD_IP", "127.0.0.1")
        .start()
        .await?;
    let told = || operator.said("nothing is heard of the record of the election");
    let said = eventually("it is told", PATIENCE, || async {
        Ok(told()?.into_iter().next())
    })
    .await?;
    ensure!(said["error"].to_string().contains("no-such"), "{said}");
    // It is tried each second.
    tokio::time::sleep(Duration::from_secs(4)).await;
    ensure!(told()?.len() == 1, "{:?}", told()?);
    Ok(())
}

/// An operator with the rights of the deployed one, and no others.
async fn leads_by_right(scene: &Scene) -> anyhow::Result<()> {
    let namespace = scene.namespace();
    let token = kubectl(scene, &["create", "token", "proxy-operator"]).await?;
    let mut kubeconfig =
        serde_json::to_value(Kubeconfig::read_from(&scene.lab().cluster.kubeconfig)?)?;
    kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
    let file = scene.path("by-right.kubeconfig");
    fs::write(&file, kubeconfig.to_string())?;
    let operator = scene
        .operator()
        .through(file)
        .env("PROXY_OPERATOR_LEADER_ELECT", "true")
        .env("POD_NAMESPACE", namespace)
        .env("POD_IP", "127.0.0.1")
        .with_providers(BY_RIGHT)
        .env("PROXY_OPERATOR_PROVIDER_CHECK_INTERVAL", "10s")
        .env("PROXY_OPERATOR_GC_INTERVAL", "1s")
        .env("PROXY_OPERATOR_GC_MIN_AGE", "0");
    let mut operator = operator.start().await?;
    eventually("it leads", PATIENCE, || async {
        let leads = operator.metric("proxy_operator_is_leader ").await?;
        Ok((leads == 1).then_some(()))
    })
    .await?;
    works(scene, &mut operator).await?;
    // Renewed once at least.
    let lease = ["get", "lease", "proxy-operator", "-o", "json"];
    let version = || async {
        let lease: Value = serde_json::from_str(&kubectl(scene, &lease).await?)?;
        Ok::<_, anyhow::Error>(lease["metadata"]["resourceVersion"].clone())
    };
    let first = version().await?;
    eventually("it renews", PATIENCE, || async {
        Ok((version().await? != first).then_some(()))
    })
    .await?;
    let ended = operator.stop().await?;
    ensure!(ended.success(), "{ended}");
    let log = operator.log()?;
    ensure!(log.contains("gave the leadership back"), "{log}");
    Ok(())
}

/// Makes proxies, tells of its providers, and collects orphans.
async fn works(scene: &Scene, operator: &mut Operator) -> anyhow::Result<()> {
    let a = scene.apply(proxy("a").managed_by("by-right")).await?;
    a.becomes(Phase::Ready).await?;
    collector::orphan(scene, "orphan").await?;
    collector::is_gone(scene, "orphan").await?;
    a.event("Created").await?;
    let all: Api<ProviderHealth> = Api::all(scene.lab().client.clone());
    let told = |told: bool| {
        let all = all.clone();
        async move {
            eventually("a ProviderHealth, or none", PATIENCE, || async {
                let health = all.get_opt("by-right").await?;
                let says = health.is_some_and(|health| health.status.is_some());
                Ok((says == told).then_some(()))
            })
            .await
        }
    };
    told(true).await?;
    a.delete().await?;
    a.is_gone().await?;
    operator.configure(&BY_RIGHT.replace("by-right", "by-right-too"))?;
    told(false).await
}

/// What `kubectl apply -k` would send, in the scene's namespace and under names of its own.
async fn build(scene: &Scene, components: &[&str]) -> anyhow::Result<String> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let place = fs::canonicalize(scene.path("."))?.join("kustomize");
    fs::create_dir_all(&place)?;
    // kustomize takes no absolute paths.
    let up = "../".repeat(place.components().count() - 1);
    let deploy = format!("{up}{}", deploy.strip_prefix("/")?.display());
    let kustomization = json!({
        "resources": [deploy],
        "components": components
            .iter()
            .map(|name| format!("{deploy}/components/{name}"))
            .collect::<Vec<_>>(),
        "namespace": scene.namespace(),
        // What is in no namespace gets a name that nobody else has.
        "patches": [{
            "target": {"kind": "ClusterRole.*"},
            "options": {"allowNameChange": true},
            "patch": json!([{"op": "replace", "path": "/metadata/name", "value": scene.namespace()}]).to_string(),
        }],
    });
    fs::write(place.join("kustomization.yaml"), kustomization.to_string())?;
    let place = place.to_string_lossy();
    kubectl(scene, &["kustomize", &place]).await
}

/// All objects but the definitions, which the lab has, and the namespace.
fn objects(yaml: &str) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in serde_yaml::Deserializer::from_str(yaml) {
        let mut object = <Value as serde::Deserialize>::deserialize(document)?;
        match object["kind"].as_str().context("a kind")? {
            "CustomResourceDefinition" | "Namespace" => continue,
            "ClusterRoleBinding" => {
                object["roleRef"]["name"] = object["metadata"]["name"].clone();
            }
            _ => {}
        }
        objects.push(object);
    }
    Ok(objects)
}

async fn kubectl(scene: &Scene, words: &[&str]) -> anyhow::Result<String> {
    let kubectl = scene.lab().cluster.kubectl();
    let said = kubectl.run(scene.namespace(), words).await;
    said.map_err(anyhow::Error::msg)
}

fn of<'a>(objects: &'a [Value], kind: &str, name: &str) -> anyhow::Result<&'a Value> {
    let is = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    let found = objects.iter().find(is);
    found.with_context(|| format!("a {kind} {name}"))
}

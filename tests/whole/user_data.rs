//! User-data from the spec and from Secrets, and that it is seen nowhere else.

use crate::lab::{
    Scene,
    proxy::{condition, proxy},
};
use anyhow::{Context as _, ensure};
use crds::{
    Phase,
    conditions::ConditionType,
    names::{CLOUD_INIT_LABEL, SPEC_HASH},
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use reqwest::Method;
use serde_json::{Value, json};

/// Each way that user-data cannot be had is said in words that help, and heals when it can.
pub async fn user_data_that_appears_later_is_waited_for(scene: Scene) -> anyhow::Result<()> {
    let _operator = scene.operator().start().await?;
    let user_data = json!({"user-data": "#cloud-config\n"});
    scene
        .create::<Secret>(json!({"metadata": {"name": "unlabelled"}, "stringData": user_data}))
        .await?;
    scene
        .create::<Secret>(json!({
            "metadata": {"name": "keyless", "labels": {CLOUD_INIT_LABEL: "true"}},
            "stringData": {"other-key": "#cloud-config\n"},
        }))
        .await?;
    let mut proxies = Vec::new();
    for (name, word) in [
        ("missing", "missing"),
        ("unlabelled", CLOUD_INIT_LABEL),
        ("keyless", "user-data"),
    ] {
        let draft = proxy(name).managed_by("kubernetes").cloud_init_from(name);
        let proxy = scene.apply(draft).await?;
        let object = proxy
            .says(ConditionType::Provisioned, "CloudInitError")
            .await?;
        let said = condition(&object, ConditionType::Provisioned).context("said")?;
        ensure!(said.2.contains(name) && said.2.contains(word), "{said:?}");
        ensure!(proxy.pods().await?.is_empty(), "{name} has a pod");
        proxies.push(proxy);
    }

    scene.secret("missing", "#cloud-config\n").await?;
    let secrets: Api<Secret> = scene.api();
    let labels = json!({"metadata": {"labels": {CLOUD_INIT_LABEL: "true"}}});
    for (name, patch) in [
        ("unlabelled", labels),
        ("keyless", json!({"stringData": user_data})),
    ] {
        secrets
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    for proxy in proxies {
        proxy.becomes(Phase::Ready).await?;
    }
    Ok(())
}

/// A Secret's change is a change of the spec; the Secret going away is none of what runs.
pub async fn a_changed_secret_replaces(scene: Scene) -> anyhow::Result<()> {
    let operator = scene.operator().start().await?;
    scene.secret("init", "#cloud-config\n").await?;
    let draft = proxy("a").managed_by("kubernetes").cloud_init_from("init");
    let a = scene.apply(draft).await?;
    let b = scene.apply(proxy("b").managed_by("kubernetes")).await?;
    b.becomes(Phase::Ready).await?;
    let before = a.becomes(Phase::Ready).await?;
    let (first, other) = (a.pod().await?.uid(), b.pod().await?.uid());

    let secrets: Api<Secret> = scene.api();
    let changed = Patch::Merge(json!({"stringData": {"user-data": "#cloud-config\n# other\n"}}));
    secrets
        .patch("init", &PatchParams::default(), &changed)
        .await?;
    operator.shows(&[&b]).await?;
    let old = before.annotations().get(SPEC_HASH).cloned();
    a.until("another hash", |object| {
        object.annotations().get(SPEC_HASH) != old.as_ref()
    })
    .await?;
    a.becomes(Phase::Ready).await?;
    let second = a.pod().await?.uid();
    ensure!(second != first, "the same pod");
    ensure!(b.pod().await?.uid() == other, "a bystander was replaced");

    secrets
        .delete("init", &kube::api::DeleteParams::default())
        .await?;
    let object = a.says(ConditionType::Synced, "CloudInitError").await?;
    ensure!(
        object.status.and_then(|status| status.phase) == Some(Phase::Ready),
        "what runs goes on running"
    );
    ensure!(a.pod().await?.uid() == second);
    // Cleaning up needs no Secret.
    a.delete().await?;
    a.is_gone().await
}

/// User-data that a guest would ignore is used as it is, and somebody is told.
pub async fn suspicious_user_data_is_told(scene: Scene) -> anyhow::Result<()> {
    let _operator = scene.operator().start().await?;
    for (name, user_data, word) in [
        ("headless", "packages: [squid]\n", "header"),
        ("crlf", "#cloud-config\r\npackages: [squid]\r\n", "CRLF"),
    ] {
        let draft = proxy(name).managed_by("kubernetes").cloud_init(user_data);
        let proxy = scene.apply(draft).await?;
        let message = proxy.event("SuspiciousCloudInit").await?;
        ensure!(message.contains(word), "{name}: {message}");
        proxy.becomes(Phase::Ready).await?;
    }
    Ok(())
}

/// What was planted in user-data, tokens and credentials shows up nowhere that it was not put.
pub async fn no_secret_is_told(scene: Scene) -> anyhow::Result<()> {
    const PLANTED: &str = "sentinel-8f1b3c";
    let token = format!("{PLANTED}-token");
    let secret = format!("#cloud-config\npassword: {PLANTED}\n");
    scene.secret("init", &secret).await?;
    let operator = scene
        .operator()
        .env("DISCOVERY_TOKEN", &token)
        .logging("trace")
        .start()
        .await?;
    let managed = || proxy("inline").managed_by("kubernetes");
    let proxies = [
        scene
            .apply(managed().cloud_init(&format!("{PLANTED}\n")))
            .await?,
        scene
            .apply(
                proxy("secret")
                    .managed_by("kubernetes")
                    .cloud_init_from("init"),
            )
            .await?,
        // One whose pod is refused: errors quote what they are about.
        scene
            .apply(proxy("refused").managed_by("elsewhere").cloud_init(&secret))
            .await?,
    ];
    proxies[0].becomes(Phase::Ready).await?;
    proxies[1].becomes(Phase::Ready).await?;
    proxies[2].becomes(Phase::Failed).await?;
    for (token, path) in [
        (token.as_str(), "/v1/proxies"),
        (PLANTED, "/v1/leases"),
        (&token, "/v1/nothing"),
    ] {
        operator.ask_as(token, path).await?;
    }
    operator
        .ask(Method::POST, "/v1/leases", Some(json!({"token": token})))
        .await?;
    proxies[1].change(json!({"spec": {"port": 8080}})).await?;
    proxies[1].event("Replacing").await?;
    operator
        .shows_as(&token, &[&proxies[0], &proxies[2]])
        .await?;

    let mut said = vec![("the metrics", operator.scrape().await?)];
    for event in scene.events().await? {
        said.push(("an event", serde_json::to_string(&event)?));
    }
    for proxy in &proxies {
        let object = proxy.get().await?;
        said.push(("a status", serde_json::to_string(&object.status)?));
        said.push(("annotations", serde_json::to_string(object.annotations())?));
    }
    for pod in scene.pods().await? {
        said.push(("a pod", serde_json::to_string(&pod)?));
    }
    let maps: Api<ConfigMap> = scene.api();
    for map in maps.list(&ListParams::default()).await? {
        said.push(("a config map", serde_json::to_string(&map)?));
    }
    let log = operator.log()?;
    ensure!(log.contains("\"TRACE\""), "no traces");
    said.push(("the log", log));
    let credential = credential(&scene)?;
    let encoded = data_encoding::BASE64.encode(PLANTED.as_bytes());
    // Base64 of what stands at another offset looks different but for its middle.
    for word in [PLANTED, &credential, &encoded[..12]] {
        for (place, text) in &said {
            let line = text.lines().find(|line| line.contains(word));
            ensure!(line.is_none(), "{place} tells {word}: {line:?}");
        }
    }
    Ok(())
}

/// The operator's own token for the API server.
fn credential(scene: &Scene) -> anyhow::Result<String> {
    let kubeconfig = std::fs::read_to_string(&scene.lab().cluster.kubeconfig)?;
    let value: Value = serde_yaml::from_str(&kubeconfig)?;
    let token = value["users"][0]["user"]["token"].as_str();
    Ok(token.context("a token")?.to_owned())
}

//! What the operator must not do, and what must not stop it.

use crate::lab::{
    Scene, eventually,
    gate::{Fate, Gate},
    proxy::{PATIENCE, condition, proxy},
    squid::{self, Squid},
};
use actors::provider::contract::instance_name;
use anyhow::{Context as _, Error, ensure};
use crds::{
    Phase, Proxy,
    conditions::ConditionType,
    names::{FINALIZER, SKIP_CLEANUP},
};
use http::Method;
use k8s_openapi::{
    api::core::v1::{LimitRange, Namespace, Pod, ResourceQuota},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, CustomResourceExt, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

const OTHER_PROVIDERS: &str = "providers: [{name: other, type: kubernetes}]";

/// A full quota is no failure; the next try finds the raised one.
pub async fn a_full_quota_heals(scene: Scene) -> anyhow::Result<()> {
    let hard = json!({"pods": "0"});
    scene
        .create::<ResourceQuota>(json!({"metadata": {"name": "few"}, "spec": {"hard": hard}}))
        .await?;
    let quotas: Api<ResourceQuota> = scene.api();
    let in_force = |hard: &'static str| {
        let quotas = quotas.clone();
        async move {
            eventually("the quota is in force", PATIENCE, || async {
                let status = quotas.get("few").await?.status;
                let counted = status.and_then(|status| status.hard?.get("pods").cloned());
                Ok(counted.filter(|pods| pods.0 == hard).map(drop))
            })
            .await
        }
    };
    in_force("0").await?;
    let operator = scene.operator().start().await?;
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    let object = a.says(ConditionType::Provisioned, "QuotaExceeded").await?;
    let said = condition(&object, ConditionType::Provisioned).context("said")?;
    ensure!(said.2.contains("exceeded quota: few"), "{said:?}");
    let synced = condition(&object, ConditionType::Synced).context("said")?;
    ensure!(synced.0 == "True", "having no room is no error: {synced:?}");
    let phase = object.status.and_then(|status| status.phase);
    ensure!(phase == Some(Phase::Pending), "{phase:?}");
    ensure!(scene.pods().await?.is_empty());

    let raised = Patch::Merge(json!({"spec": {"hard": {"pods": "1"}}}));
    quotas
        .patch("few", &PatchParams::default(), &raised)
        .await?;
    in_force("1").await?;
    // Tried again every five minutes; whoever cannot wait changes the spec.
    a.change(json!({"spec": {"maxLeases": 3}})).await?;
    a.becomes(Phase::Ready).await?;
    operator.shows(&[&a]).await
}

/// What only a change can mend is not tried again until there is one.
pub async fn a_permanent_error_is_latched(scene: Scene) -> anyhow::Result<()> {
    let limits = json!([{"type": "Container", "max": {"memory": "1Mi"}}]);
    scene
        .create::<LimitRange>(json!({"metadata": {"name": "tiny"}, "spec": {"limits": limits}}))
        .await?;
    let operator = scene.operator().start().await?;
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    let object = a.becomes(Phase::Failed).await?;
    let said = condition(&object, ConditionType::Provisioned).context("said")?;
    ensure!(
        said.1 == "PermanentError" && said.2.contains("memory"),
        "{said:?}"
    );
    a.event("ProvisioningFailed").await?;

    let creates = "proxy_operator_provider_requests_total{op=\"create\"";
    let before = operator.metric(creates).await?;
    ensure!(before >= 1, "{}", operator.scrape().await?);
    // Something happens to it, but nothing that could help.
    let touched = a
        .change(json!({"metadata": {"labels": {"some": "label"}}}))
        .await?;
    let ranges: Api<LimitRange> = scene.api();
    ranges.delete("tiny", &DeleteParams::default()).await?;
    let b = scene.apply(proxy("b").managed_by("kubernetes")).await?;
    b.becomes(Phase::Ready).await?;
    let after = a.get().await?;
    ensure!(
        after.resource_version() == touched.resource_version(),
        "{after:?}"
    );
    ensure!(a.pods().await?.is_empty());

    a.change(json!({"spec": {"maxLeases": 3}})).await?;
    a.becomes(Phase::Ready).await?;
    Ok(())
}

/// Whoever gives a right back touches no Proxy.
pub async fn a_denial_is_outlived(scene: Scene) -> anyhow::Result<()> {
    let gate = Gate::new(&scene).await?;
    let _operator = gate.operator(&scene).start().await?;
    gate.those(Fate::Refuse(401), |request| {
        request.uri().path().ends_with("/pods") && request.method() == Method::POST
    });
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    a.says(ConditionType::Provisioned, "PermanentError").await?;
    gate.open();
    a.becomes(Phase::Ready).await.map(drop)
}

/// A pod of that name that is not ours is never taken over, and never deleted.
pub async fn a_foreign_pod_is_left_alone(scene: Scene) -> anyhow::Result<()> {
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    let name = instance_name(&a.get().await?.uid().context("a uid")?);
    let security = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": true, "runAsUser": 13, "seccompProfile": {"type": "RuntimeDefault"}});
    let foreign: Pod = scene
        .create(json!({"metadata": {"name": name}, "spec": {
            "schedulerName": "nobody",
            "containers": [{"name": "c", "image": "lab.local/squid:1", "securityContext": security}],
        }}))
        .await?;
    let _operator = scene.operator().start().await?;
    let object = a.becomes(Phase::Failed).await?;
    let said = condition(&object, ConditionType::Provisioned).context("said")?;
    ensure!(
        said.1 == "AdoptionConflict" && said.2.contains(&name),
        "{said:?}"
    );

    let pods: Api<Pod> = scene.api();
    let still = pods.get(&name).await?;
    ensure!(still.uid() == foreign.uid() && still.metadata.deletion_timestamp.is_none());
    a.delete().await?;
    a.is_gone().await?;
    let still = pods.get(&name).await?;
    ensure!(still.uid() == foreign.uid() && still.metadata.deletion_timestamp.is_none());
    Ok(())
}

/// A provider that the config does not know fails its proxies, who can go nevertheless.
pub async fn an_unknown_provider_is_named(scene: Scene) -> anyhow::Result<()> {
    let operator = scene.operator().start().await?;
    let a = scene.apply(proxy("a").managed_by("elsewhere")).await?;
    let object = a.becomes(Phase::Failed).await?;
    for type_ in [ConditionType::Provisioned, ConditionType::Synced] {
        let said = condition(&object, type_).context("said")?;
        let named = said.1 == "ProviderNotConfigured" && said.2.contains("elsewhere");
        ensure!(said.0 == "False" && named, "{said:?}");
    }
    a.delete().await?;
    a.is_gone().await?;

    // With another config it is taken up.
    let b = scene.apply(proxy("b").managed_by("other")).await?;
    b.becomes(Phase::Failed).await?;
    drop(operator);
    let both =
        "providers: [{name: other, type: kubernetes, kubernetes: {image: 'lab.local/squid:1'}}]";
    let _operator = scene.operator().with_providers(both).start().await?;
    b.becomes(Phase::Ready).await?;
    Ok(())
}

/// A proxy whose provider is gone from the config stays until a user lets its instance be.
pub async fn cleanup_can_be_skipped(scene: Scene) -> anyhow::Result<()> {
    let operator = scene.operator().start().await?;
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    a.becomes(Phase::Ready).await?;
    drop(operator);
    let operator = scene
        .operator()
        .with_providers(OTHER_PROVIDERS)
        .start()
        .await?;
    a.delete().await?;
    let object = a
        .until("says why it stays", |proxy| {
            let said = condition(proxy, ConditionType::Synced);
            said.is_some_and(|said| {
                said.1 == "ProviderNotConfigured" && said.2.contains(SKIP_CLEANUP)
            })
        })
        .await?;
    ensure!(object.finalizers().iter().any(|name| name == FINALIZER));
    operator.shows(&[]).await?;

    a.change(json!({"metadata": {"annotations": {SKIP_CLEANUP: "true"}}}))
        .await?;
    a.is_gone().await?;
    let message = a.event("CleanupSkipped").await?;
    let id = object.status.and_then(|status| status.provider_id);
    ensure!(message.contains(&id.context("an id")?), "{message}");
    Ok(())
}

/// Our finalizer goes, somebody else's stays, and nobody asks the provider any more.
pub async fn a_foreign_finalizer_is_left_alone(scene: Scene) -> anyhow::Result<()> {
    let operator = scene.operator().start().await?;
    let held = json!({"finalizers": ["lab.local/hold"]});
    let a = scene
        .apply(proxy("a").managed_by("kubernetes").marked(held))
        .await?;
    a.becomes(Phase::Ready).await?;
    a.delete().await?;
    let object = a
        .until("ours is gone", |proxy| {
            !proxy.finalizers().iter().any(|name| name == FINALIZER)
        })
        .await?;
    ensure!(object.finalizers() == ["lab.local/hold"], "{object:?}");
    ensure!(scene.pods().await?.is_empty(), "a pod is left");
    operator.shows(&[]).await?;
    let asked = operator
        .metric("proxy_operator_provider_requests_total{op=\"get\"")
        .await?;
    a.change(json!({"metadata": {"labels": {"some": "label"}}}))
        .await?;
    let b = scene.apply(proxy("b").managed_by("elsewhere")).await?;
    b.becomes(Phase::Failed).await?;
    let now = operator
        .metric("proxy_operator_provider_requests_total{op=\"get\"")
        .await?;
    ensure!(now == asked, "asked {asked}, now {now}");
    a.change(json!({"metadata": {"finalizers": null}})).await?;
    a.is_gone().await
}

/// Nothing may be created in a namespace that goes, and nothing needs to be.
pub async fn a_namespace_goes_with_its_proxies(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let _operator = scene.operator().start().await?;
    scene.secret("init", "#cloud-config\n").await?;
    let draft = proxy("a").managed_by("kubernetes").cloud_init_from("init");
    let a = scene.apply(draft).await?;
    let b = scene.apply(proxy("b").through(&squid)).await?;
    a.becomes(Phase::Ready).await?;
    b.becomes(Phase::Ready).await?;
    let namespaces: Api<Namespace> = Api::all(scene.lab().client.clone());
    namespaces
        .delete(scene.namespace(), &DeleteParams::default())
        .await?;
    a.is_gone().await?;
    b.is_gone().await?;
    eventually("the namespace is gone", PATIENCE, || async {
        let there = namespaces.get_opt(scene.namespace()).await?;
        Ok(there.is_none().then_some(()))
    })
    .await
}

/// One operator for all namespaces, with an object among theirs that no type describes.
pub async fn an_unreadable_object_stands_in_nobodys_way(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.lab().client.clone());
    let resource = ApiResource::erase::<Proxy>(&());
    let objects: Api<DynamicObject> =
        Api::namespaced_with(scene.lab().client.clone(), scene.namespace(), &resource);
    let broken = DynamicObject::new("broken", &resource)
        .data(json!({"spec": {"mode": "Sideways", "port": "many"}}));

    let schema = "/spec/versions/0/schema/openAPIV3Schema";
    let as_it_was = serde_json::to_value(definitions.get(Proxy::crd_name()).await?)?;
    let as_it_was = as_it_was.pointer(schema).context("a schema")?.clone();
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let with = |value: Value| {
        let patch = json!([{"op": "replace", "path": schema, "value": value}]);
        anyhow::Ok(Patch::Json::<()>(serde_json::from_value(patch)?))
    };
    let (name, params) = (Proxy::crd_name(), PatchParams::default());
    definitions.patch(name, &params, &with(anything)?).await?;
    let made = eventually("the definition takes anything", PATIENCE, || async {
        Ok(objects.create(&PostParams::default(), &broken).await.ok())
    })
    .await;
    definitions.patch(name, &params, &with(as_it_was)?).await?;
    made?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let again = DynamicObject::new("again", &resource).data(broken.data.clone());
    eventually("the definition is strict again", PATIENCE, || async {
        Ok(objects.create(&dry, &again).await.err().map(drop))
    })
    .await?;

    let operator = scene.operator().for_all_namespaces().start().await?;
    let a = scene.apply(proxy("a").through(&squid)).await?;
    a.becomes(Phase::Ready).await?;
    let elsewhere = scene.neighbour("neighbour").await?;
    let b = elsewhere.apply(proxy("b").managed_by("kubernetes")).await?;
    b.becomes(Phase::Ready).await?;
    operator.shows(&[&a, &b]).await?;
    let counted = operator
        .metric("proxy_operator_undecodable_objects_total")
        .await?;
    ensure!(counted >= 1, "{}", operator.scrape().await?);
    let log = operator.log()?;
    ensure!(log.contains("broken"), "the log does not name it");

    objects.delete("broken", &DeleteParams::default()).await?;
    eventually("it is gone", PATIENCE, || async {
        Ok(objects.get_opt("broken").await?.is_none().then_some(()))
    })
    .await?;
    b.delete().await?;
    b.is_gone().await?;
    elsewhere.end(Ok(())).await.map_err(Error::msg)
}

//! What the API server alone decides.

use super::{
    lab::{Lab, config, dormant, make, with_client},
    wire::Wire,
};
use crate::conformance::{Backend, Fault, Faults, eventually, expect_error, gone};
use actors::{
    events::EventReason,
    provider::contract::{CreateRequest, ErrorClass, Provider, TargetCheck},
};
use anyhow::ensure;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use proxy_operator::providers::kubernetes::{
    KubernetesProvider, REQUEST, config::KubernetesConfig,
};
use serde_json::json;
use std::{net::Ipv4Addr, sync::Arc};
use tokio::net::TcpListener;

pub async fn a_new_namespace_is_no_failure(lab: Arc<Lab>) -> anyhow::Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let (provider, request) = (lab.ours(), lab.request().await?);
    accounts.delete("default", &DeleteParams::default()).await?;
    // Where there are controllers they give it back at once; that nothing lasting is reported counts.
    if !lab.boots {
        let error = expect_error(provider.create(&request).await, "no service account")?;
        ensure!(error.class == ErrorClass::Transient, "{error}");
        lab.give_service_account(&lab.namespace).await?;
    }
    let id = eventually("it heals by itself", || async {
        match provider.create(&request).await {
            Ok(created) => Ok(Some(created.id)),
            Err(error) if error.class == ErrorClass::Transient => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await?;
    gone(&*provider, &id).await
}

pub async fn the_documented_rights_suffice(lab: Arc<Lab>) -> anyhow::Result<()> {
    let roles: Api<Role> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let bindings: Api<RoleBinding> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let verbs = ["get", "list", "create", "delete"];
    make(
        &roles,
        json!({
            "metadata": {"name": "operator"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}],
        }),
    )
    .await?;
    let (provider, request) = (lab.as_user("operator")?, lab.request().await?);
    // A denial is not believed at once: an API server that has just started denies everything.
    let wire = Wire::new(lab.client_as("operator")?).await?;
    let early = lab.over(&wire)?;
    let bind = async {
        // The second request is the first one again.
        eventually("it was denied", || async {
            Ok((wire.steps() > 1).then_some(()))
        })
        .await?;
        make(&bindings, json!({
            "metadata": {"name": "operator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "operator"}],
        }))
        .await?;
        anyhow::Ok(())
    };
    let create = async { Ok(early.create(&request).await?) };
    let (created, ()) = tokio::try_join!(create, bind)?;
    let id = created.id;
    ensure!(
        provider
            .list()
            .await?
            .iter()
            .any(|instance| instance.id == id)
    );
    ensure!(
        provider
            .check(REQUEST)
            .await
            .iter()
            .all(|check| check.ready)
    );
    gone(&provider, &id).await?;
    let elsewhere = CreateRequest {
        namespace: "default".to_owned(),
        ..request
    };
    let error = expect_error(provider.create(&elsewhere).await, "out of scope")?;
    ensure!(error.class == ErrorClass::Permanent, "{error}");
    ensure!(
        error.message.starts_with("namespace \"default\""),
        "{error}"
    );
    Ok(())
}

pub async fn a_refused_pod_is_permanent(lab: Arc<Lab>) -> anyhow::Result<()> {
    let request = lab.request().await?;
    let denied = lab.as_user("nobody")?;
    let error = expect_error(denied.create(&request).await, "no right")?;
    ensure!(error.class == ErrorClass::Permanent, "{error}");
    ensure!(
        error
            .message
            .contains("User \"nobody\" cannot get resource \"pods\""),
        "{error}"
    );
    // The API server's validation, in its own words.
    let config = KubernetesConfig {
        image: " ".to_owned(),
        ..config()
    };
    let broken = KubernetesProvider::new("kubernetes".to_owned(), config, lab.cluster());
    let error = expect_error(broken.create(&request).await, "an impossible image")?;
    ensure!(error.class == ErrorClass::Permanent, "{error}");
    ensure!(
        error.message.contains("spec.containers[0].image"),
        "{error}"
    );
    Ok(())
}

/// A request that was given up travels on, and arrives when the name is another pod's.
pub async fn a_late_delete_spares_the_successor(lab: Arc<Lab>) -> anyhow::Result<()> {
    let (provider, request) = (lab.ours(), lab.request().await?);
    let id = provider.create(&request).await?.id;
    let wire = Wire::new(lab.client.clone()).await?;
    let slow = lab.over(&wire)?;
    // The second request of a delete is the DELETE.
    wire.break_at(Fault::Late(2));
    let given_up = tokio::spawn({
        let id = id.clone();
        async move { slow.delete(&id).await }
    });
    eventually("the request is on its way", || async {
        Ok((wire.steps() == 2).then_some(()))
    })
    .await?;
    given_up.abort();
    gone(&*provider, &id).await?;
    provider.create(&request).await?;
    let successor = lab.made(&request.name).await?;
    let answer = wire.arrive().await?;
    ensure!(answer == 409, "the API server answered {answer}");
    let pod = lab.pods().get(&request.name).await?;
    ensure!(
        pod.uid().as_ref() == successor.first(),
        "the successor was hit"
    );
    ensure!(
        pod.metadata.deletion_timestamp.is_none(),
        "the successor was hit"
    );
    gone(&*provider, &id).await
}

pub async fn a_list_spans_pages(lab: Arc<Lab>) -> anyhow::Result<()> {
    const MANY: usize = 501;
    let pods = lab.pods();
    stream::iter(0..MANY)
        .map(|_| make(&pods, dormant(&lab.marked("many-"))))
        .buffer_unordered(32)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let listed = lab.ours().list().await?;
    ensure!(listed.len() == MANY, "{} of {MANY}", listed.len());
    // A list that breaks off between two pages is no list.
    let (cut, wire) = lab.wired().await?;
    wire.break_at(Fault::CutBefore(2));
    let error = expect_error(cut.list().await, "half a list")?;
    ensure!(error.class == ErrorClass::Transient, "{error}");
    pods.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    Ok(())
}

pub async fn cloud_init_is_ignored_aloud(lab: Arc<Lab>) -> anyhow::Result<()> {
    let (provider, mut request) = (lab.ours(), lab.request().await?);
    let quiet = provider.create(&request).await?;
    ensure!(quiet.notes.is_empty(), "{quiet:?}");
    request.user_data = Some(b"#cloud-config\n".to_vec().into());
    let created = provider.create(&request).await?;
    let [(EventReason::CloudInitIgnored, message)] = &created.notes[..] else {
        anyhow::bail!("{created:?}")
    };
    ensure!(message.contains("spec.cloudInit"), "{message}");
    gone(&*provider, &created.id).await
}

pub async fn every_check_has_its_reason(lab: Arc<Lab>) -> anyhow::Result<()> {
    let check = only(lab.ours().check(REQUEST).await)?;
    ensure!(check.ready && check.reason == "Reachable", "{check:?}");
    ensure!(
        check.address == lab.config.cluster_url.to_string(),
        "{check:?}"
    );
    ensure!(check.details["version"].starts_with("v1."), "{check:?}");

    let check = only(lab.as_user("nobody")?.check(REQUEST).await)?;
    ensure!(!check.ready && check.reason == "Forbidden", "{check:?}");
    ensure!(
        check.message.contains("cannot list resource \"pods\""),
        "{check:?}"
    );

    let mut stranger = lab.config.clone();
    stranger.auth_info.token = Some("wrong".to_owned().into());
    let check = only(with_client(&lab, stranger)?.check(REQUEST).await)?;
    ensure!(!check.ready && check.reason == "Unauthorized", "{check:?}");

    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await?
        .local_addr()?;
    let mut nobody = lab.config.clone();
    nobody.cluster_url = format!("https://{closed}").parse()?;
    let check = only(with_client(&lab, nobody)?.check(REQUEST).await)?;
    ensure!(!check.ready && check.reason == "Unreachable", "{check:?}");

    let mut distrustful = lab.config.clone();
    distrustful.root_cert = Some(Vec::new());
    let check = only(with_client(&lab, distrustful)?.check(REQUEST).await)?;
    ensure!(!check.ready && check.reason == "Unreachable", "{check:?}");
    ensure!(check.message.contains("certificate"), "{check:?}");
    Ok(())
}

fn only(checks: Vec<TargetCheck>) -> anyhow::Result<TargetCheck> {
    let [check] = <[TargetCheck; 1]>::try_from(checks)
        .map_err(|checks| anyhow::anyhow!("not one target: {checks:?}"))?;
    ensure!(check.name == "apiserver", "{check:?}");
    Ok(check)
}

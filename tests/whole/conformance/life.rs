//! Instances come and go, once each, whatever is cut off meanwhile.

use super::{Backend, Fault, Pose, eventually, expect_error, gone, ours};
use actors::provider::contract::{CreateRequest, ErrorClass, InstanceState, ProviderError};
use anyhow::{Context, ensure};
use futures::future::join_all;
use std::collections::BTreeSet;

pub async fn create_again_adopts(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let first = provider.create(&request).await?;
    let made = backend.made(&request.name).await?;
    let second = provider.create(&request).await?;
    ensure!(first.id == second.id, "{} became {}", first.id, second.id);
    ensure!(made == backend.made(&request.name).await?, "made anew");
    gone(&*provider, &first.id).await
}

pub async fn creates_at_once_make_one_instance(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let all = join_all((0..8).map(|_| provider.create(&request))).await;
    let ids = all
        .into_iter()
        .map(|created| created.map(|created| created.id))
        .collect::<Result<BTreeSet<_>, _>>()?;
    ensure!(ids.len() == 1, "one name, many ids: {ids:?}");
    ensure!(backend.made(&request.name).await?.len() == 1);
    gone(&*provider, ids.first().context("an id")?).await
}

/// One create stands still at each of its steps while another one runs through.
pub async fn creates_that_cross_make_one_instance(backend: &dyn Backend) -> anyhow::Result<()> {
    let (slow, wire) = backend.wired().await?;
    let (quick, request) = ours(backend).await?;
    wire.break_at(Fault::None);
    let id = slow.create(&request).await?.id;
    let steps = wire.steps();
    gone(&*quick, &id).await?;
    for step in 1..=steps {
        wire.break_at(Fault::Late(step));
        let crossing = async {
            eventually("it stands still", || async {
                Ok((wire.steps() == step).then_some(()))
            })
            .await?;
            quick.create(&request).await?;
            wire.break_at(Fault::None);
            anyhow::Ok(())
        };
        let (created, crossed) = tokio::join!(slow.create(&request), crossing);
        crossed?;
        let created = created.with_context(|| format!("late at step {step}"))?;
        ensure!(created.id == id, "late at step {step}: {}", created.id);
        let made = backend.made(&request.name).await?;
        ensure!(made.len() == 1, "late at step {step}: {made:?}");
        gone(&*quick, &id).await?;
    }
    ensure!(steps > 0, "the wire saw nothing");
    Ok(())
}

pub async fn create_resumes_after_every_cut(backend: &dyn Backend) -> anyhow::Result<()> {
    let (cut, wire) = backend.wired().await?;
    let (provider, request) = ours(backend).await?;
    wire.break_at(Fault::None);
    let id = cut.create(&request).await?.id;
    let steps = wire.steps();
    gone(&*provider, &id).await?;
    ensure!(steps > 0, "the wire saw nothing");
    for fault in every_cut(steps) {
        wire.break_at(fault);
        let error = expect_error(cut.create(&request).await, fault)?;
        ensure!(error.class == ErrorClass::Transient, "{fault:?}: {error}");
        wire.break_at(Fault::None);
        let again = reconnected(|| cut.create(&request))
            .await
            .with_context(|| format!("after {fault:?}"))?;
        ensure!(again.id == id, "after {fault:?}: {}", again.id);
        let made = backend.made(&request.name).await?;
        ensure!(made.len() == 1, "after {fault:?}: {made:?}");
        gone(&*provider, &id).await?;
    }
    Ok(())
}

pub async fn delete_resumes_after_every_cut(backend: &dyn Backend) -> anyhow::Result<()> {
    let (cut, wire) = backend.wired().await?;
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    wire.break_at(Fault::None);
    cut.delete(&id).await?;
    let steps = wire.steps();
    gone(&*provider, &id).await?;
    ensure!(steps > 0, "the wire saw nothing");
    for fault in every_cut(steps) {
        // A kernel that is short of memory for a moment refuses libvirt a cgroup's program now and then.
        reconnected(|| provider.create(&request)).await?;
        wire.break_at(fault);
        let error = expect_error(cut.delete(&id).await, fault)?;
        ensure!(error.class == ErrorClass::Transient, "{fault:?}: {error}");
        wire.break_at(Fault::None);
        reconnected(|| cut.delete(&id))
            .await
            .with_context(|| format!("after {fault:?}"))?;
        gone(&*provider, &id).await?;
        let made = backend.made(&request.name).await?;
        ensure!(made.is_empty(), "after {fault:?} there is {made:?}");
    }
    Ok(())
}

pub async fn another_owners_instance_is_never_taken_over(
    backend: &dyn Backend,
) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let squatter = CreateRequest {
        name: request.name.clone(),
        ..backend.request().await?
    };
    let theirs = provider.create(&squatter).await?.id;
    let made = backend.made(&request.name).await?;
    let error = expect_error(provider.create(&request).await, "a conflict")?;
    ensure!(error.class == ErrorClass::AdoptionConflict, "{error}");
    ensure!(
        error.message.contains(&squatter.uid),
        "whose is it? {error}"
    );
    ensure!(made == backend.made(&request.name).await?, "it was touched");
    ensure!(provider.get(&theirs).await?.uid == squatter.uid);
    gone(&*provider, &theirs).await
}

pub async fn a_deleted_instance_is_not_found(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    provider.get(&id).await?;
    gone(&*provider, &id).await?;
    ensure!(backend.made(&request.name).await?.is_empty());
    let error = expect_error(provider.get(&id).await, "get of nothing")?;
    ensure!(error.class == ErrorClass::NotFound, "{error}");
    ensure!(error.id.as_deref() == Some(&*id), "{error:?}");
    Ok(())
}

pub async fn an_instance_removed_by_hand_is_made_anew(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    let before = backend.made(&request.name).await?;
    backend.remove(&id).await?;
    let error = expect_error(provider.get(&id).await, "get of nothing")?;
    ensure!(error.class == ErrorClass::NotFound, "{error}");
    provider.create(&request).await?;
    let after = backend.made(&request.name).await?;
    ensure!(
        after.len() == 1 && after != before,
        "{before:?} became {after:?}"
    );
    gone(&*provider, &id).await
}

pub async fn deleting_twice_is_fine(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    provider.delete(&id).await?;
    provider.delete(&id).await?;
    gone(&*provider, &id).await?;
    provider.delete(&id).await?;
    provider.delete(&backend.absent_id()).await?;
    Ok(())
}

pub async fn an_instance_being_deleted_is_still_reported(
    backend: &dyn Backend,
) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    let made = backend.made(&request.name).await?;
    let running = backend.posed(Pose::Running).await?;
    for id in [&id, &running] {
        backend.hold(id).await?;
        provider.delete(id).await?;
        provider.delete(id).await.context("a second delete")?;
        let instance = provider.get(id).await.context("it is not gone yet")?;
        ensure!(instance.state != InstanceState::Running, "{instance:?}");
        let listed = provider.list().await?;
        ensure!(
            listed.iter().any(|listed| listed.id == *id),
            "{id} is not listed"
        );
    }
    let early = expect_error(provider.create(&request).await, "its name is taken")?;
    ensure!(early.class == ErrorClass::Transient, "{early}");
    ensure!(
        made == backend.made(&request.name).await?,
        "it was replaced"
    );
    for id in [&id, &running] {
        backend.let_go(id).await?;
        gone(&*provider, id).await?;
    }
    Ok(())
}

/// Calls until the backend is reached again: what fails meanwhile must say that it may pass.
async fn reconnected<T, F>(call: impl Fn() -> F) -> anyhow::Result<T>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    eventually("the backend is reached", || async {
        match call().await {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.class == ErrorClass::Transient => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

fn every_cut(steps: usize) -> impl Iterator<Item = Fault> {
    (1..=steps).flat_map(|step| [Fault::CutBefore(step), Fault::CutAfter(step)])
}

//! What a provider tells about instances.

use super::{Backend, Pose, eventually, expect_error, gone, ours};
use actors::provider::contract::{CreateRequest, ErrorClass, Instance, InstanceState};
use anyhow::{Context, bail, ensure};

pub async fn malformed_ids_are_permanent(backend: &dyn Backend) -> anyhow::Result<()> {
    let provider = backend.provider(backend.installation());
    for id in backend.malformed_ids() {
        for error in [
            expect_error(provider.get(&id).await, &id)?,
            expect_error(provider.delete(&id).await, &id)?,
        ] {
            ensure!(error.class == ErrorClass::Permanent, "{id:?}: {error}");
            ensure!(
                error.message.contains(&format!("{id:?}")),
                "{id:?}: {error}"
            );
        }
    }
    Ok(())
}

pub async fn an_unheard_state_is_stopped(backend: &dyn Backend) -> anyhow::Result<()> {
    let provider = backend.provider(backend.installation());
    let id = backend.posed(Pose::Unheard).await?;
    let state = provider.get(&id).await?.state;
    ensure!(state == InstanceState::Stopped, "{state:?}");
    gone(&*provider, &id).await
}

pub async fn running_needs_an_address(backend: &dyn Backend) -> anyhow::Result<()> {
    let provider = backend.provider(backend.installation());
    for (pose, expected) in [
        (Pose::RunningWithoutAddress, InstanceState::Provisioning),
        (Pose::Running, InstanceState::Running),
    ] {
        let id = backend.posed(pose).await?;
        let instance = provider.get(&id).await?;
        ensure!(instance.state == expected, "{pose:?}: {instance:?}");
        ensure!(instance.ip.is_some() == (expected == InstanceState::Running));
        gone(&*provider, &id).await?;
    }
    Ok(())
}

pub async fn a_new_instance_is_never_stopped(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    let boots = backend.boots();
    eventually("the instance runs", || async {
        let instance = provider.get(&id).await?;
        let up = match instance.state {
            InstanceState::Running => instance.ip.is_some(),
            InstanceState::Provisioning => !boots,
            InstanceState::Stopped | InstanceState::Terminated => {
                bail!("it was only just created: {instance:?}")
            }
        };
        Ok(up.then_some(()))
    })
    .await?;
    gone(&*provider, &id).await
}

pub async fn marks_and_age_are_read_back(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let before = now()?;
    let id = provider.create(&request).await?.id;
    let after = now()?;
    let listed = provider.list().await?;
    let listed = listed.iter().find(|instance| instance.id == id);
    for instance in [&provider.get(&id).await?, listed.context("not listed")?] {
        ensure!(instance.uid == request.uid, "{instance:?}");
        ensure!(
            instance.installation == request.installation,
            "{instance:?}"
        );
        // The backend's clock counts in whole seconds, and may be another one.
        let likely = before - 5..=after + 5;
        ensure!(likely.contains(&instance.created_at), "{instance:?}");
    }
    gone(&*provider, &id).await
}

pub async fn list_shows_ours_and_only_ours(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let stranger = format!("not-{}", backend.installation());
    let other = backend.provider(&stranger);
    let theirs = CreateRequest {
        installation: stranger,
        ..backend.request().await?
    };
    let (ours, theirs) = (
        provider.create(&request).await?.id,
        other.create(&theirs).await?.id,
    );
    let unmarked = backend.unmarked().await?;
    let ids = |list: Vec<Instance>| list.into_iter().map(|i| i.id).collect::<Vec<_>>();
    let (mine, others) = (ids(provider.list().await?), ids(other.list().await?));
    ensure!(mine.contains(&ours), "{ours} is not among {mine:?}");
    ensure!(others == [theirs.clone()], "{others:?}");
    for stranger in [&theirs, &unmarked] {
        ensure!(!mine.contains(stranger), "{stranger} is among {mine:?}");
    }
    backend.remove(&unmarked).await?;
    gone(&*other, &theirs).await?;
    gone(&*provider, &ours).await?;
    ensure!(!ids(provider.list().await?).contains(&ours));
    Ok(())
}

fn now() -> anyhow::Result<i64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(i64::try_from(since.as_secs())?)
}

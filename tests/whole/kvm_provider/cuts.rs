//! Cuts at every call, and in the middle of the bytes of an upload.

use super::{
    relay::{Relay, Steps},
    stand::{Stand, ZONE, is_marker},
};
use crate::{
    conformance::{Backend as _, Fault, Faults as _, eventually, expect_error, gone},
    lab::{hypervisor::Daemon, image_server::Manner},
};
use actors::provider::contract::{CreateRequest, Created, ErrorClass, InstanceState, Provider};
use anyhow::{Context as _, bail, ensure};
use proxy_operator::providers::kvm::KvmProvider;
use std::sync::Arc;

/// Creates, as a Proxy does, again and again while the failure is one that may pass.
pub async fn created(provider: &KvmProvider, request: &CreateRequest) -> anyhow::Result<Created> {
    eventually("it is created", || async {
        match Provider::create(provider, request).await {
            Ok(created) => Ok(Some(created)),
            Err(error) if error.class == ErrorClass::Transient => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// Creates where there is no image yet, in one attempt, for what it takes is counted: after a failure that
/// may pass, all is undone and begun again.
async fn created_cold(
    stand: &Stand<'_>,
    provider: &KvmProvider,
    request: &CreateRequest,
    begin: impl Fn(),
) -> anyhow::Result<Created> {
    eventually("it is created at once", || async {
        stand.without_bases().await?;
        begin();
        match Provider::create(provider, request).await {
            Ok(created) => Ok(Some(created)),
            Err(error) if error.class == ErrorClass::Transient => {
                gone(provider, &format!("hosts/{ZONE}/domains/{}", request.name)).await?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    })
    .await
}

pub async fn a_cold_create_survives_every_cut(stand: &Stand<'_>) -> anyhow::Result<()> {
    let relay = stand.relay()?;
    let provider = stand.with(&stand.over(&relay)).await?;
    Provider::list(&*provider).await?;
    let request = stand.order();
    let begin = || relay.break_at(Fault::None);
    let id = created_cold(stand, &provider, &request, begin).await?.id;
    let steps = relay.steps();
    ensure!(steps > 20, "{steps} steps: {:?}", relay.procedures());
    gone(&*provider, &id).await?;
    relay.break_at(Fault::None);
    created(&provider, &request).await?;
    let warm = relay.steps();
    ensure!(warm < steps, "{warm} of {steps} steps without the image");
    // The second half of those comes when the image is there, which the suite has seen to.
    for step in 1..=steps - warm / 2 {
        gone(&*provider, &id).await?;
        stand.without_bases().await?;
        relay.break_at(Fault::CutAfter(step));
        if let Err(error) = Provider::create(&*provider, &request).await {
            ensure!(error.class == ErrorClass::Transient, "{step}: {error}");
        } else {
            bail!(
                "a cut after step {step} of {steps} went unnoticed: {:?}",
                relay.procedures()
            );
        }
        relay.break_at(Fault::None);
        let again = created(&provider, &request).await;
        again.with_context(|| format!("after a cut at {step} of {steps}"))?;
        let made = stand.made(&request.name).await?;
        ensure!(made.len() == 1, "after a cut at {step}: {made:?}");
        stand
            .base_is_right()
            .await
            .with_context(|| format!("after a cut at {step}"))?;
    }
    gone(&*provider, &id).await
}

pub async fn an_upload_cut_in_its_bytes_is_begun_anew(stand: &Stand<'_>) -> anyhow::Result<()> {
    const PLENTY: u64 = 1 << 40;
    const PARTS: u64 = 12;
    let relay = stand.relay()?;
    let provider = stand.with(&stand.over(&relay)).await?;
    let request = stand.order();
    let begin = || relay.cut_in_stream(PLENTY);
    let id = created_cold(stand, &provider, &request, begin).await?.id;
    let all = PLENTY - relay.stream_left().context("it was not cut")?;
    ensure!(all > 400_000, "{all} bytes of an image and a seed");
    let mut at: Vec<u64> = (0..PARTS).map(|part| part * all / PARTS).collect();
    // In the seed, which comes last; all of it is there, but not the word that it is.
    at.extend([1, all - 1, all]);
    for at in at {
        // The pool is shared: a create may also fail before it comes that far, which does not count.
        eventually("it is cut", || async {
            gone(&*provider, &id).await?;
            stand.without_bases().await?;
            relay.cut_in_stream(at);
            match Provider::create(&*provider, &request).await {
                Ok(_) => bail!("a cut at {at} of {all} went unnoticed"),
                Err(error) => ensure!(error.class == ErrorClass::Transient, "at {at}: {error}"),
            }
            Ok(relay.stream_left().is_none().then_some(()))
        })
        .await?;
        // What is marked as whole is whole.
        let marked = stand.volumes(&format!("base-{}", stand.image()))?;
        if marked.iter().any(|name| is_marker(name)) {
            stand.base_is_right().await?;
        }
        created(&provider, &request).await?;
        stand
            .base_is_right()
            .await
            .with_context(|| format!("after a cut at {at}"))?;
    }
    gone(&*provider, &id).await
}

pub async fn a_cut_while_connecting_heals(stand: &Stand<'_>) -> anyhow::Result<()> {
    let request = stand.order();
    let sure = stand.ours().await?;
    let id = created(&sure, &request).await?.id;
    // A relay each, so that nothing is counted but its own connection.
    let relay = || Relay::start(&stand.host.libvirt_socket(), Steps::Opening);
    let whole = relay()?;
    Provider::get(&*stand.with(&stand.over(&whole)).await?, &id).await?;
    let steps = whole.steps();
    ensure!(steps > 5, "{steps} steps: {:?}", whole.procedures());
    for step in 1..=steps {
        for fault in [Fault::CutBefore(step), Fault::CutAfter(step)] {
            let relay = relay()?;
            let provider = stand.with(&stand.over(&relay)).await?;
            relay.break_at(fault);
            eventually("it is connected", || async {
                match Provider::get(&*provider, &id).await {
                    Ok(got) => Ok(Some(got)),
                    Err(error) if error.class == ErrorClass::Transient => Ok(None),
                    Err(error) => Err(error.into()),
                }
            })
            .await
            .with_context(|| format!("{fault:?} of {steps}"))?;
            ensure!(relay.steps() > step, "{fault:?} of {steps}: it was not cut");
        }
    }
    gone(&*sure, &id).await
}

/// An image is whole only if its marker says so, and its size is the marker's.
pub async fn a_spoilt_base_is_fetched_anew(stand: &Stand<'_>) -> anyhow::Result<()> {
    let provider = stand.ours().await?;
    let request = stand.order();
    let id = created(&provider, &request).await?.id;
    let bases = stand.bases()?;
    let base = bases.first().context("a base")?;
    for spoil in [
        format!("truncate -s -1 {base}"),
        format!("truncate -s 1000 {base}"),
        format!("truncate -s +1 {base}"),
        format!("rm {base}"),
        format!("rm {base}.json"),
        format!("echo junk > {base}.json"),
        format!("truncate -s 10 {base}.json"),
        format!("truncate -s 0 {base}.json"),
        format!("sed -i 's/\"size\":[0-9]*/\"size\":1000/' {base}.json"),
    ] {
        gone(&*provider, &id).await?;
        stand.in_pool(&spoil).await?;
        let gets = stand.images.tally("/image").gets;
        created(&provider, &request)
            .await
            .with_context(|| spoil.clone())?;
        let asked = stand.images.tally("/image").gets - gets;
        ensure!(asked == 1, "{spoil}: fetched {asked} times");
        stand.base_is_right().await.with_context(|| spoil.clone())?;
    }
    gone(&*provider, &id).await?;
    // And one that is whole is not fetched.
    let gets = stand.images.tally("/image").gets;
    created(&provider, &request).await?;
    ensure!(
        stand.images.tally("/image").gets == gets,
        "fetched once more"
    );
    gone(&*provider, &id).await
}

/// On a host of its own: whatever dies in the middle of an upload, it is begun anew, and only what came
/// to its end is used.
pub async fn an_upload_outlives_its_daemons(stand: &Stand<'_>) -> anyhow::Result<()> {
    let slow = Manner {
        speed: Some(250_000),
        ..Manner::default()
    };
    for (what, fault) in [
        ("the connections", Dies::Connections),
        ("sshd", Dies::Daemon(Daemon::Sshd)),
        ("libvirtd", Dies::Daemon(Daemon::Libvirtd)),
        ("the operator", Dies::Operator),
    ] {
        let provider = stand.ours().await?;
        let request = stand.order();
        stand.images.behave("/image", slow.clone());
        let before = stand.images.tally("/image");
        let create = {
            let (provider, request) = (Arc::clone(&provider), request.clone());
            tokio::spawn(async move { Provider::create(&*provider, &request).await })
        };
        eventually("the upload is under way", || async {
            let bytes = stand.images.tally("/image").bytes - before.bytes;
            Ok((bytes > 100_000).then_some(()))
        })
        .await?;
        match fault {
            Dies::Connections => stand.host.hang_up().await?,
            Dies::Daemon(daemon) => {
                stand.host.stop(daemon).await?;
                stand.host.start_again(daemon).await?;
            }
            Dies::Operator => stand.stop(),
        }
        let error = expect_error(create.await?, what)?;
        ensure!(error.class == ErrorClass::Transient, "{what}: {error}");
        stand.images.behave("/image", Manner::default());
        let next = match fault {
            Dies::Operator => stand.ours().await?,
            _ => provider,
        };
        let id = created(&next, &request).await.context(what)?.id;
        let gets = stand.images.tally("/image").gets - before.gets;
        ensure!(gets > 1, "{what}: it was not begun anew");
        stand.refreshed()?.base_is_right().await.context(what)?;
        gone(&*next, &id).await?;
        stand.without_bases().await?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Dies {
    Connections,
    Daemon(Daemon),
    Operator,
}

/// The state of a domain is read by a call whose binding drops errors: it must not be believed.
pub async fn a_get_that_is_cut_is_never_stopped(stand: &Stand<'_>) -> anyhow::Result<()> {
    let relay = stand.relay()?;
    let provider = stand.with(&stand.over(&relay)).await?;
    let request = stand.order();
    let domain = stand
        .addressed(&request.name, stand.marks(&request.uid))
        .await?;
    let id = format!("hosts/{ZONE}/domains/{}", request.name);
    // Paused, it is asked for the reason, too.
    for paused in [false, true] {
        if paused {
            stand.libvirt(|_| Ok(domain.suspend()?))?;
        }
        let get = || Provider::get(&*provider, &id);
        eventually("it is reached", || async { Ok(get().await.ok()) }).await?;
        relay.break_at(Fault::None);
        let truth = get().await?.state;
        let steps = relay.steps();
        for step in 1..=steps {
            for fault in [
                Some(Fault::CutBefore(step)),
                Some(Fault::CutAfter(step)),
                // Only this one call fails.
                None,
            ] {
                match fault {
                    Some(fault) => relay.break_at(fault),
                    None => relay.refuse_at(step),
                }
                match get().await {
                    Ok(got) => ensure!(
                        got.state != InstanceState::Stopped && !paused,
                        "{fault:?} of {:?}: {got:?} instead of {truth:?}",
                        relay.procedures()
                    ),
                    Err(error) => {
                        // libvirtd refuses for good what it does not know.
                        let is_right = match fault {
                            Some(_) => error.class == ErrorClass::Transient,
                            None => error.class != ErrorClass::NotFound,
                        };
                        ensure!(is_right, "{fault:?}: {error}");
                    }
                }
                relay.break_at(Fault::None);
                eventually("it is reached", || async { Ok(get().await.ok()) }).await?;
            }
        }
        let expected = if paused {
            InstanceState::Stopped
        } else {
            InstanceState::Running
        };
        ensure!(truth == expected && steps > 2, "{truth:?} in {steps} steps");
    }
    gone(&*stand.ours().await?, &id).await
}

/// As long as there is a domain or a volume of it, it is told, whatever a delete has done so far.
pub async fn a_delete_under_way_is_still_reported(stand: &Stand<'_>) -> anyhow::Result<()> {
    let relay = stand.relay()?;
    let slow = stand.with(&stand.over(&relay)).await?;
    let other = stand.ours().await?;
    let request = stand.order();
    let id = created(&slow, &request).await?.id;
    relay.break_at(Fault::None);
    Provider::delete(&*slow, &id).await?;
    let steps = relay.steps();
    let mut without_domain = 0;
    for step in 1..=steps {
        created(&slow, &request).await?;
        relay.break_at(Fault::Late(step));
        let deleting = tokio::spawn({
            let (slow, id) = (Arc::clone(&slow), id.clone());
            async move { Provider::delete(&*slow, &id).await }
        });
        eventually("the delete stands still", || async {
            Ok((relay.steps() == step).then_some(()))
        })
        .await?;
        let there = stand.libvirt(|connect| Ok(connect.lookup_domain_by_name(&request.name)))?;
        // Were it told as gone, its volumes would stay.
        let left = stand.volumes(&format!("{}.", request.name))?;
        without_domain += usize::from(there.is_err() && !left.is_empty());
        match (
            there.is_ok() || !left.is_empty(),
            Provider::get(&*other, &id).await,
        ) {
            (true, Ok(got)) => ensure!(got.state != InstanceState::Running, "{got:?}"),
            (false, Err(error)) if error.class == ErrorClass::NotFound => {}
            (_, got) => bail!("step {step}: {there:?} with {left:?} is told as {got:?}"),
        }
        let listed = Provider::list(&*other).await?;
        let is_listed = listed.iter().any(|instance| instance.id == id);
        ensure!(
            is_listed || left.is_empty(),
            "step {step}: {left:?} not in {listed:?}"
        );
        relay.break_at(Fault::None);
        deleting.await??;
        ensure!(
            stand.made(&request.name).await?.is_empty(),
            "after step {step}"
        );
    }
    ensure!(
        without_domain > 0,
        "no step of {steps} was behind the undefining"
    );
    Ok(())
}

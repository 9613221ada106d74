//! What is listed, and what happens when the config or the files beside it change.

use super::{
    checks::CHECK,
    cuts::created,
    stand::{Settings, Stand, ZONE, host_entry},
};
use crate::conformance::{Backend as _, Fault, Faults as _, eventually, expect_error, gone};
use actors::provider::contract::{ErrorClass, InstanceState, Operation, Provider};
use anyhow::{Context as _, ensure};
use proxy_operator::providers::kvm::volume::{overlay_name, seed_name};
use std::{fs, os::unix::fs::PermissionsExt as _};

pub async fn leftovers_are_listed(stand: &Stand<'_>) -> anyhow::Result<()> {
    let provider = stand.ours().await?;
    let mark = stand.mark();
    let (both, seed_only, strange) = (stand.order().name, stand.order().name, stand.order().name);
    for volume in [
        overlay_name(&both, &mark),
        seed_name(&both, &mark),
        seed_name(&seed_only, &mark),
        // Another installation's, and some that only look like volumes of ours.
        overlay_name(&strange, "00000000"),
        format!("{strange}.{mark}.img"),
        format!("{strange}.{mark}"),
    ] {
        stand
            .in_pool(&format!("echo x > {volume}; touch -d @1600000000 {volume}"))
            .await?;
    }
    stand
        .in_pool(&format!("touch -d @1600000100 {}", seed_name(&both, &mark)))
        .await?;
    let request = stand.order();
    let id = created(&provider, &request).await?.id;
    stand.volumes("x")?;
    let mut listed = Provider::list(&*provider).await?;
    listed.sort_by_key(|instance| instance.created_at);
    let seen: Vec<_> = listed
        .iter()
        .map(|i| (&*i.id, i.created_at, &*i.installation))
        .collect();
    let key = |name: &str| format!("hosts/{ZONE}/domains/{name}");
    let (both_id, seed_id) = (key(&both), key(&seed_only));
    ensure!(seen.len() == 3, "{seen:?}");
    ensure!(
        seen[..2]
            == [
                (&*seed_id, 1_600_000_000, stand.installation()),
                (&*both_id, 1_600_000_100, stand.installation()),
            ],
        "{seen:?}"
    );
    ensure!(
        listed[2].id == id && listed[2].uid == request.uid,
        "{listed:?}"
    );
    ensure!(
        listed[0].uid.is_empty() && listed[0].state == InstanceState::Stopped,
        "{listed:?}"
    );
    // They are collected by their ids.
    for id in [&both_id, &seed_id, &id] {
        Provider::delete(&*provider, id).await?;
    }
    ensure!(Provider::list(&*provider).await?.is_empty());
    stand.in_pool(&format!("rm {strange}.*")).await?;
    Ok(())
}

/// What cannot be read because it goes meanwhile is left out, and nothing else. On a host of its own,
/// where every list has the same steps.
pub async fn a_domain_that_goes_meanwhile_is_left_out(stand: &Stand<'_>) -> anyhow::Result<()> {
    let relay = stand.relay()?;
    let slow = stand.with(&stand.over(&relay)).await?;
    let (stays, goes) = (stand.order(), stand.order().name);
    let id = created(&slow, &stays).await?.id;
    let victim = format!("hosts/{ZONE}/domains/{goes}");
    let marks = stand.marks("somebody");
    let xml = stand.libvirt(|_| Ok(stand.define(&goes, Some(marks))?.xml_desc(0)?))?;
    relay.break_at(Fault::None);
    ensure!(Provider::list(&*slow).await?.len() == 2);
    let steps = relay.steps();
    let mut left_out = 0;
    for step in 1..=steps {
        stand.libvirt(|connect| Ok(connect.define_domain_xml(&xml)?))?;
        relay.break_at(Fault::Late(step));
        let undefine = async {
            eventually("it stands still", || async {
                Ok((relay.steps() == step).then_some(()))
            })
            .await?;
            stand.libvirt(|connect| Ok(connect.lookup_domain_by_name(&goes)?.undefine()?))?;
            relay.break_at(Fault::None);
            anyhow::Ok(())
        };
        let (listed, undefined) = tokio::join!(Provider::list(&*slow), undefine);
        undefined?;
        let listed = listed.with_context(|| format!("at step {step} of {steps}"))?;
        ensure!(
            listed.iter().any(|instance| instance.id == id),
            "{listed:?}"
        );
        let found = listed.iter().find(|instance| instance.id == victim);
        left_out += usize::from(found.is_none());
    }
    ensure!(left_out > 0, "it was always there");
    gone(&*slow, &id).await
}

pub async fn a_host_that_is_gone_from_the_config(stand: &Stand<'_>) -> anyhow::Result<()> {
    let before = stand.ours().await?;
    let request = stand.order();
    let id = created(&before, &request).await?.id;
    let hosts = host_entry("new", stand.host, "");
    let after = stand
        .with(&Settings {
            hosts,
            ..stand.settings()
        })
        .await?;
    let error = expect_error(Provider::get(&*after, &id).await, "no such host")?;
    ensure!(error.class == ErrorClass::Permanent, "{error}");
    for word in [ZONE, "not in the config", "new"] {
        ensure!(error.message.contains(word), "{word}: {error}");
    }
    Provider::delete(&*after, &id).await?;
    ensure!(
        stand.made(&request.name).await?.len() == 1,
        "it was deleted nevertheless"
    );
    gone(&*before, &id).await
}

/// Made on one host, never recorded, and then the spec names another: it is not made twice.
pub async fn what_nobody_recorded_is_found_on_another_host(
    stand: &Stand<'_>,
) -> anyhow::Result<()> {
    let hosts = host_entry(ZONE, stand.host, "") + &host_entry("other", stand.other, "");
    let two = Settings {
        hosts,
        ..stand.settings()
    };
    let provider = stand.with(&two).await?;
    let mut request = stand.order();
    request.placement.zone = Some(ZONE.to_owned());
    let id = created(&provider, &request).await?.id;
    request.placement.zone = Some("other".to_owned());
    request.elsewhere = true;
    let found = created(&provider, &request).await?.id;
    ensure!(found == id, "{found} was made beside {id}");
    gone(&*provider, &id).await?;
    // A host that does not answer may have it.
    let down = two
        .hosts
        .replace(&stand.host.address.to_string(), "127.0.0.1:1");
    let blind = stand.with(&Settings { hosts: down, ..two }).await?;
    let error = expect_error(Provider::create(&*blind, &request).await, "one is down")?;
    ensure!(error.class == ErrorClass::Transient, "{error}");
    ensure!(error.operation == Operation::Create, "{error}");
    Ok(())
}

/// What is on the others is listed, and what is left over there can go.
pub async fn a_host_without_its_pool_hides_nothing(stand: &Stand<'_>) -> anyhow::Result<()> {
    let bare = host_entry("bare", stand.other, "").replace("pool: default", "pool: no-such");
    let hosts = host_entry(ZONE, stand.host, "") + &bare;
    let provider = stand
        .with(&Settings {
            hosts,
            ..stand.settings()
        })
        .await?;
    let mut request = stand.order();
    request.placement.zone = Some(ZONE.to_owned());
    let id = created(&provider, &request).await?.id;
    let listed = Provider::list(&*provider).await?;
    ensure!(listed.iter().any(|vm| vm.id == id), "{listed:?}");
    gone(&*provider, &id).await
}

pub async fn a_host_that_is_down_is_named(stand: &Stand<'_>) -> anyhow::Result<()> {
    let down =
        host_entry("down", stand.host, "").replace(&stand.host.address.to_string(), "127.0.0.1:1");
    let hosts = host_entry(ZONE, stand.host, "") + &down;
    let provider = stand
        .with(&Settings {
            hosts,
            ..stand.settings()
        })
        .await?;
    let mut request = stand.order();
    request.placement.zone = Some(ZONE.to_owned());
    let id = created(&provider, &request).await?.id;
    let error = expect_error(Provider::list(&*provider).await, "one host is down")?;
    ensure!(error.class == ErrorClass::Transient, "{error}");
    ensure!(error.message.contains("host down"), "{error}");
    gone(&*provider, &id).await
}

pub async fn rotated_files_count_without_a_restart(stand: &Stand<'_>) -> anyhow::Result<()> {
    let files = tempfile::tempdir()?;
    let (key, known) = (files.path().join("key"), files.path().join("known_hosts"));
    let mut config = stand.config(&stand.settings())?;
    config.ssh_key_file.clone_from(&key);
    config.known_hosts_file = Some(known.clone());
    let provider = stand.made_of(config, stand.settings().pace).await?;
    let check = async || {
        let mut checks = Provider::check(&*provider, CHECK).await;
        checks.pop().context("one target")
    };
    let seen = check().await?;
    ensure!(
        !seen.ready && seen.reason == "SSHMaterialUnavailable",
        "{seen:?}"
    );
    let path = key.display().to_string();
    ensure!(seen.message.contains(&path), "{seen:?}");
    let write = |from: &std::path::Path, to: &std::path::Path| {
        fs::copy(from, to)?;
        fs::set_permissions(to, fs::Permissions::from_mode(0o600))
    };
    write(&stand.host.key, &key)?;
    fs::write(&known, "")?;
    let until = async |reason: &str| {
        eventually(reason, || async {
            let seen = check().await?;
            Ok((seen.reason == reason).then_some(seen))
        })
        .await
    };
    let seen = until("SSHHandshakeFailed").await?;
    ensure!(seen.message.contains("known_hosts"), "{seen:?}");
    write(&stand.host.known_hosts, &known)?;
    let seen = until("Reachable").await?;
    ensure!(seen.ready, "{seen:?}");
    let request = stand.order();
    let id = created(&provider, &request).await?.id;

    // A connection that is open does not go on for ever with what counts no more.
    let lines = fs::read_to_string(&known)?;
    let revoked: Vec<_> = lines
        .lines()
        .map(|line| format!("@revoked {line}"))
        .collect();
    fs::write(&known, revoked.join("\n"))?;
    let seen = until("SSHHandshakeFailed").await?;
    ensure!(seen.message.contains("revoked"), "{seen:?}");
    write(&stand.host.known_hosts, &known)?;
    until("Reachable").await?;
    gone(&*provider, &id).await
}

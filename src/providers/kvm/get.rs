//! Looking at a domain: its state, its marks, its address.

use super::{
    address,
    classify::refused,
    create::{look_up, marks},
    delete::volumes_of,
    error::HostError,
    libvirt::{Libvirt, RPC, rpc},
    link::{Answer, HostSession, HostSettings},
};
use actors::provider::contract::{ErrorClass, Instance, InstanceState};
use std::{net::IpAddr, sync::Arc};
use virt::domain::{
    Domain, DomainPausedReason, DomainPausedReasonEnum, DomainState, DomainStateEnum,
    DomainStateReason, DomainStateReasonEnum,
};

/// The instance of this name.
///
/// # Errors
/// `NotFound` when libvirt vouches that there is no such domain, and no volume of it.
pub async fn run(session: &HostSession, name: String) -> Answer<Instance> {
    let settings = Arc::clone(&session.settings);
    let look = move |connect: &Libvirt| {
        let Some(domain) = look_up(connect, &name)? else {
            return remains(connect, &settings, &name);
        };
        let mut instance = instance(&domain, &settings.name, &name)?;
        if instance.state == InstanceState::Running {
            instance.ip = address::find(&domain, &name);
            if instance.ip.is_none() {
                instance.state = InstanceState::Provisioning;
            }
        }
        Ok(instance)
    };
    session.quick.run(RPC, look).await
}

/// What a delete that was cut off has left of a domain: to say that it is gone would be the end of the
/// matter, and its volumes would stay.
fn remains(connect: &Libvirt, settings: &HostSettings, name: &str) -> Answer<Instance> {
    let (host, pool) = (&settings.name, &settings.pool);
    if volumes_of(connect, pool, name, &settings.mark)?.is_empty() {
        let message = format!("no domain {name} on host {host}");
        return Err(HostError::new(ErrorClass::NotFound, message));
    }
    Ok(Instance {
        id: id(host, name),
        ip: None,
        state: InstanceState::Stopped,
        uid: String::new(),
        installation: settings.installation.clone(),
        created_at: 0,
        trouble: None,
    })
}

/// What a domain says about the instance that it is, without its address.
///
/// # Errors
/// When libvirt cannot tell.
pub fn instance(domain: &Domain, host: &str, name: &str) -> Answer<Instance> {
    let failed = |fault| refused(format!("look at domain {name}"), &fault);
    let info = rpc("virDomainGetInfo", name, || domain.info()).map_err(failed)?;
    let (mut state, mut trouble) = (state_of(info.state), None);
    if info.state.is(DomainState::Paused) {
        (state, trouble) = paused(domain, name)?;
    }
    let marks = marks(domain, name)?;
    let (uid, installation, created_at) = marks.map_or_else(Default::default, |marks| {
        (marks.uid, marks.installation, marks.created_at)
    });
    Ok(Instance {
        id: id(host, name),
        ip: None::<IpAddr>,
        state,
        uid,
        installation,
        created_at,
        trouble,
    })
}

/// What it means that a domain is paused, and what is wrong with it. By somebody's hand: it does not run.
fn paused(domain: &Domain, name: &str) -> Answer<(InstanceState, Option<String>)> {
    // virt 0.5 drops the error of this call and gives a state of -1: hence not for the state itself, of
    // which an unknown one would be taken for a domain that has to go.
    let (state, reason) = rpc("virDomainGetState", name, || domain.state())
        .map_err(|fault| refused(format!("look at domain {name}"), &fault))?;
    match reason {
        DomainStateReasonEnum::Known(DomainStateReason::Paused(why)) => Ok(meaning(why, name)),
        DomainStateReasonEnum::Known(_) => Ok((InstanceState::Stopped, None)),
        DomainStateReasonEnum::Unknown(_) => {
            let message = format!("look at domain {name}: its state is {:?}", state.to_raw());
            Err(HostError::transient(message))
        }
    }
}

fn meaning(why: DomainPausedReasonEnum, name: &str) -> (InstanceState, Option<String>) {
    match why.known() {
        // For as long as libvirt sets it up, which takes minutes on a slow host.
        Some(DomainPausedReason::StartingUp) => (InstanceState::Provisioning, None),
        Some(DomainPausedReason::IOError) => {
            let space = "is there space in the pool?";
            let trouble = format!("domain {name} is paused by an I/O error of its disk: {space}");
            (InstanceState::Provisioning, Some(trouble))
        }
        _ => (InstanceState::Stopped, None),
    }
}

/// The key of the domain `name` on `host`.
#[must_use]
pub fn id(host: &str, name: &str) -> String {
    format!("hosts/{host}/domains/{name}")
}

/// The state in the contract's words; running still lacks its address.
fn state_of(state: DomainStateEnum) -> InstanceState {
    match state.known() {
        Some(DomainState::Running | DomainState::Blocked) => InstanceState::Running,
        Some(DomainState::NoState) => InstanceState::Provisioning,
        _ => InstanceState::Stopped,
    }
}

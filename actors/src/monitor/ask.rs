//! One provider's check: the question to its actor.

use super::round::Found;
use crate::{
    provider::{ProviderMsg, contract::TargetCheck},
    providers::Listed,
    system::{Addr, AskError},
};
use std::{collections::BTreeMap, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// Before a provider whose actor went away is asked again: a killed one is back in milliseconds.
const AGAIN: Duration = Duration::from_millis(100);

/// Has a provider checked, by the actor that runs this very entry of the config.
pub(super) async fn ask(
    roster: watch::Receiver<BTreeMap<String, Listed>>,
    name: &str,
    fingerprint: u64,
    until: Instant,
) -> Found {
    let begun = Instant::now();
    let addr = || -> Option<Addr<ProviderMsg>> {
        let roster = roster.borrow();
        let listed = roster.get(name).filter(|l| l.fingerprint == fingerprint)?;
        Some(listed.addr.clone())
    };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let asked: Result<Vec<TargetCheck>, _> = match addr() {
            Some(provider) => {
                let check = |reply| ProviderMsg::Check(left, reply);
                provider.ask(left, check).await
            }
            None => Err(AskError::Down),
        };
        let took = begun.elapsed();
        match asked {
            Ok(checks) => return Found::Checks(checks),
            Err(AskError::Late(_)) => return Found::Silence(took, "no answer".into()),
            Err(error) if Instant::now() + AGAIN >= until => {
                return Found::Silence(took, error.to_string());
            }
            Err(_) => sleep(AGAIN).await,
        }
    }
}

//! A create and somebody who tidies the pool meet at the image: whichever is held up at whichever call while the
//! other one does all it has to do, the VM has its image. But for a removal that was asked for long ago and comes
//! late, which nobody could tell from one by hand.

use super::{
    cuts::created,
    relay::Relay,
    stand::{Settings, Stand},
};
use crate::conformance::{Fault, Faults as _, eventually, gone};
use actors::provider::contract::{CreateRequest, ErrorClass, Provider};
use anyhow::{Context as _, ensure};
use proxy_operator::providers::kvm::{KvmProvider, Pace};
use std::{sync::Arc, time::Duration};

/// So many calls are more than one sweep.
const SWEEPS: usize = 30;
const VOLUME_CREATE: u32 = 93;
const VOLUME_DELETE: u32 = 94;
const VOLUME_LOOKUP: u32 = 95;

pub async fn a_create_amid_a_sweep(stand: &Stand<'_>) -> anyhow::Result<()> {
    Meeting::of(stand).await?.sweeps_are_held().await.map(drop)
}

pub async fn a_sweep_amid_a_create(stand: &Stand<'_>) -> anyhow::Result<()> {
    let meeting = Meeting::of(stand).await?;
    for step in 1..=meeting.create().await?.len() {
        meeting.meet(step, None).await?;
    }
    Ok(())
}

/// The overlay comes when nobody looks for one any more: then it is the create that has to notice.
pub async fn an_overlay_comes_too_late(stand: &Stand<'_>) -> anyhow::Result<()> {
    let meeting = Meeting::of(stand).await?;
    let removal = meeting.sweeps_are_held().await?;
    let create = meeting.create().await?;
    let overlay = create.iter().position(|call| *call == VOLUME_CREATE);
    let overlay = 1 + overlay.context("an overlay")?;
    let mut too_late = 0;
    for call in removal.saturating_sub(3)..removal + 2 {
        let (calls, refused) = meeting.meet(overlay, Some(call)).await?;
        if deletes(&calls) == 1 && calls.ends_with(&[VOLUME_LOOKUP]) {
            ensure!(refused, "nobody noticed after {calls:?}");
            too_late += 1;
        }
    }
    ensure!(too_late > 0, "no sweep was held at its last look");
    Ok(())
}

struct Meeting<'s, 'h> {
    stand: &'s Stand<'h>,
    maker: Arc<KvmProvider>,
    makes: Relay,
    tidies: Relay,
}

impl<'s, 'h> Meeting<'s, 'h> {
    async fn of(stand: &'s Stand<'h>) -> anyhow::Result<Self> {
        let (makes, tidies) = (stand.relay()?, stand.relay()?);
        let settings = stand.over(&tidies);
        // It names another image, and of ours it takes what is a second old.
        let sweeper = stand
            .with(&Settings {
                images: settings.images.replace(stand.image(), "another"),
                pace: Pace {
                    every: Duration::from_millis(100),
                    age: Duration::ZERO,
                },
                ..settings
            })
            .await?;
        // It connects when it is asked something, and sweeps from then on.
        Provider::list(&*sweeper).await?;
        Ok(Self {
            maker: stand.with(&stand.over(&makes)).await?,
            stand,
            makes,
            tidies,
        })
    }

    /// All sweeps stand still, and there is an image that nothing needs.
    async fn ready(&self) -> anyhow::Result<()> {
        eventually("the last image is removed", || async {
            Ok(self.stand.bases()?.is_empty().then_some(()))
        })
        .await?;
        self.tidies.break_at(Fault::Silence);
        self.makes.break_at(Fault::None);
        self.made_and_gone(&self.stand.order()).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.makes.break_at(Fault::None);
        Ok(())
    }

    async fn made_and_gone(&self, request: &CreateRequest) -> anyhow::Result<()> {
        let id = created(&self.maker, request).await?.id;
        gone(&*self.maker, &id).await
    }

    /// The calls of a create whose image is there.
    async fn create(&self) -> anyhow::Result<Vec<u32>> {
        self.ready().await?;
        let id = created(&self.maker, &self.stand.order()).await?.id;
        let calls = self.makes.procedures();
        gone(&*self.maker, &id).await?;
        self.tidies.break_at(Fault::None);
        Ok(calls)
    }

    /// What is made comes to run on the right image, and no sweep takes it.
    async fn is_right(&self, request: &CreateRequest) -> anyhow::Result<()> {
        let id = created(&self.maker, request).await?.id;
        self.tidies.break_at(Fault::None);
        comes_to(&self.tidies, SWEEPS).await?;
        self.stand.base_is_right().await?;
        gone(&*self.maker, &id).await
    }

    /// A sweep is held at each of its calls, until that which removes the image; gives the number of this.
    async fn sweeps_are_held(&self) -> anyhow::Result<usize> {
        for call in 1..SWEEPS {
            self.ready().await?;
            self.tidies.break_at(Fault::Late(call));
            comes_to(&self.tidies, call).await?;
            let calls = self.tidies.procedures();
            if deletes(&calls) == 2 {
                self.tidies.break_at(Fault::None);
                return Ok(call);
            }
            let right = self.is_right(&self.stand.order()).await;
            right.with_context(|| format!("a sweep held at the last of {calls:?}"))?;
        }
        anyhow::bail!("no sweep removes anything")
    }

    /// A create is held at `step` until sweeps have come to `call`, or done all they have to. Gives the sweeps'
    /// calls until then, and whether the create was refused.
    async fn meet(&self, step: usize, call: Option<usize>) -> anyhow::Result<(Vec<u32>, bool)> {
        self.ready().await?;
        self.makes.break_at(Fault::Late(step));
        let request = self.stand.order();
        let creating = tokio::spawn({
            let (maker, request) = (Arc::clone(&self.maker), request.clone());
            async move { Provider::create(&*maker, &request).await }
        });
        comes_to(&self.makes, step).await?;
        self.tidies.break_at(call.map_or(Fault::None, Fault::Late));
        comes_to(&self.tidies, call.unwrap_or(SWEEPS)).await?;
        let calls = self.tidies.procedures();
        self.makes.break_at(Fault::None);
        let refused = creating.await?.err();
        if let Some(error) = &refused {
            ensure!(error.class == ErrorClass::Transient, "{step}: {error}");
        }
        if call.is_some() && deletes(&calls) == 2 {
            self.tidies.break_at(Fault::None);
            self.made_and_gone(&request).await?;
        } else {
            let right = self.is_right(&request).await;
            right.with_context(|| format!("a create held at {step}, until {calls:?}"))?;
        }
        Ok((calls, refused.is_some()))
    }
}

fn deletes(calls: &[u32]) -> usize {
    calls.iter().filter(|call| **call == VOLUME_DELETE).count()
}

async fn comes_to(relay: &Relay, call: usize) -> anyhow::Result<()> {
    eventually(&format!("{call} calls"), || async {
        Ok((relay.steps() >= call).then_some(()))
    })
    .await
}

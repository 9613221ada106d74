//! A transfer: one actor that brings one cargo across, however many wait for it.
//!
//! Talks to: its connection (says how it ended) and the far end through [`Link::carry`].
//!
//! Guarantees: the cargo is carried once, on the session that it was started on. Those who wait are
//! known to the connection alone, so an incarnation that finds the cargo given to an earlier one has
//! nothing to do but to say that the earlier one was lost.

use super::{ConnectionMsg, link::Link};
use crate::system::{Actor, Addr, Broken, Context, Epoch, Work};
use futures::FutureExt;
use std::{fmt::Display, panic::AssertUnwindSafe, sync::Arc};
use tokio::sync::Semaphore;
use tracing::{Instrument, Span};

/// The longest name of a transfer in its path, in characters.
const NAME: usize = 80;

/// What a transfer understands.
#[derive(strum::IntoStaticStr)]
pub enum TransferMsg<L: Link> {
    /// The work started under this epoch ended; sent by its task.
    Carried(Epoch, Result<(), L::Error>),
    /// The work started under this epoch panicked; sent by its task.
    Panicked(Epoch),
}

/// What is carried, and over what.
pub(super) struct Load<L: Link> {
    pub link: Arc<L>,
    pub session: L::Session,
    /// Which session that is.
    pub on: Epoch,
    /// Transfers that may be under way on the session.
    pub slots: Arc<Semaphore>,
    /// Of the first who asked for it.
    pub span: Span,
}

/// The actor.
pub(super) struct TransferActor<L: Link> {
    cargo: L::Cargo,
    /// Which transfer of this cargo, for the connection.
    id: Epoch,
    connection: Addr<ConnectionMsg<L>>,
    /// Taken by the first incarnation.
    load: Option<Load<L>>,
    work: Work,
}

impl<L: Link> TransferActor<L> {
    pub fn new(
        cargo: L::Cargo,
        id: Epoch,
        connection: Addr<ConnectionMsg<L>>,
        load: Option<Load<L>>,
    ) -> Self {
        Self {
            cargo,
            id,
            connection,
            load,
            work: Work::default(),
        }
    }

    fn ended(&self, how: Option<Result<(), L::Error>>) {
        let ended = ConnectionMsg::Transferred(self.cargo.clone(), self.id, how);
        self.connection.hint(ended);
    }
}

impl<L: Link> Actor for TransferActor<L> {
    type Msg = TransferMsg<L>;
    const KIND: &'static str = "transfer";

    fn started(&mut self, cx: &mut Context<TransferMsg<L>>) -> Result<(), Broken> {
        let Some(load) = self.load.take() else {
            self.ended(None);
            return Ok(());
        };
        let (cargo, me) = (self.cargo.clone(), cx.me().clone());
        self.work.start(|epoch| async move {
            let Ok(_slot) = load.slots.acquire().await else {
                return;
            };
            let carry = async { load.link.carry(load.session, cargo).await }.instrument(load.span);
            me.hint(match AssertUnwindSafe(carry).catch_unwind().await {
                Ok(result) => TransferMsg::Carried(epoch, result),
                Err(_) => TransferMsg::Panicked(epoch),
            });
        });
        Ok(())
    }

    fn handle(
        &mut self,
        message: TransferMsg<L>,
        _: &mut Context<TransferMsg<L>>,
    ) -> Result<(), Broken> {
        match message {
            TransferMsg::Carried(epoch, result) => {
                if self.work.finish(epoch) {
                    self.ended(Some(result));
                }
            }
            TransferMsg::Panicked(epoch) => {
                if self.work.finish(epoch) {
                    return Err(Broken("the transfer panicked".into()));
                }
            }
        }
        Ok(())
    }
}

/// The cargo as one segment of a path. Two cargoes may get the same.
pub(super) fn name(cargo: &impl Display) -> String {
    let safe = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => c,
        _ => '_',
    };
    let name: String = cargo.to_string().chars().take(NAME).map(safe).collect();
    // `.` and `..` mean something else in a path, and nothing at all is no segment.
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None if name.is_empty() => "_".into(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_safe_segment_of_a_path() {
        for (cargo, safe) in [
            ("debian-12", "debian-12"),
            ("a_b.qcow2", "a_b.qcow2"),
            ("https://x/y?z#%", "https___x_y_z__"),
            ("a/../b", "a_.._b"),
            ("..", "_."),
            (".", "_"),
            ("", "_"),
            ("Ünï\n", "_n__"),
        ] {
            assert_eq!(name(&cargo), safe);
        }
        assert_eq!(name(&"ü".repeat(1000)).len(), NAME);
    }
}

//! The root: the parent of the services without which the process is of no use.
//!
//! Guarantees: services are started in the order of the plan and stopped in the reverse order, each
//! when the next has ended; one that fails ten times in a minute ends them all, and the process.

use crate::system::{Actor, Broken, ChildSpec, Context, Policy};

/// The root takes no orders: it is started with all it needs, and stopped.
#[derive(strum::IntoStaticStr)]
pub enum RootMsg {}

/// The actor.
pub struct RootActor(Vec<ChildSpec>);

impl RootActor {
    /// A root of these services, in the order in which they start.
    #[must_use]
    pub fn new(services: Vec<ChildSpec>) -> Self {
        Self(services)
    }
}

impl Actor for RootActor {
    type Msg = RootMsg;
    const KIND: &'static str = "root";
    const POLICY: Policy = Policy::ESSENTIAL;

    fn started(&mut self, cx: &mut Context<RootMsg>) -> Result<(), Broken> {
        for service in self.0.drain(..) {
            cx.start(service);
        }
        Ok(())
    }

    fn handle(&mut self, message: RootMsg, _: &mut Context<RootMsg>) -> Result<(), Broken> {
        match message {}
    }
}

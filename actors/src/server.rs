//! A server: one actor that keeps one listener serving.
//!
//! Talks to: nobody; its requests are answered by tasks of the [`Serve`] port. The lease API and the
//! operations endpoints are two of them.
//!
//! Guarantees: the listener is bound once, before anything starts, so that an address in use is a
//! set-up error, and it outlives the actor: a killed server is back without a refused connection.
//! Stopped in order it lets requests in flight end.

#[cfg(test)]
mod tests;

use crate::system::{Actor, Broken, Context, Work};
use futures::future::BoxFuture;
use std::{marker::PhantomData, sync::Arc};

/// The port to the network: serves one bound listener.
pub trait Serve: Send + Sync + 'static {
    /// Serves until dropped; an end by itself is a failure.
    fn serve(self: Arc<Self>) -> BoxFuture<'static, String>;

    /// Takes no more connections and waits until those that have a request under way are served, within
    /// a deadline of its own. Called when the process stops.
    fn drain(self: Arc<Self>) -> BoxFuture<'static, ()>;
}

/// What a server understands.
#[derive(strum::IntoStaticStr)]
pub enum ServerMsg {
    /// The listener failed; sent by the serving task.
    Ended(String),
}

/// What a server is there for.
pub trait Purpose: Send + 'static {
    /// The metric label `kind`, and where it stands in the tree.
    const KIND: &'static str;
}

/// The lease API.
pub struct Api;
/// Metrics and health.
pub struct Ops;

impl Purpose for Api {
    const KIND: &'static str = "api";
}
impl Purpose for Ops {
    const KIND: &'static str = "ops";
}

/// The actor.
pub struct ServerActor<P> {
    serve: Arc<dyn Serve>,
    serving: Work,
    purpose: PhantomData<P>,
}

impl<P: Purpose> ServerActor<P> {
    /// A server on `serve`.
    #[must_use]
    pub fn new(serve: Arc<dyn Serve>) -> Self {
        Self {
            serve,
            serving: Work::default(),
            purpose: PhantomData,
        }
    }
}

impl<P: Purpose> Actor for ServerActor<P> {
    type Msg = ServerMsg;
    const KIND: &'static str = P::KIND;

    fn started(&mut self, cx: &mut Context<ServerMsg>) -> Result<(), Broken> {
        let (serve, me) = (Arc::clone(&self.serve), cx.me().clone());
        self.serving.start(|_| async move {
            let why = serve.serve().await;
            me.hint(ServerMsg::Ended(why));
        });
        Ok(())
    }

    fn handle(&mut self, message: ServerMsg, _: &mut Context<ServerMsg>) -> Result<(), Broken> {
        let ServerMsg::Ended(why) = message;
        Err(Broken(why))
    }

    fn last_work(&mut self) -> Option<BoxFuture<'static, ()>> {
        Some(Arc::clone(&self.serve).drain())
    }
}

//! The port to what a connection leads to: how it is dialled, kept alive and used.
//!
//! Implemented in the program by whatever has connections (a hypervisor behind SSH); called only by the
//! connection's actor and its transfers.

use super::Transfers;
use futures::future::BoxFuture;
use std::{fmt::Display, hash::Hash, time::Duration};

/// What a connection is made of, and what goes over it. Nothing here blocks the thread, and whatever is
/// dropped before it ended has given up, without harm to the rest of the session.
pub trait Link: Send + Sync + Sized + 'static {
    /// An open connection. Cheap to clone; when the last clone goes, it is closed.
    type Session: Clone + Send + Sync + 'static;

    /// What may be asked. Each carries the reply port that its answer goes to.
    type Request: Send + 'static;

    /// What a transfer brings across, and what tells one from another.
    type Cargo: Clone + Eq + Hash + Display + Send + Sync + 'static;

    /// Why something failed.
    type Error: Clone + Display + Send + Sync + 'static;

    /// Opens a session. Reads its credentials anew each time, and ends by itself: after 30 s it is given
    /// up, and [`Self::silent`] is all that can be said then.
    ///
    /// # Errors
    /// Why there is none.
    fn dial(&self) -> BoxFuture<'static, Result<Self::Session, Self::Error>>;

    /// Whether waiting for the next dial is of no use to those who wait now: what they ask is answered
    /// with this error at once. It is dialled again all the same, when the next request comes.
    fn is_final(&self, error: &Self::Error) -> bool;

    /// Ends when the session is known to be dead, and says why; never, as long as it may be alive.
    fn lost(&self, session: &Self::Session) -> BoxFuture<'static, Self::Error>;

    /// Whether the session was opened with other credentials than a dial would use now. Credentials that
    /// cannot be had, or cannot be used, are no reason to give up a session.
    fn is_outdated(&self, _session: &Self::Session) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(false))
    }

    /// One sign of life from the far end.
    ///
    /// # Errors
    /// Why there was none. Time without an answer is measured by the caller.
    fn ping(&self, session: &Self::Session) -> BoxFuture<'static, Result<(), Self::Error>>;

    /// What to say of a far end from which nothing was heard for so long.
    fn silent(&self, waited: Duration) -> Self::Error;

    /// Closes the session for all who hold it; whatever waits for the far end fails at once.
    fn close(&self, session: &Self::Session);

    /// How long this request may wait until it is served.
    fn patience(&self, request: &Self::Request) -> Duration;

    /// What this request changes, if anything: of those that share a key, one is served at a time, in
    /// the order of their arrival.
    fn key(&self, request: &Self::Request) -> Option<String>;

    /// Whether anybody waits for the answer still.
    fn is_wanted(&self, request: &Self::Request) -> bool;

    /// Does what is asked and answers. Ends by itself.
    fn serve(
        &self,
        session: Self::Session,
        request: Self::Request,
        transfers: Transfers<Self>,
    ) -> BoxFuture<'static, ()>;

    /// Answers that it is not done.
    fn refuse(&self, request: Self::Request, why: Refusal<Self::Error>);

    /// Brings the cargo across. May take as long as it makes progress.
    ///
    /// # Errors
    /// Why it is not there.
    fn carry(
        &self,
        session: Self::Session,
        cargo: Self::Cargo,
    ) -> BoxFuture<'static, Result<(), Self::Error>>;
}

/// Why a request was not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal<E> {
    /// So many requests are waiting or under way already.
    Full(usize),
    /// There is a session, but what shares the request's key was under way all the time.
    Busy,
    /// There was no session in time; why the last dial failed or the last session was lost, if one was.
    Unreached(Option<E>),
    /// It could not be dialled, and waiting is of no use.
    Failed(E),
}

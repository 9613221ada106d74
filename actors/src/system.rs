//! The toolkit that every actor stands on: mailboxes that are metered, supervision that restarts,
//! and slow work that lives beside a handler instead of inside it.
//!
//! An actor is a struct that implements [`Actor`]. Its handler is an ordinary function, not an
//! async one: it cannot wait for the outside world even by mistake, so stop, kill, questions and
//! supervision are answered as fast as the longest computation. What takes time is a [`Work`]:
//! a task whose result comes back as a message with the [`Epoch`] that it was started in.
//!
//! | file | is |
//! |---|---|
//! | [`actor`] | what an actor is to those who write one |
//! | [`addr`] | the address of an actor, stable across its restarts, and what a call can end in |
//! | [`host`] | runs an [`Actor`] on ractor: meters, catches panics, passes supervision on |
//! | [`children`] | what a parent knows of its children: restart, backoff, ordered stop |
//! | [`root`] | a whole system: its root, and how it ended |
//! | [`restart`] | when to restart, pure |
//! | [`directory`] | who is alive, for scrapes and for those who look in from outside |
//! | [`meter`] | what is counted, per actor and per kind |
//! | [`work`] | slow work and timers, aborted with their owner |

pub mod actor;
pub mod addr;
pub mod children;
pub mod directory;
pub mod host;
pub mod meter;
pub mod restart;
pub mod root;
#[cfg(test)]
mod tests;
pub mod work;

pub use actor::{Actor, Broken, Context};
pub use addr::{Addr, AskError, Down, Message, Reply};
pub use children::ChildSpec;
pub use restart::{Cause, Policy};
pub use root::{Running, System};
pub use work::{Epoch, Work};

//! kvm's way to a host: real sshd on this machine, OpenSSH's own client as the judge.
//!
//! Needs no lab. As root there is also an sshd on port 22 of an address of its own, and one that
//! knows an unprivileged user with a shell; without root what needs these is left out, and says so.

mod auth;
mod known_hosts;
mod link;
mod rows;
mod sshd;
mod tunnels;

pub use auth::*;
pub use known_hosts::*;
pub use link::*;
pub use tunnels::*;

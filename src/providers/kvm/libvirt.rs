//! A connection of libvirt's own through the tunnel, and how its calls are made.
//!
//! Every call of the C library blocks its thread for as long as the far end pleases. So each runs on a
//! thread of its own, of which a line has only so many; the caller waits for its own time and no longer,
//! and a late result falls on the floor. What unblocks a thread is the end of the tunnel.
//!
//! A thread begins only while this process may act, and asks again, through its [`Libvirt`], before each
//! thing that it changes: nobody drops a thread when the tenure ends, and a frozen process may wake after.

use super::{
    classify::refused,
    error::{HostError, Stage},
    ssh,
    tunnel::Tunnel,
};
use actors::{
    leader::standing::{NotLeader, Standing},
    provider::contract::ErrorClass,
};
use std::{fmt, ops::Deref, sync::Arc, thread, time::Duration};
use tokio::{
    sync::{Semaphore, oneshot},
    time::timeout,
};
use tracing::Span;
use virt::{connect::Connect, error::Error as Fault, sys};

/// How long one call may take that does not start or stop a guest.
pub const RPC: Duration = Duration::from_secs(15);
/// How long starting or stopping a guest may take.
pub const START_STOP: Duration = Duration::from_mins(1);
/// Calls at once on one line. libvirtd reads no further from a client that has five under way, so with
/// more of them not even a sign of life would get through.
const AT_ONCE: usize = 4;

/// One connection of libvirt and the tunnel that carries it alone.
#[derive(Clone)]
pub struct Line(Arc<Inner>);

struct Inner {
    /// Always there until it is dropped.
    connect: Option<Connect>,
    tunnel: Tunnel,
    threads: Arc<Semaphore>,
    standing: Standing,
}

/// libvirt's connection, for somebody on a thread who asks before each change whether this process still
/// may act.
pub struct Libvirt {
    connect: Connect,
    standing: Standing,
}

impl Libvirt {
    /// To be asked right before whatever changes something on the host.
    ///
    /// # Errors
    /// Transient when this process may not act any more.
    pub fn may_act(&self) -> Result<(), HostError> {
        may_act(&self.standing)
    }
}

impl Deref for Libvirt {
    type Target = Connect;

    fn deref(&self) -> &Connect {
        &self.connect
    }
}

fn may_act(standing: &Standing) -> Result<(), HostError> {
    if standing.may_act() {
        return Ok(());
    }
    Err(HostError::transient(NotLeader).caused_by(NotLeader))
}

impl Line {
    /// Opens a line to the socket `socket` on the host at the far end of `session`, on which
    /// nothing is begun that `standing` does not allow.
    ///
    /// # Errors
    /// [`Stage::LibvirtConnect`].
    pub async fn open(
        session: &ssh::Session,
        socket: &str,
        standing: Standing,
    ) -> Result<Self, HostError> {
        let tunnel = Tunnel::open(session, socket).await?;
        let uri = format!("qemu+unix:///system?socket={}", tunnel.path().display());
        // Or libvirt writes every error to stderr, between the lines of the log.
        virt::error::clear_error_callback();
        let connect = on_a_thread(RPC, standing.clone(), move || {
            rpc("virConnectOpen", "", || Connect::open(Some(&uri)))
                .map_err(|fault| refused("connect to libvirt", &fault))
        });
        // Dropping the tunnel ends a thread that still waits for it.
        let user = &session.target().user;
        let connect = connect.await.map_err(|error| not_let_in(error, user))?;
        Ok(Self(Arc::new(Inner {
            connect: Some(connect),
            tunnel,
            threads: Arc::new(Semaphore::new(AT_ONCE)),
            standing,
        })))
    }

    /// Runs `calls` on a thread of its own and waits for it, `limit` at most after as long a wait for its turn.
    ///
    /// # Errors
    /// What `calls` gives; transient when it is late, and when this process may not act at the moment at
    /// which they would begin.
    pub async fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        calls: impl FnOnce(&Libvirt) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, HostError> {
        let turn = Arc::clone(&self.0.threads).acquire_owned();
        let permit = timeout(limit, turn).await.map_err(|_| {
            let message = format!("all {AT_ONCE} calls at once are still under way");
            HostError::transient(message).because("Timeout")
        })?;
        let permit = permit.map_err(HostError::transient)?;
        let Some(connect) = self.0.connect.clone() else {
            return Err(HostError::transient("the connection is being closed"));
        };
        let standing = self.0.standing.clone();
        let libvirt = Libvirt {
            connect,
            standing: standing.clone(),
        };
        on_a_thread(limit, standing, move || {
            let _permit = permit;
            calls(&libvirt)
        })
        .await
    }

    /// Ends the line for all who hold it: calls under way fail at once.
    pub fn cut(&self) {
        self.0.tunnel.cut();
    }

    /// Waits until the connection has ended: closed by libvirtd, cut, or gone with the session.
    pub async fn ended(&self) {
        self.0.tunnel.ended().await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tunnel.cut();
        let connect = self.connect.take();
        // Closing says goodbye, and waits for an answer.
        spawn(move || drop(connect)).ok();
    }
}

/// Why libvirt takes no connection of ours. Whatever it is, it is mended on the host at any moment, even
/// what libvirt would not have tried again.
fn not_let_in(error: HostError, user: &str) -> HostError {
    let reason = match error.reason {
        Some("Timeout") => "Timeout",
        _ => "LibvirtConnectFailed",
    };
    let denied = error.fault().is_some_and(|fault| {
        [
            sys::VIR_ERR_AUTH_FAILED,
            sys::VIR_ERR_AUTH_CANCELLED,
            sys::VIR_ERR_AUTH_UNAVAILABLE,
            sys::VIR_ERR_ACCESS_DENIED,
        ]
        .contains(&fault.code().to_raw())
    });
    let message = if denied {
        format!(
            "{}: libvirt does not let the user {user} in: add it to its group (usermod -aG libvirt {user})",
            error.message
        )
    } else {
        error.message
    };
    HostError {
        class: ErrorClass::Transient,
        message,
        ..error
    }
    .at(Stage::LibvirtConnect)
    .because(reason)
}

fn spawn(run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let thread = thread::Builder::new().name("libvirt".to_owned());
    thread.spawn(run).map(drop)
}

/// Runs `calls` inside the span of the caller, if `standing` allows it when the thread has its turn.
async fn on_a_thread<T: Send + 'static>(
    limit: Duration,
    standing: Standing,
    calls: impl FnOnce() -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let (done, result) = oneshot::channel();
    let span = Span::current();
    spawn(move || {
        let result = span.in_scope(|| may_act(&standing).and_then(|()| calls()));
        // Nobody may be waiting any more.
        done.send(result).ok();
    })
    .map_err(|error| HostError::transient(format!("no thread for libvirt: {error}")))?;
    match timeout(limit, result).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(HostError::transient("the call to libvirt panicked")),
        Err(_) => {
            let message = format!("no answer within {} s", limit.as_secs());
            Err(HostError::transient(message).because("Timeout"))
        }
    }
}

/// Makes one call of libvirt, with a span and a line in the log. `about` names domain, pool or volume.
///
/// # Errors
/// What the call gives.
pub fn rpc<T>(
    name: &'static str,
    about: impl fmt::Display,
    call: impl FnOnce() -> Result<T, Fault>,
) -> Result<T, Fault> {
    let span =
        tracing::debug_span!("libvirt", otel.name = name, otel.kind = "client", rpc = name, %about);
    let _in = span.enter();
    let begun = std::time::Instant::now();
    let result = call();
    let duration = begun.elapsed();
    match &result {
        Ok(_) => tracing::debug!(rpc = name, %about, ?duration, "libvirt answered"),
        Err(fault) => tracing::debug!(
            rpc = name,
            %about,
            ?duration,
            code = fault.code().to_raw(),
            name = ?fault.code(),
            error = fault.message(),
            "libvirt refused"
        ),
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use actors::leader::standing::Office;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use tokio::time::Instant;

    /// A frozen process hears of nothing: the clock alone ends its tenure.
    #[tokio::test]
    async fn no_thread_and_no_change_begins_after_the_tenure() {
        let (office, begun) = (Office::default(), Arc::new(AtomicUsize::new(0)));
        let call = || {
            let begun = Arc::clone(&begun);
            on_a_thread(RPC, office.standing(), move || {
                begun.fetch_add(1, SeqCst);
                Ok(())
            })
        };
        let ends = Instant::now() + Duration::from_secs(1);
        office.leads(1, Some(ends));
        call().await.expect("passes");
        may_act(&office.standing()).expect("passes");
        tokio::time::sleep_until(ends).await;
        let called = call().await;
        for refused in [called, may_act(&office.standing())] {
            let error = refused.expect_err("is refused");
            assert_eq!(error.class, ErrorClass::Transient);
            assert_eq!(error.message, NotLeader.to_string());
        }
        assert_eq!(begun.load(SeqCst), 1);
    }

    /// The last word before a change is on the thread, on which a tenure may end too.
    #[tokio::test]
    async fn what_changes_something_asks_again_on_the_thread() {
        let office = Office::default();
        let standing = office.standing();
        office.leads(1, None);
        let changed = on_a_thread(RPC, office.standing(), move || {
            may_act(&standing)?;
            office.follows(None);
            may_act(&standing)
        });
        let error = changed.await.expect_err("is refused");
        assert_eq!(error.message, NotLeader.to_string());
    }

    #[test]
    fn what_keeps_us_out_is_mended_on_the_host() {
        let final_for_libvirt = HostError::permanent("connect to libvirt: no");
        let error = not_let_in(final_for_libvirt.because("LibvirtError"), "virt");
        assert_eq!(error.class, ErrorClass::Transient);
        assert_eq!(error.stage, Some(Stage::LibvirtConnect));
        assert_eq!(error.reason, Some("LibvirtConnectFailed"));
        assert_eq!(error.message, "connect to libvirt: no");
        let late = not_let_in(HostError::transient("late").because("Timeout"), "virt");
        assert_eq!(late.reason, Some("Timeout"));
    }
}

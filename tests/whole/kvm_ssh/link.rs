//! How the end of a connection is noticed.

use super::sshd::{Options, Sshd};
use anyhow::{Context as _, Result, ensure};
use proxy_operator::providers::kvm::{
    ssh::{Patience, Session},
    tunnel::Tunnel,
};
use std::time::{Duration, Instant};
use tokio::{
    io::AsyncWriteExt as _,
    net::{UnixListener, UnixStream},
    task::JoinSet,
    time::timeout,
};

/// More than any of these takes, less than TCP needs to notice.
const LONG: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_millis(500);

/// A killed sshd, a closed session and a dropped one end at once.
pub async fn the_end_of_a_session_is_noticed() -> Result<()> {
    let sshd = Sshd::start(Options::default()).await?;
    let (target, files) = (sshd.target()?, sshd.files()?);
    let ended = async |session: &Session| {
        let begun = Instant::now();
        timeout(LONG, session.closed()).await.context("closed")?;
        let took = begun.elapsed();
        ensure!(took < Duration::from_secs(2), "{took:?}");
        anyhow::Ok(())
    };

    let session = Session::dial(&target, &files).await?;
    let still = timeout(Duration::from_millis(200), session.closed()).await;
    ensure!(still.is_err(), "a fresh session is closed");
    sshd.signal("KILL")?;
    ended(&session).await?;

    let session = Session::dial(&target, &files).await?;
    session.close();
    ended(&session).await?;

    // It must not wait for a host that does not answer.
    let session = Session::dial(&target, &files).await?;
    sshd.signal("STOP")?;
    session.close();
    ended(&session).await?;
    sshd.signal("KILL")?;

    let session = Session::dial(&target, &files).await?;
    ensure!(!sshd.serving()?.is_empty());
    drop(session);
    let gone = async {
        while !sshd.serving()?.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::Ok(())
    };
    timeout(LONG, gone)
        .await
        .context("the host still serves it")?
}

/// An idle session lives on; one whose host says nothing more is given up, even amid a write.
pub async fn a_frozen_host_is_given_up() -> Result<()> {
    let sshd = Sshd::start(Options::default()).await?;
    let (target, files) = (sshd.target()?, sshd.files()?);
    let patience = Patience {
        keepalive: KEEPALIVE,
        ..Patience::default()
    };
    let given_up = async |session: &Session| {
        let begun = Instant::now();
        timeout(LONG, session.closed()).await.context("given up")?;
        let took = begun.elapsed();
        ensure!(took < KEEPALIVE * 8, "{took:?}");
        anyhow::Ok(took)
    };

    let session = Session::dial_within(&target, &files, patience).await?;
    let idle = timeout(KEEPALIVE * 6, session.closed()).await;
    ensure!(idle.is_err(), "an idle session was given up");
    sshd.signal("STOP")?;
    let took = given_up(&session).await?;
    ensure!(took > KEEPALIVE, "a session was given up after {took:?}");
    sshd.signal("KILL")?;

    let session = Session::dial_within(&target, &files, patience).await?;
    let socket = sshd.file("sink");
    let listener = UnixListener::bind(&socket)?;
    let tunnel = Tunnel::open(&session, &socket.display().to_string()).await?;
    // The probe, which is gone already.
    drop(listener.accept().await?);
    // SSH lets 2 MiB be under way on each connection: so many fill the kernel's buffers, too, and it
    // is the writing that hangs.
    let mut writers = JoinSet::new();
    let mut drains = JoinSet::new();
    for _ in 0..8 {
        let mut near = UnixStream::connect(tunnel.path()).await?;
        let (mut far, _) = listener.accept().await?;
        drains.spawn(async move { tokio::io::copy(&mut far, &mut tokio::io::sink()).await });
        writers.spawn(async move {
            let block = vec![7; 1 << 20];
            loop {
                if let Err(error) = near.write_all(&block).await {
                    return error;
                }
            }
        });
    }
    sshd.signal("STOP")?;
    given_up(&session).await?;
    timeout(LONG, writers.join_all())
        .await
        .context("blocked writers")?;
    sshd.signal("KILL")?;
    timeout(LONG, drains.join_all())
        .await
        .context("the far ends")?;
    Ok(())
}

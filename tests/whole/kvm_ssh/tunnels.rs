//! Bytes through a tunnel, and what stands in its way.

use super::sshd::{Options, Sshd, is_root, run};
use actors::provider::contract::ErrorClass;
use anyhow::{Context as _, Result, ensure};
use futures::{FutureExt as _, future::try_join_all};
use proxy_operator::providers::kvm::{
    error::{HostError, Stage},
    ssh::Session,
    tunnel::Tunnel,
};
use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener as BlockingListener},
    process::Command,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    time::timeout,
};

const LONG: Duration = Duration::from_mins(1);

/// What goes in on one side comes out on the other, both ways at once, on connections side by side.
pub async fn bytes_come_through_unchanged() -> Result<()> {
    let sshd = Sshd::start(Options::default()).await?;
    let session = Session::dial(&sshd.target()?, &sshd.files()?).await?;
    let socket = sshd.file("it's a socket");
    let listener = UnixListener::bind(&socket)?;
    let tunnel = Tunnel::open(&session, &socket.display().to_string()).await?;
    drop(listener.accept().await?);
    let noise: Vec<u8> = (0..NOISE).map(|_| rand::random()).collect();
    let noise = noise.as_slice();
    let mut ways = Vec::new();
    for size in [64 << 20, 4 << 20, 1] {
        let near = UnixStream::connect(tunnel.path()).await?;
        let (far, _) = listener.accept().await?;
        let (near_in, near_out) = near.into_split();
        let (far_in, far_out) = far.into_split();
        ways.push(send(near_out, noise, size).boxed());
        ways.push(receive(far_in, noise, size).boxed());
        ways.push(send(far_out, noise, size).boxed());
        ways.push(receive(near_in, noise, size).boxed());
    }
    let ends = timeout(LONG * 2, try_join_all(ways)).await;
    let ends = ends.context("both ways")??;
    // Neither side of a libvirt connection says more when the other has ended.
    drop(ends);
    timeout(LONG, tunnel.ended()).await.context("ended")?;
    let directory = tunnel.path().parent().context("a directory")?.to_owned();
    let mode = run(Command::new("stat").args(["-c", "%a"]).arg(&directory))?;
    ensure!(mode == "700", "{mode}");
    drop(tunnel);
    ensure!(!directory.exists(), "{} is left", directory.display());
    Ok(())
}

/// A prime, so that no block is like the next.
const NOISE: usize = 1_000_003;

/// An end of a connection, which lives until it is dropped.
type End = Box<dyn Send>;

async fn send(
    mut to: impl AsyncWrite + Unpin + Send + 'static,
    noise: &[u8],
    total: usize,
) -> Result<End> {
    let mut sent = 0;
    while sent < total {
        // Blocks of all sizes.
        let block = &noise[sent % NOISE..];
        let length = (1 + sent * 7919 % 200_000)
            .min(total - sent)
            .min(block.len());
        to.write_all(&block[..length]).await?;
        sent += length;
    }
    to.flush().await?;
    Ok(Box::new(to))
}

async fn receive(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    noise: &[u8],
    total: usize,
) -> Result<End> {
    let mut received = 0;
    let mut block = vec![0; 64 << 10];
    while received < total {
        let expected = &noise[received % NOISE..];
        let room = expected.len().min(block.len());
        let length = from.read(&mut block[..room]).await?;
        ensure!(length > 0, "{received} bytes of {total}");
        ensure!(
            block[..length] == expected[..length],
            "after {received} bytes"
        );
        received += length;
    }
    ensure!(received == total, "{received} bytes of {total}");
    Ok(Box::new(from))
}

/// Whoever waits for a byte gets an end instead, and nobody gets in any more.
pub async fn a_cut_tunnel_lets_go() -> Result<()> {
    let sshd = Sshd::start(Options::default()).await?;
    let session = Session::dial(&sshd.target()?, &sshd.files()?).await?;
    let socket = sshd.file("silent");
    let listener = UnixListener::bind(&socket)?;
    let remote = socket.display().to_string();
    for how in ["cut", "dropped", "closed", "killed"] {
        let session = Session::dial(session.target(), &sshd.files()?).await?;
        let tunnel = Tunnel::open(&session, &remote).await?;
        drop(listener.accept().await?);
        let path = tunnel.path().to_owned();
        let near = path.clone();
        let (waits, waiting) = std::sync::mpsc::channel();
        // As libvirt's library does it: on a thread that waits.
        let reader = tokio::task::spawn_blocking(move || {
            let mut stream = std::os::unix::net::UnixStream::connect(near)?;
            waits.send(()).ok();
            std::io::Read::read(&mut stream, &mut [0])
        });
        let (_far, _) = timeout(LONG, listener.accept()).await.context(how)??;
        tokio::task::spawn_blocking(move || waiting.recv()).await??;
        let begun = Instant::now();
        let tunnel = match how {
            "dropped" => {
                drop(tunnel);
                None
            }
            "cut" => {
                tunnel.cut();
                Some(tunnel)
            }
            "closed" => {
                session.close();
                Some(tunnel)
            }
            _ => {
                sshd.signal("KILL")?;
                Some(tunnel)
            }
        };
        let read = timeout(LONG, reader).await.context(how)??;
        let took = begun.elapsed();
        ensure!(took < Duration::from_secs(1), "{how}: {took:?}");
        ensure!(matches!(read, Ok(0) | Err(_)), "{how}: {read:?}");
        let refused = async {
            while let Ok(mut late) = UnixStream::connect(&path).await {
                // One that came before the end was noticed ends at once.
                let read = late.read(&mut [0]).await;
                ensure!(matches!(read, Ok(0) | Err(_)), "{how}: {read:?}");
            }
            Ok(())
        };
        timeout(LONG, refused).await.context(how)??;
        drop(tunnel);
        ensure!(!path.exists(), "{how}: the socket is left");
    }
    Ok(())
}

/// No socket, nobody at it, and something else in its place.
pub async fn a_missing_socket_is_told() -> Result<()> {
    let sshd = Sshd::start(Options::default()).await?;
    let session = Session::dial(&sshd.target()?, &sshd.files()?).await?;
    let dead = sshd.file("dead");
    drop(BlockingListener::bind(&dead)?);
    for (socket, says) in [
        (sshd.file("absent"), "there is no"),
        (sshd.file("no/such/place"), "there is no"),
        (dead, "nobody accepts connections"),
        (sshd.write("file", "")?, "is no socket"),
    ] {
        let socket = socket.display().to_string();
        let error = failed(&session, &socket).await?;
        says_all(&error, &[&socket, says, &session.target().address()])?;
        ensure!(error.reason == Some("LibvirtConnectFailed"), "{error:?}");
    }
    // The session is as good as before.
    let socket = sshd.file("good");
    let _listener = BlockingListener::bind(&socket)?;
    Tunnel::open(&session, &socket.display().to_string()).await?;
    Ok(())
}

/// A host that forbids it, in any of the ways there are.
pub async fn forbidden_forwarding_is_told() -> Result<()> {
    for config in [
        "AllowStreamLocalForwarding no\n",
        "AllowStreamLocalForwarding remote\n",
        "DisableForwarding yes\n",
        "AllowTcpForwarding no\n",
        "PermitOpen none\n",
        "",
    ] {
        let sshd = Sshd::start(Options {
            config,
            ..Options::default()
        })
        .await?;
        if config.is_empty() {
            let key = sshd.public("id")?;
            sshd.write("authorized_keys", format!("restrict {key}\n"))?;
        }
        let session = Session::dial(&sshd.target()?, &sshd.files()?).await?;
        let _listener = BlockingListener::bind(sshd.file("socket"))?;
        // As /var/run leads to /run.
        symlink(sshd.directory.path(), sshd.file("run"))?;
        let socket = sshd.file("run/socket").display().to_string();
        let error = failed(&session, &socket).await?;
        says_all(
            &error,
            &[&socket, "forbids forwarding", "AllowStreamLocalForwarding"],
        )?;
        ensure!(error.reason == Some("Forbidden"), "{error:?}");
    }
    Ok(())
}

/// What the user may not open is no missing socket.
pub async fn a_denied_socket_is_told() -> Result<()> {
    if !is_root()? {
        eprintln!("kvm_ssh: NOT ROOT: a socket that is denied is not tried");
        return Ok(());
    }
    for has_shell in [true, false] {
        let options = Options {
            nobody_has_a_shell: has_shell,
            ..Options::default()
        };
        let sshd = Sshd::start(options).await?;
        let session = Session::dial(&sshd.target_as("nobody"), &sshd.files()?).await?;
        let denied = sshd.file("denied");
        let _denied = BlockingListener::bind(&denied)?;
        run(Command::new("chmod").arg("600").arg(&denied))?;
        let closed = sshd.file("closed");
        fs::create_dir(&closed)?;
        let hidden = closed.join("hidden");
        let _hidden = BlockingListener::bind(&hidden)?;
        run(Command::new("chmod").arg("700").arg(&closed))?;
        for socket in [denied, hidden] {
            let socket = socket.display().to_string();
            let error = failed(&session, &socket).await?;
            let says = if has_shell {
                "permission denied"
            } else {
                "or the user nobody may not"
            };
            says_all(&error, &[&socket, says, "nobody"])?;
            ensure!(error.reason == Some("LibvirtConnectFailed"), "{error:?}");
        }
        let open = sshd.file("open");
        let _open = BlockingListener::bind(&open)?;
        run(Command::new("chmod").arg("666").arg(&open))?;
        Tunnel::open(&session, &open.display().to_string()).await?;
    }
    Ok(())
}

async fn failed(session: &Session, socket: &str) -> Result<HostError> {
    let opened = Tunnel::open(session, socket).await;
    let error = opened
        .err()
        .with_context(|| format!("{socket} was reached"))?;
    ensure!(error.stage == Some(Stage::LibvirtConnect), "{error:?}");
    ensure!(error.class == ErrorClass::Transient, "{error:?}");
    Ok(error)
}

fn says_all(error: &HostError, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(error.message.contains(part), "{part}: {error:?}");
    }
    Ok(())
}

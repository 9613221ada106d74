//! What a key file may hold, and what a host may answer.

use super::sshd::{Options, Sshd, make_key, public, run};
use actors::provider::contract::ErrorClass;
use anyhow::{Context as _, Result, ensure};
use proxy_operator::providers::kvm::{
    error::{HostError, Stage},
    ssh::{Files, Patience, Session, Target},
};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use tokio::net::{TcpListener, TcpSocket};

/// Every format of every type opens a session.
pub async fn every_kind_of_key_authenticates() -> Result<()> {
    let sshd = Sshd::start(Options::default()).await?;
    let mut keys: Vec<PathBuf> = Vec::new();
    for (name, options) in [
        ("ed25519", &["-t", "ed25519"][..]),
        ("ecdsa256", &["-t", "ecdsa", "-b", "256"]),
        ("ecdsa384", &["-t", "ecdsa", "-b", "384"]),
        ("ecdsa521", &["-t", "ecdsa", "-b", "521"]),
        ("rsa2048", &["-t", "rsa", "-b", "2048"]),
        ("rsa4096", &["-t", "rsa", "-b", "4096"]),
    ] {
        // ed25519 has no PEM of its own, and ssh-keygen no PKCS#8 for it: see below.
        let formats = if name == "ed25519" {
            &["RFC4716"][..]
        } else {
            &["RFC4716", "PEM", "PKCS8"]
        };
        for format in formats {
            let key = sshd.file(&format!("user_{name}_{format}"));
            make_key(&key, &[options, &["-m", format]].concat())?;
            keys.push(key);
        }
    }
    let der = sshd.file("user_ed25519_pkcs8");
    run(Command::new("openssl")
        .args(["genpkey", "-algorithm", "ed25519", "-out"])
        .arg(&der))?;
    run(Command::new("chmod").arg("600").arg(&der))?;
    // ssh-keygen reads no PKCS#8 of ed25519: the public half's last 32 bytes are the key.
    let spki = sshd.file("spki");
    run(Command::new("openssl")
        .args(["pkey", "-pubout", "-outform", "DER", "-in"])
        .arg(&der)
        .arg("-out")
        .arg(&spki))?;
    let spki = fs::read(spki)?;
    let half = spki.get(spki.len() - 32..).context("a public key")?;
    let blob = [&b"\0\0\0\x0bssh-ed25519\0\0\0\x20"[..], half].concat();
    let line = format!("ssh-ed25519 {}\n", data_encoding::BASE64.encode(&blob));
    fs::write(der.with_extension("pub"), line)?;
    keys.push(der);

    let authorized: Result<Vec<String>> = keys.iter().map(|key| public(key)).collect();
    sshd.write("authorized_keys", authorized?.join("\n"))?;
    let files = sshd.files()?;
    for key in keys {
        let text = fs::read_to_string(&key)?;
        let windows = sshd.write("windows", text.replace('\n', "\r\n"))?;
        let indented = sshd.write("indented", text.replace('\n', "\n    "))?;
        let public_mode = sshd.write("open", &text)?;
        run(Command::new("chmod").arg("644").arg(&public_mode))?;
        for key in [&key, &windows, &indented, &public_mode] {
            let files = Files {
                key: key.clone(),
                ..files.clone()
            };
            let dialled = Session::dial(&sshd.target()?, &files).await;
            let head = text.lines().next().unwrap_or_default();
            dialled.with_context(|| format!("{}: {head}", key.display()))?;
        }
    }
    Ok(())
}

/// What cannot be used as a key is named, with its file.
pub async fn a_useless_key_is_named() -> Result<()> {
    let sshd = Sshd::start(Options::default()).await?;
    let files = sshd.files()?;
    let key = |name: &str, options: &[&str]| {
        let path = sshd.file(name);
        make_key(&path, options).map(|()| path)
    };
    let secret = ["-N", "a passphrase"];
    let encrypted = key("encrypted", &[&["-t", "ed25519"][..], &secret].concat())?;
    let encrypted_pem = key("pem", &[&["-t", "rsa", "-m", "PEM"][..], &secret].concat())?;
    let encrypted_pkcs8 = key(
        "pkcs8",
        &[&["-t", "ecdsa", "-m", "PKCS8"][..], &secret].concat(),
    )?;
    let good = fs::read_to_string(&files.key)?;
    let cut = &good[..good.len() / 2];
    let spki = run(Command::new("ssh-keygen")
        .args(["-e", "-m", "PKCS8", "-f"])
        .arg(sshd.file("pkcs8.pub")))?;
    let rfc4716 = run(Command::new("ssh-keygen")
        .args(["-e", "-f"])
        .arg(&files.key));
    let directory = sshd.file("directory");
    fs::create_dir(&directory)?;
    let pipe = sshd.file("pipe");
    run(Command::new("mkfifo").arg(&pipe))?;
    let wrong = sshd.write("wrong", good.replace("OPENSSH", "RSA"))?;
    let (permanent, transient) = (ErrorClass::Permanent, ErrorClass::Transient);
    for (key, class, says) in [
        (encrypted, permanent, "is encrypted"),
        (encrypted_pem, permanent, "is encrypted"),
        (encrypted_pkcs8, permanent, "is encrypted"),
        (sshd.file("id.pub"), permanent, "is a public key"),
        (sshd.write("spki", spki)?, permanent, "is a public key"),
        (
            sshd.write("rfc4716", rfc4716?)?,
            permanent,
            "is a public key",
        ),
        (sshd.write("empty", "")?, permanent, "is empty"),
        (sshd.write("blank", " \n\n")?, permanent, "is empty"),
        (
            sshd.write("junk", [0xff, 0, 1, 2])?,
            permanent,
            "holds no private key",
        ),
        (
            sshd.write("text", "hello")?,
            permanent,
            "holds no private key",
        ),
        (sshd.write("cut", cut)?, permanent, "cannot be read"),
        (wrong, permanent, "cannot be read"),
        (
            sshd.write("putty", "PuTTY-User-Key-File-3: ssh-ed25519\n")?,
            permanent,
            "PuTTY",
        ),
        (
            sshd.write("large", vec![b'x'; 2 << 20])?,
            transient,
            "is larger than 1 MiB",
        ),
        (sshd.file("absent"), transient, "No such file"),
        (directory, transient, "is a directory"),
        (pipe, transient, "is no regular file"),
    ] {
        let files = Files {
            key: key.clone(),
            ..files.clone()
        };
        let error = refused(&sshd.target()?, &files).await?;
        let path = key.display().to_string();
        let message = &error.message;
        ensure!(
            message.contains(&path) && message.contains(says),
            "{path}: {message}"
        );
        ensure!(error.class == class, "{error:?}");
        ensure!(error.stage == Some(Stage::SshMaterial), "{error:?}");
        ensure!(error.reason == Some("SSHMaterialUnavailable"), "{error:?}");
    }
    let directory = Some(sshd.directory.path().to_owned());
    let error = refused(
        &sshd.target()?,
        &Files {
            known_hosts: directory,
            ..files
        },
    )
    .await?;
    ensure!(error.message.contains("known_hosts file") && error.message.contains("directory"));
    Ok(())
}

/// A new key and new known hosts count at the next dial.
pub async fn changed_files_count_at_the_next_dial() -> Result<()> {
    let sshd = Sshd::start(Options::default()).await?;
    let files = sshd.files()?;
    let target = sshd.target()?;
    let known_hosts = files.known_hosts.clone().context("known hosts")?;
    let right = fs::read(&known_hosts)?;
    fs::write(&known_hosts, "")?;
    let error = refused(&target, &files).await?;
    ensure!(error.message.contains("is not in"), "{error:?}");
    // Not checking accepts it all the same.
    let unchecked = Files {
        known_hosts: None,
        ..files.clone()
    };
    Session::dial(&target, &unchecked).await?;
    fs::write(&known_hosts, &right)?;
    let session = Session::dial(&target, &files).await?;
    // An open session knows what it was dialled with, by content.
    ensure!(!session.is_outdated(&files).await);
    fs::write(&known_hosts, &right)?;
    ensure!(!session.is_outdated(&files).await, "the same again");
    fs::write(&known_hosts, [b"# of others\n", &right[..]].concat())?;
    ensure!(!session.is_outdated(&files).await, "no news of this host");
    fs::write(&known_hosts, "")?;
    ensure!(session.is_outdated(&files).await);
    fs::write(&known_hosts, &right)?;
    let key = sshd.file("swapped");
    fs::copy(&files.key, &key)?;
    let swapped = Files {
        key: key.clone(),
        ..files.clone()
    };
    let session = Session::dial(&target, &swapped).await?;
    // Nothing that can be used is there for a moment.
    fs::write(&key, "half a k")?;
    ensure!(!session.is_outdated(&swapped).await);
    fs::remove_file(&key)?;
    ensure!(!session.is_outdated(&swapped).await);
    let next = sshd.file("next");
    make_key(&next, &["-t", "ed25519"])?;
    std::os::unix::fs::symlink(&next, &key)?;
    ensure!(session.is_outdated(&swapped).await);
    Ok(())
}

/// Whom the host does not let in is named, with the key.
pub async fn a_refused_key_is_named() -> Result<()> {
    let sshd = Sshd::start(Options::default()).await?;
    let files = sshd.files()?;
    for kind in ["ed25519", "rsa", "ecdsa"] {
        let key = sshd.file(&format!("stranger_{kind}"));
        make_key(&key, &["-t", kind])?;
        let print = run(Command::new("ssh-keygen").args(["-l", "-f"]).arg(&key))?;
        let print = print.split(' ').nth(1).context("a fingerprint")?.to_owned();
        let target = sshd.target()?;
        let error = refused(
            &target,
            &Files {
                key,
                ..files.clone()
            },
        )
        .await?;
        unauthorized(&error, &target, &print)?;
    }
    let print = run(Command::new("ssh-keygen")
        .args(["-l", "-f"])
        .arg(&files.key))?;
    let print = print.split(' ').nth(1).context("a fingerprint")?;
    let target = sshd.target_as("no-such-user");
    unauthorized(&refused(&target, &files).await?, &target, print)
}

fn unauthorized(error: &HostError, target: &Target, fingerprint: &str) -> Result<()> {
    for part in [target.address().as_str(), &target.user, fingerprint] {
        ensure!(error.message.contains(part), "{part}: {error:?}");
    }
    ensure!(error.class == ErrorClass::Permanent, "{error:?}");
    ensure!(error.stage == Some(Stage::SshHandshake), "{error:?}");
    ensure!(error.reason == Some("Unauthorized"), "{error:?}");
    Ok(())
}

/// Nobody there, silence at the door, silence behind it, and somebody who speaks no SSH.
pub async fn a_host_that_does_not_answer_is_told_apart() -> Result<()> {
    let sshd = Sshd::start(Options::default()).await?;
    let files = sshd.files()?;
    let at = |address: SocketAddr| Target {
        host: address.ip().to_string(),
        port: address.port(),
        user: "root".to_owned(),
    };
    let patience = Patience {
        dial: Duration::from_secs(1),
        ..Patience::default()
    };

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let nobody = at(listener.local_addr()?);
    drop(listener);
    let nameless = Target {
        host: "no-such-host.invalid".to_owned(),
        ..nobody.clone()
    };
    // A full queue of connections: the kernel drops what comes then.
    let full = TcpSocket::new_v4()?;
    full.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let full = full.listen(1)?;
    let full = at(full.local_addr()?).clone().keeping(full);
    let mut queue = Vec::new();
    for _ in 0..8 {
        let socket = TcpSocket::new_v4()?;
        let address = full.1.local_addr()?;
        let connecting = socket.connect(address);
        queue.push(tokio::time::timeout(Duration::from_millis(50), connecting).await);
    }
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let web = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let (web, silent) = (
        at(web.local_addr()?).keeping(web),
        at(silent.local_addr()?).keeping(silent),
    );
    let speaking = tokio::spawn(async move {
        let (mut stream, _) = web.1.accept().await?;
        let answer = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await
    });
    for (target, stage, reason) in [
        (&nobody, Stage::Tcp, "Unreachable"),
        (&nameless, Stage::Tcp, "Unreachable"),
        (&full.0, Stage::Tcp, "Timeout"),
        (&silent.0, Stage::SshHandshake, "Timeout"),
        (&web.0, Stage::SshHandshake, "SSHHandshakeFailed"),
    ] {
        let begun = Instant::now();
        let error = Session::dial_within(target, &files, patience).await;
        let error = error.err().context("it must not connect")?;
        let took = begun.elapsed();
        ensure!(took < Duration::from_secs(5), "{took:?}: {error:?}");
        ensure!(error.class == ErrorClass::Transient, "{error:?}");
        ensure!(
            error.stage == Some(stage) && error.reason == Some(reason),
            "{error:?}"
        );
        ensure!(error.message.contains(&target.host), "{error:?}");
    }
    speaking.await??;
    Ok(())
}

trait Keeping: Sized {
    fn keeping<T>(self, kept: T) -> (Self, T) {
        (self, kept)
    }
}

impl Keeping for Target {}

async fn refused(target: &Target, files: &Files) -> Result<HostError> {
    let key = Path::new(&files.key).display().to_string();
    Session::dial(target, files).await.err().context(key)
}

//! The verdicts on `known_hosts` files are OpenSSH's.

use super::{
    rows::{ROWS, Row, Said, Whom},
    sshd::{Options, Sshd, make_key, run, whoami},
};
use actors::provider::contract::ErrorClass;
use anyhow::{Context as _, Result, bail, ensure};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use proxy_operator::providers::kvm::{
    error::{HostError, Stage},
    ssh::{Files, Session, Target},
};
use std::{collections::HashMap, fs, path::Path, process::Command};

/// What OpenSSH no longer makes everywhere, and still reads.
const DSS: &str = "ssh-dss AAAAB3NzaC1kc3MAAACBAJYgPzTUdai15bc74rhyCWeEM5NISurXnTz4YDosYKBintfuqzfIWoSrY8bCiZvT9scKW1ZFSnd/laKgMr5lnqzYnZ4WEGJIkqmjVUeB90EG71zDO7/WsznMsSTh3j8d8lQ4m3yaslC3db6Iqz12ZzeJRuLQvZnMcoA4rqxdeZt/AAAAFQCVXkGt/ifedoMtq29EIr5pElh2ywAAAIA2ZuZF/q/hrCAFyuqv+EqwTaf97vxg2cnB2XDyOr29k0iE3irJH4IvaqnfK74M+cJI4cJ3wg3cIHo3BBL4Ki4xb3je1Pi3BJizPTsBfrt+Hgty1lCRnmMZdjjt0ZzFV/fw2E6KL9TU59A76+VMu4itTV8Xhpdgw2h3jRkgi57X0QAAAIEAk0Z0qxrwDmE3XLLlnVSOSIkpX8k86sBTcgxROTzg9lI3bSyjtcVdqbZhUzhN62VzW8XBUamTycTjQEnBn4XYgwXBDUV450xvJker4S9R1V+AZBw9e6hKfuoFLwHF0bfcrw7LJJo8Px8N7LjekNayZy6Yym0Oz3bQZFCI9L2G+4I=";

/// Every file is given to `ssh` and to our dial, both against the same sshd.
pub async fn known_hosts_are_judged_as_openssh_does() -> Result<()> {
    let options = Options {
        everywhere: true,
        ..Options::default()
    };
    let sshd = Sshd::start(options).await?;
    let words = words(&sshd)?;
    let mut rows = Vec::new();
    for (number, row) in ROWS.iter().enumerate() {
        if row.whom != Whom::At22 || sshd.at_22.is_some() {
            rows.push(try_row(&sshd, &words, number, row).boxed());
        }
    }
    let tried: Vec<Option<String>> = stream::iter(rows).buffer_unordered(4).try_collect().await?;
    if sshd.at_22.is_none() {
        eprintln!("kvm_ssh: NOT ROOT, or port 22 is taken everywhere: files for port 22 left out");
    }
    ensure!(tried.len() >= 30, "only {} files", tried.len());
    let differ: Vec<String> = tried.into_iter().flatten().collect();
    ensure!(differ.is_empty(), "{}", differ.join("\n"));
    Ok(())
}

/// What differs, if anything does.
async fn try_row(
    sshd: &Sshd,
    words: &HashMap<String, String>,
    number: usize,
    row: &Row,
) -> Result<Option<String>> {
    let (host, port) = match row.whom {
        Whom::V4 => ("127.0.0.1".to_owned(), sshd.port),
        Whom::Named(host) => (host.to_owned(), sshd.port),
        Whom::At22 => (sshd.at_22.context("port 22")?.to_string(), 22),
    };
    let path = sshd.file(&format!("known_hosts-{number}"));
    if let Some(file) = row.file {
        fs::write(&path, filled_in(file, words, &host, port)?)?;
    }
    let target = Target {
        host,
        port,
        user: whoami()?,
    };
    let (theirs, their_words) = openssh(&target, &sshd.file("id"), &path).await?;
    let files = Files {
        key: sshd.file("id"),
        known_hosts: Some(path.clone()),
    };
    let (ours, our_words) = match Session::dial(&target, &files).await {
        Ok(_) => (Said::Accepted, String::new()),
        Err(error) => (judge(&error).with_context(|| row.name)?, error.to_string()),
    };
    let alike = match row.said {
        Said::OtherType => Said::Changed,
        Said::OnlyCertAuthority | Said::NoFile => Said::Unknown,
        said => said,
    };
    Ok((ours != row.said || theirs != alike).then(|| {
        format!(
            "{}: expected {:?}, OpenSSH {theirs:?} ({their_words}), ours {ours:?} ({our_words})",
            row.name, row.said
        )
    }))
}

async fn openssh(target: &Target, key: &Path, known_hosts: &Path) -> Result<(Said, String)> {
    let mut command = tokio::process::Command::new("ssh");
    command.args(["-F", "/dev/null", "-i"]).arg(key);
    let port = target.port.to_string();
    command.args(["-p", &port, "-l", &target.user]);
    for option in [
        "IdentitiesOnly=yes",
        "StrictHostKeyChecking=yes",
        "GlobalKnownHostsFile=/dev/null",
        "BatchMode=yes",
        "CheckHostIP=no",
        "HashKnownHosts=no",
        "UpdateHostKeys=no",
        "ConnectTimeout=30",
    ] {
        command.args(["-o", option]);
    }
    let known_hosts = format!("UserKnownHostsFile={}", known_hosts.display());
    command.args(["-o", &known_hosts, &target.host, "true"]);
    command
        .env("LC_ALL", "C")
        .env_remove("SSH_AUTH_SOCK")
        .kill_on_drop(true);
    let output = command.output().await.context("openssh-client is needed")?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = if output.status.success() {
        Said::Accepted
    } else if words.contains("REVOKED HOST KEY") {
        Said::Revoked
    } else if words.contains("IDENTIFICATION HAS CHANGED") {
        Said::Changed
    } else if words.contains("host key is known for") {
        Said::Unknown
    } else {
        bail!("ssh failed otherwise: {words}");
    };
    Ok((said, words))
}

fn judge(error: &HostError) -> Result<Said> {
    let message = error.message.as_str();
    if message.contains("No such file") {
        ensure!(error.stage == Some(Stage::SshMaterial) && error.class == ErrorClass::Transient);
        return Ok(Said::NoFile);
    }
    ensure!(
        error.stage == Some(Stage::SshHandshake)
            && error.class == ErrorClass::Permanent
            && error.reason == Some("SSHHandshakeFailed"),
        "{error:?}"
    );
    ensure!(message.contains("SHA256:"), "no fingerprint: {message}");
    Ok(if message.contains("@revoked") {
        Said::Revoked
    } else if message.contains("@cert-authority") {
        Said::OnlyCertAuthority
    } else if message.contains("has changed") {
        Said::Changed
    } else if message.contains("of another type") {
        Said::OtherType
    } else if message.contains("is not in") {
        Said::Unknown
    } else {
        bail!("what does that mean: {message}")
    })
}

/// What the words in braces stand for.
fn words(sshd: &Sshd) -> Result<HashMap<String, String>> {
    let mut words = HashMap::new();
    for (word, key) in [("ed", "ed25519"), ("ec", "ecdsa"), ("rsa", "rsa")] {
        words.insert(word.to_owned(), sshd.public(&format!("host_{key}"))?);
        let other = sshd.file(&format!("other_{key}"));
        make_key(&other, &["-t", key])?;
        words.insert(format!("{word}2"), super::sshd::public(&other)?);
    }
    let other = sshd.file("other_ec384");
    make_key(&other, &["-t", "ecdsa", "-b", "384"])?;
    words.insert("ec384".to_owned(), super::sshd::public(&other)?);
    words.insert("dss".to_owned(), DSS.to_owned());
    words.insert("long".to_owned(), "x".repeat(1100));
    for word in ["ed", "rsa"] {
        let base64 = words[word].split(' ').nth(1).context("base64")?.to_owned();
        words.insert(format!("{word}."), base64);
    }
    let padded = words["ec"].clone();
    ensure!(padded.ends_with('='), "{padded}");
    words.insert("ec-".to_owned(), padded.trim_end_matches('=').to_owned());
    Ok(words)
}

fn filled_in(
    file: &str,
    words: &HashMap<String, String>,
    host: &str,
    port: u16,
) -> Result<Vec<u8>> {
    let name = if port == 22 {
        host.to_owned()
    } else {
        format!("[{host}]:{port}")
    };
    let mut text = file
        .replace("{H}", &name)
        .replace("{A}", host)
        .replace("{P}", &port.to_string());
    for (word, meaning) in words {
        text = text.replace(&format!("{{{word}}}"), meaning);
    }
    while let Some((before, rest)) = text.clone().split_once("{hash:") {
        let (name, after) = rest.split_once('}').context("}")?;
        text = format!("{before}{}{after}", hash(name, &words["ed"])?);
    }
    ensure!(!text.contains(['{', '}']), "{text}");
    let parts: Vec<&[u8]> = text.split('§').map(str::as_bytes).collect();
    Ok(parts.join(&b'\xe9'))
}

/// The hash of a name, as OpenSSH makes it.
fn hash(name: &str, key: &str) -> Result<String> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("known_hosts");
    fs::write(&file, format!("{name} {key}\n"))?;
    run(Command::new("ssh-keygen").args(["-H", "-f"]).arg(&file))?;
    let hashed = fs::read_to_string(file)?;
    Ok(hashed.split(' ').next().context("a hash")?.to_owned())
}

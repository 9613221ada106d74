//! The actors from outside, and the commands that ask a running operator.

use crate::lab::{
    Scene,
    proxy::proxy,
    squid::{self, Squid},
};
use anyhow::{Context as _, ensure};
use crds::Phase;
use reqwest::Method;
use serde_json::{Value, json};
use std::{fs, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

/// What a command did.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs a command of the program, with these variables and no others.
async fn cli(env: &[(&str, &str)], words: &[&str]) -> anyhow::Result<Ended> {
    let ended = Command::new(env!("CARGO_BIN_EXE_proxy-operator"))
        .args(words)
        .env_clear()
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    Ok(Ended {
        code: ended.status.code(),
        out: String::from_utf8(ended.stdout)?,
        err: String::from_utf8(ended.stderr)?,
    })
}

/// The same, which has to end with this code; what it printed.
async fn says(code: i32, env: &[(&str, &str)], words: &[&str]) -> anyhow::Result<String> {
    let ended = cli(env, words).await?;
    ensure!(ended.code == Some(code), "{words:?}: {ended:?}");
    // A refusal is one line, and a success none.
    let lines = ended.err.lines().count();
    ensure!(
        lines <= 1 && (code == 0) == (lines == 0),
        "{words:?}: {ended:?}"
    );
    Ok(if code == 0 { ended.out } else { ended.err })
}

/// The actors are seen as a tree, a killed one with its new epoch, count and reason; no lease is lost by it.
pub async fn actors_are_seen_and_killed(scene: Scene) -> anyhow::Result<()> {
    let operator = scene
        .operator()
        .env("PROXY_OPERATOR_ADMIN_ADDR", "127.0.0.1:0")
        .env("PROXY_OPERATOR_ENABLE_CHAOS", "true")
        .start()
        .await?;
    let squid = Squid::start(squid::Options::default()).await?;
    let a = scene.apply(proxy("a").through(&squid)).await?;
    a.becomes(Phase::Ready).await?;
    let lease = operator.lease(json!({"ttlSeconds": 600})).await?;
    let id = lease["leaseID"].as_str().context("an id")?;
    let admin = operator.admin()?.to_string();
    let env = [("PROXY_OPERATOR_ADMIN_ADDR", &*admin)];

    let tree = says(0, &env, &["actors"]).await?;
    let of_a = format!("proxy/{}/a", scene.namespace());
    for line in [
        "\n├── leader ",
        "\n│   ├── leases ",
        "\n├── api ",
        &format!("└── {of_a} "),
    ] {
        ensure!(tree.contains(line), "no {line:?} in\n{tree}");
    }
    ensure!(!tree.contains('\x1b'), "colours in a pipe: {tree:?}");

    let told = says(0, &env, &["actors", "kill", "leases"]).await?;
    ensure!(
        told.starts_with("leases killed, and back after ") && told.contains("restarts 1"),
        "{told}"
    );
    let told = says(0, &env, &["actors", "panic", &of_a]).await?;
    ensure!(
        told.contains(" panicked, and back") && told.contains("asked to panic"),
        "{told}"
    );
    let told = says(0, &env, &["actors", "stop", "api", "--output", "json"]).await?;
    let back: Value = serde_json::from_str(&told)?;
    ensure!(
        back["lastEnd"]["reason"] == "killed" && back["restarts"] == 1,
        "{back}"
    );
    let (status, kept) = operator.get(&format!("/v1/leases/{id}")).await?;
    ensure!(status == 200, "the lease was lost: {status} {kept}");

    let refusal = says(1, &env, &["actors", "kill", "nobody"]).await?;
    ensure!(refusal.contains("unknown_actor"), "{refusal}");
    let refusal = says(1, &env, &["actors", "chaos", "show"]).await?;
    ensure!(refusal.contains("no_run"), "{refusal}");
    let words = [
        "actors",
        "chaos",
        "start",
        "--match",
        "leases",
        "--every",
        "10ms",
        "--duration",
        "1h",
    ];
    let started = says(0, &env, &[&words[..], &["--seed", "42"]].concat()).await?;
    ensure!(
        started.contains("match leases") && started.contains("seed 42"),
        "{started}"
    );
    says(1, &env, &words).await?;
    watched(&admin).await?;
    let ended = says(0, &env, &["actors", "chaos", "stop", "-o", "json"]).await?;
    let ended: Value = serde_json::from_str(&ended)?;
    ensure!(
        ended["running"] == false && ended["killsByKind"]["leases"].as_u64() > Some(0),
        "{ended}"
    );
    let (status, kept) = operator.get(&format!("/v1/leases/{id}")).await?;
    ensure!(status == 200, "the lease was lost: {status} {kept}");
    Ok(())
}

/// `--watch` in a pipe prints the tree again and again, and ends when nobody reads.
async fn watched(admin: &str) -> anyhow::Result<()> {
    let mut watch = Command::new(env!("CARGO_BIN_EXE_proxy-operator"))
        .args(["actors", "--watch=100ms"])
        .env_clear()
        .env("PROXY_OPERATOR_ADMIN_ADDR", admin)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = watch.stdout.take().context("a pipe")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut restarts = Vec::new();
    while restarts.len() < 3 {
        let line = lines.next_line().await?.context("another picture")?;
        if line.contains(" leases ") {
            restarts.extend(line.split_whitespace().nth(5).map(str::parse::<u32>));
        }
    }
    drop(lines);
    let ended = watch.wait().await?;
    ensure!(ended.success(), "{ended}");
    let restarts: Vec<_> = restarts.into_iter().collect::<Result<_, _>>()?;
    ensure!(
        restarts.is_sorted() && restarts[0] < restarts[2],
        "{restarts:?}"
    );
    Ok(())
}

/// With a token everything asks for it; without chaos nothing can be ended.
pub async fn the_admin_server_asks_for_its_token(scene: Scene) -> anyhow::Result<()> {
    let file = scene.path("admin-token");
    fs::write(&file, "s3cret\n")?;
    let file = file.to_str().context("a path")?;
    let operator = scene
        .operator()
        .env("PROXY_OPERATOR_ADMIN_ADDR", "0.0.0.0:0")
        .env("ADMIN_TOKEN_FILE", file)
        .start()
        .await?;
    let admin = format!(":{}", operator.admin()?.port());
    let address = ("PROXY_OPERATOR_ADMIN_ADDR", &*admin);
    for (env, code, word) in [
        (&[address][..], 2, "ADMIN_TOKEN"),
        (&[address, ("ADMIN_TOKEN", "wrong")], 2, "unauthorized"),
        (&[address, ("ADMIN_TOKEN", "s3cret")], 0, "leases"),
        (&[address, ("ADMIN_TOKEN_FILE", file)], 0, "leases"),
    ] {
        let said = says(code, env, &["actors", "list"]).await?;
        ensure!(said.contains(word), "{env:?}: {said}");
    }
    let env = [address, ("ADMIN_TOKEN", "s3cret")];
    for words in [
        &["actors", "kill", "leases"][..],
        &["actors", "chaos", "start"],
        &["actors", "chaos", "show"],
    ] {
        let refusal = says(1, &env, words).await?;
        ensure!(refusal.contains("--enable-chaos"), "{words:?}: {refusal}");
    }
    let tree = says(0, &env, &["actors", "-o", "json"]).await?;
    let tree: Value = serde_json::from_str(&tree)?;
    let actors = tree["actors"].as_array().context("actors")?;
    ensure!(actors.iter().all(|actor| actor["restarts"] == 0), "{tree}");
    ensure!(
        !actors.iter().any(|actor| actor["kind"] == "monkey"),
        "{tree}"
    );
    Ok(())
}

/// A crawler's whole day, from the terminal.
pub async fn leases_from_the_terminal(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let operator = scene
        .operator()
        .env("DISCOVERY_TOKEN", "s3cret")
        .start()
        .await?;
    let a = scene
        .apply(
            proxy("a")
                .through(&squid)
                .with(json!({"attributes": {"geo": "de"}})),
        )
        .await?;
    a.becomes(Phase::Ready).await?;
    operator.shows_as("s3cret", &[&a]).await?;
    let api = operator.api.to_string();
    let env = [
        ("PROXY_OPERATOR_API_URL", &*api),
        ("DISCOVERY_TOKEN", "s3cret"),
    ];

    let refusal = says(2, &env[..1], &["leases"]).await?;
    ensure!(refusal.contains("DISCOVERY_TOKEN"), "{refusal}");
    let list = says(0, &env, &["leases"]).await?;
    ensure!(
        list.contains(&a.id()) && list.contains("0/") && list.contains("geo=de"),
        "{list}"
    );
    let acquire = [
        "leases",
        "acquire",
        "--selector",
        "geo=de",
        "--ttl",
        "2m",
        "--target",
        "Shop.Example",
    ];
    let lease = says(0, &env, &[&acquire[..], &["-o", "json"]].concat()).await?;
    let lease: Value = serde_json::from_str(&lease)?;
    let id = lease["leaseID"].as_str().context("an id")?;
    ensure!(lease["ttlSeconds"] == 120, "{lease}");
    let list = says(
        0,
        &env,
        &["leases", "list", "--attr", "geo=de", "--healthy"],
    )
    .await?;
    ensure!(list.contains(" 1/"), "{list}");
    let list = says(0, &env, &["leases", "list", "--attr", "geo=fr"]).await?;
    ensure!(list.lines().count() == 1, "{list}");
    let shown = says(0, &env, &["leases", "get", id]).await?;
    ensure!(shown.contains(id) && shown.contains(&a.id()), "{shown}");
    let renewed = says(0, &env, &["leases", "renew", id, "--ttl", "10m"]).await?;
    ensure!(renewed.contains("600 s"), "{renewed}");
    says(0, &env, &["leases", "report", id, "rate_limited"]).await?;
    let refusal = says(1, &env, &acquire).await?;
    ensure!(refusal.contains("no_match"), "{refusal}");
    says(0, &env, &["leases", "release", id]).await?;
    let refusal = says(1, &env, &["leases", "renew", id]).await?;
    ensure!(refusal.contains("unknown_lease"), "{refusal}");
    let refusal = says(2, &env, &["leases", "acquire", "--ttl", "2h"]).await?;
    ensure!(refusal.contains("invalid_ttl"), "{refusal}");
    let refusal = says(2, &[("PROXY_OPERATOR_API_URL", "127.0.0.1:1")], &["leases"]).await?;
    ensure!(
        refusal.contains("no answer from http://127.0.0.1:1"),
        "{refusal}"
    );
    Ok(())
}

/// The table of what a page sees through each proxy, good and bad ones.
pub async fn egress_ips_are_told(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let operator = scene.operator().start().await?;
    let a = scene
        .apply(
            proxy("a")
                .through(&squid)
                .with(json!({"attributes": {"geo": "de"}})),
        )
        .await?;
    let managed = scene.apply(proxy("m").managed_by("kubernetes")).await?;
    a.becomes(Phase::Ready).await?;
    managed.becomes(Phase::Ready).await?;
    let api = operator.api.to_string();
    let echo = scene.lab().url("/ip");
    let ca = scene.lab().judge_ca.to_str().context("a path")?.to_owned();
    let env = [
        ("PROXY_OPERATOR_API_URL", &*api),
        ("PROXY_OPERATOR_ECHO_URL", &*echo),
        ("PROXY_OPERATOR_CA_FILE", &*ca),
    ];
    let table = says(0, &env, &["egress-ips"]).await?;
    let pod = managed.pod().await?;
    let pod_ip = pod
        .status
        .and_then(|status| status.pod_ip)
        .context("an IP")?;
    let line = |id: &str| table.lines().find(|line| line.starts_with(id));
    let of_pod = line(&managed.id()).context(table.clone())?;
    ensure!(
        of_pod.matches(&pod_ip).count() == 2,
        "endpoint and address: {table}"
    );
    let of_squid = line(&a.id()).context(table.clone())?;
    ensure!(of_squid.contains("geo=de"), "{table}");
    ensure!(table.ends_with("2 of 2 proxies egress\n"), "{table}");

    let down = scene.apply(proxy("down").at("127.0.0.1", 1)).await?;
    down.becomes(Phase::Unhealthy).await?;
    operator.shows(&[&a, &down, &managed]).await?;
    let ended = cli(&env, &["egress-ips", "-o", "json"]).await?;
    let told: Value = serde_json::from_str(&ended.out)?;
    ensure!(
        ended.code == Some(1) && told["failed"] == 1 && told["count"] == 3,
        "{ended:?}"
    );
    let bad = &told["proxies"][1];
    let why = bad["error"].as_str().context("an error")?;
    ensure!(
        bad["proxy"] == down.id() && why.contains("dialling the proxy"),
        "{bad}"
    );

    for (words, word) in [
        (&["egress-ips", "--echo-url", "ftp://a"][..], "--echo-url"),
        (&["egress-ips", "--ca-file", "/nowhere"], "--ca-file"),
    ] {
        let refusal = says(2, &env, words).await?;
        ensure!(refusal.contains(word), "{refusal}");
    }
    let refusal = says(2, &env[..1], &["egress-ips"]).await?;
    ensure!(refusal.contains("--echo-url"), "{refusal}");
    let (status, _) = operator.ask(Method::GET, "/v1/proxies", None).await?;
    ensure!(status == 200, "{status}");
    Ok(())
}

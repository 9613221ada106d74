//! The program as a shell sees it: arguments and environment in, one line and an exit code out.
//!
//! Every refusal is tried with a listener in the API server's place, which must see nobody: what is
//! wrong with flags and files shows before anything is touched.

mod place;

use anyhow::{Context, Result, ensure};
use place::{Place, kubeconfig, output};
use std::{fs, net::TcpListener, path::Path, process::Stdio};

/// A scenario: what it shows, and the test of it.
type Scenario = (&'static str, fn() -> Result<()>);

/// All that needs no cluster.
pub const SCENARIOS: &[Scenario] = &[
    (
        "cli::help_and_version_go_to_stdout",
        help_and_version_go_to_stdout,
    ),
    (
        "cli::crds_prints_the_shipped_files",
        crds_prints_the_shipped_files,
    ),
    (
        "cli::check_config_sums_up_a_good_file",
        check_config_sums_up_a_good_file,
    ),
    ("cli::a_bad_flag_is_named", a_bad_flag_is_named),
    (
        "cli::a_bad_twin_in_the_environment_is_named",
        a_bad_twin_in_the_environment_is_named,
    ),
    (
        "cli::an_election_needs_an_address_and_a_namespace",
        an_election_needs_an_address_and_a_namespace,
    ),
    ("cli::bad_traces_are_named", bad_traces_are_named),
    (
        "cli::a_bad_providers_file_is_named",
        a_bad_providers_file_is_named,
    ),
    (
        "cli::a_token_that_is_none_is_refused",
        a_token_that_is_none_is_refused,
    ),
    (
        "cli::a_ca_file_that_holds_none_is_named",
        a_ca_file_that_holds_none_is_named,
    ),
    (
        "cli::an_address_in_use_is_named",
        an_address_in_use_is_named,
    ),
    ("cli::no_cluster_ends_the_start", no_cluster_ends_the_start),
    ("cli::a_closed_pipe_is_no_crash", a_closed_pipe_is_no_crash),
];

fn help_and_version_go_to_stdout() -> Result<()> {
    let place = Place::new()?;
    for words in [&["--help"][..], &["-h"], &["run", "--help"]] {
        let ended = place.operator(words).end()?;
        ensure!(
            ended.succeeded() && ended.err.is_empty(),
            "{words:?}: {ended:?}"
        );
        for part in [
            "--providers-config",
            "PROXY_OPERATOR_LOG_LEVEL",
            "check-config",
            "Leases:",
        ] {
            ensure!(
                ended.out.contains(part),
                "{words:?} does not show {part}: {ended:?}"
            );
        }
    }
    let ended = place.operator(&["--version"]).end()?;
    let expected = format!("proxy-operator {} (commit ", env!("CARGO_PKG_VERSION"));
    ensure!(
        ended.succeeded() && ended.out.starts_with(&expected),
        "{ended:?}"
    );
    Ok(())
}

fn crds_prints_the_shipped_files() -> Result<()> {
    let ended = Place::new()?.operator(&["crds"]).end()?;
    ensure!(ended.succeeded() && ended.err.is_empty(), "{ended:?}");
    let shipped = ["proxies", "providerhealths"].map(|plural| {
        let file = format!("crds/{plural}.crawl.example.com.yaml");
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file))?;
        // The files open with a comment that says how they are made.
        let (_, yaml) = text.split_once('\n').context("has lines")?;
        anyhow::Ok(yaml.to_owned())
    });
    let [proxies, healths] = shipped;
    ensure!(
        ended.out == format!("{}---\n{}", proxies?, healths?),
        "crds prints something else than the files"
    );
    Ok(())
}

fn check_config_sums_up_a_good_file() -> Result<()> {
    let place = Place::new()?;
    let file = place.file("good.yaml", GOOD)?;
    let ended = place.operator(&["check-config", &file]).end()?;
    ensure!(ended.succeeded() && ended.err.is_empty(), "{ended:?}");
    let lines: Vec<_> = ended.out.lines().collect();
    ensure!(
        matches!(lines[..], [first, second] if first.starts_with("home: kubernetes, image lab.local/squid:1")
            && second.starts_with("other: kubernetes")),
        "{ended:?}"
    );
    Ok(())
}

const GOOD: &str = "
providers:
  - {name: home, type: kubernetes, kubernetes: {image: 'lab.local/squid:1'}}
  - {name: other, type: kubernetes}
";

/// A flag, a value that it cannot have, and a word of what the refusal says.
const BAD_FLAGS: [(&str, &str, &str); 22] = [
    ("proxy-namespace", "Two Words", "DNS label"),
    ("proxy-namespace", "", "DNS label"),
    ("installation-id", "-", "label value"),
    ("discovery-addr", "8090", "no address"),
    ("discovery-addr", "nowhere.example:80", "no address"),
    ("discovery-addr", ":8081", "--health-probe-bind-address"),
    ("metrics-bind-address", ":65536", "no address"),
    ("health-probe-bind-address", "0", "no address"),
    ("leader-elect", "maybe", "--leader-elect"),
    ("leader-election-namespace", "A B", "DNS label"),
    ("advertise-addr", "0.0.0.0:80", "host and a port"),
    ("max-lease-ttl", "0", "above zero"),
    ("max-lease-ttl", "1ms", "at least 1s"),
    ("lease-cooldown", "-15m", "above zero"),
    ("lease-cooldown", "15", "length of time"),
    ("ban-cooldown", "1000000y", "at most 365d"),
    ("health-workers", "0", "1..=65535"),
    ("health-workers", "1.5", "invalid"),
    ("log-format", "xml", "json, text"),
    ("log-level", "loud", "not a level"),
    ("log-level", "actors=loud", "module=level"),
    ("providers-config", "", "--providers-config"),
];

fn a_bad_flag_is_named() -> Result<()> {
    let place = Place::new()?;
    let good = place.file("good.yaml", GOOD)?;
    for (flag, value, why) in BAD_FLAGS {
        let file = format!("--providers-config={good}");
        let mut words = vec![format!("--{flag}={value}")];
        if flag != "providers-config" {
            words.push(file);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        place
            .operator(&words)
            .refuses(&[&format!("--{flag}"), why])?;
    }
    place.operator(&[]).refuses(&["--providers-config"])?;
    place
        .operator(&["--providers-config", &good, "--nonsense"])
        .refuses(&["--nonsense"])?;
    place.operator(&["strat"]).refuses(&["strat"])?;
    place.operator(&["check-config"]).refuses(&["<FILE>"])?;
    Ok(())
}

fn a_bad_twin_in_the_environment_is_named() -> Result<()> {
    let place = Place::new()?;
    let good = place.file("good.yaml", GOOD)?;
    for (flag, value, why) in BAD_FLAGS {
        let twin = |flag: &str| format!("PROXY_OPERATOR_{}", flag.to_uppercase().replace('-', "_"));
        let operator = place
            .operator(&[])
            .env(&twin("providers-config"), &good)
            .env(&twin(flag), value);
        operator.refuses(&[&format!("--{flag}"), why])?;
    }
    Ok(())
}

fn an_election_needs_an_address_and_a_namespace() -> Result<()> {
    let place = Place::new()?;
    let file = format!("--providers-config={}", place.file("good.yaml", GOOD)?);
    let nowhere = [
        "--discovery-addr",
        "--metrics-bind-address",
        "--health-probe-bind-address",
    ]
    .map(|flag| format!("{flag}=127.0.0.1:0"));
    let mut words = vec!["--leader-elect", &file];
    words.extend(nowhere.iter().map(String::as_str));
    place
        .operator(&words)
        .refuses(&["--leader-elect", "--advertise-addr", "POD_IP"])?;
    place.operator(&words).env("POD_IP", "here").refuses(&[
        "POD_IP",
        "here",
        "--advertise-addr",
    ])?;
    place
        .operator(&words)
        .env("POD_IP", "127.0.0.1")
        .refuses(&["--leader-elect", "--leader-election-namespace"])?;
    Ok(())
}

fn bad_traces_are_named() -> Result<()> {
    let place = Place::new()?;
    let good = place.file("good.yaml", GOOD)?;
    for (variable, value, why) in [
        ("OTEL_TRACES_EXPORTER", "zipkin", "otlp, console or none"),
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "http/json",
            "http/protobuf or grpc",
        ),
        (
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "udp",
            "http/protobuf or grpc",
        ),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "http://no host",
            "invalid",
        ),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::", "invalid"),
    ] {
        for protocol in ["http/protobuf", "grpc"] {
            let operator = place
                .operator(&["--providers-config", &good])
                .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
                .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
                .env(variable, value);
            operator.refuses(&[variable, why])?;
        }
    }
    Ok(())
}

fn a_bad_providers_file_is_named() -> Result<()> {
    let second = |entry: &str| format!("providers:\n- {{name: a, type: kubernetes}}\n- {entry}\n");
    let place = Place::new()?;
    for (content, parts) in [
        (String::new(), &["is empty"][..]),
        ("providers: []".into(), &["providers: ", "at least one"]),
        ("- name: a".into(), &["'providers'"]),
        ("providers: [".into(), &["line 2"]),
        (format!("{GOOD}---\n{GOOD}"), &["more than one document"]),
        (
            format!("{GOOD}\nproviders: []\n"),
            &["duplicate", "providers"],
        ),
        (format!("{GOOD}\nproxies: 1\n"), &["proxies: unknown key"]),
        (
            second("{name: A_b, type: kubernetes}"),
            &["providers[1] (A_b): name: ", "DNS label"],
        ),
        (
            second("{name: a, type: kubernetes}"),
            &["providers[1] (a): name: ", "same name"],
        ),
        (
            second("{type: kubernetes}"),
            &["providers[1]: name: is missing"],
        ),
        (second("{name: b}"), &["providers[1] (b): type: is missing"]),
        (
            second("{name: b, type: azure}"),
            &[
                "providers[1] (b): type: ",
                "'azure'",
                "known: gcp, kubernetes, kvm",
            ],
        ),
        (
            second("{name: b, type: kubernetes, kvm: {}}"),
            &["providers[1] (b): kvm: unknown key"],
        ),
        (
            second("{name: b, type: kubernetes, colour: red}"),
            &["providers[1] (b): colour: unknown key"],
        ),
        (
            second("{name: b, type: kubernetes, kubernetes: {img: x}}"),
            &["providers[1] (b): kubernetes.img: "],
        ),
        (
            second("{name: b, type: kubernetes, kubernetes: {image: ''}}"),
            &["providers[1] (b): kubernetes.image: "],
        ),
        (
            second("{name: b, type: kubernetes, kubernetes: {connectPorts: [0]}}"),
            &["providers[1] (b): kubernetes.connectPorts[0]: "],
        ),
        (
            second("{name: b, name: c, type: kubernetes}"),
            &["providers[1]", "duplicate", "name"],
        ),
        ("#".repeat(10 << 20), &["larger than"]),
    ] {
        let file = place.file("bad.yaml", &content)?;
        let mut parts = parts.to_vec();
        parts.push("bad.yaml");
        place
            .operator(&["--providers-config", &file])
            .refuses(&parts)?;
        place.operator(&["check-config", &file]).refuses(&parts)?;
    }
    let folder = place.path("").display().to_string();
    let missing = place.path("missing.yaml").display().to_string();
    for (path, why) in [(&folder, "directory"), (&missing, "No such file")] {
        place
            .operator(&["run", "--providers-config", path])
            .refuses(&[path, why])?;
        place
            .operator(&["check-config", path])
            .refuses(&[path, why])?;
    }
    fs::write(place.path("latin1.yaml"), b"# caf\xe9")?;
    let latin1 = place.path("latin1.yaml").display().to_string();
    place
        .operator(&["check-config", &latin1])
        .refuses(&["latin1.yaml", "UTF-8"])
}

fn a_token_that_is_none_is_refused() -> Result<()> {
    let place = Place::new()?;
    let good = place.file("good.yaml", GOOD)?;
    let operator = || place.operator(&["--providers-config", &good]);
    operator()
        .env("DISCOVERY_TOKEN", "")
        .refuses(&["DISCOVERY_TOKEN", "empty"])?;
    operator()
        .env("DISCOVERY_TOKEN", "sentinel é")
        .refuses(&["DISCOVERY_TOKEN", "ASCII"])?;
    operator()
        .env("DISCOVERY_TOKEN", "sentinel")
        .env("DISCOVERY_TOKEN_FILE", &good)
        .refuses(&["DISCOVERY_TOKEN", "DISCOVERY_TOKEN_FILE"])
}

fn a_ca_file_that_holds_none_is_named() -> Result<()> {
    let place = Place::new()?;
    let good = place.file("good.yaml", GOOD)?;
    let missing = place.path("ca.pem").display().to_string();
    for path in [&missing, &place.file("not.pem", "no certificate")?] {
        let flag = format!("--probe-ca-file={path}");
        place
            .operator(&["--providers-config", &good, &flag])
            .refuses(&[path])?;
    }
    Ok(())
}

fn an_address_in_use_is_named() -> Result<()> {
    let place = Place::new()?;
    let good = place.file("good.yaml", GOOD)?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    for flag in ADDRESSES {
        let mut words = vec![format!("--providers-config={good}")];
        words.extend(ADDRESSES.iter().map(|other| {
            let address = if *other == flag {
                &address
            } else {
                "127.0.0.1:0"
            };
            format!("--{other}={address}")
        }));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        place.operator(&words).refuses(&[&address])?;
    }
    Ok(())
}

const ADDRESSES: [&str; 3] = [
    "discovery-addr",
    "metrics-bind-address",
    "health-probe-bind-address",
];

/// A kubeconfig that leads nowhere, none at all, and a server that takes the call and never answers.
fn no_cluster_ends_the_start() -> Result<()> {
    let place = Place::new()?;
    let file = format!("--providers-config={}", place.file("good.yaml", GOOD)?);
    let mut words = vec![file];
    words.extend(ADDRESSES.iter().map(|flag| format!("--{flag}=127.0.0.1:0")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();

    let closed = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let nowhere = place.file("nowhere.kubeconfig", &kubeconfig(&closed))?;
    place
        .operator(&words)
        .env("KUBECONFIG", &nowhere)
        .refuses(&[&closed])?;

    let missing = place.path("missing.kubeconfig").display().to_string();
    place
        .operator(&words)
        .env("KUBECONFIG", &missing)
        .refuses(&["missing.kubeconfig"])?;

    let silent = place.server.local_addr()?.to_string();
    place.operator(&words).says_one_line(&[&silent])
}

fn a_closed_pipe_is_no_crash() -> Result<()> {
    let place = Place::new()?;
    let mut operator = place.operator(&["crds"]);
    operator
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = operator.command.spawn().context("starts")?;
    drop(child.stdout.take());
    let ended = output(child)?;
    ensure!(ended.succeeded() && ended.err.is_empty(), "{ended:?}");

    let mut operator = place.operator(&["--nonsense"]);
    operator
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = operator.command.spawn().context("starts")?;
    drop(child.stderr.take());
    let ended = output(child)?;
    ensure!(ended.status.code() == Some(2), "{ended:?}");
    Ok(())
}

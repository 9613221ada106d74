//! Flags and variables, each wrong in itself or beside the others.

use super::{GOOD, place::Place};
use anyhow::Result;

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

pub fn a_bad_flag_is_named() -> Result<()> {
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

pub fn a_bad_twin_in_the_environment_is_named() -> Result<()> {
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

pub fn an_election_needs_an_address_and_a_namespace() -> Result<()> {
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

pub fn bad_traces_are_named() -> Result<()> {
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

pub fn a_token_that_is_none_is_refused() -> Result<()> {
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

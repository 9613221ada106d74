use super::*;
use clap::error::ErrorKind;

fn parsed(words: &[&str]) -> Result<Command, clap::Error> {
    parse(words.iter().map(OsString::from))
}

/// What the program says when it refuses these arguments.
fn refused(words: &[&str]) -> String {
    match parsed(words) {
        Ok(command) => panic!("{words:?} is taken as {command:?}"),
        Err(e) => one_line(&usage_error(&e)),
    }
}

fn help() -> String {
    let asked = parsed(&["proxy-operator", "--help"]).expect_err("shows help");
    assert_eq!(asked.kind(), ErrorKind::DisplayHelp);
    asked.render().to_string()
}

#[test]
fn clap_finds_no_fault_with_the_commands() {
    command().debug_assert();
}

#[test]
fn run_is_what_happens_without_a_command() {
    for words in [
        &["proxy-operator", "--providers-config", "p.yaml"][..],
        &["proxy-operator", "run", "--providers-config=p.yaml"],
    ] {
        match parsed(words) {
            Ok(Command::Run(_)) => {}
            other => panic!("{words:?}: {other:?}"),
        }
    }
}

#[test]
fn every_flag_has_its_twin_in_the_environment_and_its_group_in_the_help() {
    let command = command();
    let run = command.find_subcommand("run").expect("run");
    let help = help();
    for flag in run.get_arguments() {
        let name = flag.get_long().expect("flags are long");
        let twin = format!("PROXY_OPERATOR_{}", name.to_uppercase().replace('-', "_"));
        assert_eq!(flag.get_env(), Some(twin.as_ref()), "{name}");
        assert!(flag.get_help_heading().is_some(), "{name} has no group");
        assert!(
            help.contains(&format!("--{name} ")),
            "{name} is not in the help"
        );
    }
}

#[test]
fn the_help_names_every_command_and_group() {
    let help = help();
    for command in command().get_subcommands() {
        assert!(help.contains(command.get_name()), "{}", command.get_name());
    }
    for group in [
        "Fleet:",
        "Addresses:",
        "Leases:",
        "Health probes:",
        "Logs:",
        "Other commands:",
    ] {
        assert!(help.contains(group), "{group}\n{help}");
    }
}

#[test]
fn the_version_names_the_commit() {
    for words in [
        &["proxy-operator", "--version"][..],
        &["proxy-operator", "run", "-V"],
    ] {
        let asked = parsed(words).expect_err("shows the version");
        assert_eq!(asked.kind(), ErrorKind::DisplayVersion);
        assert!(asked.to_string().contains(telemetry::VERSION_AND_COMMIT));
    }
}

#[test]
fn a_refusal_is_one_line_that_names_the_flag() {
    let with = |flag: &'static str, value: &'static str| {
        refused(&["proxy-operator", "--providers-config", "p", flag, value])
    };
    for (flag, value, why) in [
        ("--proxy-namespace", "Not/Valid", "DNS label"),
        ("--installation-id", "", "label value"),
        ("--discovery-addr", "8090", "no address"),
        ("--metrics-bind-address", ":99999", "no address"),
        ("--health-probe-bind-address", "host:", "no address"),
        ("--max-lease-ttl", "0s", "above zero"),
        ("--max-lease-ttl", "-1h", "above zero"),
        ("--max-lease-ttl", "10ms", "at least 1s"),
        ("--lease-cooldown", "soon", "length of time"),
        ("--ban-cooldown", "9999d", "at most 365d"),
        ("--health-workers", "0", "1..=65535"),
        ("--health-workers", "-1", "1..=65535"),
        ("--health-workers", "many", "invalid"),
        ("--log-format", "xml", "json, text"),
        ("--log-level", "loud", "'loud' is not a level"),
        ("--log-level", "actors=loud", "module=level"),
    ] {
        let line = with(flag, value);
        assert!(
            line.contains(flag) && line.contains(why),
            "{flag} {value}: {line}"
        );
    }
    for (words, why) in [
        (&["proxy-operator"][..], "--providers-config"),
        (&["proxy-operator", "run"], "--providers-config"),
        (&["proxy-operator", "--nonsense"], "--nonsense"),
        (&["proxy-operator", "rnu"], "rnu"),
        (&["proxy-operator", "check-config"], "<FILE>"),
        (&["proxy-operator", "crds", "more"], "more"),
        (
            &["proxy-operator", "--providers-config"],
            "--providers-config",
        ),
        (
            &[
                "proxy-operator",
                "--providers-config=a",
                "--providers-config=b",
            ],
            "--providers-config",
        ),
    ] {
        let line = refused(words);
        assert!(line.contains(why), "{words:?}: {line}");
        assert!(!line.contains("Usage") && !line.contains('\n'), "{line}");
    }
}

#[test]
fn two_servers_on_one_address_are_refused() {
    let Ok(Command::Run(args)) = parsed(&[
        "proxy-operator",
        "--providers-config",
        "p",
        "--discovery-addr",
        "127.0.0.1:8081",
    ]) else {
        panic!("parses");
    };
    let refusal = RunOptions::try_from(*args)
        .expect_err("refused")
        .to_string();
    assert_eq!(
        refusal,
        "--discovery-addr and --health-probe-bind-address want the same address :8081"
    );
}

#[test]
fn an_ordered_stop_and_an_escalation_are_told_apart_by_their_exit_codes() {
    assert_eq!(Exit::Stopped.code(), 0);
    assert_eq!(Exit::Escalated.code(), 70);
}

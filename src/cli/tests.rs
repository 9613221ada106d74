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
        let whole = |word: &str| word == format!("--{name}");
        assert!(
            help.split_whitespace().any(whole),
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
        "Leader election:",
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

/// What becomes of these flags when they are looked at together.
fn taken_together(flags: &[&str]) -> Result<RunOptions, options::OptionsError> {
    let words = [&["proxy-operator", "--providers-config", "p"], flags].concat();
    match parsed(&words) {
        Ok(Command::Run(args)) => RunOptions::try_from(*args),
        other => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn checks_end_before_the_next_begin() {
    let (interval, timeout) = ("--provider-check-interval", "--provider-check-timeout");
    for (flags, expected) in [
        (&[][..], Some((60, 15))),
        (&[interval, "10s"], Some((10, 10))),
        (&[interval, "10s", timeout, "2s"], Some((10, 2))),
        (&[timeout, "60s"], Some((60, 60))),
        (&[interval, "0", timeout, "60s"], None),
    ] {
        let checks = taken_together(flags).expect("is taken").checks;
        let checks = checks.map(|pace| (pace.interval.as_secs(), pace.timeout.as_secs()));
        assert_eq!(checks, expected, "{flags:?}");
    }
    let refusal = taken_together(&[timeout, "61s"]).expect_err("is refused");
    let refusal = refusal.to_string();
    assert!(
        refusal.contains(timeout) && refusal.contains(interval),
        "{refusal}"
    );
    assert_eq!(
        taken_together(&["--gc-interval", "0"])
            .expect("is taken")
            .collection,
        None
    );
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
        ("--leader-election-namespace", "Not/Valid", "DNS label"),
        ("--advertise-addr", "10.0.0.7", "host and a port"),
        ("--max-lease-ttl", "0s", "above zero"),
        ("--max-lease-ttl", "-1h", "above zero"),
        ("--max-lease-ttl", "10ms", "at least 1s"),
        ("--lease-cooldown", "soon", "length of time"),
        ("--ban-cooldown", "9999d", "at most 365d"),
        ("--health-workers", "0", "1..=65535"),
        ("--health-workers", "-1", "1..=65535"),
        ("--health-workers", "many", "invalid"),
        ("--gc-interval", "10ms", "at least 1s, or 0 for off"),
        ("--gc-min-age", "-1m", "not be below zero"),
        (
            "--provider-check-interval",
            "9s",
            "at least 10s, or 0 for off",
        ),
        ("--provider-check-timeout", "0s", "above zero"),
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
fn an_admin_server_that_others_could_reach_is_refused() {
    for (flags, expected) in [
        (&["--admin-addr", "127.0.0.1:8082"][..], None),
        (&["--admin-addr", "[::1]:8082", "--enable-chaos"], None),
        (
            &["--admin-addr", ":8082"],
            Some("--admin-addr :8082 can be reached"),
        ),
        (&["--admin-addr", "10.0.0.1:8082"], Some("ADMIN_TOKEN")),
        (
            &["--enable-chaos"],
            Some("--enable-chaos needs --admin-addr"),
        ),
        (
            &["--admin-addr", "127.0.0.1:8081"],
            Some("want the same address"),
        ),
    ] {
        let words = [&["proxy-operator", "--providers-config", "p"], flags].concat();
        let Ok(Command::Run(args)) = parsed(&words) else {
            panic!("{flags:?} parses");
        };
        match (RunOptions::try_from(*args), expected) {
            (Ok(options), None) => assert!(options.admin.is_some(), "{flags:?}"),
            (Err(error), Some(why)) => assert!(error.to_string().contains(why), "{error}"),
            (outcome, _) => panic!("{flags:?}: {outcome:?}"),
        }
    }
}

#[test]
fn an_ordered_stop_and_an_escalation_are_told_apart_by_their_exit_codes() {
    assert_eq!(Exit::Stopped.code(), 0);
    assert_eq!(Exit::Escalated.code(), 70);
}

#[test]
fn the_commands_that_ask_teach_by_example() {
    for name in ["actors", "leases", "egress-ips"] {
        let asked = parsed(&["proxy-operator", name, "--help"]).expect_err("shows help");
        let help = asked.render().to_string();
        for part in ["Examples:\n  proxy-operator ", "Exit codes:\n  0 "] {
            assert!(help.contains(part), "{name}: no {part:?} in\n{help}");
        }
    }
}

#[test]
fn an_environment_variable_is_called_like_its_flag() {
    fn check(command: &clap::Command) {
        for flag in command.get_arguments() {
            let (Some(name), Some(env)) = (flag.get_long(), flag.get_env()) else {
                continue;
            };
            let twin = format!("PROXY_OPERATOR_{}", name.to_uppercase().replace('-', "_"));
            assert_eq!(env, twin.as_str(), "{} --{name}", command.get_name());
        }
        command.get_subcommands().for_each(check);
    }
    check(&command());
}

#[test]
fn every_shell_learns_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let Ok(Command::Completions(args)) = parsed(&["proxy-operator", "completions", shell])
        else {
            panic!("{shell} parses");
        };
        let script = String::from_utf8(args.script(command())).expect("text");
        for command in command().get_subcommands() {
            let name = command.get_name();
            assert!(script.contains(name), "{shell} does not know {name}");
        }
        assert!(script.contains("providers-config"), "{shell}");
    }
}

#[test]
fn an_interval_is_given_with_an_equals_sign_or_not_at_all() {
    for words in [
        &["actors", "--watch"][..],
        &["actors", "--watch=5s"],
        &["actors", "list", "--watch"],
    ] {
        let words = [&["proxy-operator"], words].concat();
        assert!(
            matches!(parsed(&words), Ok(Command::Actors(_))),
            "{words:?}"
        );
    }
    for words in [
        &["actors", "--watch=0s"][..],
        &["actors", "--admin-addr", "ftp://a"],
        &["actors", "kill"],
        &["leases", "acquire", "--selector", "geo"],
        &["leases", "report", "X", "fine"],
        &["leases", "acquire", "--ttl", "0s"],
        &["egress-ips"],
        &["completions", "tcsh"],
    ] {
        let words = [&["proxy-operator"], words].concat();
        let line = refused(&words);
        assert!(!line.contains('\n'), "{line}");
    }
}

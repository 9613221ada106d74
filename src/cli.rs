//! The command line: what the user asked for, checked before anything is touched.
//!
//! `proxy-operator [run]` starts the operator; the other commands help around it. Whatever is wrong
//! with flags, files or the cluster at start-up ends as one line on stderr and exit code 2.
//! Logs go to stderr too, so that stdout holds nothing but what a command prints.

pub mod options;
pub mod token;
pub mod values;

use crate::{config, telemetry, wiring};
use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};
use options::{RunArgs, RunOptions};
use std::{
    ffi::OsString,
    fmt::Display,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Set-up went wrong: a flag, a file, the cluster. Nothing was touched.
const EXIT_SETUP: u8 = 2;
/// The actor tree could not be kept alive (`EX_SOFTWARE`); a restart by the kubelet may mend it.
const EXIT_ESCALATED: u8 = 70;

/// How a run that had started ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// As asked for, by SIGTERM or SIGINT: exit code 0.
    Stopped,
    /// A root service kept failing, and everything was stopped in order: exit code 70.
    Escalated,
}

impl Exit {
    /// The exit code of the process.
    fn code(self) -> u8 {
        match self {
            Self::Stopped => 0,
            Self::Escalated => EXIT_ESCALATED,
        }
    }
}

/// Manages fleets of egress proxies on Kubernetes and leases them to crawlers
#[derive(Debug, Parser)]
#[command(name = "proxy-operator", version = telemetry::VERSION_AND_COMMIT, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the operator (the default)
    Run(Box<RunArgs>),
    /// Print the custom resource definitions as YAML, for `kubectl apply -f -`
    Crds,
    /// Check a providers file: exit code 0 and a line per provider, or 2 and what is wrong
    CheckConfig {
        /// The file to check
        file: PathBuf,
    },
}

/// The whole program, from its arguments to its exit code.
#[must_use]
pub fn main() -> ExitCode {
    // Clients of TLS panic without a provider, even those that only speak http. An error means that
    // one is installed already, which is as good.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    match parse(std::env::args_os()) {
        Ok(Command::Run(args)) => run(*args),
        Ok(Command::Crds) => print(&crds::yaml::yaml()),
        Ok(Command::CheckConfig { file }) => check_config(&file),
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print(&e.render().to_string())
        }
        Err(e) => refuse(usage_error(&e)),
    }
}

/// Arguments without a command are those of `run`, `--help` and `--version` included: the flags of
/// `run` are what somebody who asks for help wants to see.
fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    let mut arguments: Vec<_> = arguments.into_iter().collect();
    if arguments.is_empty() {
        arguments.push("proxy-operator".into());
    }
    let names_a_command = arguments
        .get(1)
        .is_some_and(|first| !first.as_encoded_bytes().starts_with(b"-"));
    if !names_a_command {
        arguments.insert(1, "run".into());
    }
    let matches = command().try_get_matches_from(arguments)?;
    <Cli as clap::FromArgMatches>::from_arg_matches(&matches).map(|cli| cli.command)
}

fn command() -> clap::Command {
    let command = Cli::command();
    let about = |command: &clap::Command| {
        command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    let others: Vec<_> = command
        .get_subcommands()
        .filter(|other| other.get_name() != "run")
        .map(|other| format!("  {:<14}{}", other.get_name(), about(other)))
        .collect();
    let (purpose, others) = (about(&command), others.join("\n"));
    command.mut_subcommand("run", |run| {
        run.display_name("proxy-operator")
            .override_usage("proxy-operator [run] --providers-config <FILE> [OPTIONS]\n       proxy-operator <COMMAND>")
            .before_help(purpose)
            .after_help(format!(
                "Other commands:\n{others}\n\n\
                 Exit codes:\n  0   stopped as asked\n  2   wrong flags, files or cluster; nothing was touched\n  \
                 70  the operator could not keep itself running"
            ))
    })
}

fn run(args: RunArgs) -> ExitCode {
    let (log_format, log_level) = (args.log_format, args.log_level.clone());
    let options = match RunOptions::try_from(args) {
        Ok(options) => options,
        Err(e) => return refuse(e),
    };
    let logs = match telemetry::init(log_format, &log_level) {
        Ok(logs) => logs,
        Err(e) => return refuse(e),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => return refuse(format_args!("cannot start the threads: {e}")),
    };
    let ended = runtime.block_on(wiring::run(options));
    // A call that hangs on a blocking thread must not hold the exit up.
    runtime.shutdown_background();
    // All lines are out before the one that says why the program ends.
    drop(logs);
    match ended {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(e) => refuse(telemetry::with_causes(e.as_ref())),
    }
}

fn check_config(file: &Path) -> ExitCode {
    match config::load(file) {
        Ok(config) => {
            let lines: Vec<_> = config.entries.iter().map(|e| format!("{e}\n")).collect();
            print(&lines.concat())
        }
        Err(e) => refuse(e),
    }
}

fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        // `proxy-operator crds | head -1` is no failure.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => refuse(format_args!("cannot write to stdout: {e}")),
    }
}

fn refuse(why: impl Display) -> ExitCode {
    let line = format!("proxy-operator: {}\n", one_line(&why.to_string()));
    // There is nobody left to tell when stderr is gone.
    io::stderr().write_all(line.as_bytes()).ok();
    ExitCode::from(EXIT_SETUP)
}

/// What clap has to say, without its usage and its hint at `--help`.
fn usage_error(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.trim_start_matches("error: ");
    let end = ["\n\nUsage:", "\n\nFor more information"]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min();
    text[..end.unwrap_or(text.len())].to_owned()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;

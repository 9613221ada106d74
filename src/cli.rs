//! The command line: what the user asked for, checked before anything is touched.
//!
//! `proxy-operator [run]` starts the operator; the other commands help around it. Whatever is wrong
//! with flags, files or the cluster at start-up ends as one line on stderr and exit code 2.
//! Logs go to stderr too, so that stdout holds nothing but what a command prints.

pub mod actors;
pub mod client;
pub mod completions;
pub mod egress_ips;
pub mod leases;
pub mod options;
pub mod screen;
pub mod table;
pub mod token;
pub mod values;
pub mod view;

use crate::{
    config,
    telemetry::{self, traces::Traces},
    wiring,
};
use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};
use options::{RunArgs, RunOptions};
use serde_json::Value;
use std::{
    ffi::OsString,
    fmt::Display,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// The answer is no.
const EXIT_NO: u8 = 1;
/// Set-up went wrong: a flag, a file, the cluster. Nothing was touched.
const EXIT_SETUP: u8 = 2;
/// The actor tree could not be kept alive (`EX_SOFTWARE`); a restart by the kubelet may mend it.
const EXIT_ESCALATED: u8 = 70;

/// Told a second time to stop, the operator ended at once and left undone what it was finishing.
pub(crate) const EXIT_HURRIED: u8 = 130;

/// Every exit code, and when it is.
pub const EXIT_CODES: [(u8, &str); 5] = [
    (0, "done; `run`: stopped as asked"),
    (
        EXIT_NO,
        "the answer is no: no such actor or lease, no proxy that matches, a proxy that does not egress",
    ),
    (
        EXIT_SETUP,
        "wrong flags, files or cluster, or no answer; nothing was touched",
    ),
    (
        EXIT_ESCALATED,
        "`run`: the operator could not keep itself running, and stopped in order",
    ),
    (
        EXIT_HURRIED,
        "`run`: told a second time to stop, it ended at once",
    ),
];

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
    /// Show the actors of a running operator, live if wanted; kill some
    Actors(actors::ActorsArgs),
    /// List proxies; acquire, renew, release and report on leases
    Leases(leases::LeasesArgs),
    /// Fetch a page through every proxy and show from where it was asked
    EgressIps(egress_ips::EgressIpsArgs),
    /// Print what a shell needs to complete these commands
    Completions(completions::CompletionsArgs),
}

/// Why a command has no success to show.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The answer is no; exit code 1.
    #[error("{0}")]
    No(String),
    /// The answer is no, and what was printed says so; exit code 1.
    #[error("see above")]
    Shown,
    /// It could not be asked; exit code 2.
    #[error("{0}")]
    Setup(String),
}

impl Failure {
    fn setup(error: impl std::error::Error + 'static) -> Self {
        Self::Setup(telemetry::with_causes(&error))
    }
}

/// How answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// Columns, for people.
    Table,
    /// JSON, for programs.
    Json,
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
        Ok(Command::Actors(args)) => ask(args.run()),
        Ok(Command::Leases(args)) => ask(args.run()),
        Ok(Command::EgressIps(args)) => ask(args.run()),
        Ok(Command::Completions(args)) => print(&String::from_utf8_lossy(&args.script(command()))),
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

/// The commands, with the flags of `run` shown for the whole program.
pub(crate) fn command() -> clap::Command {
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
                 70  the operator could not keep itself running\n  \
                 130 told a second time to stop: ended at once"
            ))
    })
}

fn run(args: RunArgs) -> ExitCode {
    let (log_format, log_level) = (args.log_format, args.log_level.clone());
    let options = match RunOptions::try_from(args) {
        Ok(options) => options,
        Err(e) => return refuse(e),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => return refuse(format_args!("cannot start the threads: {e}")),
    };
    let traces = {
        let _within = runtime.enter();
        match Traces::from_env() {
            Ok(traces) => traces,
            Err(e) => return refuse(e),
        }
    };
    let logs = match telemetry::init(log_format, &log_level, traces.as_ref()) {
        Ok(logs) => logs,
        Err(e) => return refuse(e),
    };
    let ended = runtime.block_on(wiring::run(options));
    if let Some(traces) = traces {
        traces.flush();
    }
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

/// Runs a command that asks a running operator.
fn ask(command: impl Future<Output = Result<(), Failure>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => return refuse(format_args!("cannot start: {e}")),
    };
    let ended = runtime.block_on(command);
    // A name lookup that hangs must not hold the exit up.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Shown) => ExitCode::from(EXIT_NO),
        Err(why @ Failure::No(_)) => {
            refuse(why);
            ExitCode::from(EXIT_NO)
        }
        Err(why @ Failure::Setup(_)) => refuse(why),
    }
}

fn print(text: &str) -> ExitCode {
    match write(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => refuse(e),
    }
}

/// Prints to stdout.
fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // `proxy-operator crds | head -1` is no failure.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Failure::Setup(format!("cannot write to stdout: {e}"))),
    }
}

/// Prints an answer as JSON.
fn emit(answer: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(answer).map_err(Failure::setup)?;
    text.push('\n');
    write(&text)
}

/// Prints an answer a line, again after each `interval`, until there is none or nobody reads.
async fn emit_again(
    interval: Duration,
    mut answer: impl AsyncFnMut() -> Result<Value, Failure>,
) -> Result<(), Failure> {
    loop {
        let line = format!("{}\n", answer().await?);
        let mut out = io::stdout().lock();
        match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(e) => return Err(Failure::Setup(format!("cannot write to stdout: {e}"))),
        }
        drop(out);
        tokio::time::sleep(interval).await;
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

//! The commands, their flags, and how they end.

use super::{code, row, table};
use crate::{
    cli::{self, EXIT_CODES},
    http::auth::{ADMIN, LEASE_API},
};
use clap::{Arg, Command};

pub(super) fn chapter() -> String {
    let mut parts = vec!["## Commands\n\n".to_owned()];
    let program = cli::command();
    let mut commands: Vec<_> = program.get_subcommands().collect();
    commands.sort_by_key(|command| command.get_name() != "run");
    for command in commands {
        describe(command, "proxy-operator", &mut parts);
    }
    let about = "Tokens have no flags, so that they show in no list of processes.";
    parts.push(format!("## Environment\n\n{about}\n\n"));
    let tokens = [&LEASE_API, &ADMIN].into_iter().flat_map(|guarded| {
        let what = guarded.what;
        let value = format!("the bearer token of {what}");
        let file =
            format!("a file that holds the bearer token of {what}; read again when it changes");
        [
            row([&code(guarded.value), &value]),
            row([&code(guarded.file), &file]),
        ]
    });
    parts.push(table(["variable", "meaning"], tokens));
    let codes = EXIT_CODES.iter();
    let codes = codes.map(|(number, meaning)| row([&number.to_string(), meaning]));
    parts.push("\n## Exit codes\n\n".to_owned());
    parts.push(table(["code", "meaning"], codes));
    parts.concat()
}

fn describe(command: &Command, above: &str, parts: &mut Vec<String>) {
    let name = format!("{above} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string);
    parts.push(format!(
        "### `{name}`\n\n{}.\n\n",
        about.unwrap_or_default()
    ));
    let mut arguments = command
        .get_arguments()
        .filter(|arg| is_ours(arg))
        .peekable();
    if arguments.peek().is_some() {
        let rows = arguments.map(flag);
        parts.push(table(["flag", "environment", "default", "meaning"], rows));
        parts.push("\n".to_owned());
    }
    for below in command.get_subcommands() {
        describe(below, &name, parts);
    }
}

fn is_ours(arg: &Arg) -> bool {
    !matches!(arg.get_id().as_str(), "help" | "version")
}

fn flag(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(<[_]>::first);
    let takes = arg.get_action().takes_values();
    let value = value.filter(|_| takes).map(|value| format!(" {value}"));
    let name = match arg.get_long() {
        Some(long) => format!("`--{long}{}`", value.unwrap_or_default()),
        None => format!("`<{}>`", arg.get_id().as_str().to_uppercase()),
    };
    let env = arg.get_env().map(|env| code(&env.to_string_lossy()));
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let (mut help, told) = without_default(&help);
    let words = arg.get_possible_values();
    let words: Vec<_> = words.iter().map(|word| code(word.get_name())).collect();
    if takes && !words.is_empty() {
        help = format!("{help}: {}", words.join(", "));
    }
    let default = arg.get_default_values().first();
    let default = default.map(|value| code(&value.to_string_lossy())).or(told);
    let default = default.unwrap_or_else(|| {
        match (arg.is_required_set(), takes) {
            (true, _) => "required",
            (false, true) => "none",
            (false, false) => "off",
        }
        .to_owned()
    });
    row([
        &name,
        &env.unwrap_or_else(|| "-".to_owned()),
        &default,
        &help,
    ])
}

/// A default that is worked out stands in the help, as clap would write it.
fn without_default(help: &str) -> (String, Option<String>) {
    let split = help
        .strip_suffix(']')
        .and_then(|help| help.rsplit_once("[default: "));
    match split {
        Some((help, default)) => (help.trim().to_owned(), Some(default.to_owned())),
        None => (help.to_owned(), None),
    }
}

//! `actors chaos`: the monkey.

use super::{Client, Failure, Output, emit};
use crate::{
    cli::{table::Table, values},
    http::admin::view::RunView,
};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  proxy-operator actors chaos start                                  everybody, every 100 ms, for 10 s
  proxy-operator actors chaos start --match 'proxy/*' --every 20ms --duration 1m
  proxy-operator actors chaos start --match leases --seed 42         the same choices once more

The pattern is matched against the whole path of an actor and against its kind; `*` stands for anything.
The root, the monkey itself and the admin server are spared. The seed is printed; with the same one, the
same actors give the same choices.";

/// The monkey.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum ChaosCommand {
    /// Let a monkey loose, which kills actors at random
    #[command(after_help = EXAMPLES)]
    Start(StartArgs),
    /// Show the run under way, or the last one
    Show,
    /// End the run under way
    Stop,
}

#[derive(Args, Clone, Debug)]
pub(super) struct StartArgs {
    /// Whom: a path or a kind, in which `*` stands for anything [default: everybody]
    #[arg(long, value_name = "PATTERN")]
    r#match: Option<String>,

    /// From one kill to the next [default: 100ms]
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    every: Option<Duration>,

    /// How long in all, in whole seconds [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = values::seconds)]
    duration: Option<Duration>,

    /// What the choices follow from [default: drawn]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

impl ChaosCommand {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<(), Failure> {
        let (method, body) = match self {
            Self::Start(args) => (Method::POST, Some(args.body())),
            Self::Show => (Method::GET, None),
            Self::Stop => (Method::DELETE, None),
        };
        let call = client.call(method, "/admin/chaos", body);
        let answer = call.await?;
        if output == Output::Json {
            return emit(&answer);
        }
        let run = RunView::deserialize(&answer)
            .map_err(|e| Failure::Setup(format!("the answer is not a run: {e}")))?;
        crate::cli::write(&told(&run))
    }
}

impl StartArgs {
    fn body(self) -> Value {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let fields = [
            ("match", self.r#match.map(Value::from)),
            ("everyMillis", self.every.map(|every| json!(millis(every)))),
            (
                "durationSeconds",
                self.duration.map(|lasts| json!(lasts.as_secs())),
            ),
            ("seed", self.seed.map(Value::from)),
        ];
        let given = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(given.collect::<Map<_, _>>())
    }
}

fn told(run: &RunView) -> String {
    let state = match &run.ended_at {
        None => format!("is loose since {}", run.started_at),
        Some(ended) => format!("was loose from {} to {ended}", run.started_at),
    };
    let mut text = format!(
        "a monkey {state}: match {}, every {} ms for {} s, seed {}\n",
        run.r#match, run.every_millis, run.duration_seconds, run.seed
    );
    if run.kills > 0 {
        let mut table = Table::new(&["KIND", "KILLS"]);
        for (kind, kills) in &run.kills_by_kind {
            table.row([kind.clone(), kills.to_string()]);
        }
        table.row(["all".to_owned(), run.kills.to_string()]);
        text.push_str(&table.text());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_is_sent() {
        let none = StartArgs {
            r#match: None,
            every: None,
            duration: None,
            seed: None,
        };
        assert_eq!(none.body(), json!({}));
        let all = StartArgs {
            r#match: Some("leases".into()),
            every: Some(Duration::from_millis(20)),
            duration: Some(Duration::from_mins(1)),
            seed: Some(u64::MAX),
        };
        let body =
            json!({"match": "leases", "everyMillis": 20, "durationSeconds": 60, "seed": u64::MAX});
        assert_eq!(all.body(), body);
    }
}

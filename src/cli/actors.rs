//! `actors`: the actors of a running operator, from the terminal.

mod chaos;
mod end;
mod tree;

use super::{
    Failure, Output,
    client::{Base, Client},
    emit,
    screen::{self, Screen},
    values,
};
use crate::http::{admin::view::ActorList, auth};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;
use std::time::{Duration, SystemTime};
use tree::Tree;

const EXAMPLES: &str = "\
Examples:
  proxy-operator actors                                   the tree, once
  proxy-operator actors --watch                           the tree, live; what changed is highlighted
  proxy-operator actors kill leases                       kill one, and see it come back
  proxy-operator actors kill proxy/default/berlin-1
  proxy-operator actors chaos start --every 20ms --duration 1m --match 'prober/*'
  kubectl -n egress-proxies exec deploy/proxy-operator -- proxy-operator actors

The operator shows its actors where --admin-addr is set, and lets them be ended with --enable-chaos.
The token is taken from ADMIN_TOKEN or ADMIN_TOKEN_FILE.

Exit codes:
  0  done
  1  the answer is no: there is no such actor, it did not come back, a run is under way
  2  wrong flags, no answer, or a refused token";

/// What is asked of the admin server.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ActorsArgs {
    /// The operator's admin server: an address or a URL
    #[arg(
        long,
        global = true,
        env = "PROXY_OPERATOR_ADMIN_ADDR",
        value_name = "ADDRESS",
        default_value = "http://127.0.0.1:8082"
    )]
    admin_addr: Base,

    /// What is printed: a table for people, json as the operator answers it
    #[arg(
        long,
        short,
        global = true,
        env = "PROXY_OPERATOR_OUTPUT",
        value_name = "FORMAT",
        default_value = "table"
    )]
    output: Output,

    #[command(flatten)]
    list: ListArgs,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Args, Clone, Debug)]
struct ListArgs {
    /// Show it again and again, each second or as given: --watch=5s
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = values::duration)]
    watch: Option<Duration>,

    /// Show so many children of one parent, those with a story first; 0 for all
    #[arg(long, value_name = "COUNT", default_value = "20")]
    children: usize,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Show the tree of actors (the default)
    List(ListArgs),
    /// Kill an actor at once, dropping what it holds
    Kill(end::EndArgs),
    /// Make an actor panic, as if by a defect
    Panic(end::EndArgs),
    /// Stop an actor after the message under way, with its children; its parent starts it again
    Stop(end::EndArgs),
    /// Kill actors at random for a while
    #[command(subcommand)]
    Chaos(chaos::ChaosCommand),
}

impl ActorsArgs {
    /// Does what is asked.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn run(self) -> Result<(), Failure> {
        let client = Client::new(&self.admin_addr, &auth::ADMIN)?;
        match self.command {
            None => list(&client, self.output, &self.list).await,
            Some(Command::List(args)) => {
                let watch = args.watch.or(self.list.watch);
                list(&client, self.output, &ListArgs { watch, ..args }).await
            }
            Some(_) if self.list.watch.is_some() => Err(Failure::Setup(
                "--watch goes with `actors list` only".into(),
            )),
            Some(Command::Kill(args)) => args.run(&client, self.output, "kill").await,
            Some(Command::Panic(args)) => args.run(&client, self.output, "panic").await,
            Some(Command::Stop(args)) => args.run(&client, self.output, "stop").await,
            Some(Command::Chaos(command)) => command.run(&client, self.output).await,
        }
    }
}

async fn list(client: &Client, output: Output, args: &ListArgs) -> Result<(), Failure> {
    let Some(interval) = args.watch else {
        let answer = listed(client).await?;
        return match output {
            Output::Json => emit(&answer),
            Output::Table => {
                let picture =
                    Tree::new(&actors(&answer)?, None, args.children).picture(SystemTime::now());
                super::write(&Screen::of_stdout().whole(&picture))
            }
        };
    };
    if output == Output::Json {
        return super::emit_again(interval, || listed(client)).await;
    }
    let mut before: Option<ActorList> = None;
    screen::watch(interval, async || {
        let list = actors(&listed(client).await?)?;
        let tree = Tree::new(&list, before.as_ref(), args.children);
        let picture = tree.picture(SystemTime::now());
        before = Some(list);
        Ok(picture)
    })
    .await
}

async fn listed(client: &Client) -> Result<Value, Failure> {
    client.call(Method::GET, "/admin/actors", None).await
}

fn actors(answer: &Value) -> Result<ActorList, Failure> {
    ActorList::deserialize(answer)
        .map_err(|e| Failure::Setup(format!("the answer is not a list of actors: {e}")))
}

//! `actors kill|panic|stop`: ends one, and sees it come back.

use super::{Client, Failure, Output, actors, emit, listed};
use crate::{
    cli::client::segment,
    http::admin::view::{ActorList, ActorView, Ended},
};
use clap::Args;
use reqwest::Method;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long it may take to come back; one that fails over and over waits up to 30 s.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(50);

/// Whom to end.
#[derive(Args, Clone, Debug)]
pub(super) struct EndArgs {
    /// The actor's path, as the tree shows it
    path: String,

    /// Do not wait until it is back
    #[arg(long)]
    no_wait: bool,
}

impl EndArgs {
    pub(super) async fn run(
        self,
        client: &Client,
        output: Output,
        verb: &str,
    ) -> Result<(), Failure> {
        let path = self
            .path
            .split('/')
            .map(segment)
            .collect::<Vec<_>>()
            .join("/");
        let url = format!("/admin/actors/{path}/{verb}");
        let answer = client.call(Method::POST, url, None).await?;
        let ended = Ended::deserialize(&answer)
            .map_err(|e| Failure::Setup(format!("the answer is none: {e}")))?;
        if self.no_wait {
            return match output {
                Output::Json => emit(&answer),
                Output::Table => super::super::write(&format!(
                    "{verb}: {} (epoch {})\n",
                    ended.path, ended.epoch
                )),
            };
        }
        let back = comes_back(client, &ended).await?;
        match output {
            Output::Json => emit(&back),
            Output::Table => super::super::write(&told(verb, &ended, &back)),
        }
    }
}

async fn comes_back(client: &Client, ended: &Ended) -> Result<ActorView, Failure> {
    let until = Instant::now() + PATIENCE;
    loop {
        let list = actors(&listed(client).await?)?;
        if let Some(back) = successor(list, ended) {
            return Ok(back);
        }
        if Instant::now() > until {
            let Ended { path, epoch } = ended;
            let why = format!("{path} (epoch {epoch}) was not back within {PATIENCE:?}");
            return Err(Failure::No(why));
        }
        sleep(LOOK).await;
    }
}

fn successor(list: ActorList, ended: &Ended) -> Option<ActorView> {
    let mut actors = list.actors.into_iter();
    actors.find(|actor| actor.path == ended.path && actor.epoch > ended.epoch)
}

fn told(verb: &str, ended: &Ended, back: &ActorView) -> String {
    let time = |text: &str| humantime::parse_rfc3339(text).ok();
    let end = back.last_end.as_ref();
    let how = match verb {
        "kill" => "killed",
        "stop" => "stopped",
        _ => "panicked",
    };
    let took = end
        .and_then(|end| time(&back.since)?.duration_since(time(&end.at)?).ok())
        .map(|took| format!(" after {} ms", took.as_millis()));
    format!(
        "{} {how}, and back{}: epoch {} -> {}, restarts {}{}\n",
        ended.path,
        took.unwrap_or_default(),
        ended.epoch,
        back.epoch,
        back.restarts,
        match &back.last_error {
            Some(error) if verb == "panic" => format!(", error: {error}"),
            _ => String::new(),
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::admin::view::LastEndView;

    fn actor(path: &str, epoch: u64) -> ActorView {
        ActorView {
            path: path.into(),
            kind: "leases".into(),
            parent: Some("root".into()),
            epoch,
            since: "2026-12-01T02:00:00.012Z".into(),
            restarts: 3,
            mailbox_depth: 0,
            handled: 0,
            handling: None,
            last_error: None,
            last_end: Some(LastEndView {
                reason: "killed".into(),
                at: "2026-12-01T02:00:00.010Z".into(),
            }),
        }
    }

    #[test]
    fn it_is_back_when_a_newer_one_is_there() {
        let ended = Ended {
            path: "leases".into(),
            epoch: 5,
        };
        let list = |epoch| ActorList {
            actors: vec![actor("api", 9), actor("leases", epoch)],
            count: 2,
        };
        assert_eq!(successor(list(5), &ended), None);
        let back = successor(list(6), &ended).expect("back");
        assert_eq!(
            told("kill", &ended, &back),
            "leases killed, and back after 2 ms: epoch 5 -> 6, restarts 3\n"
        );
        let stopped = told("stop", &ended, &back);
        assert!(stopped.starts_with("leases stopped, and back"), "{stopped}");
    }
}

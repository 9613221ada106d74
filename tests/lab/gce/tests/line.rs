//! The way in whose requests can be cut off.

use super::{Fixture, ZONE};
use crate::gce::line::{Line, Plan};
use reqwest::{Client, Response};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const A_WHILE: Duration = Duration::from_millis(200);

struct Caller<'a> {
    lab: &'a Fixture,
    line: Line,
    client: Client,
}

impl Caller<'_> {
    async fn ask(&self) -> reqwest::Result<Response> {
        let path = format!("/compute/v1/projects/lab-project/zones/{ZONE}/instances");
        let url = format!("{}{path}", self.line.endpoint);
        let request = self.client.get(url).bearer_auth(&self.lab.token);
        request.send().await
    }

    /// How many requests came through to the stand-in.
    fn done(&self) -> u64 {
        self.lab.gce.count("compute.instances.list")
    }
}

#[tokio::test]
async fn each_request_of_a_line_can_be_cut_off_or_kept_waiting() {
    let lab = Fixture::new().await;
    let line = lab.gce.line().await.unwrap();
    let client = Client::builder().no_proxy().build().unwrap();
    let caller = Caller {
        lab: &lab,
        line,
        client,
    };
    assert_eq!(caller.ask().await.unwrap().status(), 200);
    assert_eq!((caller.line.steps(), caller.done()), (1, 1));

    caller.line.plan(Plan::ResetBefore(2));
    caller.ask().await.unwrap();
    caller.ask().await.unwrap_err();
    caller.ask().await.unwrap();
    assert_eq!((caller.line.steps(), caller.done()), (3, 3));

    caller.line.plan(Plan::ResetAfter(1));
    caller.ask().await.unwrap_err();
    assert_eq!((caller.line.steps(), caller.done()), (1, 4));

    caller.line.plan(Plan::Silent);
    timeout(A_WHILE, caller.ask()).await.unwrap_err();
    assert_eq!((caller.line.steps(), caller.done()), (1, 4));

    // It is done later, although nobody waits any more.
    caller.line.plan(Plan::Late(1));
    timeout(A_WHILE, caller.ask()).await.unwrap_err();
    assert_eq!((caller.line.steps(), caller.done()), (1, 4));
    caller.line.plan(Plan::Open);
    while caller.done() == 4 {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(lab.gce.take_wrongs(), [""; 0]);
}

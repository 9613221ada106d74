//! Operators that compete, each with a way of its own to the API server.

use crate::lab::{
    Scene, eventually,
    forwarder::{Answer, Beyond, Forwarder, Passage},
    operator::Operator,
};
use anyhow::{Context as _, bail, ensure};
use futures::future::{BoxFuture, try_join_all};
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// A takeover takes up to sixteen seconds, and the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// What is lost on the way to the API server and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    Nothing,
    /// What is asked.
    Requests,
    /// What is answered.
    Answers,
}

struct Partition(watch::Sender<Cut>);

impl Partition {
    /// Passes only if `what` is not lost; what was lost stays lost.
    async fn pass(&self, what: Cut) -> anyhow::Result<()> {
        let mut cut = self.0.subscribe();
        if *cut.borrow() != what {
            return Ok(());
        }
        cut.wait_for(|cut| *cut != what).await?;
        bail!("lost on the way")
    }
}

impl Passage for Partition {
    fn pass(self: Arc<Self>, request: Request<Body>, beyond: Beyond) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            Partition::pass(&self, Cut::Requests).await?;
            let answer = beyond.send(request).await?;
            Partition::pass(&self, Cut::Answers).await?;
            Ok(answer)
        })
    }
}

/// One operator.
pub struct Member {
    pub operator: Operator,
    /// As the API server knows it.
    identity: String,
    way: Option<Way>,
}

/// A way to the API server that can be cut.
struct Way {
    partition: Arc<Partition>,
    _forwarder: Forwarder,
}

/// How they reach the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Each by a way of its own, which can be cut.
    WaysOfTheirOwn,
    /// As in a cluster: the same connections and kernels, for better or worse.
    TheNetwork,
}

/// All of them.
pub struct Party {
    members: Vec<Member>,
    by: By,
}

impl Member {
    async fn start(scene: &Scene, by: By) -> anyhow::Result<Self> {
        let mut kubeconfig = scene.lab().cluster.kubeconfig.clone();
        let mut way = None;
        if by == By::WaysOfTheirOwn {
            let partition = Arc::new(Partition(watch::Sender::new(Cut::Nothing)));
            let forwarder = Forwarder::to(&kubeconfig, Arc::clone(&partition)).await?;
            kubeconfig = scene.path(&format!("by-{}", forwarder.address.port()));
            forwarder.write_kubeconfig(&kubeconfig)?;
            way = Some(Way {
                partition,
                _forwarder: forwarder,
            });
        }
        let operator = scene
            .operator()
            .through(kubeconfig)
            .env("PROXY_OPERATOR_LEADER_ELECT", "true")
            .env(
                "PROXY_OPERATOR_LEADER_ELECTION_NAMESPACE",
                scene.namespace(),
            )
            .env("POD_IP", "127.0.0.1")
            .start()
            .await?;
        Ok(Self {
            identity: identity(&operator.log()?).context("an identity in the log")?,
            operator,
            way,
        })
    }

    async fn leads(&self) -> bool {
        let asked = self.operator.metric("proxy_operator_is_leader ");
        let answered = timeout(Duration::from_secs(1), asked).await;
        matches!(answered, Ok(Ok(1)))
    }
}

fn identity(log: &str) -> Option<String> {
    let of = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        Some(line["identity"].as_str()?.to_owned())
    };
    log.lines().find_map(of)
}

impl Party {
    /// So many, all ready, of which one leads.
    pub async fn start(scene: &Scene, number: usize, by: By) -> anyhow::Result<Self> {
        let members = (0..number).map(|_| Member::start(scene, by));
        let members = try_join_all(members).await?;
        let party = Self { members, by };
        party.leader().await?;
        Ok(party)
    }

    pub fn member(&mut self, index: usize) -> anyhow::Result<&mut Member> {
        self.members.get_mut(index).context("a member")
    }

    /// Somebody else than `index`.
    pub fn another(&self, index: usize) -> usize {
        (index + 1) % self.members.len()
    }

    /// Who leads, once somebody does.
    pub async fn leader(&self) -> anyhow::Result<usize> {
        self.leader_but(usize::MAX).await
    }

    /// Who leads, once it is somebody else than `index`.
    pub async fn leader_but(&self, index: usize) -> anyhow::Result<usize> {
        eventually("somebody leads", PATIENCE, || async {
            for (number, member) in self.members.iter().enumerate() {
                if number != index && member.leads().await {
                    return Ok(Some(number));
                }
            }
            Ok(None)
        })
        .await
    }

    /// Starts a new one in the place of one that ended.
    pub async fn replace(&mut self, scene: &Scene, index: usize) -> anyhow::Result<()> {
        let by = self.by;
        *self.member(index)? = Member::start(scene, by).await?;
        Ok(())
    }

    pub async fn freeze(&self, index: usize) -> anyhow::Result<()> {
        self.members[index].operator.signal("-STOP").await
    }

    pub async fn thaw(&self, index: usize) -> anyhow::Result<()> {
        self.members[index].operator.signal("-CONT").await
    }

    pub fn cut(&self, index: usize, cut: Cut) {
        if let Some(way) = &self.members[index].way {
            way.partition.0.send_replace(cut);
        }
    }

    pub fn mend(&self) {
        (0..self.members.len()).for_each(|index| self.cut(index, Cut::Nothing));
    }

    /// A lease that `index` hands out is one of the leader's, be it that it has been frozen a moment ago.
    pub async fn grants_nothing_of_its_own(&self, index: usize) -> anyhow::Result<()> {
        let thawed = &self.members[index].operator;
        // The first connections are those that it lost while it was frozen.
        let asked = || async { Ok(Some(thawed.acquire(json!({})).await?)) };
        let (status, lease) = eventually("it answers", PATIENCE, asked).await?;
        if status != 201 {
            ensure!([409, 500, 503].contains(&status), "{status} {lease}");
            return Ok(());
        }
        let leader = &self.members[self.leader().await?].operator;
        let id = lease["leaseID"].as_str().context("a leaseID")?;
        let (status, known) = leader.get(&format!("/v1/leases/{id}")).await?;
        ensure!(
            status == 200,
            "the leader knows nothing of {lease}: {known}"
        );
        leader.release(&lease).await
    }

    /// Every replica is ready, and grants and takes back a lease, by itself or through the leader.
    pub async fn all_serve(&self) -> anyhow::Result<()> {
        for member in &self.members {
            let what = format!("{} serves", member.identity);
            eventually(&what, PATIENCE, || async {
                let (status, text) = member.operator.checkup("/readyz").await?;
                ensure!(status == 200, "{status} {text}");
                let lease = member.operator.lease(json!({"ttlSeconds": 60})).await?;
                member.operator.release(&lease).await?;
                Ok(Some(()))
            })
            .await?;
            let (status, text) = member.operator.checkup("/healthz").await?;
            ensure!(status == 200, "{status} {text}");
        }
        Ok(())
    }

    pub fn names(&self) -> String {
        let names = self.members.iter().map(|member| &*member.identity);
        names.collect::<Vec<_>>().join(", ")
    }

    /// All of them stop as they should.
    pub async fn end(self) -> anyhow::Result<()> {
        for mut member in self.members {
            let ended = member.operator.stop().await?;
            ensure!(ended.success(), "{}: {ended}", member.identity);
        }
        Ok(())
    }
}

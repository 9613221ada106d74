//! The program's collector on the real provider, for as long as it takes to sweep.

use super::{objects::uid, schedule::Schedule};
use actors::{
    collector::{CollectorActor, CollectorDeps, LiveProxies, Pace, orphans::Live},
    metrics::Metrics,
    provider::ProviderActor,
    providers::Listed,
    root::RootActor,
    system::{Addr, ChildSpec, System, meter::Meters},
    wall,
};
use futures::future::BoxFuture;
use prometheus::Registry;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// As fast as it can; age is no matter of chance here.
const PACE: Pace = Pace {
    interval: Duration::from_millis(5),
    min_age: Duration::ZERO,
};
const PATIENCE: Duration = Duration::from_mins(1);

struct Known(HashSet<String>);

impl LiveProxies for Known {
    fn read(&self) -> BoxFuture<'static, Result<Live, String>> {
        let live = Live::new(self.0.clone(), true);
        Box::pin(async { Ok(live) })
    }
}

impl Schedule<'_> {
    /// Has the collector sweep until this is so, or until its patience is over.
    pub async fn sweep(&self, enough: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let live: HashSet<String> = self.objects.all().map(|one| uid(one).to_owned()).collect();
        let registry = Registry::new();
        let metrics = Metrics::new(&registry)?;
        let system = System::new(Meters::new(&registry)?);
        let addr = Addr::default();
        let listed = Listed {
            addr: addr.clone(),
            fingerprint: 1,
            confined: false,
        };
        let (_roster, seen) = watch::channel(BTreeMap::from([("gcp".to_owned(), listed)]));
        let deps = Arc::new(CollectorDeps {
            roster: seen,
            live: Arc::new(Known(live)),
            installation: super::schedule::OURS.into(),
            pace: PACE,
            wall: wall::system(),
            metrics: metrics.clone(),
        });
        let provider = Arc::clone(&self.desk.provider);
        let services = vec![
            ChildSpec::new("provider/gcp", addr, move || {
                ProviderActor::new(Arc::clone(&provider) as _, metrics.clone())
            }),
            ChildSpec::new("collector", Addr::default(), move || {
                CollectorActor::new(Arc::clone(&deps))
            }),
        ];
        let mut running = system
            .run(&Addr::default(), RootActor::new(services))
            .await?;
        let until = Instant::now() + PATIENCE;
        while !enough(self) && Instant::now() < until {
            sleep(Duration::from_millis(2)).await;
        }
        running.stop();
        Ok(running.ended().await?)
    }
}

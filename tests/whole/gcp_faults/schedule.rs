//! One random life of a few proxies: acts, then calm, then what must be so.

use super::{
    objects::{Objects, uid},
    watch::{Place, Watch},
};
use crate::lab::gce::{Gce, Options, life::Pace};
use actors::proxy::memory::Memory;
use anyhow::{Context as _, ensure};
use crds::Proxy;
use proxy_operator::providers::gcp::{
    GcpProvider, Surroundings,
    config::GcpConfig,
    credentials::{Adc, Source},
    wire::Wire,
};
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use serde_json::{Value, json};
use std::{collections::BTreeMap, io::Write as _, sync::Arc, time::Duration};
use tempfile::NamedTempFile;
use tokio::time::Instant;

/// The installation that is tested.
pub const OURS: &str = "ours";
/// Acts of one schedule.
const ACTS: usize = 70;
/// What is shown of a schedule that failed.
const TOLD: usize = 60;

/// What all schedules together were made of.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub calls: u64,
    pub failed: u64,
    pub crashes: u64,
    pub made: u64,
    pub requests: u64,
    pub late: u64,
    pub swept: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.crashes += other.crashes;
        self.made += other.made;
        self.requests += other.requests;
        self.late += other.late;
        self.swept += other.swept;
    }

    /// Whether there was enough of everything for it to prove something.
    pub fn is_wild(&self) -> anyhow::Result<()> {
        let enough = self.failed * 10 > self.calls
            && self.crashes > 1_000
            && self.made > 1_000
            && self.late > 100
            && self.swept > 50;
        ensure!(enough, "too tame: {self:?}");
        Ok(())
    }
}

/// Where schedules take place, one after the other: a Google of its own each has, but what it costs to have
/// one is spent once.
pub struct Desk {
    pub gce: Gce,
    pub provider: Arc<GcpProvider>,
    credentials: NamedTempFile,
}

impl Desk {
    pub async fn new() -> anyhow::Result<Self> {
        let gce = Gce::start(Options {
            speed: 0.0,
            ..Options::default()
        })
        .await?;
        let mut credentials = NamedTempFile::new()?;
        write!(credentials, "{}", gce.user())?;
        let provider = Arc::new(provider(&gce, &credentials)?);
        Ok(Self {
            gce,
            provider,
            credentials,
        })
    }
}

pub struct Schedule<'d> {
    pub dice: SmallRng,
    pub desk: &'d mut Desk,
    pub objects: Objects,
    pub memories: BTreeMap<String, Memory>,
    /// The fingerprint of the provider's config.
    pub config: u64,
    /// The operator's clock, which goes with the stand-in's.
    pub now: Instant,
    pub calm: bool,
    pub tally: Tally,
    pub watch: Watch,
    /// Labels that were taken off.
    pub stripped: BTreeMap<Place, Value>,
    pub births: u64,
    pub seed: u64,
    told: Vec<String>,
    aloud: bool,
}

impl Schedule<'_> {
    /// All of it; `aloud` says what happens.
    pub async fn run(desk: &mut Desk, seed: u64, aloud: bool) -> anyhow::Result<Tally> {
        let mut schedule = Schedule::begin(desk, seed, aloud);
        let ended = schedule.live().await;
        let told = &schedule.told;
        let last = told[told.len().saturating_sub(TOLD)..].join("\n  ");
        ended.with_context(|| format!("this happened:\n  {last}\n"))?;
        let wrongs = schedule.desk.gce.take_wrongs();
        ensure!(wrongs.is_empty(), "{wrongs:#?}");
        Ok(schedule.tally)
    }

    /// An empty one, on an empty project.
    pub fn begin(desk: &mut Desk, seed: u64, aloud: bool) -> Schedule<'_> {
        let pace = Pace {
            // Sometimes a list lags behind.
            listed: Duration::from_secs(seed % 3),
            ..Pace::default()
        };
        desk.gce.begin_anew(pace);
        desk.gce.world().refuse_second_delete = seed.is_multiple_of(2);
        Schedule {
            dice: SmallRng::seed_from_u64(seed),
            desk,
            objects: Objects::default(),
            memories: BTreeMap::new(),
            config: 1,
            now: Instant::now(),
            calm: false,
            tally: Tally::default(),
            watch: Watch::default(),
            stripped: BTreeMap::new(),
            births: 0,
            seed,
            told: Vec::new(),
            aloud,
        }
    }

    async fn live(&mut self) -> anyhow::Result<()> {
        self.neighbours();
        for _ in 0..self.dice.random_range(1..4) {
            self.create();
        }
        for _ in 0..ACTS {
            self.act().await?;
            self.watch.check(&self.desk.gce)?;
        }
        self.calms_down();
        self.settle().await.context("in the calm")?;
        self.collect().await?;
        let made = self.made();
        self.is_well()?;
        // A successor finds nothing to do.
        self.note("a last restart".into());
        self.crash();
        self.settle().await.context("after a last restart")?;
        self.is_well()?;
        ensure!(self.made() == made, "a restart made another VM");
        self.tally.made = made;
        self.tally.requests = self.watch.counts.values().sum();
        Ok(())
    }

    async fn act(&mut self) -> anyhow::Result<()> {
        let all = self.objects.names();
        let Some(name) =
            (!all.is_empty()).then(|| all[self.dice.random_range(0..all.len())].clone())
        else {
            self.create();
            return Ok(());
        };
        match self.dice.random_range(0..100) {
            0..62 => {
                self.step(&name).await?;
                let short = self.dice.random_range(0..400);
                self.pass(Duration::from_millis(short));
            }
            62..80 => {
                let most = [3, 15, 60, 400][self.dice.random_range(0..4)];
                let seconds = self.dice.random_range(0..most);
                self.pass(Duration::from_secs(seconds));
            }
            80..88 => self.user_act(&name),
            88 | 89 => {
                self.note("dies in its sleep".into());
                self.crash();
            }
            90..99 => self.fate(&name),
            _ => self.sweep_once().await?,
        }
        Ok(())
    }

    /// The process ends, and another one begins with what the objects say.
    pub fn crash(&mut self) {
        self.memories.clear();
        self.tally.crashes += 1;
        // Google's client takes its time to be made, so that most successors inherit it.
        if self.dice.random_range(0..16) == 0
            && let Ok(new) = provider(&self.desk.gce, &self.desk.credentials)
        {
            self.desk.provider = Arc::new(new);
        }
    }

    pub fn note(&mut self, what: String) {
        if self.aloud {
            eprintln!("  {what}");
        }
        if self.told.last() != Some(&what) {
            self.told.push(what);
        }
    }

    /// Whether there is a VM of this object.
    pub fn made_anything(&self, object: &Proxy) -> bool {
        !object.is_deleting() && !self.vms(uid(object)).is_empty()
    }

    pub fn vms(&self, uid: &str) -> Vec<(Place, u64)> {
        Watch::of(&self.desk.gce.world(), &self.watch.foreign, uid)
    }

    fn made(&self) -> u64 {
        self.watch.made.values().map(|made| made.len() as u64).sum()
    }

    pub fn pass(&mut self, time: Duration) {
        self.desk.gce.advance(time);
        self.now += time;
    }

    /// A sweep amid everything.
    async fn sweep_once(&mut self) -> anyhow::Result<()> {
        self.note("a sweep".into());
        self.desk.gce.calm();
        self.sweep(|me| me.desk.gce.count("compute.instances.aggregatedList") >= 2)
            .await
    }
}

fn provider(gce: &Gce, credentials: &NamedTempFile) -> anyhow::Result<GcpProvider> {
    let config = json!({ "project": "lab-project", "endpoint": gce.endpoint() });
    let config: GcpConfig = serde_yaml::from_str(&config.to_string())?;
    let around = Surroundings {
        installation: OURS.into(),
        credentials: Adc::new(Source::File(credentials.path().into())),
        wire: Wire::default(),
    };
    Ok(GcpProvider::new("gcp".into(), config, &around))
}

//! What is counted of actors: cheap enough for every message.

use crate::metrics::Register;
use arc_swap::ArcSwap;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
};
use std::{
    sync::{
        LazyLock,
        atomic::{
            AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

/// Of one actor, across its restarts.
#[derive(Debug, Default)]
pub struct Meter {
    depth: AtomicU32,
    /// Which message of its kind is being handled, counted from 1; 0 is none.
    handling: AtomicU32,
    /// Since when, in microseconds of [`BEGINNING`].
    since: AtomicU64,
    handled: AtomicU64,
}

/// What [`Meter::since`] counts from.
static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl Meter {
    /// Messages sent and not yet handled.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth.load(Relaxed)
    }

    /// Messages handled since the first start.
    #[must_use]
    pub fn handled(&self) -> u64 {
        self.handled.load(Relaxed)
    }

    pub(super) fn sent(&self) {
        self.depth.fetch_add(1, Relaxed);
    }

    pub(super) fn done(&self) {
        self.depth.fetch_sub(1, Relaxed);
    }
}

/// The actor metrics of the process.
#[derive(Clone)]
pub struct Meters {
    alive: IntGaugeVec,
    restarts: IntCounterVec,
    messages: IntCounterVec,
    duration: HistogramVec,
    wait: HistogramVec,
    off: bool,
}

/// From 10 µs, a cheap handler, to 1 s, far past what any handler may take.
const BUCKETS: [f64; 6] = [0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1.0];

impl Meters {
    /// Makes the metrics and registers them.
    ///
    /// # Errors
    /// When `registry` has metrics of these names already.
    pub fn new(registry: &impl Register) -> Result<Self, prometheus::Error> {
        let name = |what: &str| format!("proxy_operator_{what}");
        let meters = Self {
            alive: IntGaugeVec::new(Opts::new(name("actors"), "Actors alive."), &["kind"])?,
            restarts: IntCounterVec::new(
                Opts::new(
                    name("actor_restarts_total"),
                    "Restarts of actors by their supervisors.",
                ),
                &["kind", "reason"],
            )?,
            messages: IntCounterVec::new(
                Opts::new(name("actor_messages_total"), "Messages handled by actors."),
                &["kind", "message"],
            )?,
            duration: HistogramVec::new(
                HistogramOpts::new(
                    name("actor_message_duration_seconds"),
                    "Time that handlers took for a message.",
                )
                .buckets(BUCKETS.into()),
                &["kind"],
            )?,
            wait: HistogramVec::new(
                HistogramOpts::new(
                    name("actor_mailbox_wait_seconds"),
                    "Time that messages spent in mailboxes.",
                )
                .buckets(BUCKETS.into()),
                &["kind"],
            )?,
            off: false,
        };
        registry.register(Box::new(meters.alive.clone()))?;
        registry.register(Box::new(meters.restarts.clone()))?;
        registry.register(Box::new(meters.messages.clone()))?;
        registry.register(Box::new(meters.duration.clone()))?;
        registry.register(Box::new(meters.wait.clone()))?;
        Ok(meters)
    }

    /// The same, but no message is measured: to see what measuring costs.
    #[must_use]
    pub fn off(self) -> Self {
        Self { off: true, ..self }
    }

    pub(super) fn of_kind(&self, kind: &'static str) -> KindMeter {
        KindMeter {
            name: kind,
            alive: self.alive.with_label_values(&[kind]),
            duration: self.duration.with_label_values(&[kind]),
            wait: self.wait.with_label_values(&[kind]),
            all_messages: self.messages.clone(),
            messages: ArcSwap::default(),
            off: self.off,
        }
    }

    pub(super) fn restarted(&self, kind: &str, reason: &str) {
        self.restarts.with_label_values(&[kind, reason]).inc();
    }
}

/// The metrics of one kind, looked up once per kind and shared by its actors.
pub(super) struct KindMeter {
    name: &'static str,
    pub(super) alive: IntGauge,
    duration: Histogram,
    wait: Histogram,
    all_messages: IntCounterVec,
    /// One per variant of the message, in the order in which they were first seen: few, and soon
    /// complete, so that finding one is cheaper than the label lookup would be.
    messages: ArcSwap<Vec<(&'static str, IntCounter)>>,
    off: bool,
}

impl KindMeter {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Measures one message: call when it is taken out, and drop what comes back when it is done.
    pub(super) fn taken<'a>(
        &'a self,
        meter: &'a Meter,
        message: &'static str,
        sent: Instant,
    ) -> Option<Taken<'a>> {
        if self.off {
            return None;
        }
        let now = Instant::now();
        self.wait.observe((now - sent).as_secs_f64());
        let number = self.count(message);
        let since = now.saturating_duration_since(*BEGINNING);
        meter.since.store(micros(since), Relaxed);
        meter.handling.store(number, Release);
        Some(Taken {
            kind: self,
            meter,
            since: now,
        })
    }

    /// Counts a message, and returns its number within the kind.
    fn count(&self, message: &'static str) -> u32 {
        loop {
            let known = self.messages.load();
            for (number, (name, count)) in (1..).zip(known.iter()) {
                if *name == message {
                    count.inc();
                    return number;
                }
            }
            let count = self.all_messages.with_label_values(&[self.name, message]);
            self.messages.rcu(|known| {
                let mut more = Vec::clone(known);
                if !more.iter().any(|(name, _)| *name == message) {
                    more.push((message, count.clone()));
                }
                more
            });
        }
    }

    /// What an actor of this kind is handling, and for how long.
    pub(super) fn handling(&self, meter: &Meter) -> Option<(&'static str, Duration)> {
        let number = meter.handling.load(Acquire).checked_sub(1)?;
        let known = self.messages.load();
        let (name, _) = known.get(usize::try_from(number).ok()?)?;
        let since = Duration::from_micros(meter.since.load(Relaxed));
        Some((name, BEGINNING.elapsed().saturating_sub(since)))
    }
}

pub(super) struct Taken<'a> {
    kind: &'a KindMeter,
    meter: &'a Meter,
    since: Instant,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.meter.handling.store(0, Relaxed);
        self.meter.handled.fetch_add(1, Relaxed);
        self.kind
            .duration
            .observe(self.since.elapsed().as_secs_f64());
    }
}

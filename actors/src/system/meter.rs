//! What is counted of actors: cheap enough for every message.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

/// Of one actor, across its restarts.
#[derive(Debug, Default)]
pub struct Meter {
    depth: AtomicU32,
    handled: AtomicU64,
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
}

/// Counts one message from sending until its handler ends; a message that dies with its mailbox is
/// counted off by the drop.
pub(super) struct Ticket {
    meter: Arc<Meter>,
    sent: Instant,
}

impl Ticket {
    pub(super) fn new(meter: Arc<Meter>) -> Self {
        meter.depth.fetch_add(1, Relaxed);
        Self {
            meter,
            sent: Instant::now(),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.meter.depth.fetch_sub(1, Relaxed);
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
}

/// From 10 µs, a cheap handler, to 1 s, far past what any handler may take.
const BUCKETS: [f64; 6] = [0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1.0];

impl Meters {
    /// Makes the metrics and registers them.
    ///
    /// # Errors
    /// When `registry` has metrics of these names already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
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
        };
        registry.register(Box::new(meters.alive.clone()))?;
        registry.register(Box::new(meters.restarts.clone()))?;
        registry.register(Box::new(meters.messages.clone()))?;
        registry.register(Box::new(meters.duration.clone()))?;
        registry.register(Box::new(meters.wait.clone()))?;
        Ok(meters)
    }

    pub(super) fn of_kind(&self, kind: &'static str) -> KindMeter {
        KindMeter {
            alive: self.alive.with_label_values(&[kind]),
            duration: self.duration.with_label_values(&[kind]),
            wait: self.wait.with_label_values(&[kind]),
        }
    }

    pub(super) fn message(&self, kind: &str, message: &str) -> IntCounter {
        self.messages.with_label_values(&[kind, message])
    }

    pub(super) fn restarted(&self, kind: &str, reason: &str) {
        self.restarts.with_label_values(&[kind, reason]).inc();
    }
}

/// The metrics of one kind, looked up once per kind and shared by its actors.
pub(super) struct KindMeter {
    pub(super) alive: IntGauge,
    duration: Histogram,
    wait: Histogram,
}

impl KindMeter {
    /// Measures one message: call when it is taken out, and drop what comes back when it is done.
    pub(super) fn taken(&self, ticket: Ticket) -> Taken<'_> {
        let now = Instant::now();
        self.wait.observe((now - ticket.sent).as_secs_f64());
        Taken {
            kind: self,
            ticket,
            since: now,
        }
    }
}

pub(super) struct Taken<'a> {
    kind: &'a KindMeter,
    ticket: Ticket,
    since: Instant,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.ticket.meter.handled.fetch_add(1, Relaxed);
        self.kind
            .duration
            .observe(self.since.elapsed().as_secs_f64());
    }
}

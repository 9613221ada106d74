//! The spans of the units of work: their names and attributes, in one place.
//!
//! A unit of work has a span of the target [`UNIT`]. Everything else is a span only inside of such a unit,
//! so that what goes on for ever (watches, elections, signs of life) makes none.
//! A span passes from actor to actor with the messages, which carry the sender's. Timers and periodic
//! work begin outside of every span, so that no trace grows for ever.
//!
//! While nothing is exported, spans cost next to nothing and give log lines their fields: those whose
//! fields every line should have are of the level `error`, which no log leaves out.

use crate::{
    key::ProxyKey,
    prober::probe::Outcome,
    provider::contract::{ErrorClass, Operation, ProviderError},
    store::Write,
};
use tracing::{Span, debug_span, error_span, field::Empty};

/// The target of spans that need nobody above them.
pub const UNIT: &str = concat!(module_path!(), "::unit");

/// One pass over a Proxy: from a wake-up until nothing is left to do for now.
pub(crate) struct Pass {
    /// Never entered: it ends when it is dropped, after its parts.
    whole: Span,
    /// The part under way, and what it is called.
    part: Option<(&'static str, Span)>,
}

impl Pass {
    pub(crate) fn begin(proxy: &ProxyKey) -> Self {
        let whole = error_span!(
            target: UNIT,
            parent: None,
            "Reconcile Proxy",
            %proxy,
            reconcileID = format_args!("{:016x}", rand::random::<u64>()),
        );
        Self { whole, part: None }
    }

    /// The span of the part called so: the one under way, or a new one in its place.
    pub(crate) fn part(&mut self, name: &'static str) -> Span {
        match &self.part {
            Some((under_way, span)) if *under_way == name => span.clone(),
            _ => {
                let span =
                    error_span!(target: UNIT, parent: &self.whole, "reconcile", otel.name = name);
                self.part = Some((name, span.clone()));
                span
            }
        }
    }
}

/// One call to a provider; [`call_ended`] says how it ended.
pub(crate) fn call(provider: &str, operation: Operation, id: Option<&str>) -> Span {
    error_span!(
        "provider",
        otel.name = match operation {
            Operation::Create => "provider.create",
            Operation::Get => "provider.get",
            Operation::Delete => "provider.delete",
            Operation::List => "provider.list",
            Operation::Check => "provider.check",
        },
        otel.status_code = Empty,
        otel.status_description = Empty,
        provider.name = provider,
        provider.id = id,
        provider.result = Empty,
    )
}

/// Records on the span of the call under way what it has made.
pub(crate) fn created(id: &str) {
    Span::current().record("provider.id", id);
}

/// Records on the span of a call how it ended. That something is not there is an answer, not an error.
pub(crate) fn call_ended(span: &Span, error: Option<&ProviderError>) {
    span.record(
        "provider.result",
        error.map_or("ok", |error| error.class.into()),
    );
    if let Some(error) = error.filter(|error| error.class != ErrorClass::NotFound) {
        span.record("otel.status_code", "error");
        span.record("otel.status_description", &error.message);
    }
}

/// One write to an object: a span of its own for a status, which is what users look at.
pub(crate) fn write(write: &Write) -> Span {
    match write {
        Write::Status { .. } => debug_span!("status.patch"),
        Write::Metadata { .. } => Span::current(),
    }
}

/// One sweep of a provider for orphans.
pub(crate) fn sweep(provider: &str) -> Span {
    error_span!(target: UNIT, parent: None, "gc.sweep", provider.name = provider)
}

/// One round of checks of all providers.
pub(crate) fn check() -> Span {
    error_span!(target: UNIT, parent: None, "providerhealth.check")
}

/// One probe; [`probed`] says how it ended.
pub(crate) fn probe(proxy: &ProxyKey) -> Span {
    debug_span!(
        target: UNIT,
        parent: None,
        "healthcheck.probe",
        otel.status_code = Empty,
        otel.status_description = Empty,
        %proxy,
        result = Empty,
    )
}

/// Records on the span of a probe how it ended.
pub(crate) fn probed(span: &Span, outcome: &Outcome) {
    match outcome {
        Ok(_) => span.record("result", "ok"),
        Err(failure) => {
            let kind: &str = failure.kind.into();
            span.record("result", kind);
            span.record("otel.status_code", "error");
            span.record("otel.status_description", &failure.message)
        }
    };
}

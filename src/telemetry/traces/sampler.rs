//! Which requests are sampled, decided before there is a span: making one, naming it and carrying it to
//! the ledger and back costs more than a lease, and of a hundred it may be for one.

use opentelemetry::{
    Context, KeyValue, TraceId,
    trace::{Link, SpanKind, TraceContextExt},
};
use opentelemetry_sdk::trace::{Config, SamplingDecision, SamplingResult, ShouldSample};

/// The sampler that the environment names, asked once for each trace: for a request at the door, and for
/// everything else when the span is made.
#[derive(Clone, Debug)]
pub(super) struct Door(Box<dyn ShouldSample>);

impl Door {
    /// As the environment says.
    pub fn from_env() -> Self {
        Self(Config::default().sampler)
    }

    /// Whether a request is sampled whose caller's trace, if it has one, is the one in `caller`.
    pub fn admits(&self, caller: &Context) -> bool {
        let span = caller.span();
        let trace = match span.span_context() {
            known if known.is_valid() => known.trace_id(),
            _ => TraceId::from(rand::random::<u128>()),
        };
        let result = self
            .0
            .should_sample(Some(caller), trace, "", &SpanKind::Server, &[], &[]);
        result.decision == SamplingDecision::RecordAndSample
    }
}

impl ShouldSample for Door {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let result = self
            .0
            .should_sample(parent, trace, name, kind, attributes, links);
        // Only requests that were admitted have a span, and what was begun within is told as a whole,
        // whatever a sampler that looks at the trace alone would say.
        let begun = parent.is_some_and(|parent| {
            let span = parent.span();
            let above = span.span_context();
            above.is_valid() && !above.is_remote() && above.is_sampled()
        });
        let decision = match kind {
            SpanKind::Server => SamplingDecision::RecordAndSample,
            _ if begun => SamplingDecision::RecordAndSample,
            _ => result.decision,
        };
        SamplingResult { decision, ..result }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceState};
    use opentelemetry_sdk::trace::Sampler;

    fn caller(flags: TraceFlags) -> Context {
        let (trace, span) = (TraceId::from(7), SpanId::from(7));
        let context = SpanContext::new(trace, span, flags, true, TraceState::default());
        Context::new().with_remote_span_context(context)
    }

    #[test]
    fn a_request_is_sampled_as_its_caller_or_by_the_ratio() {
        let (sampled, not) = (caller(TraceFlags::SAMPLED), caller(TraceFlags::default()));
        let nobody = Context::new();
        let parent_based = |root| Sampler::ParentBased(Box::new(root));
        for (sampler, of_nobody, of_sampled, of_not) in [
            (Sampler::AlwaysOn, true, true, true),
            (Sampler::AlwaysOff, false, false, false),
            (parent_based(Sampler::AlwaysOn), true, true, false),
            (parent_based(Sampler::AlwaysOff), false, true, false),
        ] {
            let told = format!("{sampler:?}");
            let door = Door(Box::new(sampler));
            assert_eq!(door.admits(&nobody), of_nobody, "{told}");
            assert_eq!(door.admits(&sampled), of_sampled, "{told}");
            assert_eq!(door.admits(&not), of_not, "{told}");
        }
        let door = Door(Box::new(parent_based(Sampler::TraceIdRatioBased(0.1))));
        let admitted = (0..10_000).filter(|_| door.admits(&nobody)).count();
        assert!((700..1300).contains(&admitted), "{admitted} of 10 000");
    }

    #[test]
    fn what_is_begun_within_a_sampled_span_of_this_process_is_sampled() {
        let door = Door(Box::new(Sampler::TraceIdRatioBased(0.0)));
        for (remote, expected) in [
            (false, SamplingDecision::RecordAndSample),
            (true, SamplingDecision::Drop),
        ] {
            let (trace, span) = (TraceId::from(7), SpanId::from(7));
            let state = TraceState::default();
            let above = SpanContext::new(trace, span, TraceFlags::SAMPLED, remote, state);
            let above = Context::new().with_remote_span_context(above);
            let below = door.should_sample(Some(&above), trace, "", &SpanKind::Internal, &[], &[]);
            assert_eq!(below.decision, expected, "remote: {remote}");
        }
    }

    #[test]
    fn who_was_admitted_is_not_asked_again() {
        let door = Door(Box::new(Sampler::AlwaysOff));
        for (kind, decision) in [
            (SpanKind::Server, SamplingDecision::RecordAndSample),
            (SpanKind::Internal, SamplingDecision::Drop),
        ] {
            let sampled = door.should_sample(None, TraceId::from(1), "", &kind, &[], &[]);
            assert_eq!(sampled.decision, decision, "{kind:?}");
        }
    }
}

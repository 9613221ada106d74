//! The words that users' alerts, scripts and clients match on.

use super::{code, row, table};
use crate::http::{admin, refusal::Refusal};
use actors::{events::EventReason, prober::probe::FailureKind};
use crds::conditions::{ConditionType, Reason};
use strum::{EnumMessage, VariantArray};

pub(super) fn chapter() -> String {
    let meaning = |word: &dyn EnumMessage| word.get_documentation().unwrap_or_default().to_owned();
    let types = ConditionType::VARIANTS.iter();
    let types = types.map(|word| row([&code(word.as_str()), &meaning(word)]));
    let reasons = Reason::VARIANTS.iter();
    let reasons = reasons.map(|word| row([&code(word.as_str()), &meaning(word)]));
    let events = EventReason::VARIANTS.iter();
    let events = events.map(|word| row([&code(word.as_str()), &meaning(word)]));
    let failures = FailureKind::VARIANTS.iter();
    let failures = failures.map(|kind| row([&code(&kind.to_string()), &meaning(kind)]));
    let refusals = Refusal::each().map(|refusal| (refusal.code(), "the lease API"));
    let of_admin = admin::refusal::CODES.map(|code| (code, "the admin server"));
    let codes = refusals
        .into_iter()
        .chain(of_admin)
        .map(|((word, status), whose)| row([&code(word), status.as_str(), whose]));
    [
        "## Conditions\n".to_owned(),
        table(["type", "asks"], types),
        "## Reasons of conditions\n".to_owned(),
        table(["reason", "meaning"], reasons),
        "## Reasons of Events\n".to_owned(),
        table(["reason", "meaning"], events),
        "## Kinds of failed probes\n\nThe label `kind` of `proxy_operator_healthcheck_failures_total`.\n"
            .to_owned(),
        table(["kind", "meaning"], failures),
        "## Error codes of HTTP answers\n".to_owned(),
        table(["code", "status", "answered by"], codes),
    ]
    .join("\n")
}

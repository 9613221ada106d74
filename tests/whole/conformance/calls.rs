//! How a call ends, and what it must not give away.

use super::{Backend, Fault, eventually, expect_error, gone, log::Log, ours};
use actors::provider::contract::{CreateRequest, ErrorClass, Operation, ProviderError};
use anyhow::{Context, ensure};
use opentelemetry::trace::SpanKind;
use opentelemetry_sdk::trace::SpanData;
use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tracing::{Instrument as _, Span};

/// What "promptly" means on a busy machine.
const PROMPTLY: Duration = Duration::from_secs(3);

pub async fn a_cancelled_call_returns_at_once_and_harms_nobody(
    backend: &dyn Backend,
) -> anyhow::Result<()> {
    let (provider, wire) = backend.wired().await?;
    let request = backend.request().await?;
    let id = provider.create(&request).await?.id;
    wire.break_at(Fault::Silence);
    let hung = tokio::spawn({
        let (provider, id) = (Arc::clone(&provider), id.clone());
        async move { provider.get(&id).await.map(drop) }
    });
    eventually("the call is on the wire", || async {
        Ok((wire.steps() > 0).then_some(()))
    })
    .await?;
    let cancelled = Instant::now();
    hung.abort();
    ensure!(hung.await.is_err_and(|end| end.is_cancelled()));
    wire.break_at(Fault::None);
    provider.get(&id).await.context("the next call")?;
    ensure!(cancelled.elapsed() < PROMPTLY, "{:?}", cancelled.elapsed());
    gone(&*provider, &id).await
}

pub async fn no_call_outlives_its_deadline(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, wire) = backend.wired().await?;
    let request = backend.request().await?;
    let absent = backend.absent_id();
    wire.break_at(Fault::Silence);
    let (create, get, delete, list) = tokio::join!(
        timed(provider.create(&request)),
        timed(provider.get(&absent)),
        timed(provider.delete(&absent)),
        timed(provider.list()),
    );
    for (operation, (class, took)) in [
        (Operation::Create, create),
        (Operation::Get, get),
        (Operation::Delete, delete),
        (Operation::List, list),
    ] {
        ensure!(
            class == Some(ErrorClass::Transient),
            "{operation}: {class:?}"
        );
        let deadline = provider.deadline(operation);
        ensure!(
            took < deadline + PROMPTLY,
            "{operation} took {took:?} of {deadline:?}"
        );
    }
    let started = Instant::now();
    for check in provider.check(provider.deadline(Operation::Check)).await {
        ensure!(!check.ready && check.reason == "Timeout", "{check:?}");
    }
    ensure!(started.elapsed() < provider.deadline(Operation::Check) + PROMPTLY);
    wire.break_at(Fault::None);
    ensure!(
        provider
            .check(provider.deadline(Operation::Check))
            .await
            .iter()
            .all(|check| check.ready)
    );
    Ok(())
}

pub async fn user_data_never_leaks(backend: &dyn Backend) -> anyhow::Result<()> {
    const SENTINEL: &str = "s3ntinel-b7e1";
    let log = Log::tap();
    let unit = unit(Operation::Create);
    let (name, seen) = async {
        let (cut, wire) = backend.wired().await?;
        let (provider, mut request) = ours(backend).await?;
        let user_data = format!("#cloud-config\npassword: {SENTINEL}\n");
        request.user_data = Some(user_data.into_bytes().into());
        let mut seen = format!("{request:?}");
        wire.break_at(Fault::CutAfter(1));
        let error = expect_error(cut.create(&request).await, "a cut")?;
        write!(
            seen,
            "{error}{error:?}{:?}",
            anyhow::Error::from(error.clone())
        )?;
        let created = provider.create(&request).await?;
        write!(seen, "{created:?}{:?}", provider.get(&created.id).await?)?;
        seen += &backend.visible(&request.name).await?;
        let squatted = CreateRequest {
            uid: backend.request().await?.uid,
            ..request.clone()
        };
        let error = expect_error(provider.create(&squatted).await, "a conflict")?;
        write!(seen, "{error}{error:?}")?;
        let impossible = CreateRequest {
            name: "Not A Name".to_owned(),
            ..request.clone()
        };
        let error = expect_error(provider.create(&impossible).await, "an impossible name")?;
        write!(seen, "{error}{error:?}")?;
        gone(&*provider, &created.id).await?;
        anyhow::Ok((request.name, seen))
    }
    .instrument(unit)
    .await?;
    let log = log.text();
    ensure!(
        seen.contains(&name) && !log.is_empty(),
        "the test looked at nothing"
    );
    ensure!(!seen.contains(SENTINEL), "seen in {seen}");
    ensure!(!log.contains(SENTINEL), "logged in {log}");
    ensure!(log.contains("SpanData"), "no span was looked at");
    Ok(())
}

/// What a call does at its backend is told in spans below the call's own.
pub async fn every_call_is_traced_down_to_its_backend(backend: &dyn Backend) -> anyhow::Result<()> {
    let log = Log::tap();
    let (provider, request) = ours(backend).await?;
    let span = unit(Operation::Create);
    let id = provider.create(&request).instrument(span).await?.id;
    let span = unit(Operation::Get);
    provider.get(&id).instrument(span).await?;
    let span = unit(Operation::List);
    provider.list().instrument(span).await?;
    let span = unit(Operation::Delete);
    provider.delete(&id).instrument(span).await?;
    gone(&*provider, &id).await?;
    let heard = Mutex::new((log, Vec::new()));
    for operation in ["create", "get", "list", "delete"] {
        eventually(&format!("the trace of {operation}"), || async {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            let (log, spans) = &mut *heard;
            spans.extend(log.spans());
            // Other tests may make such calls meanwhile, so each is looked at for itself.
            let own = |span: &SpanData| span.name == unit_name(operation);
            let found = spans
                .iter()
                .any(|span| own(span) && reaches_the_backend(span, spans));
            Ok(found.then_some(()))
        })
        .await?;
    }
    Ok(())
}

/// The span that an operation gets from whoever calls its provider.
fn unit(operation: Operation) -> Span {
    let name = unit_name(operation.into());
    tracing::info_span!(target: actors::trace::UNIT, parent: None, "call", otel.name = name)
}

fn unit_name(operation: &str) -> String {
    format!("conformance.{operation}")
}

/// Whether there is a call to a backend somewhere below `above`, and all between them is there.
fn reaches_the_backend(above: &SpanData, spans: &[SpanData]) -> bool {
    let mut below = spans.iter().filter(|span| {
        span.span_context.trace_id() == above.span_context.trace_id()
            && span.parent_span_id == above.span_context.span_id()
    });
    below.any(|span| span.span_kind == SpanKind::Client || reaches_the_backend(span, spans))
}

/// How a call failed, and after how long.
async fn timed<T>(
    call: impl Future<Output = Result<T, ProviderError>>,
) -> (Option<ErrorClass>, Duration) {
    let started = Instant::now();
    let class = call.await.err().map(|error| error.class);
    (class, started.elapsed())
}

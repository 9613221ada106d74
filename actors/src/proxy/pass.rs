//! A pass: what happened is taken in, and what is to be done about it is done, until nothing is left to do.

use super::{
    Probed, ProxyActor, ProxyMsg, decide,
    decide::Decision,
    memory::{Around, Event, Memory, Note, Wanted},
    next::Next,
    pace,
};
use crate::{
    events::EventReason,
    provider::contract::ErrorClass,
    system::{Addr, Context},
    trace::Pass,
};
use crds::{Mode, Proxy};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tracing::Span;

impl ProxyActor {
    /// Takes in what happened, then does what is to be done about it.
    pub(super) fn on(&mut self, mut event: Event, cx: &Context<ProxyMsg>) {
        let Some(object) = self.observe() else {
            return;
        };
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        if self
            .memory
            .as_ref()
            .is_none_or(|memory| &*memory.uid != uid)
        {
            // Another object of this name: nothing that was known, or just heard, is true of it.
            event = Event::Woken;
            self.operation.abort();
            (self.probed, self.offered) = (Probed::default(), None);
            self.memory = Some(Box::new(Memory::of(&object)));
        }
        let Some(mut memory) = self.memory.take() else {
            return;
        };
        self.begun.get_or_insert_with(Instant::now);
        let pass = self
            .pass
            .get_or_insert_with(|| Box::new(Pass::begin(&self.key)));
        let _within = pass.part(part(&memory, &object)).entered();
        let around = self.around(&object);
        let mut notes = memory.absorb(Event::Woken, &around);
        notes.extend(memory.absorb(event, &around));
        for note in notes {
            self.tell_user(&object, note);
        }
        self.offer(&memory, &object);
        self.have_probed(&memory, &object, cx.me());
        if !self.operation.is_under_way() {
            self.step(&mut memory, &around, cx.me());
        }
        self.memory = Some(memory);
    }

    fn around<'a>(&self, object: &'a Proxy) -> Around<'a> {
        Around {
            object,
            config: object
                .spec
                .provider
                .as_deref()
                .and_then(|name| self.deps.fingerprint(name)),
            now: Instant::now(),
            chance: rand::random(),
            pace: pace::DEFAULT,
        }
    }

    fn step(&mut self, memory: &mut Memory, around: &Around<'_>, me: &Addr<ProxyMsg>) {
        let object = around.object;
        let part = part(memory, object);
        let span = self.pass.as_mut().map(|pass| pass.part(part));
        let _within = span.map(Span::entered);
        let next = match decide::decide(memory, around, Timestamp::now()) {
            Decision::WriteStatus(status) => return self.write_status(object, status, me),
            Decision::SpareApi(until) => {
                // The pass goes on then, but under another trace: this may repeat for hours.
                self.pass = None;
                return self.wake_at(until, me);
            }
            Decision::Do(next) => next,
        };
        match next {
            Next::AddFinalizer => self.write_finalizers(object, true, me),
            Next::ReleaseFinalizer => self.write_finalizers(object, false, me),
            Next::Abandon(id) => {
                let message = format!(
                    "instance {id} is left behind, as {} asks",
                    crds::names::SKIP_CLEANUP
                );
                self.tell_user(object, Note::warning(EventReason::CleanupSkipped, message));
                self.write_finalizers(object, false, me);
            }
            Next::WriteHash(hash) => self.write_hash(object, &hash, me),
            Next::Resolve => {
                memory.wanted = Wanted::Asked;
                self.resolve(object, me);
            }
            Next::Create(hash) => self.create(memory, object, hash, me),
            Next::Get(id) => self.get(memory, object, id, me),
            Next::Delete(id) => self.delete(object, id, me),
            Next::Sleep(until) => {
                self.wake_at(until, me);
                self.pass_ended(memory);
            }
            Next::Rest => {
                self.alarm.abort();
                self.pass_ended(memory);
            }
        }
    }

    fn pass_ended(&mut self, memory: &Memory) {
        // Having no room is an answer, not an error.
        let problem = memory.problem.as_ref();
        let erred = problem.is_some_and(|p| p.class != ErrorClass::QuotaExceeded);
        let outcome = if erred || self.failed { "error" } else { "ok" };
        if let Some(begun) = self.begun.take() {
            self.deps.metrics.reconciled(outcome, begun.elapsed());
        }
        self.failed = false;
        self.pass = None;
    }

    pub(super) fn wake_at(&mut self, due: Instant, me: &Addr<ProxyMsg>) {
        let me = me.clone();
        self.alarm.start(|epoch| async move {
            tokio::time::sleep_until(due).await;
            me.hint(ProxyMsg::Due(epoch));
        });
    }
}

/// What the pass is about, as its span is called.
pub(super) fn part(memory: &Memory, object: &Proxy) -> &'static str {
    match object.spec.mode {
        _ if object.is_deleting() => "reconcile.delete",
        Mode::External => "reconcile.external",
        Mode::Managed if memory.is_replacing(object) => "reconcile.replace",
        Mode::Managed => "reconcile.managed",
    }
}

//! What the API server noted of the operators' writes, and what must hold of it.

use crate::lab::Scene;
use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// How long a leader acts on one renewal.
const ACTS: Duration = Duration::from_secs(10);
/// What it sent at the end of it may be on its way for so long on a busy machine; others wait longer.
const ON_ITS_WAY: Duration = Duration::from_secs(4);

/// When what a leader sends has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrives {
    /// Within the time that others wait for.
    Soon,
    /// At some time before the next one leads.
    Late,
}

/// One write, as it was answered.
#[derive(Debug)]
struct Line {
    agent: String,
    what: String,
    received: SystemTime,
    answered: SystemTime,
    done: bool,
}

/// All writes of operators in one namespace, in the order in which they were answered.
pub struct Audit(Vec<Line>);

/// How it went.
#[derive(Debug, Default)]
pub struct Story {
    /// How often the leader changed, the first one included.
    pub periods: usize,
    /// What leaders wrote beside the record of the election.
    pub writes: usize,
    /// Of them, pods made and deleted.
    pub pods: usize,
    /// From the last word of one leader to the first of the next.
    pub gaps: Vec<Duration>,
}

struct Period<'a> {
    agent: &'a str,
    /// When its words in the record came; the first is that with which it took over.
    words: Vec<SystemTime>,
}

impl Audit {
    pub fn read(scene: &Scene) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(scene.lab().cluster.audit_log())?;
        let mut lines = Vec::new();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line)?;
            let object = &line["objectRef"];
            let agent = line["userAgent"].as_str().unwrap_or_default();
            if object["namespace"] != scene.namespace() || !agent.starts_with("proxy-operator/") {
                continue;
            }
            let time = |name: &str| -> anyhow::Result<SystemTime> {
                let text = line[name].as_str().context("a time")?;
                Ok(humantime::parse_rfc3339(text)?)
            };
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            lines.push(Line {
                agent: agent.to_owned(),
                what: format!("{} {}", word(&line["verb"]), word(&object["resource"])),
                received: time("requestReceivedTimestamp")?,
                answered: time("stageTimestamp")?,
                done: matches!(line["responseStatus"]["code"].as_u64(), Some(200..300)),
            });
        }
        lines.sort_by_key(|line| line.answered);
        Ok(Self(lines))
    }

    /// Tells how it went, if nobody wrote anything who did not lead at that moment.
    pub fn judge(&self, arrives: Arrives) -> anyhow::Result<Story> {
        let mut periods: Vec<Period> = Vec::new();
        let mut story = Story::default();
        let (record, others): (Vec<_>, Vec<_>) = self
            .0
            .iter()
            .partition(|line| line.what.ends_with(" leases"));
        for line in record.iter().filter(|line| line.done) {
            match periods.last_mut() {
                Some(last) if last.agent == line.agent => last.words.push(line.received),
                last => {
                    if let Some(word) = last.and_then(|last| last.words.last()) {
                        story.gaps.push(line.received.duration_since(*word)?);
                    }
                    periods.push(Period {
                        agent: &line.agent,
                        words: vec![line.received],
                    });
                }
            }
        }
        for line in others {
            let earlier = |period: &&Period| period.words[0] <= line.received;
            let leads = periods.iter().take_while(earlier).last();
            let leads = leads.with_context(|| format!("before anybody led: {line:?}"))?;
            let words = leads.words.iter();
            let word = words.take_while(|word| **word <= line.received).last();
            let word = *word.context("a word")?;
            ensure!(leads.agent == line.agent, "{} led: {line:?}", leads.agent);
            ensure!(
                arrives == Arrives::Late || line.received <= word + ACTS + ON_ITS_WAY,
                "its last word in the record was at {word:?}: {line:?}"
            );
            story.writes += 1;
            story.pods += usize::from(line.what.ends_with(" pods"));
        }
        story.periods = periods.len();
        Ok(story)
    }
}

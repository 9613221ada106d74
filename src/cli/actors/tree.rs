//! The tree of actors, drawn. Pure: lists in, lines out.

use crate::{
    cli::{
        screen::{Line, Picture, Tone},
        table::Table,
    },
    http::admin::view::{ActorList, ActorView},
};
use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

/// A list of actors to be drawn.
pub(super) struct Tree<'a> {
    list: &'a ActorList,
    before: Option<HashMap<&'a str, &'a ActorView>>,
    children: HashMap<&'a str, Vec<&'a ActorView>>,
    /// So many children of one parent are shown; 0 is all.
    most: usize,
}

/// One line to be: what stands before the columns, and whose it is.
struct Branch<'a> {
    label: String,
    actor: Option<&'a ActorView>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(list: &'a ActorList, before: Option<&'a ActorList>, most: usize) -> Self {
        let mut children = HashMap::<_, Vec<_>>::new();
        for actor in &list.actors {
            if let Some(parent) = &actor.parent {
                children.entry(&**parent).or_default().push(actor);
            }
        }
        let by_path = |list: &'a ActorList| {
            let actors = list.actors.iter();
            actors.map(|actor| (&*actor.path, actor)).collect()
        };
        Self {
            list,
            before: before.map(by_path),
            children,
            most,
        }
    }

    pub(super) fn picture(&self, now: SystemTime) -> Picture {
        let mut branches = Vec::new();
        for root in self
            .list
            .actors
            .iter()
            .filter(|actor| actor.parent.is_none())
        {
            branches.push(Branch {
                label: root.path.clone(),
                actor: Some(root),
            });
            self.below(root, "", &mut branches);
        }
        let mut table = Table::new(&[
            "ACTOR", "EPOCH", "UP", "RESTARTS", "MAILBOX", "HANDLED", "NOW", "LAST END",
        ]);
        for branch in &branches {
            match branch.actor {
                Some(actor) => table.row(cells(branch.label.clone(), actor, now)),
                None => table.row([branch.label.clone()]),
            }
        }
        let tones = std::iter::once(Tone::Heading).chain(
            branches
                .iter()
                .map(|branch| branch.actor.map_or(Tone::Plain, |actor| self.tone(actor))),
        );
        let lines = table.lines().into_iter().zip(tones);
        Picture {
            lines: lines.map(|(text, tone)| Line { text, tone }).collect(),
        }
    }

    fn below(&self, parent: &ActorView, indent: &str, branches: &mut Vec<Branch<'a>>) {
        let all = self
            .children
            .get(&*parent.path)
            .map_or(&[][..], Vec::as_slice);
        let shown = self.shown(all);
        let hidden = all.len() - shown.len();
        for (at, child) in shown.iter().enumerate() {
            let last = at + 1 == shown.len() && hidden == 0;
            let (fork, trunk) = if last {
                ("└── ", "    ")
            } else {
                ("├── ", "│   ")
            };
            branches.push(Branch {
                label: format!("{indent}{fork}{}", child.path),
                actor: Some(child),
            });
            self.below(child, &format!("{indent}{trunk}"), branches);
        }
        if hidden > 0 {
            branches.push(Branch {
                label: format!("{indent}└── … {hidden} more"),
                actor: None,
            });
        }
    }

    /// Where there are too many, those with a story come first, but all in the order of the list.
    fn shown(&self, all: &[&'a ActorView]) -> Vec<&'a ActorView> {
        if self.most == 0 || all.len() <= self.most {
            return all.to_vec();
        }
        let mut places: Vec<_> = (0..all.len()).collect();
        places.sort_by_key(|at| {
            let actor = all[*at];
            let dull = actor.restarts == 0 && actor.last_error.is_none();
            (self.tone(actor) == Tone::Plain, dull)
        });
        places.truncate(self.most);
        places.sort_unstable();
        places.into_iter().map(|at| all[at]).collect()
    }

    /// New since the last list: changed, or bad if it had failed.
    fn tone(&self, actor: &ActorView) -> Tone {
        let Some(before) = &self.before else {
            return Tone::Plain;
        };
        if before
            .get(&*actor.path)
            .is_some_and(|then| then.epoch == actor.epoch)
        {
            return Tone::Plain;
        }
        match &actor.last_end {
            Some(end) if end.reason != "killed" => Tone::Bad,
            _ => Tone::Changed,
        }
    }
}

fn cells(label: String, actor: &ActorView, now: SystemTime) -> [String; 8] {
    let since = humantime::parse_rfc3339(&actor.since).unwrap_or(now);
    let handling = actor.handling.as_ref();
    let end = actor.last_end.as_ref().map(|end| {
        let at = humantime::parse_rfc3339(&end.at).unwrap_or(now);
        let ago = format!("{} {} ago", end.reason, age(at, now));
        match &actor.last_error {
            Some(error) if end.reason != "killed" => format!("{ago}: {error}"),
            _ => ago,
        }
    });
    [
        label,
        actor.epoch.to_string(),
        age(since, now),
        actor.restarts.to_string(),
        actor.mailbox_depth.to_string(),
        actor.handled.to_string(),
        handling.map_or_else(String::new, |now| {
            format!("{} {} ms", now.message, now.for_millis)
        }),
        end.unwrap_or_default(),
    ]
}

/// In its two greatest units: `3m12s`. The clocks of two machines may differ, so it may be 0.
fn age(since: SystemTime, now: SystemTime) -> String {
    let seconds = now
        .duration_since(since)
        .unwrap_or(Duration::ZERO)
        .as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{}s", seconds % 60),
        (0, ..) => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::admin::view::{Handling, LastEndView};

    const NOW: &str = "2026-12-01T02:00:00Z";

    fn now() -> SystemTime {
        humantime::parse_rfc3339(NOW).expect("a time")
    }

    fn actor(path: &str, parent: Option<&str>, epoch: u64) -> ActorView {
        ActorView {
            path: path.into(),
            kind: "any".into(),
            parent: parent.map(Into::into),
            epoch,
            since: "2026-12-01T01:56:48Z".into(),
            restarts: 0,
            mailbox_depth: 0,
            handled: 7,
            handling: None,
            last_error: None,
            last_end: None,
        }
    }

    fn list(actors: Vec<ActorView>) -> ActorList {
        let count = actors.len();
        ActorList { actors, count }
    }

    fn lines(tree: &Tree<'_>) -> Vec<String> {
        let picture = tree.picture(now());
        picture.lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn children_hang_below_their_parents() {
        let mut failed = actor("proxy/ns/a", Some("fleet"), 9);
        failed.restarts = 2;
        failed.last_error = Some("out of order".into());
        failed.last_end = Some(LastEndView {
            reason: "panic".into(),
            at: "2026-12-01T01:59:55Z".into(),
        });
        failed.handling = Some(Handling {
            message: "Look".into(),
            for_millis: 3,
        });
        let list = list(vec![
            actor("root", None, 1),
            actor("api", Some("root"), 2),
            actor("fleet", Some("root"), 3),
            failed,
            actor("proxy/ns/b", Some("fleet"), 10),
            actor("ops/metrics", Some("root"), 4),
        ]);
        assert_eq!(
            lines(&Tree::new(&list, None, 0)),
            [
                "ACTOR               EPOCH  UP     RESTARTS  MAILBOX  HANDLED  NOW        LAST END",
                "root                1      3m12s  0         0        7        -          -",
                "├── api             2      3m12s  0         0        7        -          -",
                "├── fleet           3      3m12s  0         0        7        -          -",
                "│   ├── proxy/ns/a  9      3m12s  2         0        7        Look 3 ms  panic 5s ago: out of order",
                "│   └── proxy/ns/b  10     3m12s  0         0        7        -          -",
                "└── ops/metrics     4      3m12s  0         0        7        -          -",
            ]
        );
    }

    #[test]
    fn of_many_children_those_with_a_story_are_shown() {
        let mut actors = vec![actor("fleet", None, 1)];
        actors.extend((0..9).map(|n| actor(&format!("p/{n}"), Some("fleet"), 2)));
        actors[8].restarts = 1;
        let list = list(actors);
        let lines = lines(&Tree::new(&list, None, 3));
        let first = |line: &String| line.split("  ").next().unwrap_or_default().to_owned();
        let labels: Vec<_> = lines.iter().skip(1).map(first).collect();
        assert_eq!(
            labels,
            ["fleet", "├── p/0", "├── p/1", "├── p/7", "└── … 6 more"]
        );
    }

    #[test]
    fn what_is_new_since_the_last_list_stands_out() {
        let before = list(vec![
            actor("root", None, 1),
            actor("a", Some("root"), 2),
            actor("b", Some("root"), 3),
        ]);
        let mut killed = actor("a", Some("root"), 7);
        killed.last_end = Some(LastEndView {
            reason: "killed".into(),
            at: NOW.into(),
        });
        let mut broken = actor("b", Some("root"), 8);
        broken.last_end = Some(LastEndView {
            reason: "error".into(),
            at: NOW.into(),
        });
        let after = list(vec![
            actor("root", None, 1),
            killed,
            broken,
            actor("c", Some("root"), 9),
        ]);
        let picture = Tree::new(&after, Some(&before), 0).picture(now());
        let tones: Vec<_> = picture.lines.iter().map(|line| line.tone).collect();
        assert_eq!(
            tones,
            [
                Tone::Heading,
                Tone::Plain,
                Tone::Changed,
                Tone::Bad,
                Tone::Changed
            ]
        );
    }

    #[test]
    fn an_age_is_told_in_two_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m0s"),
            (3_700, "1h1m"),
            (90_000, "1d1h"),
        ] {
            let since = now() - Duration::from_secs(seconds);
            assert_eq!(age(since, now()), text);
        }
        assert_eq!(age(now() + Duration::from_secs(5), now()), "0s");
    }
}

//! Lists of instances: of one zone and of all, in pages.

use super::{
    call::Call,
    clock::Time,
    filter::Filter,
    fingerprint,
    instance::Instance,
    link,
    refusal::Refusal,
    world::{Telling, World},
};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value, json};

/// What a page has when the request does not say, and at most.
const MOST: usize = 500;

/// Which page is asked for.
struct Page {
    filter: Filter,
    most: usize,
    /// Zone and name of the last one of the page before.
    after: Option<(String, String)>,
    /// Of the request, so that a token is not used with another filter.
    stamp: String,
}

impl Page {
    fn asked(call: &Call) -> Result<Self, Refusal> {
        let filter = call.query("filter").unwrap_or("");
        let order = call.query("orderBy").unwrap_or("name");
        if order != "name" {
            let why = "Only ordering by name is imitated.";
            return Err(Refusal::invalid("orderBy", order, why));
        }
        let most = call.query("maxResults").unwrap_or("0");
        let most = match most.parse::<usize>() {
            Ok(0) => MOST,
            Ok(most) if most <= MOST => most,
            _ => {
                let why = format!("Must be less than or equal to {MOST}");
                return Err(Refusal::invalid("maxResults", most, &why));
            }
        };
        let stamp = fingerprint(format!("{} {filter}", call.path("zone")).as_bytes());
        let after = match call.query("pageToken") {
            None => None,
            Some(token) => Some(unpack(token, &stamp).ok_or_else(|| {
                Refusal::invalid("pageToken", token, "The page token is invalid.")
            })?),
        };
        Ok(Self {
            filter: match filter {
                "" => Filter::default(),
                filter => Filter::parse(filter)?,
            },
            most,
            after,
            stamp,
        })
    }

    /// Those of the page, and the token of the next one.
    fn cut<'w>(
        &self,
        all: impl Iterator<Item = &'w Instance>,
        now: Time,
    ) -> (Vec<&'w Instance>, Option<String>) {
        let mut rest = all
            .filter(|one| one.life.is_listed(now))
            .filter(|one| self.filter.takes(one, one.life.status(now)))
            .filter(|one| {
                let before = self.after.as_ref();
                before.is_none_or(|(zone, name)| (&one.zone, &one.name) > (zone, name))
            });
        let page: Vec<&Instance> = rest.by_ref().take(self.most).collect();
        let more = rest.next().is_some();
        let token = page.last().filter(|_| more).map(|last| {
            let text = format!("{}/{}/{}", self.stamp, last.zone, last.name);
            BASE64URL_NOPAD.encode(text.as_bytes())
        });
        (page, token)
    }
}

fn unpack(token: &str, stamp: &str) -> Option<(String, String)> {
    let text = String::from_utf8(BASE64URL_NOPAD.decode(token.as_bytes()).ok()?).ok()?;
    let rest = text.strip_prefix(stamp)?.strip_prefix('/')?;
    let (zone, name) = rest.split_once('/')?;
    Some((zone.to_owned(), name.to_owned()))
}

/// `compute.instances.list`.
pub fn zonal(world: &World, call: &Call, now: Time) -> Result<Value, Refusal> {
    let zone = call.path("zone");
    world.zone(zone)?;
    let page = Page::asked(call)?;
    let all = world.instances.values().filter(|one| one.zone == zone);
    let (shown, token) = page.cut(all, now);
    let path = format!("projects/{}/zones/{zone}/instances", world.project);
    let mut answer = json!({
        "kind": "compute#instanceList",
        "id": path,
        "selfLink": link(&path),
    });
    if !shown.is_empty() {
        answer["items"] = resources(world, &shown, now);
    }
    if let Some(token) = token {
        answer["nextPageToken"] = token.into();
    }
    Ok(answer)
}

/// `compute.instances.aggregatedList`.
pub fn aggregated(world: &World, call: &Call, now: Time) -> Result<Value, Refusal> {
    let page = Page::asked(call)?;
    if let (Some(zone), false) = (world.unreachable.first(), call.flag("returnPartialSuccess")) {
        let message = format!("The zone '{zone}' is temporarily unavailable. Please try again.");
        return Err(Refusal::unavailable(&message));
    }
    let reachable = |one: &&Instance| !world.unreachable.contains(&one.zone);
    let (shown, token) = page.cut(world.instances.values().filter(reachable), now);
    let mut items = Map::new();
    for zone in &world.zones {
        let there: Vec<&Instance> = shown
            .iter()
            .copied()
            .filter(|one| one.zone == *zone)
            .collect();
        let scope = format!("zones/{zone}");
        let tells = world.telling != Telling::List && world.unreachable.contains(zone);
        let scoped = if tells {
            warning("UNREACHABLE", "The scope is not reachable", &scope)
        } else if there.is_empty() {
            let message = format!("There are no results for scope '{scope}' on this page.");
            warning("NO_RESULTS_ON_PAGE", &message, &scope)
        } else {
            json!({ "instances": resources(world, &there, now) })
        };
        items.insert(scope, scoped);
    }
    let path = format!("projects/{}/aggregated/instances", world.project);
    let mut answer = json!({
        "kind": "compute#instanceAggregatedList",
        "id": path,
        "items": items,
        "selfLink": link(&path),
    });
    if world.telling != Telling::Warning && !world.unreachable.is_empty() {
        let scope = |zone: &String| link(&format!("projects/{}/zones/{zone}", world.project));
        answer["unreachables"] = world.unreachable.iter().map(scope).collect::<Value>();
    }
    if let Some(token) = token {
        answer["nextPageToken"] = token.into();
    }
    Ok(answer)
}

fn resources(world: &World, shown: &[&Instance], now: Time) -> Value {
    let resources = shown.iter().map(|one| one.resource(&world.project, now));
    resources.collect()
}

fn warning(code: &str, message: &str, scope: &str) -> Value {
    json!({ "warning": {
        "code": code,
        "message": message,
        "data": [{ "key": "scope", "value": scope }],
    }})
}

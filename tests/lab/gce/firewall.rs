//! Firewall rules. They have no effect on anything; that they are right is what counts.

use super::{
    call::Call,
    clock::{Time, written},
    link,
    refusal::Refusal,
    rules::NAME,
    schema::matches,
    world::{Change, World},
};
use serde_json::{Map, Value, json};

/// A rule on record.
#[derive(Clone, Debug)]
pub struct Firewall {
    /// Its number.
    pub id: u64,
    /// When it was accepted.
    pub created: Time,
    /// What was asked for.
    pub given: Map<String, Value>,
}

impl Firewall {
    fn resource(&self, project: &str) -> Value {
        let mut resource = self.given.clone();
        let name = resource["name"].as_str().unwrap_or("").to_owned();
        let mut put = |field: &str, value: Value| resource.insert(field.to_owned(), value);
        put("kind", "compute#firewall".into());
        put("id", self.id.to_string().into());
        put("creationTimestamp", written(self.created).into());
        put("selfLink", link(&path(project, &name)).into());
        resource.into()
    }
}

fn path(project: &str, name: &str) -> String {
    format!("projects/{project}/global/firewalls/{name}")
}

/// `compute.firewalls.insert`.
pub fn insert(world: &mut World, call: &Call, now: Time) -> Result<Value, Refusal> {
    if let Some(operation) = world.repeated(&call.repeat_key(), call.query("requestId"))? {
        return Ok(operation.resource(&world.project, now));
    }
    let given = filled(world, call.body.as_object().cloned().unwrap_or_default())?;
    let name = given["name"].as_str().unwrap_or("").to_owned();
    if world.firewalls.contains_key(&name) {
        return Err(Refusal::already_exists(&path(&world.project, &name)));
    }
    let failure = world.next_failure(&path(&world.project, &name));
    let id = world.next_id();
    if failure.is_none() {
        let rule = Firewall {
            id,
            created: now,
            given,
        };
        world.firewalls.insert(name.clone(), rule);
    }
    Ok(begin(world, call, now, "insert", (&name, id), failure))
}

/// `compute.firewalls.get`.
pub fn get(world: &World, call: &Call) -> Result<Value, Refusal> {
    let (_, rule) = find(world, call)?;
    Ok(rule.resource(&world.project))
}

/// `compute.firewalls.patch`: fields that are there replace those of the rule.
pub fn patch(world: &mut World, call: &Call, now: Time) -> Result<Value, Refusal> {
    if let Some(operation) = world.repeated(&call.repeat_key(), call.query("requestId"))? {
        return Ok(operation.resource(&world.project, now));
    }
    let (name, rule) = find(world, call)?;
    let mut given = rule.given.clone();
    for (field, value) in call.body.as_object().into_iter().flatten() {
        if field == "name" && value != &name {
            let why = "The name of a resource cannot be changed.";
            let value = value.as_str().unwrap_or("");
            return Err(Refusal::invalid("resource.name", value, why));
        }
        given.insert(field.clone(), value.clone());
    }
    let given = filled(world, given)?;
    let failure = world.next_failure(&path(&world.project, &name));
    let id = match world.firewalls.get_mut(&name) {
        Some(rule) if failure.is_none() => {
            rule.given = given;
            rule.id
        }
        _ => 0,
    };
    Ok(begin(world, call, now, "patch", (&name, id), failure))
}

/// `compute.firewalls.delete`.
pub fn delete(world: &mut World, call: &Call, now: Time) -> Result<Value, Refusal> {
    if let Some(operation) = world.repeated(&call.repeat_key(), call.query("requestId"))? {
        return Ok(operation.resource(&world.project, now));
    }
    let (name, rule) = find(world, call)?;
    let id = rule.id;
    let failure = world.next_failure(&path(&world.project, &name));
    if failure.is_none() {
        world.firewalls.remove(&name);
    }
    Ok(begin(world, call, now, "delete", (&name, id), failure))
}

/// `compute.firewalls.list`, always one page.
pub fn list(world: &World, call: &Call) -> Result<Value, Refusal> {
    for unlike in ["filter", "maxResults", "orderBy", "pageToken"] {
        if let Some(value) = call.query(unlike) {
            return Err(Refusal::invalid(unlike, value, "This is not imitated."));
        }
    }
    let items: Vec<Value> = world
        .firewalls
        .values()
        .map(|rule| rule.resource(&world.project))
        .collect();
    let path = format!("projects/{}/global/firewalls", world.project);
    let mut answer = json!({
        "kind": "compute#firewallList", "id": path, "selfLink": link(&path),
    });
    if !items.is_empty() {
        answer["items"] = items.into();
    }
    Ok(answer)
}

fn begin(
    world: &mut World,
    call: &Call,
    now: Time,
    kind: &str,
    (name, target_id): (&str, u64),
    failure: Option<super::operation::Failure>,
) -> Value {
    let change = Change {
        kind,
        zone: None,
        target: path(&world.project, name),
        target_id,
        request_id: call.query("requestId"),
        user: &call.user,
        failure,
    };
    let operation = world.begin(&call.repeat_key(), change, now);
    operation.resource(&world.project, now)
}

fn find<'w>(world: &'w World, call: &Call) -> Result<(String, &'w Firewall), Refusal> {
    let name = call.path("firewall");
    let found = world.firewalls.get(name);
    let found = found.map(|rule| (name.to_owned(), rule));
    found.ok_or_else(|| Refusal::not_found(&path(&world.project, name)))
}

/// Checks a rule and fills in what Google does.
fn filled(world: &World, mut given: Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    given.retain(|_, value| !value.is_null());
    let is_some = |field: &str| {
        let rules = given.get(field).and_then(Value::as_array);
        rules.is_some_and(|rules| !rules.is_empty())
    };
    if is_some("allowed") == is_some("denied") {
        let why = "Exactly one of 'allowed' and 'denied' must be specified.";
        return Err(Refusal::invalid("resource", "", why));
    }
    for kind in ["allowed", "denied"] {
        let rules = given.get(kind).and_then(Value::as_array);
        for (index, rule) in rules.into_iter().flatten().enumerate() {
            traffic(&format!("resource.{kind}[{index}]"), rule)?;
        }
    }
    let strings = |field: &str| {
        let values = given.get(field).and_then(Value::as_array);
        values.into_iter().flatten().filter_map(Value::as_str)
    };
    for range in strings("sourceRanges") {
        if !is_range(range) {
            let why = "Must be a valid CIDR address range.";
            return Err(Refusal::invalid("resource.sourceRanges", range, why));
        }
    }
    for tag in strings("targetTags") {
        if !matches(NAME, tag) {
            let why = format!("Must be a match of regex '{NAME}'");
            return Err(Refusal::invalid("resource.targetTags", tag, &why));
        }
    }
    let network = given.get("network").and_then(Value::as_str);
    let network = network.unwrap_or("global/networks/default");
    let name = network.rsplit('/').next().unwrap_or("").to_owned();
    let path = format!("projects/{}/global/networks/{name}", world.project);
    if !world.networks.contains(&name) {
        return Err(Refusal::not_found(&path));
    }
    given.insert("network".into(), link(&path).into());
    let ingress = given.entry("direction").or_insert("INGRESS".into()) == "INGRESS";
    let anywhere = ["sourceRanges", "sourceTags"].map(|field| given.contains_key(field));
    if ingress && anywhere == [false, false] {
        given.insert("sourceRanges".into(), json!(["0.0.0.0/0"]));
    }
    given.entry("priority").or_insert(1000.into());
    given.entry("disabled").or_insert(false.into());
    given
        .entry("logConfig")
        .or_insert(json!({ "enable": false }));
    Ok(given)
}

fn traffic(at: &str, rule: &Value) -> Result<(), Refusal> {
    let protocol = rule["IPProtocol"].as_str().unwrap_or("");
    if protocol.is_empty() {
        return Err(Refusal::required(&format!("{at}.IPProtocol")));
    }
    for port in rule["ports"].as_array().into_iter().flatten() {
        let port = port.as_str().unwrap_or("");
        let ends = port.split('-').map(str::parse::<u16>);
        let ends: Result<Vec<u16>, _> = ends.collect();
        let fits = ends.is_ok_and(|ends| ends.len() <= 2 && ends.is_sorted());
        if !fits || !["tcp", "udp", "sctp"].contains(&protocol) {
            let why = "Ports may only be integers in the range [0, 65535].";
            return Err(Refusal::invalid(&format!("{at}.ports"), port, why));
        }
    }
    Ok(())
}

/// A range whose host bits are zero; Google refuses others.
fn is_range(text: &str) -> bool {
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    let Ok(address) = address.parse::<std::net::IpAddr>() else {
        return false;
    };
    let (bits, width) = match address {
        std::net::IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        std::net::IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let length = match length {
        "" => width,
        length => match length.parse::<u32>() {
            Ok(length) if length <= width => length,
            _ => return false,
        },
    };
    bits.trailing_zeros() >= width - length || bits == 0
}

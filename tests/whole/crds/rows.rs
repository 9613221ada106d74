//! The tables: specs as a user writes them, and what the server has to say.

use serde_json::{Value, json};

/// One object and the field that its refusal has to name; `None`: it is accepted.
pub struct Row {
    pub what: &'static str,
    pub spec: String,
    pub refused: Option<&'static str>,
}

/// A row that is written over another object.
pub struct Change {
    pub before: String,
    pub row: Row,
}

pub const LEAST_MANAGED: &str = "{mode: Managed, provider: kvm}";
pub const LEAST_EXTERNAL: &str = "{mode: External, endpoint: {host: proxy.example}}";

/// `kubectl` arguments, the header, and what the row below it contains.
pub const COLUMNS: &[(&str, &str, &str)] = &[
    (
        "get px columns",
        "NAME MODE PROVIDER PHASE IP HEALTHY AGE",
        "columns Managed kvm Ready 192.0.2.7 True",
    ),
    (
        "get px columns -o wide",
        "NAME MODE PROVIDER PHASE IP HEALTHY AGE PORT LATENCY PROVIDERID REASON",
        "3128 42 kvm://h/1 Because",
    ),
    (
        "get ph columns",
        "NAME TYPE READY TARGETS LAST CHECK AGE",
        "columns gcp True 1/1",
    ),
];

/// What `kubectl explain` lists, in its order.
pub const EXPLAINED: &[(&str, &str)] = &[
    ("px", "apiVersion kind metadata spec status"),
    (
        "px.spec",
        "attributes cloudInit endpoint healthCheck maxLeases mode placement port provider",
    ),
    ("px.spec.placement", "image machineType region zone"),
    ("px.spec.cloudInit", "inline secretRef"),
    ("px.spec.cloudInit.secretRef", "key name"),
    ("px.spec.endpoint", "host port"),
    (
        "px.spec.healthCheck",
        "expectedStatus failureThreshold periodSeconds successThreshold timeoutSeconds url",
    ),
    (
        "px.status",
        "conditions ip latencyMillis observedGeneration operation phase providerID",
    ),
    ("ph", "apiVersion kind metadata status"),
    (
        "ph.status",
        "conditions lastCheckTime targets targetsReady type",
    ),
    (
        "ph.status.targets",
        "address details lastTransitionTime latencyMillis message name ready reason",
    ),
];

/// A spec, a place in the object that becomes of it, and what stands there.
#[rustfmt::skip]
pub fn defaults() -> Vec<(&'static str, &'static str, Value)> {
    let health_check = json!({
        "url": "https://www.gstatic.com/generate_204", "expectedStatus": 204, "periodSeconds": 10,
        "timeoutSeconds": 5, "failureThreshold": 3, "successThreshold": 1,
    });
    let mut slower = health_check.clone();
    slower["periodSeconds"] = json!(30);
    vec![
        (LEAST_MANAGED, "/spec/port", json!(3128)),
        (LEAST_MANAGED, "/spec/maxLeases", json!(5)),
        (LEAST_MANAGED, "/spec/attributes", json!({})),
        (LEAST_MANAGED, "/spec/healthCheck", health_check.clone()),
        (LEAST_MANAGED, "/spec/placement", Value::Null),
        (LEAST_MANAGED, "/spec/endpoint", Value::Null),
        (LEAST_EXTERNAL, "/spec/provider", Value::Null),
        (LEAST_EXTERNAL, "/spec/endpoint/port", Value::Null),
        ("{mode: Managed, provider: kvm, maxLeases: 0}", "/spec/maxLeases", json!(0)),
        ("{mode: Managed, provider: kvm, healthCheck: {}}", "/spec/healthCheck", health_check),
        ("{mode: Managed, provider: kvm, healthCheck: {periodSeconds: 30}}", "/spec/healthCheck", slower),
        ("{mode: Managed, provider: kvm, cloudInit: {secretRef: {name: a}}}", "/spec/cloudInit/secretRef/key", json!("user-data")),
        ("{mode: Managed, provider: kvm, unheardOf: 1}", "/spec/unheardOf", Value::Null),
    ]
}

/// Objects to create.
pub fn creations() -> Vec<Row> {
    let accepted = accepted().into_iter().map(|(what, spec)| Row {
        what,
        spec,
        refused: None,
    });
    let refused = refused().into_iter().map(|(what, path, spec)| Row {
        what,
        spec,
        refused: Some(path),
    });
    accepted.chain(refused).collect()
}

#[rustfmt::skip] // One line a row.
fn accepted() -> Vec<(&'static str, String)> {
    vec![
        ("the least Managed", managed("")),
        ("the least External", external("proxy.example", "")),
        ("everything Managed", managed("placement: {region: r, zone: z, machineType: m, image: i}, port: 8080, cloudInit: {inline: '#cloud-config'}, attributes: {geo: de, asn: '64496'}, maxLeases: 1, healthCheck: {url: 'http://example.com/', expectedStatus: 200, periodSeconds: 1, timeoutSeconds: 1, failureThreshold: 1, successThreshold: 1}")),
        ("everything External", external("proxy.example", "port: 1, attributes: {geo: de}, maxLeases: 0, healthCheck: {expectedStatus: 599, periodSeconds: 3600, timeoutSeconds: 60, failureThreshold: 20, successThreshold: 20}")),
        ("an empty placement", managed("placement: {}")),
        ("the lowest port", managed("port: 1")),
        ("the highest port", managed("port: 65535")),
        ("a provider of one letter", "{mode: Managed, provider: a}".to_owned()),
        ("a provider of 63 letters", format!("{{mode: Managed, provider: {}}}", "a".repeat(63))),
        ("a provider with digits and hyphens", "{mode: Managed, provider: 1-gcp--eu-2}".to_owned()),
        ("user-data from a Secret", managed("cloudInit: {secretRef: {name: a.b-c, key: user_data.v1-2}}")),
        ("the longest user-data", managed(&format!("cloudInit: {{inline: '{}'}}", "x".repeat(262_144)))),
        ("a host of one label", external("localhost", "")),
        ("a host with capitals", external("Proxy-1.Example", "")),
        ("a host that ends with a dot", external("proxy.example.", "")),
        ("a host of digits and letters", external("3proxy", "")),
        ("an internationalised host", external("xn--bcher-kva.example", "")),
        ("the longest label", external(&format!("{}.example", "a".repeat(63)), "")),
        ("an IPv4 address", external("192.0.2.1", "")),
        ("an IPv6 address", external("2001:db8::1", "")),
        ("the IPv6 loopback", external("::1", "")),
        ("an endpoint's own port", "{mode: External, endpoint: {host: a, port: 65535}}".to_owned()),
        ("64 attributes", managed(&attributes(64))),
        ("attribute keys of every kind", managed("attributes: {a: '', A9: b, a.b_c-d: e, '0': f}")),
        ("an attribute key of 63", managed(&format!("attributes: {{{}: v}}", "k".repeat(63)))),
        ("an attribute value of 253 bytes", managed(&format!("attributes: {{a: {}}}", "v".repeat(253)))),
        ("an attribute value of 252 bytes in 126 characters", managed(&format!("attributes: {{a: {}}}", "ü".repeat(126)))),
        ("no leases at all", managed("maxLeases: 0")),
        ("a probe of an address and a port", probe("url: 'http://192.0.2.1:8080/x?y=z#f'")),
        ("a probe of an IPv6 address", probe("url: 'https://[2001:db8::1]:443/'")),
        ("a probe without a path", probe("url: 'https://example.com'")),
        ("a probe with capitals in its scheme", probe("url: 'HTTPS://example.com/'")),
        ("the longest words of a placement", managed(&format!("placement: {{region: {0}, zone: {0}, machineType: {0}, image: {0}{0}{0}{0}}}", "p".repeat(253)))),
        ("the longest name and key of a Secret", managed(&format!("cloudInit: {{secretRef: {{name: {0}, key: {0}}}}}", "s".repeat(253)))),
    ]
}

#[rustfmt::skip]
#[expect(clippy::too_many_lines, reason = "a table")]
fn refused() -> Vec<(&'static str, &'static str, String)> {
    vec![
        ("no mode", "spec.mode", "{provider: kvm}".to_owned()),
        ("an unknown mode", "spec.mode", "{mode: managed, provider: kvm}".to_owned()),
        ("Managed without a provider", "spec.provider", "{mode: Managed}".to_owned()),
        ("Managed with null for a provider", "spec.provider", "{mode: Managed, provider: null}".to_owned()),
        ("Managed with an endpoint", "spec.endpoint", managed("endpoint: {host: a}")),
        ("External without an endpoint", "spec.endpoint", "{mode: External}".to_owned()),
        ("External with a provider", "spec.provider", external("a", "provider: kvm")),
        ("External with a placement", "spec.placement", external("a", "placement: {zone: z}")),
        ("External with an empty placement", "spec.placement", external("a", "placement: {}")),
        ("External with user-data", "spec.cloudInit", external("a", "cloudInit: {inline: x}")),
        ("an empty provider", "spec.provider", "{mode: Managed, provider: ''}".to_owned()),
        ("a provider with a capital", "spec.provider", "{mode: Managed, provider: Kvm}".to_owned()),
        ("a provider with a dot", "spec.provider", "{mode: Managed, provider: a.b}".to_owned()),
        ("a provider with an underscore", "spec.provider", "{mode: Managed, provider: a_b}".to_owned()),
        ("a provider that begins with a hyphen", "spec.provider", "{mode: Managed, provider: -a}".to_owned()),
        ("a provider that ends with a hyphen", "spec.provider", "{mode: Managed, provider: a-}".to_owned()),
        ("a provider with a line end", "spec.provider", "{mode: Managed, provider: \"a\\n\"}".to_owned()),
        ("a provider of 64 letters", "spec.provider", format!("{{mode: Managed, provider: {}}}", "a".repeat(64))),
        ("port 0", "spec.port", managed("port: 0")),
        ("port 65536", "spec.port", managed("port: 65536")),
        ("a negative port", "spec.port", managed("port: -1")),
        ("a port in words", "spec.port", managed("port: '3128'")),
        ("a broken port", "spec.port", managed("port: 1.5")),
        ("a placement that is no string", "spec.placement.zone", managed("placement: {zone: 1}")),
        ("too long a region", "spec.placement.region", managed(&format!("placement: {{region: {}}}", "p".repeat(254)))),
        ("too long a zone", "spec.placement.zone", managed(&format!("placement: {{zone: {}}}", "p".repeat(254)))),
        ("too long a machine type", "spec.placement.machineType", managed(&format!("placement: {{machineType: {}}}", "p".repeat(254)))),
        ("too long an image", "spec.placement.image", managed(&format!("placement: {{image: {}}}", "p".repeat(1025)))),
        ("user-data from nowhere", "spec.cloudInit", managed("cloudInit: {}")),
        ("user-data from both", "spec.cloudInit", managed("cloudInit: {inline: x, secretRef: {name: a}}")),
        ("too much user-data", "spec.cloudInit.inline", managed(&format!("cloudInit: {{inline: '{}'}}", "x".repeat(262_145)))),
        ("a Secret without a name", "spec.cloudInit.secretRef.name", managed("cloudInit: {secretRef: {key: a}}")),
        ("a Secret that cannot be", "spec.cloudInit.secretRef.name", managed("cloudInit: {secretRef: {name: A_b}}")),
        ("too long a Secret's name", "spec.cloudInit.secretRef.name", managed(&format!("cloudInit: {{secretRef: {{name: {}}}}}", "s".repeat(254)))),
        ("too long a Secret's key", "spec.cloudInit.secretRef.key", managed(&format!("cloudInit: {{secretRef: {{name: a, key: {}}}}}", "s".repeat(254)))),
        ("a Secret in another namespace", "spec.cloudInit.secretRef.name", managed("cloudInit: {secretRef: {name: other/a}}")),
        ("a Secret's key that cannot be", "spec.cloudInit.secretRef.key", managed("cloudInit: {secretRef: {name: a, key: a/b}}")),
        ("a Secret's empty key", "spec.cloudInit.secretRef.key", managed("cloudInit: {secretRef: {name: a, key: ''}}")),
        ("an endpoint without a host", "spec.endpoint.host", "{mode: External, endpoint: {port: 1}}".to_owned()),
        ("an empty host", "spec.endpoint.host", external("", "")),
        ("a host with a scheme", "spec.endpoint.host", external("http://proxy.example", "")),
        ("a host with a port", "spec.endpoint.host", external("proxy.example:3128", "")),
        ("a host with a path", "spec.endpoint.host", external("proxy.example/x", "")),
        ("a host with a user", "spec.endpoint.host", external("user@proxy.example", "")),
        ("an IPv6 address in brackets", "spec.endpoint.host", external("[2001:db8::1]", "")),
        ("an IPv6 address with a zone", "spec.endpoint.host", external("fe80::1%eth0", "")),
        ("an IPv6 address that is none", "spec.endpoint.host", external("2001:db8::1::2", "")),
        ("an IPv4 address that is none", "spec.endpoint.host", external("192.0.2.256", "")),
        ("an IPv4 address cut short", "spec.endpoint.host", external("192.0.2", "")),
        ("an IPv4 network", "spec.endpoint.host", external("192.0.2.0/24", "")),
        ("a host with a blank", "spec.endpoint.host", external("proxy example", "")),
        ("a host with a line end", "spec.endpoint.host", external("proxy\\n", "")),
        ("a host with an underscore", "spec.endpoint.host", external("my_proxy", "")),
        ("a host with an empty label", "spec.endpoint.host", external("proxy..example", "")),
        ("a host that begins with a dot", "spec.endpoint.host", external(".example", "")),
        ("a host that is not ASCII", "spec.endpoint.host", external("bücher.example", "")),
        ("a label that begins with a hyphen", "spec.endpoint.host", external("-a.example", "")),
        ("a label of 64", "spec.endpoint.host", external(&"a".repeat(64), "")),
        ("a host of 254", "spec.endpoint.host", external(&"a.".repeat(127), "")),
        ("an endpoint's port 0", "spec.endpoint.port", "{mode: External, endpoint: {host: a, port: 0}}".to_owned()),
        ("an endpoint's port 65536", "spec.endpoint.port", "{mode: External, endpoint: {host: a, port: 65536}}".to_owned()),
        ("65 attributes", "spec.attributes", managed(&attributes(65))),
        ("an empty attribute key", "spec.attributes", managed("attributes: {'': v}")),
        ("an attribute key with a slash", "spec.attributes", managed("attributes: {a/b: v}")),
        ("an attribute key with a blank", "spec.attributes", managed("attributes: {'a b': v}")),
        ("an attribute key that is not ASCII", "spec.attributes", managed("attributes: {gëo: v}")),
        ("an attribute key that begins with a dot", "spec.attributes", managed("attributes: {.a: v}")),
        ("an attribute key that ends with a hyphen", "spec.attributes", managed("attributes: {a-: v}")),
        ("an attribute key of 64", "spec.attributes", managed(&format!("attributes: {{{}: v}}", "k".repeat(64)))),
        ("an attribute value of 254 bytes", "spec.attributes", managed(&format!("attributes: {{a: {}}}", "v".repeat(254)))),
        ("an attribute value of 254 bytes in 127 characters", "spec.attributes", managed(&format!("attributes: {{a: {}}}", "ü".repeat(127)))),
        ("an attribute value that is a number", "spec.attributes", managed("attributes: {asn: 64496}")),
        ("negative leases", "spec.maxLeases", managed("maxLeases: -1")),
        ("broken leases", "spec.maxLeases", managed("maxLeases: 0.5")),
        ("more leases than can be counted", "spec.maxLeases", managed("maxLeases: 2147483648")),
        ("a probe of nothing", "spec.healthCheck.url", probe("url: ''")),
        ("a probe of a path", "spec.healthCheck.url", probe("url: /generate_204")),
        ("a probe of a host", "spec.healthCheck.url", probe("url: example.com/x")),
        ("a probe without a scheme", "spec.healthCheck.url", probe("url: //example.com/")),
        ("a probe over ftp", "spec.healthCheck.url", probe("url: 'ftp://example.com/'")),
        ("a probe without a host", "spec.healthCheck.url", probe("url: 'https:///x'")),
        ("a probe without slashes", "spec.healthCheck.url", probe("url: 'https:example.com'")),
        ("a probe of port 65536", "spec.healthCheck.url", probe("url: 'https://example.com:65536/'")),
        ("a probe of port 0", "spec.healthCheck.url", probe("url: 'https://example.com:0/'")),
        ("a probe of an endless port", "spec.healthCheck.url", probe("url: 'https://example.com:99999999999999999999/'")),
        ("a probe with a blank", "spec.healthCheck.url", probe("url: 'https://example.com/a b'")),
        ("a probe with a line end", "spec.healthCheck.url", probe("url: \"https://example.com/\\n\"")),
        ("a probe that is not ASCII", "spec.healthCheck.url", probe("url: 'https://bücher.example/'")),
        ("a probe of 2049 characters", "spec.healthCheck.url", probe(&format!("url: 'https://e/{}'", "x".repeat(2039)))),
        ("status 99", "spec.healthCheck.expectedStatus", probe("expectedStatus: 99")),
        ("status 600", "spec.healthCheck.expectedStatus", probe("expectedStatus: 600")),
        ("a period of 0", "spec.healthCheck.periodSeconds", probe("periodSeconds: 0")),
        ("a period of 3601", "spec.healthCheck.periodSeconds", probe("periodSeconds: 3601")),
        ("a timeout of 0", "spec.healthCheck.timeoutSeconds", probe("timeoutSeconds: 0")),
        ("a timeout of 61", "spec.healthCheck.timeoutSeconds", probe("timeoutSeconds: 61")),
        ("a failure threshold of 0", "spec.healthCheck.failureThreshold", probe("failureThreshold: 0")),
        ("a failure threshold of 21", "spec.healthCheck.failureThreshold", probe("failureThreshold: 21")),
        ("a success threshold of 0", "spec.healthCheck.successThreshold", probe("successThreshold: 0")),
        ("a success threshold of 21", "spec.healthCheck.successThreshold", probe("successThreshold: 21")),
    ]
}

/// Objects to change.
#[rustfmt::skip]
pub fn updates() -> Vec<Change> {
    let (managed_, external_) = (managed(""), external("a", ""));
    [
        ("the mode to External", &managed_, external_.clone(), Some("spec.mode")),
        ("the mode to Managed", &external_, managed_.clone(), Some("spec.mode")),
        ("the provider", &managed_, "{mode: Managed, provider: gcp}".to_owned(), Some("spec.provider")),
        ("no provider any more", &managed_, "{mode: Managed}".to_owned(), Some("spec.provider")),
        ("a provider for an External", &external_, external("a", "provider: kvm"), Some("spec.provider")),
        ("an endpoint for a Managed", &managed_, managed("endpoint: {host: a}"), Some("spec.endpoint")),
        ("no endpoint any more", &external_, "{mode: External}".to_owned(), Some("spec.endpoint")),
        ("a placement for an External", &external_, external("a", "placement: {zone: z}"), Some("spec.placement")),
        ("a host that is none", &external_, external("http://a", ""), Some("spec.endpoint.host")),
        ("a port that is none", &managed_, managed("port: 0"), Some("spec.port")),
        ("an attribute that is none", &managed_, managed("attributes: {a b: c}"), Some("spec.attributes")),
        ("a second source of user-data", &managed("cloudInit: {inline: x}"), managed("cloudInit: {inline: x, secretRef: {name: a}}"), Some("spec.cloudInit")),
        ("nothing", &managed_, managed_.clone(), None),
        ("the placement", &managed_, managed("placement: {zone: z}"), None),
        ("the port", &managed_, managed("port: 8080"), None),
        ("the user-data's source", &managed("cloudInit: {inline: x}"), managed("cloudInit: {secretRef: {name: a}}"), None),
        ("the host", &external_, external("192.0.2.1", ""), None),
        ("the attributes", &managed_, managed("attributes: {geo: de}"), None),
        ("the leases to 0", &managed_, managed("maxLeases: 0"), None),
        ("the probe", &external_, external("a", "healthCheck: {periodSeconds: 30}"), None),
    ]
    .map(|(what, before, spec, refused)| Change { before: before.clone(), row: Row { what, spec, refused } })
    .into()
}

fn managed(more: &str) -> String {
    format!("{{mode: Managed, provider: kvm, {more}}}")
}

fn external(host: &str, more: &str) -> String {
    format!("{{mode: External, endpoint: {{host: \"{host}\"}}, {more}}}")
}

fn probe(check: &str) -> String {
    managed(&format!("healthCheck: {{{check}}}"))
}

fn attributes(count: usize) -> String {
    let pairs: Vec<String> = (0..count).map(|index| format!("k{index}: v")).collect();
    format!("attributes: {{{}}}", pairs.join(", "))
}

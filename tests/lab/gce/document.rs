//! Google's description of the API (`compute.v1.json`): which methods there are, and what they take.

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    process::Command,
    sync::{Arc, OnceLock},
};

/// All of the description that is needed to judge a request and its answer.
pub struct Document {
    /// By name.
    pub schemas: Map<String, Value>,
    /// Parameters that every method takes.
    pub common: BTreeMap<String, Value>,
    /// Of every resource.
    methods: Vec<Method>,
}

/// One method.
#[derive(Debug)]
pub struct Method {
    /// As in `compute.instances.insert`.
    pub id: String,
    /// GET, POST, …
    pub http: String,
    /// Segments below `/compute/v1/`; a parameter is in braces.
    path: Vec<String>,
    /// By name: type, format, pattern, location and whether it is required.
    pub parameters: BTreeMap<String, Value>,
    /// Name of the schema of the body that it takes.
    pub request: Option<String>,
    /// Name of the schema of its answer.
    pub response: Option<String>,
    /// OAuth scopes; one of them is needed.
    pub scopes: Vec<String>,
}

/// What a path is.
pub enum Found<'a> {
    /// A method, with its path parameters as they are in the URL.
    Method(&'a Method, BTreeMap<String, String>),
    /// Something that other HTTP methods are for.
    OtherMethod,
    /// Nothing.
    Nothing,
}

/// The version of who names none.
pub const UNDATED: &str = "v1";
/// Versions whose descriptions are at hand.
const VERSIONS: [&str; 2] = [UNDATED, "2026-09-01"];

/// The descriptions, by version.
pub struct Documents(BTreeMap<&'static str, Document>);

impl Documents {
    /// All of them, read once; the files are fetched the first time on a machine.
    ///
    /// # Errors
    /// A script that fails or a file that cannot be understood.
    pub fn load() -> anyhow::Result<Arc<Self>> {
        static ALL: OnceLock<Result<Arc<Documents>, String>> = OnceLock::new();
        let all = ALL.get_or_init(|| {
            let all = VERSIONS.map(|version| anyhow::Ok((version, read(version)?)));
            let all: anyhow::Result<_> = all.into_iter().collect();
            let all = all.map_err(|error| format!("{error:#}"))?;
            Ok(Arc::new(Self(all)))
        });
        all.clone().map_err(anyhow::Error::msg)
    }

    /// That of a version; none if it is not at hand.
    pub fn of(&self, version: &str) -> Option<&Document> {
        self.0.get(version)
    }
}

fn read(version: &str) -> anyhow::Result<Document> {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/compute-document.sh");
    let run = Command::new(SCRIPT).arg(version).output().context(SCRIPT)?;
    ensure!(
        run.status.success(),
        "{SCRIPT}: {}",
        String::from_utf8_lossy(&run.stderr)
    );
    let path = String::from_utf8(run.stdout)?;
    let text = std::fs::read(path.trim()).with_context(|| path.trim().to_owned())?;
    Document::parse(&text)
}

impl Document {
    fn parse(text: &[u8]) -> anyhow::Result<Self> {
        let mut whole: Value = serde_json::from_slice(text)?;
        strip(&mut whole);
        let resources = whole["resources"].take();
        let resources = resources.as_object().context("no resources")?;
        let methods = resources
            .values()
            .filter_map(|resource| resource["methods"].as_object())
            .flat_map(Map::values)
            .map(Method::read)
            .collect::<anyhow::Result<_>>()?;
        let Value::Object(schemas) = whole["schemas"].take() else {
            anyhow::bail!("no schemas");
        };
        Ok(Self {
            schemas,
            common: parameters(&whole),
            methods,
        })
    }

    /// The method of a request; `path` is below `/compute/v1/`, and as it is in the URL.
    pub fn find(&self, http: &str, path: &str) -> Found<'_> {
        let segments: Vec<&str> = path.split('/').collect();
        let mut other = false;
        for method in &self.methods {
            let Some(parameters) = method.matches(&segments) else {
                continue;
            };
            if method.http == http {
                return Found::Method(method, parameters);
            }
            other = true;
        }
        if other {
            Found::OtherMethod
        } else {
            Found::Nothing
        }
    }
}

impl Method {
    fn read(value: &Value) -> anyhow::Result<Self> {
        let text = |name: &str| {
            let text = value[name].as_str().map(ToOwned::to_owned);
            text.with_context(|| format!("a method without {name}"))
        };
        Ok(Self {
            id: text("id")?,
            http: text("httpMethod")?,
            path: text("path")?.split('/').map(ToOwned::to_owned).collect(),
            parameters: parameters(value),
            request: value["request"]["$ref"].as_str().map(ToOwned::to_owned),
            response: value["response"]["$ref"].as_str().map(ToOwned::to_owned),
            scopes: value["scopes"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|scope| scope.as_str().map(ToOwned::to_owned))
                .collect(),
        })
    }

    fn matches(&self, segments: &[&str]) -> Option<BTreeMap<String, String>> {
        if segments.len() != self.path.len() {
            return None;
        }
        let mut parameters = BTreeMap::new();
        for (expected, given) in self.path.iter().zip(segments) {
            let name = expected.strip_prefix('{').and_then(|e| e.strip_suffix('}'));
            match name {
                Some(_) if given.is_empty() => return None,
                Some(name) => {
                    parameters.insert(name.to_owned(), (*given).to_owned());
                }
                None if expected == given => {}
                None => return None,
            }
        }
        Some(parameters)
    }
}

fn parameters(value: &Value) -> BTreeMap<String, Value> {
    let parameters = value["parameters"].as_object().cloned();
    parameters.unwrap_or_default().into_iter().collect()
}

/// Takes out what is for human readers only, which is most of the file.
fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // A field may itself be called `description`; then it is no text.
            if fields.get("description").is_some_and(Value::is_string) {
                fields.remove("description");
            }
            fields.remove("enumDescriptions");
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

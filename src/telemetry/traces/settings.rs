//! What the environment says of traces.
//!
//! Read here is what decides whether and where to; a value of these that is not understood ends the
//! start. Everything else (headers, timeouts, the queue, limits, the sampler, attributes of the
//! process) the SDK reads by itself and takes its default where a value is none, as the standard wants
//! it; of the sampler, on which it depends what there is to see, that is said in the log.

use opentelemetry_otlp::ExporterBuildError;
use std::{env, ffi::OsString};

const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// Why there cannot be traces as they are wanted.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A variable has a value that is none of those it may have.
    #[error("{variable}: {value:?} is not {wanted}")]
    Value {
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: String,
        /// What it may say.
        wanted: &'static str,
    },
    /// The endpoint is none.
    #[error("traces: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// There is no client for HTTP.
    #[error("traces: {0}")]
    Client(#[from] reqwest::Error),
}

/// How spans travel to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `http/protobuf`
    Http,
    /// `grpc`
    Grpc,
}

/// Where spans go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// To a collector.
    Otlp(Protocol),
    /// To stdout, a line of JSON each.
    Console,
}

/// What is wanted.
#[derive(Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where spans go: one or two.
    pub sinks: Vec<Sink>,
    /// What was not understood and is left out.
    pub remarks: Vec<String>,
}

impl Settings {
    /// What the environment of the process says; `None` if it wants no traces.
    ///
    /// # Errors
    /// [`SettingsError::Value`]
    pub fn from_env() -> Result<Option<Self>, SettingsError> {
        Self::read(|name| env::var_os(name))
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>, SettingsError> {
        // An empty one is as good as none, says the standard.
        let get = |name: &str| {
            let value = variable(name)?.to_string_lossy().trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        if get(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let exporters = match get(EXPORTER) {
            Some(exporters) => exporters,
            None if ENDPOINTS.iter().any(|name| get(name).is_some()) => "otlp".to_owned(),
            None => return Ok(None),
        };
        let mut sinks = Vec::new();
        for exporter in exporters.split(',') {
            let sink = match exporter.trim() {
                "otlp" => Sink::Otlp(protocol(&get)?),
                "console" => Sink::Console,
                "none" if exporters == "none" => return Ok(None),
                _ => {
                    return Err(SettingsError::Value {
                        variable: EXPORTER,
                        value: exporters,
                        wanted: "otlp, console or none",
                    });
                }
            };
            if !sinks.contains(&sink) {
                sinks.push(sink);
            }
        }
        let remarks = sampler(get(SAMPLER), get(SAMPLER_ARG))
            .into_iter()
            .collect();
        Ok(Some(Self { sinks, remarks }))
    }
}

fn protocol(get: &impl Fn(&str) -> Option<String>) -> Result<Protocol, SettingsError> {
    let found = PROTOCOLS.iter().find_map(|name| Some((*name, get(name)?)));
    let Some((variable, value)) = found else {
        return Ok(Protocol::Http);
    };
    match value.as_str() {
        "http/protobuf" => Ok(Protocol::Http),
        "grpc" => Ok(Protocol::Grpc),
        _ => Err(SettingsError::Value {
            variable,
            value,
            wanted: "http/protobuf or grpc",
        }),
    }
}

/// What the SDK will not understand of the sampler.
fn sampler(sampler: Option<String>, argument: Option<String>) -> Option<String> {
    const PLAIN: [&str; 4] = [
        "always_on",
        "always_off",
        "parentbased_always_on",
        "parentbased_always_off",
    ];
    const RATIO: [&str; 2] = ["traceidratio", "parentbased_traceidratio"];
    let sampler = sampler?;
    if RATIO.contains(&sampler.as_str()) {
        let argument = argument.unwrap_or_default();
        let ratio = argument
            .parse()
            .ok()
            .filter(|ratio| (0.0..=1.0).contains(ratio));
        let none = ratio.is_none();
        return none.then(|| {
            format!(
                "{SAMPLER_ARG}: {argument:?} is not a number from 0 to 1: every trace is sampled"
            )
        });
    }
    let unknown = !PLAIN.contains(&sampler.as_str());
    unknown.then(|| {
        let known = [PLAIN.as_slice(), &RATIO].concat().join(", ");
        format!("{SAMPLER}: {sampler:?} is none of {known}: parentbased_always_on is taken")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, SettingsError> {
        Settings::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        })
    }

    #[test]
    fn traces_are_off_until_something_says_where_they_go() {
        let otlp = || Some(vec![Sink::Otlp(Protocol::Http)]);
        let (endpoint, of_traces) = (ENDPOINTS[1], ENDPOINTS[0]);
        for (variables, sinks) in [
            (&[][..], None),
            (&[(endpoint, "http://c:4318")], otlp()),
            (&[(of_traces, "http://c:4318/v1/traces")], otlp()),
            (&[(EXPORTER, "otlp")], otlp()),
            (&[(EXPORTER, "console")], Some(vec![Sink::Console])),
            (
                &[(EXPORTER, "otlp, console")],
                Some(vec![Sink::Otlp(Protocol::Http), Sink::Console]),
            ),
            (&[(EXPORTER, "none"), (endpoint, "http://c")], None),
            (&[(EXPORTER, ""), (endpoint, "")], None),
            (&[(DISABLED, "TRUE"), (EXPORTER, "otlp")], None),
            (&[(DISABLED, "true"), (EXPORTER, "nonsense")], None),
            (&[(DISABLED, "yes"), (EXPORTER, "otlp")], otlp()),
            (&[(SAMPLER, "always_on")], None),
            (&[(PROTOCOLS[0], "grpc")], None),
        ] {
            let settings = read(variables).expect("is understood");
            assert_eq!(
                settings.map(|settings| settings.sinks),
                sinks,
                "{variables:?}"
            );
        }
    }

    #[test]
    fn the_protocol_of_traces_goes_before_that_of_everything() {
        let [of_traces, general] = PROTOCOLS;
        for (variables, protocol) in [
            (vec![], Protocol::Http),
            (vec![(general, "grpc")], Protocol::Grpc),
            (vec![(general, "http/protobuf")], Protocol::Http),
            (
                vec![(general, "grpc"), (of_traces, "http/protobuf")],
                Protocol::Http,
            ),
            (
                vec![(general, "nonsense"), (of_traces, "grpc")],
                Protocol::Grpc,
            ),
            (vec![(general, "grpc"), (of_traces, "")], Protocol::Grpc),
        ] {
            let variables = [variables, vec![(EXPORTER, "otlp")]].concat();
            let settings = read(&variables).expect("is understood").expect("is on");
            assert_eq!(settings.sinks, [Sink::Otlp(protocol)], "{variables:?}");
        }
    }

    #[test]
    fn a_value_that_is_none_is_refused_by_its_name() {
        for (variable, value, error) in [
            (
                EXPORTER,
                "zipkin",
                "OTEL_TRACES_EXPORTER: \"zipkin\" is not otlp, console or none",
            ),
            (
                EXPORTER,
                "otlp,none",
                "OTEL_TRACES_EXPORTER: \"otlp,none\" is not otlp, console or none",
            ),
            (
                PROTOCOLS[1],
                "http/json",
                "OTEL_EXPORTER_OTLP_PROTOCOL: \"http/json\" is not http/protobuf or grpc",
            ),
        ] {
            let refused = read(&[(variable, value), (ENDPOINTS[1], "http://c")]);
            assert_eq!(refused.expect_err(error).to_string(), error);
        }
    }

    #[test]
    fn a_sampler_that_is_none_is_remarked_on() {
        let cases: [(&str, &str, Option<&str>); 7] = [
            ("always_off", "", None),
            ("traceidratio", "0.01", None),
            ("parentbased_traceidratio", "1", None),
            ("parentbased_traceidratio", "1.5", Some(SAMPLER_ARG)),
            ("traceidratio", "", Some(SAMPLER_ARG)),
            ("traceidratio", "one", Some(SAMPLER_ARG)),
            ("sometimes", "", Some(SAMPLER)),
        ];
        for (sampler, argument, named) in cases {
            let variables = [
                (EXPORTER, "otlp"),
                (SAMPLER, sampler),
                (SAMPLER_ARG, argument),
            ];
            let remarks = read(&variables)
                .expect("is understood")
                .expect("is on")
                .remarks;
            let found = remarks.first().map(|remark| remark.split(':').next());
            assert_eq!(found.flatten(), named, "{sampler} {argument}");
        }
    }
}

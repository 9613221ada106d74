//! The one table of routes: the router, the metrics' labels and the `OpenAPI` document read it.

use warp::http::Method;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is one row of the table below")]
pub enum Endpoint {
    Healthz,
    OpenApi,
    ListProxies,
    GetProxy,
    Acquire,
    GetLease,
    Renew,
    Release,
    Report,
}

/// One row: an endpoint, its method and its path, where `{…}` stands for one segment.
#[derive(Debug)]
pub struct Row {
    /// What it asks for.
    pub endpoint: Endpoint,
    /// The method; a `GET` serves `HEAD` too.
    pub method: Method,
    /// The path template.
    pub template: &'static str,
}

const fn row(endpoint: Endpoint, method: Method, template: &'static str) -> Row {
    Row {
        endpoint,
        method,
        template,
    }
}

/// Every route there is, in the order of [`Endpoint`].
pub static TABLE: [Row; 9] = [
    row(Endpoint::Healthz, Method::GET, "/healthz"),
    row(Endpoint::OpenApi, Method::GET, "/openapi.json"),
    row(Endpoint::ListProxies, Method::GET, "/v1/proxies"),
    row(
        Endpoint::GetProxy,
        Method::GET,
        "/v1/proxies/{namespace}/{name}",
    ),
    row(Endpoint::Acquire, Method::POST, "/v1/leases"),
    row(Endpoint::GetLease, Method::GET, "/v1/leases/{id}"),
    row(Endpoint::Renew, Method::POST, "/v1/leases/{id}/renew"),
    row(Endpoint::Release, Method::DELETE, "/v1/leases/{id}"),
    row(Endpoint::Report, Method::POST, "/v1/leases/{id}/report"),
];

/// Whether a path asks for no token, whatever the method.
#[must_use]
pub fn is_open(path: &str) -> bool {
    path == TABLE[Endpoint::Healthz as usize].template
}

/// A path's variable segments, still percent-encoded, in order; unused ones are empty.
pub type Captures<'p> = [&'p str; 2];

/// Why no row fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// No row has such a path.
    Path,
    /// Rows have the path, with these methods (as in the `Allow` header).
    Method(String),
}

/// Finds the row for a request.
///
/// # Errors
/// [`NoRoute`], with the methods that the path does have.
pub fn resolve<'p>(method: &Method, path: &'p str) -> Result<(Endpoint, Captures<'p>), NoRoute> {
    let wanted = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    let mut allow = String::new();
    for row in &TABLE {
        let Some(captures) = fit(row.template, path) else {
            continue;
        };
        if row.method == *wanted {
            return Ok((row.endpoint, captures));
        }
        if !allow.is_empty() {
            allow.push_str(", ");
        }
        allow.push_str(row.method.as_str());
        if row.method == Method::GET {
            allow.push_str(", HEAD");
        }
    }
    if allow.is_empty() {
        return Err(NoRoute::Path);
    }
    Err(NoRoute::Method(allow))
}

fn fit<'p>(template: &str, path: &'p str) -> Option<Captures<'p>> {
    let mut captures = [""; 2];
    let mut free = captures.iter_mut();
    let mut segments = path.split('/');
    for wanted in template.split('/') {
        let segment = segments.next()?;
        if wanted.starts_with('{') {
            if segment.is_empty() {
                return None;
            }
            *free.next()? = segment;
        } else if segment != wanted {
            return None;
        }
    }
    segments.next().is_none().then_some(captures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_endpoints() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.endpoint as usize, index, "{}", row.template);
        }
    }

    #[test]
    fn a_path_and_a_method_find_their_row() {
        let cases = [
            ("GET", "/healthz", Endpoint::Healthz, ["", ""]),
            ("HEAD", "/healthz", Endpoint::Healthz, ["", ""]),
            ("GET", "/openapi.json", Endpoint::OpenApi, ["", ""]),
            ("GET", "/v1/proxies", Endpoint::ListProxies, ["", ""]),
            ("GET", "/v1/proxies/a/b", Endpoint::GetProxy, ["a", "b"]),
            ("POST", "/v1/leases", Endpoint::Acquire, ["", ""]),
            ("GET", "/v1/leases/X", Endpoint::GetLease, ["X", ""]),
            ("DELETE", "/v1/leases/X", Endpoint::Release, ["X", ""]),
            ("POST", "/v1/leases/X/renew", Endpoint::Renew, ["X", ""]),
            ("POST", "/v1/leases/X/report", Endpoint::Report, ["X", ""]),
        ];
        for (method, path, endpoint, captures) in cases {
            let method: Method = method.parse().expect("a method");
            assert_eq!(resolve(&method, path), Ok((endpoint, captures)), "{path}");
        }
    }

    #[test]
    fn a_path_is_matched_whole() {
        for path in [
            "",
            "/",
            "*",
            "/v1",
            "/v1/",
            "/v1/proxies/",
            "/v1/proxies/a",
            "/v1/proxies//b",
            "/v1/proxies/a/",
            "/v1/proxies/a/b/c",
            "/v1/leases/",
            "/v1/leases/X/",
            "//healthz",
            "/v1/leases/X/renew/",
            "/v1/leases//renew",
            "/V1/leases",
            "/healthz/",
            "healthz",
        ] {
            assert_eq!(resolve(&Method::GET, path), Err(NoRoute::Path), "{path:?}");
        }
    }

    #[test]
    fn another_method_is_told_which_there_are() {
        let cases = [
            ("POST", "/healthz", "GET, HEAD"),
            ("OPTIONS", "/v1/proxies", "GET, HEAD"),
            ("GET", "/v1/leases", "POST"),
            ("HEAD", "/v1/leases", "POST"),
            ("PUT", "/v1/leases/X", "GET, HEAD, DELETE"),
            ("BREW", "/v1/leases/X/report", "POST"),
        ];
        for (method, path, allow) in cases {
            let method: Method = method.parse().expect("a method");
            let refused = Err(NoRoute::Method(allow.to_owned()));
            assert_eq!(resolve(&method, path), refused, "{method} {path}");
        }
    }
}

//! What a request to the admin server asks for. Actors' paths have slashes, so the word at the end of
//! a URL's path says what is wanted, and what stands before it is the actor's.

use super::refusal::AdminRefusal;
use crate::http::{query::percent_decode, refusal::Refusal};
use actors::system::directory::End;
use warp::http::Method;

/// The list.
pub const ACTORS: &str = "/admin/actors";
/// The monkey.
pub const CHAOS: &str = "/admin/chaos";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Every actor.
    List,
    /// End the actor at this path so.
    End(String, End),
    /// Let a monkey loose.
    Start,
    /// Show its run.
    Show,
    /// End its run.
    Stop,
}

/// Finds out what a request asks for; without `chaos` that is the list or nothing.
///
/// # Errors
/// [`AdminRefusal::NotFound`], or the methods that the path does have.
pub fn resolve(method: &Method, path: &str, chaos: bool) -> Result<Call, AdminRefusal> {
    let other = |allow: &str| Refusal::MethodNotAllowed(allow.to_owned()).into();
    if path == ACTORS {
        return match *method {
            Method::GET | Method::HEAD => Ok(Call::List),
            _ => Err(other("GET, HEAD")),
        };
    }
    if !chaos {
        return Err(AdminRefusal::NotFound);
    }
    if path == CHAOS {
        return match *method {
            Method::POST => Ok(Call::Start),
            Method::GET | Method::HEAD => Ok(Call::Show),
            Method::DELETE => Ok(Call::Stop),
            _ => Err(other("POST, GET, HEAD, DELETE")),
        };
    }
    let end = path
        .strip_prefix(ACTORS)
        .and_then(|rest| rest.strip_prefix('/'))
        .and_then(end)
        .ok_or(AdminRefusal::NotFound)?;
    if *method == Method::POST {
        Ok(end)
    } else {
        Err(other("POST"))
    }
}

fn end(rest: &str) -> Option<Call> {
    let (path, word) = rest.rsplit_once('/')?;
    let how = match word {
        "kill" => End::Kill,
        "stop" => End::Stop,
        "panic" => End::Panic,
        _ => return None,
    };
    let path = percent_decode(path).filter(|path| !path.is_empty())?;
    Some(Call::End(path, how))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_method_say_what_is_asked_for() {
        let end = |path: &str, how| Call::End(path.to_owned(), how);
        for (method, path, call) in [
            (Method::GET, "/admin/actors", Call::List),
            (Method::HEAD, "/admin/actors", Call::List),
            (Method::POST, "/admin/chaos", Call::Start),
            (Method::GET, "/admin/chaos", Call::Show),
            (Method::DELETE, "/admin/chaos", Call::Stop),
            (
                Method::POST,
                "/admin/actors/leases/kill",
                end("leases", End::Kill),
            ),
            (
                Method::POST,
                "/admin/actors/proxy/default/a/panic",
                end("proxy/default/a", End::Panic),
            ),
            (
                Method::POST,
                "/admin/actors/proxy%2Fdefault%2Fa/stop",
                end("proxy/default/a", End::Stop),
            ),
            // A proxy may have a word of ours for a name.
            (
                Method::POST,
                "/admin/actors/proxy/kill/stop/kill",
                end("proxy/kill/stop", End::Kill),
            ),
        ] {
            assert_eq!(resolve(&method, path, true), Ok(call), "{method} {path}");
        }
    }

    #[test]
    fn without_chaos_there_is_the_list_alone() {
        assert_eq!(resolve(&Method::GET, ACTORS, false), Ok(Call::List));
        for (method, path) in [
            (Method::POST, "/admin/actors/leases/kill"),
            (Method::GET, "/admin/actors/leases/kill"),
            (Method::POST, "/admin/chaos"),
            (Method::GET, "/admin/chaos"),
            (Method::PUT, "/admin/chaos"),
        ] {
            let refused = Err(AdminRefusal::NotFound);
            assert_eq!(resolve(&method, path, false), refused, "{method} {path}");
        }
    }

    #[test]
    fn what_there_is_not_is_told_apart_from_a_wrong_method() {
        for path in [
            "/",
            "/admin",
            "/admin/actors/",
            "/admin/actors/leases",
            "/admin/actors/kill",
            "/admin/actors//kill",
            "/admin/actors/leases/maim",
            "/admin/actors/leases/kill/",
            "/admin/actorsleases/kill",
            "/admin/actors/%ff/kill",
            "/admin/chaos/",
        ] {
            let refused = Err(AdminRefusal::NotFound);
            assert_eq!(resolve(&Method::POST, path, true), refused, "{path}");
        }
        for (method, path, allow) in [
            (Method::POST, "/admin/actors", "GET, HEAD"),
            (Method::PUT, "/admin/chaos", "POST, GET, HEAD, DELETE"),
            (Method::GET, "/admin/actors/leases/kill", "POST"),
        ] {
            let refused = Err(Refusal::MethodNotAllowed(allow.to_owned()).into());
            assert_eq!(resolve(&method, path, true), refused, "{method} {path}");
        }
    }
}

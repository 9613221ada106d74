//! The TCP connection below the SSH connection.

use super::{
    super::error::{HostError, Stage},
    Target,
};
use std::io;
use tokio::{
    net::{TcpStream, lookup_host},
    time::{Instant, timeout_at},
};

/// Connects to the first address of the host that answers.
pub(super) async fn connect(target: &Target, deadline: Instant) -> Result<TcpStream, HostError> {
    let failed = |why: &str, message: String| {
        let reason = if why == "Timeout" {
            "Timeout"
        } else {
            "Unreachable"
        };
        HostError::transient(message).at(Stage::Tcp).because(reason)
    };
    let host = target.host.as_str();
    let found = timeout_at(deadline, lookup_host((host, target.port))).await;
    let found =
        found.map_err(|_| failed("Timeout", format!("no name server answered for {host}")))?;
    let addresses: Vec<_> = found
        .map_err(|error| {
            failed("", format!("{host} cannot be resolved: {error}")).caused_by(error)
        })?
        .collect();

    let mut last = failed("", format!("{host} has no address"));
    for (tried, address) in addresses.iter().enumerate() {
        // One silent address leaves time for the others.
        let now = Instant::now();
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let until = now + deadline.saturating_duration_since(now) / left;
        last = match timeout_at(until, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => {
                failed("Timeout", format!("{address} does not answer: {error}")).caused_by(error)
            }
            Ok(Err(error)) => {
                failed("", format!("{address} cannot be reached: {error}")).caused_by(error)
            }
            Err(_) => {
                let waited = (until - now).as_secs_f64();
                failed(
                    "Timeout",
                    format!("{address} does not answer (waited {waited:.0} s)"),
                )
            }
        };
    }
    Err(last)
}

/// The stream, and a second handle on the same socket.
pub(super) fn twice(stream: TcpStream) -> io::Result<(TcpStream, std::net::TcpStream)> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let socket = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, socket))
}

//! The Squid configuration of a pod.

use std::{fmt::Write, num::NonZeroU16};

/// Writes a configuration for Squid 5 and 6 that serves `port`, lets CONNECT through to
/// `connect_ports` and plain HTTP to everywhere, stores nothing and writes no file.
#[must_use]
pub fn configuration(port: u16, connect_ports: &[NonZeroU16]) -> String {
    let mut connect = String::new();
    for port in connect_ports {
        write!(connect, " {port}").ok();
    }
    // max_filedescriptors: left alone, Squid makes room for as many as the container may open, often a
    //   thousand times this, and is killed for the memory. 4096 are some 2000 connections at once.
    // pinger_enable: the pinger needs ICMP, which the restricted standard denies, and its end is
    //   Squid's too.
    // to_localhost, link_local: nobody reaches Squid's own insides or the node's cloud credentials
    //   through a proxy that is open to all of the cluster.
    // visible_hostname: error pages would tell the pod's name.
    // cache_log: what matters goes to standard error, by the flag -d.
    format!(
        "\
http_port {port}
visible_hostname egress-proxy
max_filedescriptors 4096
pinger_enable off
shutdown_lifetime 1 second

acl connect_ports port{connect}
acl link_local dst 169.254.0.0/16 fe80::/10
http_access deny manager
http_access deny to_localhost
http_access deny link_local
http_access deny CONNECT !connect_ports
http_access allow all

via off
forwarded_for delete
httpd_suppress_version_string on

cache deny all
cache_mem 0 MB
memory_pools off
client_db off
access_log none
cache_log /dev/null
cache_store_log none
netdb_filename none
pid_filename none
coredump_dir none
logfile_rotate 0
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_and_the_connect_ports_are_written() {
        let ports = [443, 8443].map(|port| NonZeroU16::new(port).expect("a port"));
        let text = configuration(3128, &ports);
        let lines: Vec<&str> = text.lines().collect();
        for line in [
            "http_port 3128",
            "acl connect_ports port 443 8443",
            "http_access deny CONNECT !connect_ports",
            "max_filedescriptors 4096",
            "pinger_enable off",
            "via off",
            "forwarded_for delete",
            "cache deny all",
            "access_log none",
        ] {
            assert!(lines.contains(&line), "{line} is missing in\n{text}");
        }
        let deny = lines.iter().position(|line| line.contains("deny CONNECT"));
        let allow = lines.iter().position(|line| line.contains("allow all"));
        assert!(deny < allow, "the first rule that matches wins");
    }
}

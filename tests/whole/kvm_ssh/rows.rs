//! The `known_hosts` files that are tried, and what is said about each.
//!
//! `{H}` stands for the host as it is looked up, `{A}` for its address alone, `{P}` for its port;
//! `{ed}`, `{ec}`, `{rsa}` for type and base64 of its keys, `{ed2}`, `{ec2}`, `{rsa2}`, `{ec384}`,
//! `{dss}` for keys that it does not have; `{hash:…}` for the hash of what follows; § for a byte that
//! is no UTF-8.

/// What is said about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Accepted,
    Unknown,
    /// OpenSSH says that it has changed.
    OtherType,
    Changed,
    Revoked,
    /// OpenSSH says that it is unknown.
    OnlyCertAuthority,
    /// OpenSSH says that it is unknown.
    NoFile,
}

/// Whom the client is asked to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// 127.0.0.1 at a port other than 22.
    V4,
    /// This name or address, at that port.
    Named(&'static str),
    /// An address at port 22.
    At22,
}

pub struct Row {
    pub name: &'static str,
    pub whom: Whom,
    /// `None`: there is no file.
    pub file: Option<&'static str>,
    pub said: Said,
}

const fn row(name: &'static str, file: &'static str, said: Said) -> Row {
    Row {
        name,
        whom: Whom::V4,
        file: Some(file),
        said,
    }
}

const fn named(name: &'static str, host: &'static str, file: &'static str, said: Said) -> Row {
    Row {
        name,
        whom: Whom::Named(host),
        file: Some(file),
        said,
    }
}

const fn at_22(name: &'static str, file: &'static str, said: Said) -> Row {
    Row {
        name,
        whom: Whom::At22,
        file: Some(file),
        said,
    }
}

use Said::{Accepted, Changed, NoFile, OnlyCertAuthority, OtherType, Revoked, Unknown};

// One line a file.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row("one key", "{H} {ed}\n", Accepted),
    row("its RSA key only", "{H} {rsa}\n", Accepted),
    row("its ECDSA key only", "{H} {ec}\n", Accepted),
    row("all of its keys", "{H} {rsa}\n{H} {ec}\n{H} {ed}\n", Accepted),
    row("no newline at the end", "{H} {ed}", Accepted),
    row("lines from Windows", "# a\r\n\r\n{H} {ed}\r\n", Accepted),
    row("lines from Windows with a comment", "{H} {ed} me@host\r\n", Accepted),
    row("tabs, blanks before", " \t {H}\t {ed}\n", Accepted),
    row("a comment at the end", "{H} {ed} me@host and # more\n", Accepted),
    row("blanks at the end", "{H} {ed}  \t \n", Accepted),
    row("comments and empty lines", "\n#{H} {ed2}\n  # x\n\n{H} {ed}\n\n", Accepted),
    row("a comment only", "#{H} {ed}\n", Unknown),
    row("not UTF-8", "# caf§\nh§st {ed2}\n{H} {ed} caf§\n", Accepted),
    row("a byte order mark", "\u{feff}{H} {ed}\n", Unknown),
    row("an empty file", "", Unknown),
    Row {
        name: "no file",
        whom: Whom::V4,
        file: None,
        said: NoFile,
    },
    row("a list of hosts", "a,{H},c {ed}\n", Accepted),
    row("a list with empty members", ",,{H},, {ed}\n", Accepted),
    row("a list with a blank in it", "a, {H} {ed}\n", Unknown),
    row("another host", "[127.0.0.2]:{P} {ed}\n", Unknown),
    row("another port", "[127.0.0.1]:1 {ed}\n", Unknown),
    row("the port of ssh in brackets", "[127.0.0.1]:22 {ed}\n", Unknown),
    row("a port without brackets", "127.0.0.1:{P} {ed}\n", Unknown),
    row("a hash", "{hash:[127.0.0.1]:{P}} {ed}\n", Accepted),
    row("the hash of another", "{hash:[127.0.0.1]:1} {ed}\n", Unknown),
    row("a hash, changed", "{hash:[127.0.0.1]:{P}} {ed2}\n", Changed),
    row("a hash in a list", "{hash:[127.0.0.1]:{P}},{H} {ed}\n", Unknown),
    row("a broken hash beside a good line", "|1|AAAA|BBBB {ed}\n|1| {ed}\n|2|a|b {ed}\n{H} {ed}\n", Accepted),
    row("a broken hash only", "|1|AAAA|BBBB {ed}\n", Unknown),
    row("the bare address", "127.0.0.1 {ed}\n", Accepted),
    row("the bare address, hashed", "{hash:127.0.0.1} {ed}\n", Accepted),
    row("the bare address by wildcard", "127.0.0.? {ed}\n", Accepted),
    row("the bare address with the RSA key only", "127.0.0.1 {rsa}\n", Unknown),
    row("the bare address with another key", "127.0.0.1 {ed2}\n", Unknown),
    row("the bare address beside a changed key", "{H} {ed2}\n127.0.0.1 {ed}\n", Changed),
    row("any host", "* {ed}\n", Accepted),
    row("a wildcard", "[127.*]:* {ed}\n", Accepted),
    row("question marks", "[127.0.0.?]:{P} {ed}\n", Accepted),
    row("a question mark for nothing", "[127.0.0.1?]:{P} {ed}\n", Unknown),
    row("a wildcard, changed", "* {ed2}\n", Changed),
    row("negated, but not its bare address", "*,!{H} {ed}\n", Accepted),
    row("negated", "*,!{H},!{A} {ed}\n", Unknown),
    row("negated first", "!{H},[*]:* {ed}\n", Unknown),
    row("negated by wildcard", "{H},![127.*]:* {ed}\n", Unknown),
    row("another negated", "!other,{H} {ed}\n", Accepted),
    row("negated only", "!other {ed}\n", Unknown),
    row("negated in one line, named in the next", "*,!{H} {ed2}\n{H} {ed}\n", Accepted),
    row("changed", "{H} {ed2}\n", Changed),
    row("changed, RSA", "{H} {rsa2}\n", Changed),
    row("changed, ECDSA", "{H} {ec2}\n", Changed),
    row("the old and the new key", "{H} {ed2}\n{H} {ed}\n", Accepted),
    row("the new and the old key", "{H} {ed}\n{H} {ed2}\n", Accepted),
    row("changed, with its RSA key right", "{H} {rsa}\n{H} {ed2}\n", Changed),
    row("RSA changed, with its ECDSA key right", "{H} {rsa2}\n{H} {ec}\n", Accepted),
    row("another curve", "{H} {ec384}\n", OtherType),
    row("DSA", "{H} {dss}\n", OtherType),
    row("revoked", "{H} {ed}\n@revoked {H} {ed}\n", Revoked),
    row("revoked before", "@revoked {H} {ed}\n{H} {ed}\n", Revoked),
    row("revoked only", "@revoked {H} {ed}\n", Revoked),
    row("revoked everywhere", "{H} {ed}\n@revoked * {ed}\n", Revoked),
    row("revoked, hashed", "{H} {ed}\n@revoked {hash:[127.0.0.1]:{P}} {ed}\n", Revoked),
    row("revoked, lines from Windows", "{H} {ed}\r\n@revoked {H} {ed}\r\n", Revoked),
    row("another key revoked", "{H} {ed}\n@revoked * {ed2}\n", Accepted),
    row("revoked on another host", "{H} {ed}\n@revoked other {ed}\n", Accepted),
    row("revoked except here", "{H} {ed}\n@revoked *,!{H} {ed}\n", Accepted),
    row("revoked at the bare address", "@revoked 127.0.0.1 {ed}\n", Revoked),
    row("revoked at the bare address, known here", "@revoked 127.0.0.1 {ed}\n{H} {ed}\n", Accepted),
    row("revoked, the only RSA key", "{H} {rsa}\n@revoked {H} {rsa}\n", OtherType),
    row("the RSA key revoked", "{H} {ed}\n@revoked * {rsa}\n", Accepted),
    row("revoked, with a tab that hides it", "{H} {ed}\n@revoked\t{H} {ed}\n", Accepted),
    row("revoked, in upper case", "{H} {ed}\n@REVOKED {H} {ed}\n", Accepted),
    row("an authority only", "@cert-authority {H} {ed2}\n", OnlyCertAuthority),
    row("an authority that is the key itself", "@cert-authority {H} {ed}\n", OnlyCertAuthority),
    row("an authority for all", "@cert-authority * {rsa2}\n", OnlyCertAuthority),
    row("an authority for the bare address", "@cert-authority 127.0.0.1 {ed2}\n", OnlyCertAuthority),
    row("an authority beside the key", "@cert-authority * {ed2}\n{H} {ed}\n", Accepted),
    row("an authority beside another key", "@cert-authority * {ed2}\n{H} {ed2}\n", Changed),
    row("an authority that is revoked", "@cert-authority * {ed2}\n@revoked * {ed2}\n", OnlyCertAuthority),
    row("an unknown marker", "@trusted {H} {ed}\n", Unknown),
    row("two markers", "@revoked @cert-authority {H} {ed}\n{H} {ed}\n", Accepted),
    row("a lone marker", "@revoked\n{H} {ed}\n", Accepted),
    row("broken base64 beside a good line", "{H} ssh-ed25519 %%%\n{H} {ed}\n", Accepted),
    row("half a key beside a good line", "{H} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA\n{H} {ed}\n", Accepted),
    row("lines cut off beside a good one", "{H}\n{H} \n{H} ssh-ed25519\n{H} ssh-ed25519 \n{H} {ed}\n", Accepted),
    row("a broken line only", "{H} ssh-ed25519 %%%\n", Unknown),
    row("a type that nobody knows beside a good line", "{H} ssh-new AAAAB3Nz\n{H} {ed}\n", Accepted),
    row("a type that nobody knows", "{H} ssh-new AAAAB3Nz\n", Unknown),
    row("a type in upper case", "{H} SSH-ED25519 {ed.}\n", Unknown),
    row("a type that is not the key's", "{H} ssh-rsa {ed.}\n", Unknown),
    row("RSA by the name of its signature", "{H} rsa-sha2-512 {rsa.}\n", Accepted),
    row("options as in authorized_keys", "no-pty {H} {ed}\n", Unknown),
    row("no host", "{ed}\n", Unknown),
    row("a comment for a key", "{H} # {ed}\n", Unknown),
    row("no padding", "{H} {ec-}\n", Unknown),
    row("a pattern longer than OpenSSH reads", "{long},{H} {ed}\n", Unknown),
    row("a pattern longer than OpenSSH reads, after", "{H},{long} {ed}\n", Unknown),
    named("a name", "localhost", "[localhost]:{P} {ed}\n", Accepted),
    named("a name in upper case", "localhost", "[LOCALHOST]:{P} {ed}\n", Accepted),
    named("asked in upper case", "LocalHost", "[localhost]:{P} {ed}\n", Accepted),
    named("asked in upper case, hashed", "LOCALHOST", "{hash:[localhost]:{P}} {ed}\n", Accepted),
    named("a name by its address", "localhost", "[127.0.0.1]:{P} {ed}\n[::1]:{P} {ed}\n", Unknown),
    named("a bare name", "localhost", "LocalHost {ed}\n", Accepted),
    named("IPv6", "::1", "[::1]:{P} {ed}\n", Accepted),
    named("IPv6, asked in full", "0:0:0:0:0:0:0:1", "[::1]:{P} {ed}\n", Accepted),
    named("IPv6 in full", "::1", "[0:0:0:0:0:0:0:1]:{P} {ed}\n", Unknown),
    named("bare IPv6", "::1", "::1 {ed}\n", Accepted),
    named("IPv6 by wildcard", "::1", "[*::*]:* {ed}\n", Accepted),
    at_22("port 22", "{A} {ed}\n", Accepted),
    at_22("port 22, RSA only", "{A} {rsa}\n", Accepted),
    at_22("port 22 in brackets", "[{A}]:22 {ed}\n", Unknown),
    at_22("port 22, bare brackets", "[{A}] {ed}\n", Unknown),
    at_22("port 22, hashed", "{hash:{A}} {ed}\n", Accepted),
    at_22("port 22, hashed in brackets", "{hash:[{A}]:22} {ed}\n", Unknown),
    at_22("port 22, changed", "127.* {ed2}\n", Changed),
    at_22("port 22, negated", "127.*,!{A} {ed}\n", Unknown),
    at_22("port 22, revoked", "* {ed}\n@revoked {A} {ed}\n", Revoked),
    at_22("port 22, an authority", "@cert-authority {A} {ed2}\n", OnlyCertAuthority),
];

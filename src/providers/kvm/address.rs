//! The address of a guest, as the host can see it.

use super::{domain, libvirt::rpc};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use virt::{
    domain::{Domain, Interface},
    sys,
};

/// Who may know it, best first: the guest itself, who gave it, who has seen it.
const SOURCES: [(sys::virDomainInterfaceAddressesSource, &str); 3] = [
    (sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT, "agent"),
    (sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE, "lease"),
    (sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP, "arp"),
];

/// The first address that anybody knows. A source that fails knows none.
#[must_use]
pub fn find(domain: &Domain, name: &str) -> Option<IpAddr> {
    let mac = domain::mac(name);
    SOURCES.iter().find_map(|(source, word)| {
        let about = format!("{name} from {word}");
        let seen = rpc("virDomainInterfaceAddresses", about, || {
            domain.interface_addresses(*source, 0)
        });
        let address = choose(&mac, &seen.ok()?);
        tracing::trace!(domain = name, source = word, ?address, "addresses");
        address
    })
}

/// The first routable IPv4 address of the interface with this MAC, or else the first IPv6 one.
fn choose(mac: &str, interfaces: &[Interface]) -> Option<IpAddr> {
    let ours = |interface: &&Interface| {
        let theirs = interface.hwaddr.as_deref();
        theirs.is_some_and(|theirs| theirs.eq_ignore_ascii_case(mac))
    };
    let addresses = || {
        interfaces
            .iter()
            .filter(ours)
            .flat_map(|interface| &interface.addrs)
            .filter_map(|address| address.addr.parse::<IpAddr>().ok())
            .filter(is_routable)
    };
    let fourth = addresses().find(IpAddr::is_ipv4);
    fourth.or_else(|| addresses().next())
}

fn is_routable(address: &IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => is_local_v4(*address),
        IpAddr::V6(address) => is_local_v6(*address),
    };
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_local)
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    address.is_link_local() || address.is_broadcast()
}

fn is_local_v6(address: Ipv6Addr) -> bool {
    // What an IPv4 address is wrapped in says nothing that the IPv4 one does not.
    address.is_unicast_link_local() || address.to_ipv4_mapped().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use virt::domain::IPAddress;

    const MAC: &str = "52:54:00:aa:bb:cc";

    fn seen(mac: Option<&str>, addresses: &[&str]) -> Interface {
        let address = |addr: &&str| IPAddress {
            typed: 0,
            addr: (*addr).to_owned(),
            prefix: 24,
        };
        let addrs: Vec<_> = addresses.iter().map(address).collect();
        Interface {
            name: "eth0".to_owned(),
            hwaddr: mac.map(str::to_owned),
            naddrs: addrs.len() as u64,
            addrs,
        }
    }

    #[test]
    fn only_a_routable_address_of_our_interface_counts_and_ipv4_comes_first() {
        let other = Some("52:54:00:00:00:01");
        let upper = Some("52:54:00:AA:BB:CC");
        let ours = Some(MAC);
        for (interfaces, expected) in [
            (vec![], None),
            (vec![seen(ours, &[])], None),
            (vec![seen(other, &["192.0.2.1"])], None),
            (vec![seen(None, &["192.0.2.1"])], None),
            (vec![seen(upper, &["192.0.2.1"])], Some("192.0.2.1")),
            (
                vec![seen(other, &["192.0.2.9"]), seen(ours, &["192.0.2.1"])],
                Some("192.0.2.1"),
            ),
            (
                vec![seen(ours, &["2001:db8::1", "192.0.2.1", "192.0.2.2"])],
                Some("192.0.2.1"),
            ),
            (
                vec![seen(ours, &["fe80::1", "2001:db8::1"])],
                Some("2001:db8::1"),
            ),
            (
                vec![seen(
                    ours,
                    &["127.0.0.1", "169.254.7.7", "0.0.0.0", "::1", "::", "junk"],
                )],
                None,
            ),
            (vec![seen(ours, &["10.78.1.50"])], Some("10.78.1.50")),
        ] {
            let expected = expected.map(|ip| ip.parse::<IpAddr>().unwrap());
            let shown: Vec<_> = interfaces.iter().map(|i| (&i.hwaddr, &i.addrs)).collect();
            assert_eq!(choose(MAC, &interfaces), expected, "{shown:?}");
        }
    }
}

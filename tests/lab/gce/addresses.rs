//! The addresses that instances get: all of them loopback, so that no packet leaves this machine.

use std::{collections::BTreeSet, net::Ipv4Addr};

/// Addresses of one stand-in.
pub struct Addresses {
    /// 127.x.y.0 of the stand-in's own: nobody else on this machine has its port.
    own: [u8; 2],
    free: BTreeSet<u8>,
    /// How many were given when there was no own one left.
    shared: u32,
}

impl Addresses {
    /// Those of the stand-in that listens on `port` of this machine.
    pub fn new(port: u16) -> Self {
        Self {
            // 127.0 to 127.3 are nobody's: there is no port below 1024 for us.
            own: port.to_be_bytes(),
            free: (1..=254).collect(),
            shared: 0,
        }
    }

    /// That of the stand-in that they belong to.
    pub fn port(&self) -> u16 {
        u16::from_be_bytes(self.own)
    }

    /// One that no other instance has.
    pub fn take(&mut self) -> Ipv4Addr {
        match self.free.pop_first() {
            Some(last) => Ipv4Addr::new(127, self.own[0], self.own[1], last),
            None => self.take_shared(),
        }
    }

    /// One that another stand-in's instance may have, too: for those that no proxy serves.
    pub fn take_shared(&mut self) -> Ipv4Addr {
        self.shared = self.shared.wrapping_add(1);
        let [_, b, c, d] = self.shared.to_be_bytes();
        Ipv4Addr::new(127, 1 + b % 3, c, d)
    }

    /// It may be another instance's from now on.
    pub fn give_back(&mut self, address: Option<Ipv4Addr>) {
        let Some([127, b, c, d]) = address.map(|address| address.octets()) else {
            return;
        };
        if [b, c] == self.own && d != 0 {
            self.free.insert(d);
        }
    }
}

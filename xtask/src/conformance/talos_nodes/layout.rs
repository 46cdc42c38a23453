//! Who is where: three control planes and a worker, in a network of their own within 127.0.0.0/8.

use std::net::Ipv4Addr;
use std::time::{SystemTime, UNIX_EPOCH};

const CONTROL_PLANES: u8 = 3;

#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// `1.13.9`.
    pub(super) version: &'static str,
    /// The version an upgrade goes to.
    pub(super) next: &'static str,
    pub(super) control_planes: Vec<Ipv4Addr>,
    pub(super) worker: Ipv4Addr,
}

impl Layout {
    /// Whoever else runs this at the same time has another network, most likely.
    pub(super) fn new(version: &str) -> anyhow::Result<Self> {
        let (version, next) = if version == "1.12" { ("1.12.6", "1.12.7") } else { ("1.13.9", "1.13.10") };
        let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos();
        let [a, b] = [nanoseconds >> 3, std::process::id()].map(|number| u8::try_from(number % 200 + 20));
        let (a, b) = (a?, b?);
        let address = |last: u8| Ipv4Addr::new(127, a, b, last);
        let control_planes = (1..=CONTROL_PLANES).map(|number| address(10 + number)).collect();
        Ok(Self { version, next, control_planes, worker: address(21) })
    }

    /// An address of the network.
    pub(super) fn address(&self, last: u8) -> Ipv4Addr {
        let [a, b, c, _] = self.worker.octets();
        Ipv4Addr::new(a, b, c, last)
    }

    /// Everybody, control planes first.
    pub(super) fn everybody(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.control_planes.iter().copied().chain([self.worker])
    }

    /// The control plane that is asked first.
    pub(super) fn first(&self) -> String {
        self.address(11).to_string()
    }
}

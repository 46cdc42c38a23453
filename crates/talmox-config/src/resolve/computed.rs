//! Values that follow from others where nobody wrote them, each with the reason `explain` gives.

use std::net::IpAddr;

use talmox_types::desired::{Boot, Role, VmIdRange};
use talmox_types::{Cidr, ClusterName, Contract, FamilyPair, Version, VmId, support};

use crate::description::Description;
use crate::file::Cluster;
use crate::layers::Member;
use crate::read::{At, Value as _};
use crate::source::{Location, SourceId};

/// A value nobody wrote, and why it is what it is.
pub(crate) struct Computed {
    pub text: String,
    pub reason: String,
}

/// The first Talos whose disk images bring the keys Secure Boot enrols; before, only its ISOs do.
const KEYS_ON_DISK_IMAGES: Contract = Contract::new(1, 14);

/// A start order beyond this means nothing to Proxmox's own interface.
const MAX_STARTUP_ORDER: u32 = 100;

/// Orders 1 to 3 are left to machines a cluster depends on: storage, router, name server.
const STARTUP_OFFSET: u32 = 3;

impl Description {
    /// What the user wrote at the top level, else what is built in.
    pub(crate) fn top_value<'d, T: 'd>(
        &'d self,
        get: impl Fn(&'d Cluster) -> Option<&'d At<T>>,
    ) -> Option<&'d At<T>> {
        get(&self.cluster.file).or_else(|| get(&self.built_in.file))
    }

    /// The same for keys that `built_in.yaml` always has.
    pub(crate) fn top_default<'d, T: Clone + 'd>(
        &'d self,
        get: impl Fn(&'d Cluster) -> Option<&'d At<T>>,
    ) -> T {
        match self.top_value(get) {
            Some(at) => at.value.clone(),
            None => unreachable!("built_in.yaml has a value for every key read with top_default()"),
        }
    }

    pub(crate) fn cluster_name(&self) -> ClusterName {
        self.top_default(|file| file.cluster_name.as_ref())
    }

    pub(crate) fn talos_version(&self) -> Version {
        self.top_default(|file| file.talos_version.as_ref())
    }

    pub(crate) fn kubernetes_version(&self) -> Option<Version> {
        let written = self.cluster.file.kubernetes_version.as_ref().map(|at| at.value.clone());
        written
            .or_else(|| support::line_of(&self.talos_version()).map(support::TalosLine::default_kubernetes))
    }

    pub(crate) fn contract(&self) -> Contract {
        let written = self.cluster.file.talos_contract.as_ref().map(|at| at.value);
        written.unwrap_or_else(|| support::default_contract(&self.talos_version()))
    }

    pub(crate) fn pod_cidr(&self) -> FamilyPair<Cidr> {
        self.top_default(|file| file.cluster_pod_cidr.as_ref())
    }

    pub(crate) fn service_cidr(&self) -> FamilyPair<Cidr> {
        self.top_default(|file| file.cluster_svc_cidr.as_ref())
    }

    /// The node network: written, or guessed around the first address there is.
    pub(crate) fn node_cidr(&self) -> Option<FamilyPair<Cidr>> {
        if let Some(written) = &self.cluster.file.node_cidr {
            return Some(written.value);
        }
        let from_node = self.nodes.iter().find_map(|node| node.address.as_ref()).map(|at| at.value);
        let from_pool = || {
            let range = self.pools.iter().find_map(|pool| pool.addresses.as_ref())?.value.0.first()?;
            Some(FamilyPair::one(range.value.first()))
        };
        let around =
            |ip: IpAddr| Cidr::new(ip, if ip.is_ipv4() { 24 } else { 64 }).map(|cidr| cidr.network());
        let addresses = from_node.or_else(from_pool)?;
        let mut networks = addresses.iter().filter_map(around);
        match (networks.next()?, networks.next()) {
            (first, Some(second)) => FamilyPair::two(first, second),
            (first, None) => Some(FamilyPair::one(first)),
        }
    }

    /// The gateway: written, or the first address of each node network.
    pub(crate) fn gateway(&self) -> Option<FamilyPair<IpAddr>> {
        if let Some(written) = &self.cluster.file.node_gateway {
            return Some(written.value);
        }
        let network = self.node_cidr()?;
        let mut hosts = network.iter().map(|cidr| cidr.first_host());
        match (hosts.next()?, hosts.next()) {
            (first, Some(second)) => FamilyPair::two(first, second),
            (first, None) => Some(FamilyPair::one(first)),
        }
    }

    /// Addresses no node may have: whose, which, and where that is written.
    pub(crate) fn reserved_addresses(&self) -> Vec<(&'static str, IpAddr, Option<Location>)> {
        let file = &self.cluster.file;
        let gateway_place = file.node_gateway.as_ref().map(|at| at.location);
        let gateway = self.gateway().into_iter().flat_map(|pair| pair.iter());
        let vip =
            file.cluster_api_addr.iter().flat_map(|at| at.value.iter().map(move |ip| (ip, at.location)));
        gateway
            .map(|ip| ("gateway's address", ip, gateway_place))
            .chain(vip.map(|(ip, place)| ("cluster's virtual address", ip, Some(place))))
            .collect()
    }

    /// Where the Kubernetes API is reached.
    pub(crate) fn endpoint(&self, members: &[Member<'_>]) -> Option<String> {
        let file = &self.cluster.file;
        if let Some(written) = &file.cluster_endpoint {
            return Some(written.value.0.to_string());
        }
        let vip = file.cluster_api_addr.as_ref().map(|at| at.value.primary());
        let only = || {
            let member = members.iter().find(|member| member.role == Role::Controller)?;
            member.node?.address.as_ref().map(|at| at.value.primary())
        };
        let address = vip.or_else(only)?;
        Some(if address.is_ipv4() {
            format!("https://{address}:6443")
        } else {
            format!("https://[{address}]:6443")
        })
    }

    pub(crate) fn vmid_ranges(&self) -> (VmIdRange, VmIdRange) {
        let range = |block: crate::file::VmIdRangeBlock, fallback: (u32, u32)| {
            let id = |at: Option<At<_>>, or: u32| {
                let number = at.map_or(or, |at: At<crate::read::Int<100, 999_999_999>>| at.value.to());
                match VmId::try_from(number) {
                    Ok(id) => id,
                    Err(_) => unreachable!("the reader keeps VMIDs within Proxmox's range"),
                }
            };
            VmIdRange { start: id(block.start, fallback.0), end: id(block.end, fallback.1) }
        };
        (
            range(self.top_default(|file| file.proxmox_vmid_range.as_ref()), (2000, 2999)),
            range(self.top_default(|file| file.proxmox_template_vmid_range.as_ref()), (9000, 9099)),
        )
    }

    /// Whether a node must boot from the ISO first, because nothing else brings the keys that Secure Boot enrols.
    pub(crate) fn keys_only_on_iso(&self, member: &Member<'_>) -> bool {
        member.value(|s| s.secure_boot.as_ref())
            && self.talos_version().contract() < KEYS_ON_DISK_IMAGES
            && member.pick(|s| s.template.as_ref()).is_none()
    }

    /// Where the first boot comes from: as written, else by what Secure Boot needs.
    pub(crate) fn boot(&self, member: &Member<'_>) -> Boot {
        let written = member.pick(|s| s.boot.as_ref()).filter(|at| at.location.source != SourceId::BUILT_IN);
        match written {
            Some(at) => at.value,
            None if self.keys_only_on_iso(member) => Boot::Iso,
            None => member.value(|s| s.boot.as_ref()),
        }
    }

    pub(crate) fn allow_scheduling(&self, members: &[Member<'_>]) -> bool {
        let written = self.cluster.file.allow_scheduling_on_control_planes.as_ref().map(|at| at.value);
        written.unwrap_or_else(|| members.iter().all(|member| member.role == Role::Controller))
    }

    /// The values of keys that nothing wrote and nothing built in has, but that follow from the rest.
    pub(crate) fn computed(&self, key: &str, member: &Member<'_>) -> Option<Computed> {
        let computed = |text: String, reason: &str| Some(Computed { text, reason: reason.to_owned() });
        match key {
            "node_cidr" => {
                computed(self.node_cidr()?.to_string(), "the network around the first node's address")
            }
            "node_gateway" => computed(self.gateway()?.to_string(), "the first address of node_cidr"),
            "kubernetes_version" => {
                computed(self.kubernetes_version()?.to_string(), "what this Talos version was made for")
            }
            "talos_contract" => computed(
                self.contract().to_string(),
                "that of talos_version, at most the newest with the legacy layout",
            ),
            "cluster_endpoint" => {
                let reason = match self.cluster.file.cluster_api_addr {
                    Some(_) => "port 6443 of cluster_api_addr",
                    None => "port 6443 of the only control plane",
                };
                computed(self.endpoint(&self.members())?, reason)
            }
            "proxmox_pool" => computed(format!("talmox-{}", self.cluster_name()), "named after the cluster"),
            "allow_scheduling_on_control_planes" => {
                computed(self.allow_scheduling(&self.members()).to_string(), "whether there are no workers")
            }
            "vm_startup_order" => computed(
                startup_order(member).to_string(),
                "the node's position, counted from 1, plus 3; at most 100",
            ),
            "mac_addr" => {
                let uid = self.cluster.file.cluster_uid.as_ref().map(|at| &at.value);
                let mac = crate::derive::mac_address(uid, &self.cluster_name(), &member.name, 0);
                let reason = if uid.is_some() {
                    "derived from cluster_uid and name"
                } else {
                    "derived from cluster_name and name"
                };
                computed(mac.to_string(), reason)
            }
            "node_ip_subnets" | "etcd_subnets" => computed(self.node_cidr()?.to_string(), "node_cidr"),
            "address" => {
                let pool = member.pool?;
                let ranges = pool.addresses.as_ref()?.value.show();
                computed(format!("the next free one of {ranges}"), "read back from the VM once it is taken")
            }
            "controller" => computed("false".to_owned(), "a worker unless it says otherwise"),
            _ => None,
        }
    }
}

/// The position in the start order of a node that names none.
pub(crate) fn startup_order(member: &Member<'_>) -> u32 {
    (member.position + STARTUP_OFFSET).min(MAX_STARTUP_ORDER)
}

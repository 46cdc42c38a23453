//! What configurations say that a description has keys for.

use std::net::IpAddr;

use talmox_config::edit::Yaml;
use talmox_machine::{Config, Map, Value};
use talmox_types::desired::Role;
use talmox_types::{Cidr, ClusterName, SchematicId, Version, support};

use super::addresses::Addresses;
use super::{DescribeError, LiveCluster, LiveNode};

/// Lines of `cluster.yaml`. What is wanted may be left out where it is not valid: then patches say it.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) name: ClusterName,
    pub(super) needed: Vec<(&'static str, Yaml)>,
    /// Lines that go together, or else one by one.
    pub(super) wanted: Vec<Vec<(&'static str, Yaml)>>,
}

impl Facts {
    pub(super) fn of(live: &LiveCluster<'_>, addresses: &[Addresses]) -> Result<Self, DescribeError> {
        let first = live.nodes.iter().find(|node| node.role == Role::Controller);
        let first = first.ok_or(DescribeError::NoControlPlane)?;
        let said = Said(&first.config);
        let missing = |what| DescribeError::Missing(first.name.clone(), what);
        let named = said.text(&["cluster", "clusterName"], "KubeClusterConfig", &["clusterName"]);
        let name = match &live.name {
            Some(name) => name.clone(),
            None => named
                .and_then(|name| ClusterName::parse(name).ok())
                .ok_or_else(|| missing("name of a cluster that could be one of ours; --name gives it one"))?,
        };
        let endpoint =
            said.text(&["cluster", "controlPlane", "endpoint"], "KubeClusterConfig", &["endpoint"]);
        let endpoint = endpoint.ok_or_else(|| missing("endpoint"))?;
        let needed = vec![
            ("cluster_endpoint", Yaml::text(endpoint)),
            ("talos_version", Yaml::text(&live.talos)),
            ("node_cidr", one_or_more(&node_networks(addresses))),
        ];
        let mut facts = Self { name, needed, wanted: Vec::new() };
        facts.network(live, &said);
        facts.kubernetes(live, &said);
        facts.install(live, &said);
        Ok(facts)
    }

    fn want(&mut self, key: &'static str, value: Option<Yaml>) {
        self.wanted.extend(value.map(|value| vec![(key, value)]));
    }

    fn network(&mut self, live: &LiveCluster<'_>, said: &Said<'_>) {
        let gateways = gateways(live, said);
        self.want("node_gateway", (!gateways.is_empty()).then(|| one_or_more(&gateways)));
        // Where one of them does not fit, the first may: what is said twice is not valid.
        self.want("node_gateway", gateways.get(1).and(gateways.first()).map(Yaml::text));
        self.want("dns_servers", Some(texts(&said.name_servers())));
        self.want("ntp_servers", Some(texts(&said.time_servers())));
        let vips = said.virtual_addresses();
        self.want("cluster_api_addr", (!vips.is_empty()).then(|| one_or_more(&vips)));
        let names: Vec<String> =
            said.texts(&["machine", "certSANs"]).into_iter().filter(|name| !vips.contains(name)).collect();
        self.want("cluster_api_tls_sans", (!names.is_empty()).then(|| texts(&names)));
        let subnets = |legacy: &[&str], key| said.subnets(legacy, key);
        let (pods, services) = (
            subnets(&["cluster", "network", "podSubnets"], "podSubnets"),
            subnets(&["cluster", "network", "serviceSubnets"], "serviceSubnets"),
        );
        // Both of them are of the same families, so neither is valid without the other.
        let nets = [("cluster_pod_cidr", pods), ("cluster_svc_cidr", services)];
        let nets = nets.into_iter().filter(|(_, nets)| !nets.is_empty());
        self.wanted.push(nets.map(|(key, nets)| (key, one_or_more(&nets))).collect());
        let kubelet = said.texts(&["machine", "kubelet", "nodeIP", "validSubnets"]);
        let kubelet = [kubelet, said.document_texts("KubeNodeConfig", &["nodeIP", "validSubnets"])].concat();
        self.want("node_ip_subnets", Some(texts(&kubelet)));
        self.want("etcd_subnets", Some(texts(&said.texts(&["cluster", "etcd", "advertisedSubnets"]))));
    }

    fn kubernetes(&mut self, live: &LiveCluster<'_>, said: &Said<'_>) {
        let image = said.text(&["machine", "kubelet", "image"], "KubeletConfig", &["image"]);
        let version = image.and_then(|image| Version::parse(image.rsplit_once(":v")?.1).ok());
        let runs =
            |version: &Version| support::line_of(&live.talos).is_none_or(|line| line.supports(version));
        self.want("kubernetes_version", version.filter(runs).map(Yaml::text));
        let domain = said.text(&["cluster", "network", "dnsDomain"], "KubeNetworkConfig", &["dnsDomain"]);
        self.want("dns_domain", domain.map(Yaml::text));
        self.want("cni", said.cni());
        self.want("allow_scheduling_on_control_planes", Some(Yaml::Bool(said.schedules())));
        let flag = |path: &[&str]| said.0.at(path).and_then(Value::as_bool);
        let proxy = said.0.document("KubeProxyConfig").and_then(|document| document.at(&["enabled"]));
        let off = flag(&["cluster", "proxy", "disabled"]) == Some(true)
            || proxy.and_then(Value::as_bool) == Some(false);
        self.want("kube_proxy", off.then_some(Yaml::Bool(false)));
        let discovery = flag(&["cluster", "discovery", "enabled"]).unwrap_or(false)
            || said.0.document("DiscoveryServiceConfig").is_some();
        self.want("discovery", (!discovery).then_some(Yaml::Bool(false)));
        let prism = flag(&["machine", "features", "kubePrism", "enabled"]).unwrap_or(false)
            || said.0.document("KubePrismConfig").is_some();
        self.want("kubeprism", (!prism).then_some(Yaml::Bool(false)));
    }

    /// What is installed, and where: what most of the machines say.
    fn install(&mut self, live: &LiveCluster<'_>, said: &Said<'_>) {
        let images = live.nodes.iter().filter_map(|node| Said(&node.config).install_image());
        let image = most_common(images.map(str::to_owned));
        let disk = said.0.at(&["machine", "install", "disk"]).and_then(Value::as_text);
        let disk = disk.map(|disk| ("disk".to_owned(), Yaml::text(disk)));
        let schematic = image.as_deref().and_then(schematic_of);
        let schematic_id = schematic.map(|id| ("schematic_id".to_owned(), Yaml::text(id)));
        if schematic_id.is_none() {
            let default = |image: String| Yaml::Map(vec![("default".to_owned(), Yaml::text(image))]);
            self.want("install_images", image.map(default));
        }
        let defaults: Vec<(String, Yaml)> = disk.into_iter().chain(schematic_id).collect();
        self.want("proxmox_vm_defaults", (!defaults.is_empty()).then_some(Yaml::Map(defaults)));
    }
}

/// The schematic a node's installer is made of, if it is one of the public factory.
pub(super) fn schematic_of_node(node: &LiveNode) -> Option<SchematicId> {
    Said(&node.config).install_image().and_then(schematic_of)
}

/// The schematic of an installer of the public factory.
fn schematic_of(image: &str) -> Option<SchematicId> {
    let path = image.strip_prefix("factory.talos.dev/")?;
    let (_, rest) = path.split_once('/')?;
    SchematicId::parse(rest.split_once(':')?.0).ok()
}

/// A configuration, in either layout.
struct Said<'a>(&'a Config);

impl<'a> Said<'a> {
    fn text(&self, legacy: &[&str], kind: &str, path: &[&str]) -> Option<&'a str> {
        let document = || self.0.document(kind)?.at(path);
        let found = self.0.at(legacy).or_else(document)?.as_text()?;
        (!found.is_empty()).then_some(found)
    }

    fn texts(&self, path: &[&str]) -> Vec<String> {
        list(self.0.at(path))
    }

    fn document_texts(&self, kind: &str, path: &[&str]) -> Vec<String> {
        list(self.0.document(kind).and_then(|document| document.at(path)))
    }

    fn subnets(&self, legacy: &[&str], key: &str) -> Vec<String> {
        [self.texts(legacy), self.document_texts("KubeNetworkConfig", &[key])].concat()
    }

    fn interfaces(&self) -> Vec<&'a Map> {
        let list = self.0.at(&["machine", "network", "interfaces"]).and_then(Value::as_list);
        list.unwrap_or_default().iter().filter_map(Value::as_map).collect()
    }

    fn name_servers(&self) -> Vec<String> {
        let servers = self.0.document("ResolverConfig").and_then(|document| document.at(&["nameservers"]));
        let servers = servers.and_then(Value::as_list).unwrap_or_default();
        let address = |server: &Value| server.at(&["address"])?.as_text().map(str::to_owned);
        let legacy = self.texts(&["machine", "network", "nameservers"]);
        legacy.into_iter().chain(servers.iter().filter_map(address)).collect()
    }

    fn time_servers(&self) -> Vec<String> {
        let legacy = self.texts(&["machine", "time", "servers"]);
        [legacy, self.document_texts("TimeSyncConfig", &["ntp", "servers"])].concat()
    }

    fn virtual_addresses(&self) -> Vec<String> {
        let documents = self.0.of_kind("Layer2VIPConfig").filter_map(|one| one.name().map(str::to_owned));
        let shared = |interface: &&Map| {
            let own = interface.get("vip").and_then(|vip| vip.at(&["ip"]));
            own.and_then(Value::as_text).map(str::to_owned)
        };
        documents.chain(self.interfaces().iter().filter_map(shared)).collect()
    }

    /// Where default routes lead.
    fn gateways(&self) -> Vec<String> {
        let of = |routes: Option<&'a Value>| {
            let routes = routes.and_then(Value::as_list).unwrap_or_default().iter();
            let is_default = |route: &&Value| {
                let network = route.at(&["destination"]).or_else(|| route.at(&["network"]));
                network.and_then(Value::as_text).is_none_or(|text| matches!(text, "" | "0.0.0.0/0" | "::/0"))
            };
            let found = routes.filter(is_default);
            found.filter_map(|route| route.at(&["gateway"])?.as_text().map(str::to_owned))
        };
        let documents = self.0.of_kind("LinkConfig").flat_map(|link| of(link.at(&["routes"])));
        documents.chain(self.interfaces().into_iter().flat_map(|one| of(one.get("routes")))).collect()
    }

    fn cni(&self) -> Option<Yaml> {
        let legacy = self.0.at(&["cluster", "network", "cni"]);
        let kind = legacy.and_then(|cni| cni.at(&["name"])).and_then(Value::as_text);
        match kind {
            Some("none") => Some(Yaml::text("none")),
            Some("custom") => {
                let urls = list(legacy.and_then(|cni| cni.at(&["urls"])));
                Some(Yaml::Map(vec![("urls".to_owned(), texts(&urls))]))
            }
            _ => None,
        }
    }

    fn schedules(&self) -> bool {
        match self.0.document("KubeNodeConfig") {
            Some(document) => document.at(&["taints"]).is_none(),
            None => {
                let said = self.0.at(&["cluster", "allowSchedulingOnControlPlanes"]);
                said.and_then(Value::as_bool).unwrap_or(false)
            }
        }
    }

    fn install_image(&self) -> Option<&'a str> {
        self.text(&["machine", "install", "image"], "UnattendedInstallConfig", &["installer", "image"])
    }
}

fn list(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_list).unwrap_or_default();
    items.iter().filter_map(|item| item.as_text().map(str::to_owned)).collect()
}

fn texts(items: &[String]) -> Yaml {
    Yaml::List(items.iter().map(Yaml::text).collect())
}

fn one_or_more(items: &[String]) -> Yaml {
    if let [one] = items { Yaml::text(one) } else { texts(items) }
}

fn most_common(items: impl Iterator<Item = String>) -> Option<String> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for item in items {
        match counted.iter_mut().find(|(known, _)| *known == item) {
            Some((_, count)) => *count += 1,
            None => counted.push((item, 1)),
        }
    }
    // The first of those that are equally many.
    counted.into_iter().rev().max_by_key(|(_, count)| *count).map(|(item, _)| item)
}

/// Where default routes lead, one for each family: as configurations say, else as cloud-init drives do.
fn gateways(live: &LiveCluster<'_>, said: &Said<'_>) -> Vec<String> {
    let drives = live.nodes.iter().filter_map(|node| node.vm.as_ref());
    let drives = || drives.clone().flat_map(|vm| &vm.gateways).map(ToString::to_string);
    let mut of_each: Vec<String> = Vec::new();
    for six in [false, true] {
        let of_family = |gateway: &String| gateway.contains(':') == six;
        let said = said.gateways().into_iter().find(of_family);
        of_each.extend(said.or_else(|| most_common(drives().filter(of_family))));
    }
    // That of the family a machine names first is the one that counts.
    if live.nodes.first().is_some_and(|node| node.address.is_ipv6()) {
        of_each.reverse();
    }
    of_each
}

/// The networks all of them are in, one for each place among their addresses.
fn node_networks(addresses: &[Addresses]) -> Vec<String> {
    let places = addresses.first().map_or(1, Vec::len);
    (0..places).map(|place| node_network(&column(addresses, place))).collect()
}

fn column(addresses: &[Addresses], place: usize) -> Addresses {
    addresses.iter().filter_map(|of_one| of_one.get(place).copied()).collect()
}

/// The network all of them are in: that of the first, and wider if it has to be.
fn node_network(addresses: &Addresses) -> String {
    let first = addresses.first().map_or(IpAddr::from([0, 0, 0, 0]), |(address, _)| *address);
    let usual = if first.is_ipv4() { 24 } else { 64 };
    let longest = addresses.iter().find_map(|(_, prefix)| *prefix).unwrap_or(usual);
    let fits = |prefix: &u8| {
        let network = Cidr::new(first, *prefix).map(|cidr| cidr.network());
        network.is_some_and(|network| addresses.iter().all(|(address, _)| network.contains(*address)))
    };
    let prefix = (1..=longest).rev().find(fits).unwrap_or(usual);
    Cidr::new(first, prefix).map(|cidr| cidr.network().to_string()).unwrap_or_default()
}

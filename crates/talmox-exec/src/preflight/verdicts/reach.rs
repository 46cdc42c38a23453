//! Endpoints, certificates, versions, quorum.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::desired::Desired;
use talmox_types::{Fingerprint, HostName};

use super::listed;
use crate::preflight::facts::{EndpointFacts, Facts, Trusted};
use crate::preflight::needs::hosts;
use crate::preflight::report::Check;

/// The oldest Proxmox whose behaviour is known here.
const OLDEST: (u32, u32) = (8, 4);
/// The newest line.
const NEWEST: u32 = 9;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for endpoint in &facts.endpoints {
        checks.push(answers(endpoint, facts));
        checks.extend(certificate(endpoint, facts));
    }
    if facts.trusted == Trusted::Insecure {
        checks.push(Check::warning(
            "certificate",
            "certificates are not checked: anybody on the network can read the credentials",
            "trust the fingerprints below (TALMOX_FINGERPRINT), and remove PROXMOX_VE_INSECURE",
        ));
    }
    checks
}

fn answers(endpoint: &EndpointFacts, facts: &Facts) -> Check {
    match &endpoint.version {
        Ok(version) => Check::ok(
            "endpoint",
            format!("{} answers, Proxmox VE {version}, {}", endpoint.name, vouched(&facts.trusted)),
        ),
        Err(words) => {
            let message = if is_refusal(words) {
                format!("{} refuses {}: {words}", endpoint.name, facts.login.name)
            } else {
                format!("{} does not answer: {words}", endpoint.name)
            };
            if facts.reached.is_ok() {
                let remedy = "the others do, so a run works; repair it or take it out of proxmox_endpoint";
                Check::warning("endpoint", message, remedy)
            } else {
                Check::problem("endpoint", message, remedy_for(words))
            }
        }
    }
}

/// Whether it answered, and did not take the credentials.
fn is_refusal(words: &str) -> bool {
    ["uthentication", "token", "No ticket"].iter().any(|word| words.contains(word))
}

fn remedy_for(words: &str) -> &'static str {
    if words.contains("certificate") {
        "compare the fingerprint below with the host's, and trust it (TALMOX_FINGERPRINT)"
    } else if is_refusal(words) {
        "make a token with the lines talmox check --setup prints, and export it"
    } else {
        "is the host up, the name right, and port 8006 open from here?"
    }
}

fn vouched(trusted: &Trusted) -> String {
    match trusted {
        Trusted::Fingerprints => "certificate pinned by its fingerprint".to_owned(),
        Trusted::Authority(file) => format!("certificate vouched for by {file}"),
        Trusted::System => "certificate trusted by this system".to_owned(),
        Trusted::Insecure => "certificate not checked".to_owned(),
    }
}

/// What an endpoint shows must be what the cluster says one of its hosts shows.
fn certificate(endpoint: &EndpointFacts, facts: &Facts) -> Option<Check> {
    let name = "certificate";
    let shown = match &endpoint.certificate {
        Ok(shown) => *shown,
        // That it does not answer is said already.
        Err(_) if endpoint.version.is_err() => return None,
        Err(words) => {
            return Some(Check::not_checked(name, format!("of {}: {words}", endpoint.name), None));
        }
    };
    if facts.reached.is_err() {
        return Some(Check::not_checked(
            name,
            format!("{} shows {shown}", endpoint.name),
            Some(compare().to_owned()),
        ));
    }
    let known = |(host, facts): (&HostName, &crate::preflight::HostFacts)| {
        facts.fingerprint.map(|fingerprint| (fingerprint, host.clone()))
    };
    let reported: BTreeMap<Fingerprint, HostName> = facts.hosts.iter().filter_map(known).collect();
    Some(match reported.get(&shown) {
        Some(host) => Check::ok(name, format!("{} shows the certificate of {host}", endpoint.name)),
        None if reported.is_empty() => Check::not_checked(
            name,
            format!("{} shows {shown}, and no host says what its own is", endpoint.name),
            Some(compare().to_owned()),
        ),
        None => Check::warning(
            name,
            format!("{} shows {shown}, which is no certificate of the cluster's hosts", endpoint.name),
            "if no proxy of yours is in between, somebody else's is; on a host: systemctl reload pveproxy shows a new certificate",
        ),
    })
}

fn compare() -> &'static str {
    "on the host: openssl x509 -in /etc/pve/local/pve-ssl.pem -noout -fingerprint -sha256"
}

/// Hosts that no endpoint is must show what the trusted ones say they show.
fn certificates(facts: &Facts) -> Vec<Check> {
    let name = "certificate";
    let one = |(host, facts): (&HostName, &crate::preflight::HostFacts)| {
        let reported = facts.fingerprint?;
        Some(match facts.shown.as_ref()? {
            Ok(shown) if *shown == reported => Check::ok(name, format!("{host} shows its own certificate")),
            Ok(shown) => Check::warning(
                name,
                format!("{host} shows {shown}, and the cluster says its certificate is {reported}"),
                "on the host: pvecm updatecerts and systemctl reload pveproxy; if that changes nothing, somebody is in between",
            ),
            Err(words) => Check::not_checked(
                name,
                format!("of {host} at its own address, which is no endpoint: {words}"),
                None,
            ),
        })
    };
    facts.hosts.iter().filter_map(one).collect()
}

/// Versions that are known, and one for all hosts.
pub(super) fn versions(desired: &Desired, facts: &Facts) -> Vec<Check> {
    let mut checks = certificates(facts);
    checks.push(supported(&facts.version));
    let mut by_version: BTreeMap<&str, Vec<&HostName>> = BTreeMap::new();
    for (host, host_facts) in &facts.hosts {
        match &host_facts.version {
            Ok(version) => by_version.entry(version).or_default().push(host),
            Err(words) => checks.push(unreachable(desired, facts, host, words)),
        }
    }
    for host in hosts(desired, facts).iter().filter(|host| !facts.hosts.contains_key(*host)) {
        let there = listed(facts.hosts.keys());
        let remedy = format!("its hosts are {there}: correct vm_host or proxmox_nodes");
        checks.push(Check::problem("host", format!("Proxmox has no host {host}"), remedy));
    }
    let answering: Vec<&HostName> = by_version.values().flatten().copied().collect();
    if by_version.len() > 1 {
        let each = by_version.iter().map(|(version, hosts)| format!("{} on {}", version, listed(hosts)));
        let message = format!("hosts run different versions: {}", listed(each));
        checks.push(Check::warning(
            "version",
            message,
            "finish the upgrade; until then VMs may not move to older hosts",
        ));
    } else if !answering.is_empty() {
        checks.push(Check::ok(
            "host",
            format!("{} answer{}", listed(&answering), if answering.len() == 1 { "s" } else { "" }),
        ));
    }
    match &facts.quorate {
        Ok(true) => {}
        Ok(false) => checks.push(Check::problem(
            "quorum",
            "the Proxmox cluster has lost its majority and is read-only",
            "bring its hosts back; pvecm status shows who is missing",
        )),
        Err(words) => checks.push(Check::not_checked("quorum", format!("Proxmox said: {words}"), None)),
    }
    checks
}

fn unreachable(desired: &Desired, facts: &Facts, host: &HostName, words: &str) -> Check {
    let fixed = |host: &HostName| desired.nodes.iter().any(|node| node.vm.host.as_ref() == Some(host));
    let wanted: BTreeSet<HostName> = hosts(desired, facts);
    let others = wanted
        .iter()
        .any(|other| other != host && facts.hosts.get(other).is_some_and(|facts| facts.version.is_ok()));
    let message = format!("{host} does not answer: {words}");
    if !wanted.contains(host) {
        Check::warning("host", message, "no node needs it; its VMs cannot be seen")
    } else if others && !fixed(host) {
        Check::warning("host", message, "nodes are placed on the other hosts until it is back")
    } else {
        Check::problem("host", message, "bring it back, or give its nodes another vm_host")
    }
}

fn supported(version: &str) -> Check {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or_default());
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if (major, minor) < OLDEST {
        let remedy = "upgrade: pve8to9 --full tells what is in the way";
        Check::problem(
            "version",
            format!("Proxmox VE {version} is older than {}.{}", OLDEST.0, OLDEST.1),
            remedy,
        )
    } else if major > NEWEST {
        let remedy = "look for a newer talmox; read plans closely until then";
        Check::warning("version", format!("Proxmox VE {version} is newer than this talmox knows"), remedy)
    } else {
        Check::ok("version", format!("Proxmox VE {version}"))
    }
}

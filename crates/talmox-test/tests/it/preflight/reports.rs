//! What a preflight finds.

use talmox_exec::preflight::{Report, Verdict};
use talmox_pve::client::Credentials;
use talmox_sim::World;
use talmox_types::desired::Desired;

use crate::preflight::bed::{Bed, described, small};

/// A sign, the name and the message of each check; and below what to do.
fn shown(report: &Report) -> String {
    let sign = |verdict| match verdict {
        Verdict::Ok => '+',
        Verdict::Warning => '!',
        Verdict::Problem => 'X',
        Verdict::NotChecked => '?',
    };
    let line = |check: &talmox_exec::preflight::Check| {
        let remedy = check.remedy.as_ref().map(|remedy| format!("    -> {remedy}\n")).unwrap_or_default();
        format!("{} {}: {}\n{remedy}", sign(check.verdict), check.name, check.message)
    };
    report.checks.iter().map(line).collect()
}

/// What is not as it should be with this description on a cluster arranged like that, as root sees it.
async fn wrong(arrange: impl FnOnce(&mut World), desired: &Desired) -> String {
    let bed = Bed::new("9.2", arrange).await;
    let report = bed.check(desired, &bed.root()).await;
    let good = |check: &talmox_exec::preflight::Check| check.verdict == Verdict::Ok;
    let plain = |check: &talmox_exec::preflight::Check| check.name == "login" || check.name == "plan";
    let checks = report.checks.into_iter().filter(|check| !good(check) && !plain(check)).collect();
    shown(&Report { checks })
}

#[tokio::test(start_paused = true)]
async fn a_preflight_reads_and_never_writes() {
    let bed = Bed::new("9.2", |_| {}).await;
    let token = bed.lab.world(|world| world.starter_token().unwrap());
    let client = bed.client(&Credentials::token(&token.into()).unwrap());
    bed.live_a_little(&client).await;
    let before = bed.lab.calls().len();
    let report = bed.check(&small(), &client).await;
    let calls = bed.lab.calls();
    let made: Vec<String> =
        calls.iter().skip(before).filter(|call| call.method != "GET").map(ToString::to_string).collect();
    assert_eq!(made, [""; 0]);
    assert!(calls.len() > before + 10, "it did ask");
    insta::assert_snapshot!(shown(&report));
}

#[tokio::test(start_paused = true)]
async fn nothing_in_the_way() {
    let bed = Bed::new("9.2", |_| {}).await;
    insta::assert_snapshot!(shown(&bed.check(&small(), &bed.root()).await));
}

#[tokio::test(start_paused = true)]
async fn storages_and_bridges_that_are_not_as_they_should_be() {
    let nodes = "  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n";
    let lacks = |world: &mut World| {
        let local = world.storages.iter_mut().find(|storage| storage.id == "local").unwrap();
        local.content.retain(|content| content != "import" && content != "iso");
    };
    insta::assert_snapshot!("content", wrong(lacks, &described("boot: iso\n", nodes)).await);
    insta::assert_snapshot!("import", wrong(lacks, &described("", nodes)).await);
    let other = "proxmox_vm_controller_defaults: {proxmox_storage: tank, proxmox_bridge: vmbr9}\n";
    let other = described(&format!("talos_template: 9000\n{other}"), nodes);
    insta::assert_snapshot!("missing", wrong(|_| {}, &other).await);
    let elsewhere = described("talos_template: 9000\nproxmox_node: pve7\n", nodes);
    insta::assert_snapshot!("host", wrong(|_| {}, &elsewhere).await);
}

#[tokio::test(start_paused = true)]
async fn what_others_have() {
    let nodes = "  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n    vm_id: 2000\n  - name: worker-1\n    address: 10.0.7.12\n";
    let desired = described("talos_template: 9000\nproxmox_vmid_range: {start: 2000, end: 2001}\n", nodes);
    let taken = |world: &mut World| {
        let config = [("name", "nas"), ("ipconfig0", "ip=10.0.7.11/24,gw=10.0.7.1")];
        let config = config.map(|(key, value)| (key.to_owned(), value.to_owned()));
        world.add_vm("pve1", 2000, config.into(), false);
        world.add_vm("pve1", 2001, [("name".to_owned(), "printer".to_owned())].into(), false);
    };
    insta::assert_snapshot!(wrong(taken, &desired).await);
}

#[tokio::test(start_paused = true)]
async fn too_little_room() {
    let nodes = "  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n";
    let desired =
        described("talos_template: 9000\nproxmox_vm_defaults: {memory: 131072, disk_size: 4000}\n", nodes);
    insta::assert_snapshot!(wrong(|_| {}, &desired).await);
}

#[tokio::test(start_paused = true)]
async fn devices() {
    let node = |device: &str| {
        let nodes = format!("  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n    {device}\n");
        described("talos_template: 9000\n", &nodes)
    };
    let no_iommu = |world: &mut World| world.nodes.get_mut("pve1").unwrap().pci[0].iommu_group = -1;
    insta::assert_snapshot!("iommu", wrong(no_iommu, &node("gpu_pci_bdf: \"0000:01:00.0\"")).await);
    insta::assert_snapshot!("no_such_device", wrong(|_| {}, &node("gpu_pci_bdf: \"0000:0a:00.0\"")).await);
    insta::assert_snapshot!("no_such_mapping", wrong(|_| {}, &node("vm_pci: [{mapping: npu}]")).await);
    let replaced = |world: &mut World| world.nodes.get_mut("pve1").unwrap().pci[0].device = "0x1234".into();
    insta::assert_snapshot!("replaced", wrong(replaced, &node("vm_pci: [{mapping: gpu}]")).await);
}

#[tokio::test(start_paused = true)]
async fn agents_of_running_nodes() {
    let bed = Bed::new("9.2", |_| {}).await;
    bed.live_a_little(&bed.root()).await;
    let agent = |report: &Report| {
        let checks = report.checks.iter().filter(|check| check.name == "agent").cloned().collect();
        shown(&Report { checks })
    };
    insta::assert_snapshot!("agents_answer", agent(&bed.check(&small(), &bed.root()).await));
    bed.lab.world(|world| world.guests_react = false);
    insta::assert_snapshot!("agents_are_silent", agent(&bed.check(&small(), &bed.root()).await));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_off_and_hosts_of_two_versions() {
    let bed = Bed::new("9.2", |_| {}).await;
    let facts = bed.facts(&small(), &bed.root()).await;
    let mut other = facts.clone();
    let host = facts.hosts.values().next().unwrap().clone();
    for (name, version, clock) in [("pve2", "8.4.21", 42), ("pve3", "9.2.11", -90)] {
        let mut host = host.clone();
        (host.version, host.clock) = (Ok(version.to_owned()), Ok(clock));
        host.shown = Some(if clock > 0 { Ok([7; 32].into()) } else { Ok(host.fingerprint.unwrap()) });
        other.hosts.insert(talmox_types::HostName::parse(name).unwrap(), host);
    }
    other.version = "8.3.1".to_owned();
    other.quorate = Ok(false);
    let report = talmox_exec::preflight::report(&small(), &other);
    let about = ["version", "clock", "quorum", "host", "certificate"];
    let checks = report.checks.into_iter().filter(|check| about.contains(&check.name)).collect();
    insta::assert_snapshot!(shown(&Report { checks }));
}

/// A host that no endpoint is, seen at its own address.
#[tokio::test(start_paused = true)]
async fn certificates_of_every_host_are_looked_at() {
    let bed = Bed::new("9.2", |world| {
        world.add_node("pve2", "192.0.2.12");
        world.nodes.get_mut("pve1").unwrap().ip = "192.0.2.11".to_owned();
        world.cluster = Some(("lab".to_owned(), 2));
    })
    .await;
    let report = bed.check(&small(), &bed.root()).await;
    let checks = report.checks.into_iter().filter(|check| check.name == "certificate").collect();
    insta::assert_snapshot!(shown(&Report { checks }));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_wrong() {
    let bed = Bed::new("9.2", |_| {}).await;
    let token =
        Credentials::token(&"talmox@pve!sim=00000000-0000-0000-0000-000000000000".to_owned().into()).unwrap();
    insta::assert_snapshot!(shown(&bed.check(&small(), &bed.client(&token)).await));
}

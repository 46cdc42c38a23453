//! Restarts, resets, upgrades.

use talmox_proto::cluster::{ClusterInfo, HealthCheckProgress, HealthCheckRequest, cluster_service};
use talmox_proto::common::{ContainerDriver, ContainerdInstance, ContainerdNamespace, Data};
use talmox_proto::machine::image_service_pull_response::Response as Pulled;
use talmox_proto::machine::lifecycle_service_install_progress::Response as Progress;
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{
    BootstrapRequest, EtcdMemberListRequest, EtcdSnapshotRequest, ImageServicePullRequest,
    ImageServicePullResponse, InstallArtifactsSource, LifecycleServiceUpgradeRequest,
    LifecycleServiceUpgradeResponse, ListRequest, ReadRequest, RebootRequest, ResetPartitionSpec,
    ResetRequest, RollbackRequest, ServiceListResponse, UpgradeRequest, image_service, lifecycle_service,
};
use talmox_proto::{Message, Method};
use talmox_sim_talos::{ApiReply, Code, MachineId, News, Trouble};

use crate::nodes::cluster::{bootstrap, healthy, is_maintenance, is_ready, is_secure, members};
use crate::nodes::lab::Lab;

const INSTALLER: &str = "ghcr.io/siderolabs/installer:v1.13.10";

fn boot_id(lab: &mut Lab, id: u32) -> String {
    let request = ReadRequest { path: "/proc/sys/kernel/random/boot_id".to_owned() };
    let data: Data = lab.ask(id, calls::READ, &request).unwrap();
    String::from_utf8(data.bytes).unwrap()
}

fn version(lab: &mut Lab, id: u32) -> String {
    let reply = lab.ask(id, calls::VERSION, &()).unwrap();
    reply.messages[0].version.clone().unwrap().tag
}

/// All messages of a stream, as they come.
fn stream<Request: Message, Reply: Message + Default>(
    lab: &mut Lab,
    id: u32,
    method: Method<Request, Reply>,
    request: &Request,
) -> Vec<Reply> {
    let peer = lab.admin();
    let stream = match lab.raw(id, peer, method, request) {
        ApiReply::Stream(stream) => stream,
        ApiReply::Done { messages, .. } => {
            return messages.into_iter().map(|bytes| Reply::decode(bytes).unwrap()).collect();
        }
        other => panic!("{other:?}"),
    };
    let mut all = Vec::new();
    loop {
        lab.wait(100);
        let streamed = lab.nodes.poll(stream, lab.now);
        all.extend(streamed.messages.into_iter().map(|bytes| Reply::decode(bytes).unwrap()));
        if let Some(end) = streamed.end {
            assert_eq!(end.code, Code::Ok);
            return all;
        }
    }
}

#[test]
fn a_reboot_changes_the_boot_and_nothing_else() {
    let mut lab = healthy("1.13.9");
    let before = boot_id(&mut lab, 2);
    lab.ask(2, calls::REBOOT, &RebootRequest::default()).unwrap();
    lab.until("the node going away", |lab| !is_secure(lab, 2));
    assert_eq!(members(&mut lab, 1).len(), 3);
    lab.until("the node", |lab| is_ready(lab, 2));
    assert_ne!(boot_id(&mut lab, 2), before);
    assert_eq!(members(&mut lab, 2).len(), 3);
}

#[test]
fn a_shutdown_is_told_to_the_hypervisor() {
    let mut lab = healthy("1.13.9");
    lab.nodes.take_news();
    assert!(lab.nodes.press_power(MachineId(4)));
    lab.until("power off", |lab| lab.nodes.take_news().contains(&News::PoweredOff(MachineId(4))));
    assert!(!lab.nodes.press_power(MachineId(4)));
}

#[test]
fn a_graceful_reset_leaves_etcd_and_an_empty_disk() {
    let mut lab = healthy("1.13.9");
    let request = ResetRequest { graceful: true, reboot: true, ..ResetRequest::default() };
    lab.ask(3, calls::RESET, &request).unwrap();
    lab.wait(20_000);
    assert_eq!(members(&mut lab, 1).len(), 2);
    // A disk image that was wiped has nothing left to boot.
    assert_eq!(lab.nodes.standing(MachineId(3)), None);
}

#[test]
fn a_reset_of_partitions_keeps_the_rest() {
    let mut lab = healthy("1.13.9");
    let wipe = |label: &str| ResetRequest {
        reboot: true,
        system_partitions_to_wipe: vec![ResetPartitionSpec { label: label.to_owned(), wipe: true }],
        ..ResetRequest::default()
    };
    let refused = lab.ask(3, calls::RESET, &wipe("NOSUCH")).unwrap_err();
    assert!(refused.message.contains("runtime/NOSUCH@undefined"), "{refused:?}");
    lab.ask(3, calls::RESET, &wipe("EPHEMERAL")).unwrap();
    lab.until("the node going away", |lab| !is_secure(lab, 3));
    // The configuration stayed, the data did not: it joins anew, in the place of its old member.
    lab.until("the node", |lab| is_ready(lab, 3));
    assert_eq!(members(&mut lab, 1).len(), 3);
    lab.ask(3, calls::RESET, &wipe("STATE")).unwrap();
    lab.until("maintenance", |lab| is_maintenance(lab, 3));
}

#[test]
fn the_old_way_to_upgrade_restarts_into_the_new_version() {
    let mut lab = healthy("1.13.9");
    let request = UpgradeRequest { image: INSTALLER.to_owned(), ..UpgradeRequest::default() };
    let reply = lab.ask(4, calls::UPGRADE, &request).unwrap();
    assert_eq!(reply.messages[0].ack, "Upgrade request received");
    lab.until("the node going away", |lab| !is_secure(lab, 4));
    lab.until("the node", |lab| is_ready(lab, 4));
    assert_eq!(version(&mut lab, 4), "v1.13.10");
    lab.ask(4, calls::ROLLBACK, &RollbackRequest {}).unwrap();
    lab.until("the node going away", |lab| !is_secure(lab, 4));
    lab.until("the node", |lab| is_ready(lab, 4));
    assert_eq!(version(&mut lab, 4), "v1.13.9");
    let missing = UpgradeRequest { image: "ghcr.io/siderolabs/installer:v9.9.9".to_owned(), ..request };
    let refused = lab.ask(4, calls::UPGRADE, &missing).unwrap_err();
    assert!(refused.message.ends_with("ghcr.io/siderolabs/installer:v9.9.9: not found"), "{refused:?}");
}

fn pull_and_install(lab: &mut Lab, id: u32) -> i32 {
    let containerd = Some(ContainerdInstance {
        driver: ContainerDriver::Cri.into(),
        namespace: ContainerdNamespace::NsSystem.into(),
    });
    let request = ImageServicePullRequest { containerd, image_ref: INSTALLER.to_owned() };
    let pulled: Vec<ImageServicePullResponse> = stream(lab, id, image_service::PULL, &request);
    let Some(Pulled::Name(image_name)) = pulled.last().unwrap().response.clone() else { panic!("no name") };
    let source = Some(InstallArtifactsSource { image_name });
    let request = LifecycleServiceUpgradeRequest { containerd, source };
    let progress: Vec<LifecycleServiceUpgradeResponse> =
        stream(lab, id, lifecycle_service::UPGRADE, &request);
    match progress.last().unwrap().progress.clone().unwrap().response {
        Some(Progress::ExitCode(code)) => code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_new_way_to_upgrade_waits_for_a_reboot_and_falls_back() {
    let mut lab = healthy("1.13.9");
    lab.nodes.faults.trouble(MachineId(4), Trouble::InstallerFails(3));
    assert_eq!(pull_and_install(&mut lab, 4), 3);
    lab.nodes.faults.mend(MachineId(4));
    assert_eq!(pull_and_install(&mut lab, 4), 0);
    assert_eq!(version(&mut lab, 4), "v1.13.9");
    lab.nodes.faults.trouble(MachineId(4), Trouble::BootFails("1.13.10".to_owned()));
    for expected in ["v1.13.9", "v1.13.10"] {
        lab.ask(4, calls::REBOOT, &RebootRequest::default()).unwrap();
        lab.until("the node going away", |lab| !is_secure(lab, 4));
        lab.until("the node", |lab| is_ready(lab, 4));
        assert_eq!(version(&mut lab, 4), expected);
        lab.nodes.faults.mend(MachineId(4));
        pull_and_install(&mut lab, 4);
    }
}

#[test]
fn a_snapshot_brings_a_cluster_back() {
    let mut lab = healthy("1.13.9");
    let pieces: Vec<Data> = stream(&mut lab, 1, calls::ETCD_SNAPSHOT, &EtcdSnapshotRequest {});
    let size: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
    assert_eq!(size % 512, 32);
    let wipe = ResetRequest {
        reboot: true,
        system_partitions_to_wipe: vec![ResetPartitionSpec { label: "EPHEMERAL".to_owned(), wipe: true }],
        ..ResetRequest::default()
    };
    for id in 1..=3 {
        lab.ask(id, calls::RESET, &wipe).unwrap();
    }
    lab.until("nodes going away", |lab| (1..=3).all(|id| !is_secure(lab, id)));
    lab.until("nodes", |lab| (1..=3).all(|id| is_secure(lab, id)));
    lab.wait(10_000);
    lab.pour(1, calls::ETCD_RECOVER, &[Data { metadata: None, bytes: vec![0; 5000] }]).unwrap();
    let recover = BootstrapRequest { recover_etcd: true, recover_skip_hash_check: false };
    lab.ask(1, calls::BOOTSTRAP, &recover).unwrap();
    lab.wait(10_000);
    let services: ServiceListResponse = lab.ask(1, calls::SERVICE_LIST, &()).unwrap();
    let etcd = services.messages[0].services.iter().find(|one| one.id == "etcd").unwrap();
    let said = &etcd.events.as_ref().unwrap().events.last().unwrap().msg;
    assert_eq!(said, "Failed to run pre stage: error verifying snapshot: file size too small 5000");
    lab.pour(1, calls::ETCD_RECOVER, &pieces).unwrap();
    lab.ask(1, calls::BOOTSTRAP, &recover).unwrap();
    lab.until("three members", |lab| {
        lab.ask(1, calls::ETCD_MEMBER_LIST, &EtcdMemberListRequest::default())
            .is_ok_and(|reply| reply.messages[0].members.iter().filter(|one| !one.is_learner).count() == 3)
    });
}

#[test]
fn etcd_data_shows_in_the_file_system() {
    let mut lab = healthy("1.13.9");
    let request = ListRequest { root: "/var/lib/etcd/member".to_owned(), ..ListRequest::default() };
    assert!(lab.ask(1, calls::LIST, &request).is_ok());
    let missing = lab.ask(4, calls::LIST, &request).unwrap_err();
    assert_eq!(missing.message, "lstat /var/lib/etcd/member: no such file or directory");
}

#[test]
fn a_clock_that_is_off_keeps_etcd_from_starting() {
    let mut lab = Lab::new("1.13.9");
    lab.nodes.faults.trouble(MachineId(1), Trouble::ClockOff);
    let hardware = lab.hardware(1);
    lab.nodes.power_on(hardware);
    lab.until("maintenance", |lab| is_maintenance(lab, 1));
    crate::nodes::cluster::apply(&mut lab, 1, talmox_machine::Role::ControlPlane);
    lab.until("mutual TLS", |lab| is_secure(lab, 1));
    lab.wait(30_000);
    let refused = lab.ask(1, calls::BOOTSTRAP, &BootstrapRequest::default()).unwrap_err();
    assert_eq!(refused.message, "time is not in sync yet");
    let unmet = lab.nodes.standing(MachineId(1)).unwrap().unmet;
    assert!(unmet.contains(&("time".to_owned(), "time is not synced".to_owned())), "{unmet:?}");
}

#[test]
fn an_installation_that_loses_power_begins_anew() {
    let mut lab = Lab::new("1.13.9");
    lab.nodes.faults.trouble(MachineId(1), Trouble::DiesInInstall);
    let hardware = lab.hardware_with_iso(1);
    lab.nodes.power_on(hardware.clone());
    lab.until("maintenance", |lab| is_maintenance(lab, 1));
    crate::nodes::cluster::apply(&mut lab, 1, talmox_machine::Role::ControlPlane);
    lab.until("power off", |lab| lab.nodes.take_news().contains(&News::PoweredOff(MachineId(1))));
    lab.nodes.power_on(hardware);
    lab.until("maintenance again", |lab| is_maintenance(lab, 1));
    crate::nodes::cluster::apply(&mut lab, 1, talmox_machine::Role::ControlPlane);
    lab.until("a restart", |lab| lab.nodes.take_news().contains(&News::Rebooted(MachineId(1))));
    lab.until("mutual TLS", |lab| is_secure(lab, 1));
    assert!(bootstrap(&mut lab, 1).is_ok());
}

#[test]
fn the_cluster_looks_at_its_own_health() {
    let mut lab = healthy("1.13.9");
    lab.wait(30_000);
    let said: Vec<HealthCheckProgress> =
        stream(&mut lab, 1, cluster_service::HEALTH_CHECK, &HealthCheckRequest::default());
    let said: Vec<&str> = said.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(said[0], "discovered nodes: [\"10.5.0.1\" \"10.5.0.2\" \"10.5.0.3\" \"10.5.0.4\"]");
    assert_eq!(said.len(), 33, "{said:#?}");
    assert_eq!(said[32], "waiting for all k8s nodes to report schedulable: OK");
}

#[test]
fn a_check_of_health_gives_up_in_time() {
    let mut lab = healthy("1.13.9");
    lab.nodes.power_off(MachineId(3));
    let request = HealthCheckRequest {
        wait_timeout: Some(talmox_proto::Duration { seconds: 5, nanos: 0 }),
        cluster_info: Some(ClusterInfo {
            control_plane_nodes: ["10.5.0.1", "10.5.0.2", "10.5.0.3"].map(str::to_owned).to_vec(),
            worker_nodes: vec!["10.5.0.4".to_owned()],
            force_endpoint: String::new(),
        }),
    };
    let peer = lab.admin();
    let ApiReply::Stream(stream) = lab.raw(1, peer, cluster_service::HEALTH_CHECK, &request) else {
        panic!("no stream")
    };
    lab.wait(4000);
    assert!(lab.nodes.poll(stream, lab.now).end.is_none());
    lab.wait(2000);
    let end = lab.nodes.poll(stream, lab.now).end.unwrap();
    assert_eq!((end.code, end.message.as_str()), (Code::DeadlineExceeded, "context deadline exceeded"));
}

#[test]
fn a_member_that_lost_its_data_joins_anew_after_a_restart() {
    let mut lab = healthy("1.13.9");
    lab.nodes.lose_etcd(MachineId(2));
    lab.wait(1000);
    assert_eq!(members(&mut lab, 1).len(), 3);
    lab.nodes.reset(MachineId(2));
    lab.until("the node", |lab| is_ready(lab, 2));
    assert_eq!(members(&mut lab, 2).len(), 3);
}

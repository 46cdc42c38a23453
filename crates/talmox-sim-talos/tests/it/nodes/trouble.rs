//! Members of etcd, disks and upgrades that give trouble.

use serde_json::{Value, json};
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{
    EtcdForfeitLeadershipRequest, EtcdLeaveClusterRequest, EtcdRemoveMemberByIdRequest, UpgradeRequest,
};
use talmox_sim_talos::{ApiReply, Code, DiskId, KubeReply, MachineId, Trouble};

use crate::nodes::cluster::{healthy, is_ready, is_secure, members};
use crate::nodes::kube::{get, is_ready as is_ready_object, master, send};
use crate::nodes::lab::Lab;

fn put_config_map(lab: &mut Lab, name: &str) -> u16 {
    let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    post(lab, "/api/v1/namespaces/default/configmaps", &body)
}

fn post(lab: &mut Lab, path: &str, body: &Value) -> u16 {
    let peer = master(lab);
    match send(lab, 1, peer, "POST", path, body) {
        KubeReply::Answer { status, .. } => status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_member_without_room_stops_every_write_until_it_is_cleaned_up() {
    let mut lab = healthy("1.13.9");
    assert_eq!(put_config_map(&mut lab, "one"), 201);
    lab.nodes.fill_etcd(MachineId(2));
    let alarms = lab.ask(1, calls::ETCD_ALARM_LIST, &()).unwrap();
    assert_eq!(alarms.messages[0].member_alarms.len(), 1);
    let sizes = |lab: &mut Lab| {
        let status = lab.ask(2, calls::ETCD_STATUS, &()).unwrap().messages[0].member_status.clone().unwrap();
        (status.db_size, status.db_size_in_use, status.errors.len())
    };
    let (size, used, errors) = sizes(&mut lab);
    assert!(size > 1 << 30 && used < 1 << 30 && errors == 1);
    assert_eq!(put_config_map(&mut lab, "two"), 500);
    assert!(get(&mut lab, 1, "/api/v1/namespaces/default/configmaps/one").is_some());
    // Disarming alone does not help.
    lab.ask(1, calls::ETCD_ALARM_DISARM, &()).unwrap();
    assert_eq!(put_config_map(&mut lab, "two"), 500);
    lab.ask(2, calls::ETCD_DEFRAGMENT, &()).unwrap();
    lab.ask(1, calls::ETCD_ALARM_DISARM, &()).unwrap();
    assert_eq!(put_config_map(&mut lab, "two"), 201);
    let (size, used, errors) = sizes(&mut lab);
    assert!(size == used && errors == 0);
}

#[test]
fn a_member_whose_disk_was_rolled_back_fails_until_it_is_replaced() {
    let mut lab = healthy("1.13.9");
    let saved = lab.nodes.save_disks(&[DiskId(3)]);
    lab.wait(60_000);
    lab.nodes.power_off(MachineId(3));
    lab.nodes.restore_disks(&saved);
    let hardware = lab.hardware(3);
    lab.nodes.power_on(hardware);
    lab.until("the node", |lab| is_secure(lab, 3));
    lab.wait(60_000);
    assert!(!is_ready(&lab, 3));
    let services = lab.ask(3, calls::SERVICE_LIST, &()).unwrap();
    let etcd = services.messages[0].services.iter().find(|one| one.id == "etcd").unwrap();
    assert_eq!(etcd.state, "Failed");
    assert_eq!(members(&mut lab, 1).len(), 3);
    // The same disk, put back while nothing had happened since, is as good as before.
    let saved = lab.nodes.save_disks(&[DiskId(2)]);
    lab.nodes.power_off(MachineId(2));
    lab.nodes.restore_disks(&saved);
    let hardware = lab.hardware(2);
    lab.nodes.power_on(hardware);
    lab.until("the other", |lab| is_ready(lab, 2));
}

#[test]
fn a_member_that_leaves_is_out_at_once_and_its_node_looks_well_to_kubernetes() {
    let mut lab = healthy("1.13.9");
    lab.wait(20_000);
    lab.ask(3, calls::ETCD_FORFEIT_LEADERSHIP, &EtcdForfeitLeadershipRequest {}).unwrap();
    let peer = lab.admin();
    let reply = lab.raw(3, peer.clone(), calls::ETCD_LEAVE_CLUSTER, &EtcdLeaveClusterRequest {});
    let ApiReply::Done { after, end, .. } = reply else { panic!("{reply:?}") };
    assert!(after >= 1000 && end.code == Code::Ok);
    assert_eq!(members(&mut lab, 1).len(), 2);
    let again = lab.raw(3, peer, calls::ETCD_LEAVE_CLUSTER, &EtcdLeaveClusterRequest {});
    assert!(matches!(again, ApiReply::Silence));
    lab.wait(10_000);
    let standing = lab.nodes.standing(MachineId(3)).unwrap();
    assert_eq!(standing.stage, "running");
    assert_eq!(standing.unmet, [("services".to_owned(), "etcd not running".to_owned())]);
    assert!(is_ready_object(&get(&mut lab, 1, "/api/v1/nodes/node-3").unwrap()));
    assert!(get(&mut lab, 3, "/version").is_none());
}

#[test]
fn a_dead_member_is_taken_out_by_its_number() {
    let mut lab = healthy("1.13.9");
    let reply = lab
        .ask(1, calls::ETCD_MEMBER_LIST, &talmox_proto::machine::EtcdMemberListRequest::default())
        .unwrap();
    let dead = reply.messages[0].members.iter().find(|one| one.hostname == "node-3").unwrap().id;
    lab.nodes.power_off(MachineId(3));
    lab.wait(3000);
    // Nothing in the list tells.
    assert_eq!(members(&mut lab, 1).len(), 3);
    let request = EtcdRemoveMemberByIdRequest { member_id: dead };
    lab.ask(1, calls::ETCD_REMOVE_MEMBER_BY_ID, &request).unwrap();
    let again = lab.ask(1, calls::ETCD_REMOVE_MEMBER_BY_ID, &request).unwrap_err();
    assert_eq!(again.code, Code::NotFound);
    assert_eq!(members(&mut lab, 1).len(), 2);
}

#[test]
fn an_image_of_a_schematic_that_does_not_boot_gives_way_to_the_old_one() {
    let mut lab = healthy("1.13.9");
    let schematic = "cd".repeat(32);
    lab.nodes.faults.trouble(MachineId(4), Trouble::BootFails(schematic.clone()));
    let image = format!("factory.talos.dev/nocloud-installer/{schematic}:v1.13.9");
    let request = UpgradeRequest { image, ..UpgradeRequest::default() };
    lab.ask(4, calls::UPGRADE, &request).unwrap();
    // It is acknowledged first.
    assert_eq!(lab.nodes.standing(MachineId(4)).unwrap().stage, "running");
    lab.until("the upgrade", |lab| lab.nodes.standing(MachineId(4)).unwrap().stage == "upgrading");
    lab.until("the node going away", |lab| !is_secure(lab, 4));
    lab.until("the node", |lab| is_ready(lab, 4));
}

#[test]
fn a_node_may_be_sick_with_one_image_and_well_with_another() {
    let mut lab = healthy("1.13.9");
    lab.nodes.faults.trouble(MachineId(4), Trouble::Sick("1.13.10".to_owned()));
    let image = "ghcr.io/siderolabs/installer:v1.13.10".to_owned();
    lab.ask(4, calls::UPGRADE, &UpgradeRequest { image, ..UpgradeRequest::default() }).unwrap();
    lab.until("the node going away", |lab| !is_secure(lab, 4));
    lab.until("the node", |lab| is_secure(lab, 4));
    lab.wait(60_000);
    assert!(!is_ready(&lab, 4));
    lab.ask(4, calls::ROLLBACK, &talmox_proto::machine::RollbackRequest {}).unwrap();
    lab.until("the node", |lab| is_ready(lab, 4));
}

#[test]
fn a_volume_is_detached_after_its_last_pod() {
    let mut lab = healthy("1.13.9");
    let objects = [
        (
            "/api/v1/persistentvolumes",
            json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "pv" }, "spec": {} }),
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "claim" },
                    "spec": { "volumeName": "pv" } }),
        ),
        (
            "/api/v1/namespaces/default/pods",
            json!({ "apiVersion": "v1", "kind": "Pod",
                    "metadata": { "name": "user", "annotations": { "sim.talmox.dev/stops-after": "20" } },
                    "spec": { "nodeName": "node-4", "terminationGracePeriodSeconds": 30,
                              "containers": [{ "name": "main", "image": "main" }],
                              "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "claim" } }] } }),
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattachments",
            json!({ "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": { "name": "attached" },
                    "spec": { "nodeName": "node-4", "attacher": "csi", "source": { "persistentVolumeName": "pv" } } }),
        ),
    ];
    for (path, body) in objects {
        assert_eq!(post(&mut lab, path, &body), 201, "{path}");
    }
    let attached =
        |lab: &mut Lab| get(lab, 1, "/apis/storage.k8s.io/v1/volumeattachments/attached").is_some();
    let pod = |lab: &mut Lab| get(lab, 1, "/api/v1/namespaces/default/pods/user").is_some();
    lab.wait(60_000);
    assert!(attached(&mut lab) && pod(&mut lab));
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction",
                           "metadata": { "name": "user", "namespace": "default" } });
    assert_eq!(post(&mut lab, "/api/v1/namespaces/default/pods/user/eviction", &eviction), 201);
    lab.wait(10_000);
    assert!(pod(&mut lab), "it takes its time");
    lab.until("the pod", |lab| !pod(lab));
    assert!(attached(&mut lab));
    lab.until("the volume", |lab| !attached(lab));
}

//! What becomes of a node that runs when its configuration changes.

use talmox_machine::Role;
use talmox_proto::Duration;
use talmox_proto::machine::apply_configuration_request::Mode;
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{ApplyConfigurationRequest, ApplyConfigurationResponse, RebootRequest};
use talmox_proto::resource::{GetRequest, state};
use talmox_sim_talos::{Listener, Status};

use crate::nodes::cluster::{healthy, is_ready, is_secure};
use crate::nodes::kube::{get, is_ready as is_ready_object};
use crate::nodes::lab::{Lab, address};

/// Sends a configuration to a node that runs.
pub(crate) fn change(
    lab: &mut Lab,
    id: u32,
    mode: Mode,
    config: &str,
) -> Result<ApplyConfigurationResponse, Status> {
    let request = ApplyConfigurationRequest {
        data: config.as_bytes().to_vec(),
        mode: mode.into(),
        try_mode_timeout: Some(Duration { seconds: 5, nanos: 0 }),
        ..ApplyConfigurationRequest::default()
    };
    // One change at a time.
    lab.wait(100);
    lab.ask(id, calls::APPLY_CONFIGURATION, &request)
}

pub(crate) fn config(lab: &Lab, role: Role) -> String {
    String::from_utf8(lab.config(role)).unwrap()
}

/// The version of a resource and its specification.
pub(crate) fn resource(
    lab: &mut Lab,
    node: u32,
    namespace: &str,
    kind: &str,
    id: &str,
) -> Option<(u64, String)> {
    let request = GetRequest {
        namespace: namespace.to_owned(),
        r#type: kind.to_owned(),
        id: id.to_owned(),
        ..GetRequest::default()
    };
    let found = lab.ask(node, state::GET, &request).ok()?.resource?;
    Some((found.metadata?.version.parse().unwrap(), found.spec?.yaml_spec))
}

fn mirror(lab: &mut Lab, asked: u32, pod: &str) -> serde_json::Value {
    get(lab, asked, &format!("/api/v1/namespaces/kube-system/pods/{pod}")).unwrap()
}

fn config_version(pod: &serde_json::Value) -> &str {
    pod["metadata"]["annotations"]["talos.dev/config-version"].as_str().unwrap()
}

#[test]
fn another_image_of_the_api_server_is_another_pod_after_a_while() {
    let mut lab = healthy("1.13.9");
    lab.wait(20_000);
    let config = config(&lab, Role::ControlPlane);
    let newer = config.replace("kube-apiserver:v1.34.1", "kube-apiserver:v1.34.2");
    assert_ne!(config, newer);
    change(&mut lab, 2, Mode::NoReboot, &newer).unwrap();
    let version = |lab: &mut Lab, kind: &str, id: &str| {
        resource(lab, 2, "controlplane", &format!("{kind}.kubernetes.talos.dev"), id).unwrap().0
    };
    assert_eq!(version(&mut lab, "APIServerConfigs", "kube-apiserver"), 2);
    assert_eq!(version(&mut lab, "SchedulerConfigs", "kube-scheduler"), 1);
    // At first nothing but the version of the resource tells.
    let old = mirror(&mut lab, 1, "kube-apiserver-node-2");
    assert_eq!(config_version(&old), "1");
    assert!(is_ready_object(&old) && is_ready(&lab, 2));
    lab.until("the API server to stop", |lab| lab.nodes.kube_listener(address(2)) == Listener::Closed);
    assert!(!is_ready(&lab, 2));
    assert_eq!(config_version(&mirror(&mut lab, 1, "kube-apiserver-node-2")), "1");
    lab.until("another pod", |lab| config_version(&mirror(lab, 1, "kube-apiserver-node-2")) == "2");
    lab.until("a pod that is ready", |lab| is_ready_object(&mirror(lab, 1, "kube-apiserver-node-2")));
    let new = mirror(&mut lab, 1, "kube-apiserver-node-2");
    assert_ne!(new["metadata"]["uid"], old["metadata"]["uid"]);
    assert_eq!(get(&mut lab, 2, "/version").unwrap()["gitVersion"], "v1.34.2");
    assert_eq!(get(&mut lab, 1, "/version").unwrap()["gitVersion"], "v1.34.1");
    assert!(is_ready(&lab, 2));
}

#[test]
fn another_kubelet_starts_anew_and_its_node_is_not_ready_once_more() {
    let mut lab = healthy("1.13.9");
    lab.wait(20_000);
    let config = config(&lab, Role::Worker).replace("kubelet:v1.34.1", "kubelet:v1.34.2");
    change(&mut lab, 4, Mode::NoReboot, &config).unwrap();
    let service = |lab: &mut Lab| resource(lab, 4, "runtime", "Services.v1alpha1.talos.dev", "kubelet");
    assert_eq!(service(&mut lab), None);
    assert!(!is_ready(&lab, 4));
    lab.until("the kubelet", |lab| service(lab).is_some_and(|(_, text)| text.contains("healthy: true")));
    lab.until("the version", |lab| {
        let node = get(lab, 1, "/api/v1/nodes/node-4").unwrap();
        node["status"]["nodeInfo"]["kubeletVersion"] == "v1.34.2"
    });
    lab.until("a node that is ready", |lab| is_ready(lab, 4));
    lab.until("a node that is not", |lab| !is_ready_object(&get(lab, 1, "/api/v1/nodes/node-4").unwrap()));
    lab.until("a node that is ready again", |lab| {
        is_ready(lab, 4) && is_ready_object(&get(lab, 1, "/api/v1/nodes/node-4").unwrap())
    });
    assert_eq!(lab.nodes.next_event(), None);
}

#[test]
fn the_same_configuration_again_changes_nothing_but_its_version() {
    let mut lab = healthy("1.13.9");
    let config = config(&lab, Role::ControlPlane);
    lab.wait(20_000);
    let config_of =
        |lab: &mut Lab, id| resource(lab, 3, "config", "MachineConfigs.config.talos.dev", id).unwrap();
    let before = config_of(&mut lab, "persistent").0;
    change(&mut lab, 3, Mode::NoReboot, &config).unwrap();
    assert_eq!(config_of(&mut lab, "persistent").0, before + 1);
    assert_eq!(lab.nodes.next_event(), None);
    assert!(is_ready(&lab, 3));
}

#[test]
fn a_trial_ends_in_silence_unless_it_is_confirmed() {
    let mut lab = healthy("1.13.9");
    lab.wait(20_000);
    let config = config(&lab, Role::Worker);
    let tried =
        format!("{config}\n---\napiVersion: v1alpha1\nkind: WatchdogTimerConfig\ndevice: /dev/watchdog0\n");
    let active = |lab: &mut Lab| {
        resource(lab, 4, "config", "MachineConfigs.config.talos.dev", "v1alpha1")
            .unwrap()
            .1
            .contains("Watchdog")
    };
    let persistent = |lab: &mut Lab| {
        resource(lab, 4, "config", "MachineConfigs.config.talos.dev", "persistent")
            .unwrap()
            .1
            .contains("Watchdog")
    };
    change(&mut lab, 4, Mode::Try, &tried).unwrap();
    assert!(active(&mut lab) && !persistent(&mut lab));
    lab.wait(6000);
    assert!(!active(&mut lab) && is_ready(&lab, 4));
    change(&mut lab, 4, Mode::Try, &tried).unwrap();
    lab.wait(2000);
    change(&mut lab, 4, Mode::NoReboot, &tried).unwrap();
    lab.wait(6000);
    assert!(active(&mut lab) && persistent(&mut lab));
}

#[test]
fn a_staged_configuration_waits_for_the_next_boot() {
    let mut lab = healthy("1.13.9");
    let config = config(&lab, Role::Worker);
    let staged =
        format!("{config}\n---\napiVersion: v1alpha1\nkind: WatchdogTimerConfig\ndevice: /dev/watchdog0\n");
    change(&mut lab, 4, Mode::Staged, &staged).unwrap();
    let active = |lab: &mut Lab| {
        resource(lab, 4, "config", "MachineConfigs.config.talos.dev", "v1alpha1")
            .unwrap()
            .1
            .contains("Watchdog")
    };
    assert!(!active(&mut lab));
    lab.ask(4, calls::REBOOT, &RebootRequest::default()).unwrap();
    lab.until("the node going away", |lab| !is_secure(lab, 4));
    lab.until("the node", |lab| is_ready(lab, 4));
    assert!(active(&mut lab));
}

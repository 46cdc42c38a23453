//! What Talos says of a configuration it can read and does not want, in its words and its order.

use talmox_machine::validate::{Mode, Severity};
use talmox_machine::{Config, Value};
use talmox_types::Contract;

/// Kubernetes goes with a version of Talos from this minor version to that one: facts, §0.
fn kubernetes_range(talos: Contract) -> (u32, u32) {
    let minor = u32::from(talos.minor);
    (minor + 18, minor + 23)
}

/// Several errors as one text.
fn list(errors: &[String]) -> String {
    let count = if errors.len() == 1 {
        "1 error occurred:".to_owned()
    } else {
        format!("{} errors occurred:", errors.len())
    };
    let items: String = errors.iter().map(|error| format!("\n\t* {error}")).collect();
    format!("{count}{items}\n\n")
}

fn of_the_machine(errors: &[String]) -> Option<String> {
    (!errors.is_empty()).then(|| list(&[format!("v1alpha1.Config: {}", list(errors))]))
}

/// What is wrong with what it says. `None`, if nothing is.
pub(super) fn check(config: &Config, mode: Mode, talos: Contract) -> Option<String> {
    if let Some(words) = of_the_machine(&known(config, mode, talos)) {
        return Some(words);
    }
    let named = config.document("").is_some() || config.document("HostDNSConfig").is_some();
    if mode == Mode::Container && talos.minor >= 14 && !named {
        return Some(list(&["hostDNS config is required in container mode".to_owned()]));
    }
    None
}

/// What else is wrong with it, in our own words.
pub(super) fn check_rest(config: &Config, mode: Mode, talos: Contract) -> Option<String> {
    // Documents alone are looked at when there is a machine to configure.
    config.document("")?;
    let others = config.validate(mode, talos);
    let others: Vec<String> = others
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .map(|problem| format!("{}: {} ({})", problem.document, problem.message, problem.path))
        .collect();
    (!others.is_empty()).then(|| list(&others))
}

/// Faults whose words are known.
fn known(config: &Config, mode: Mode, talos: Contract) -> Vec<String> {
    let mut errors = Vec::new();
    if config.document("").is_none() {
        return errors;
    }
    let at = |path: &[&str]| config.at(path);
    let text = |path: &[&str]| at(path).and_then(Value::as_text).unwrap_or_default();
    let has = |path: &[&str]| !text(path).is_empty();
    let flag = |path: &[&str]| at(path).and_then(Value::as_bool).unwrap_or_default();
    let mut say = |wrong: bool, words: &str| {
        if wrong {
            errors.push(words.to_owned());
        }
    };
    let role = text(&["machine", "type"]);
    let control_plane = matches!(role, "controlplane" | "init");
    let worker = matches!(role, "worker" | "");
    let container = mode == Mode::Container && talos.minor < 14;
    let dns = ["machine", "features", "hostDNS"];
    say(
        container && !flag(&[dns[0], dns[1], dns[2], "enabled"]),
        "feature HostDNS should be enabled in container mode (.machine.features.hostDNS.enabled)",
    );
    say(
        container && !flag(&[dns[0], dns[1], dns[2], "forwardKubeDNSToHost"]),
        "feature HostDNS should forward kube-dns to host in container mode (.machine.features.hostDNS.forwardKubeDNSToHost)",
    );
    let endpoint = at(&["cluster", "controlPlane", "endpoint"]);
    say(talos.minor < 14 && endpoint.is_none(), "cluster controlplane endpoint is required");
    say(
        !control_plane && at(&["cluster", "etcd"]).is_some(),
        "etcd config is only allowed on control plane machines",
    );
    say(
        !control_plane && has(&["cluster", "ca", "key"]),
        "cluster CA key is not allowed on non-controlplane nodes (.cluster.ca)",
    );
    let accepted =
        at(&["machine", "acceptedCAs"]).and_then(Value::as_list).is_some_and(|list| !list.is_empty());
    say(
        (control_plane || worker) && !has(&["machine", "ca", "crt"]) && !accepted,
        "issuing CA or some accepted CAs are required (.machine.ca, machine.acceptedCAs)",
    );
    say(control_plane && !has(&["machine", "ca", "crt"]), "issuing CA is required (.machine.ca)");
    say(
        worker && has(&["machine", "ca", "key"]),
        "issuing Talos API CA key is not allowed on non-controlplane nodes (.machine.ca)",
    );
    say(
        worker && has(&["cluster", "ca", "key"]),
        "issuing Kubernetes API CA key is not allowed on non-controlplane nodes (.cluster.ca)",
    );
    say(!control_plane && !worker, &format!("unknown machine type {role:?}"));
    let interfaces = at(&["machine", "network", "interfaces"]).and_then(Value::as_list).unwrap_or_default();
    let shared = interfaces.iter().any(|one| one.at(&["vip"]).is_some());
    say(shared && !control_plane, "virtual (shared) IP is not allowed on non-controlplane nodes");
    errors
}

/// What is wrong with it for the very version that runs: images of Kubernetes it does not go with.
pub(super) fn check_versions(config: &Config, version: &str, talos: Contract) -> Option<String> {
    let (oldest, newest) = kubernetes_range(talos);
    let control_plane =
        matches!(config.at(&["machine", "type"]).and_then(Value::as_text), Some("controlplane" | "init"));
    let images: [(&str, &[&str], bool); 4] = [
        ("kubelet", &["machine", "kubelet", "image"], true),
        ("kube-apiserver", &["cluster", "apiServer", "image"], control_plane),
        ("kube-controller-manager", &["cluster", "controllerManager", "image"], control_plane),
        ("kube-scheduler", &["cluster", "scheduler", "image"], control_plane),
    ];
    let mut errors = Vec::new();
    for (name, path, _) in images.into_iter().filter(|(_, _, looked_at)| *looked_at) {
        let Some(tag) = config.at(path).and_then(Value::as_text).and_then(tag) else { continue };
        let Some(minor) = tag.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok()) else { continue };
        let age = if minor < oldest { "old" } else { "new" };
        if !(oldest..=newest).contains(&minor) {
            errors.push(format!(
                "{name} image is not valid: version of Kubernetes {tag} is too {age} to be used with Talos {version}"
            ));
        }
    }
    of_the_machine(&errors)
}

/// `1.36.3` of `ghcr.io/siderolabs/kubelet:v1.36.3-fat`.
fn tag(image: &str) -> Option<&str> {
    let tag = image.split('@').next()?.rsplit_once(":v")?.1;
    tag.split('-').next()
}

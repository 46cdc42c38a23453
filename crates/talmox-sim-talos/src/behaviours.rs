//! Where each behaviour of the nodes is known from.

/// One behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    pub id: &'static str,
    pub sentence: &'static str,
    pub source: Source,
}

/// What proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Calls and replies of genuine Talos; the name of the group, without its version.
    Transcript(&'static str),
    /// Seen on the wire or the console, and written down; the section of the observations.
    Observed(&'static str),
    /// Read in the sources, not seen; the section of the facts.
    Facts(&'static str),
    /// Test vectors of Talos itself; the folder.
    Vectors(&'static str),
    /// The genuine program gives the same answers to the same script; its name.
    Compared(&'static str),
    /// Read in the sources of Kubernetes 1.36; the file.
    Sources(&'static str),
    /// Nothing proves it: a plausible answer where one is needed.
    Unproven,
}

impl Source {
    /// Is it seen, or at least read in the sources?
    pub fn is_proven(self) -> bool {
        self != Self::Unproven
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Transcript(group) => write!(f, "transcript {group}"),
            Self::Observed(section) => write!(f, "observed {section}"),
            Self::Facts(section) => write!(f, "facts {section}"),
            Self::Vectors(folder) => write!(f, "vectors {folder}"),
            Self::Compared(program) => write!(f, "compared with {program}"),
            Self::Sources(file) => write!(f, "sources {file}"),
            Self::Unproven => f.write_str("unproven"),
        }
    }
}

/// The table, by subject.
pub fn all() -> &'static [Behaviour] {
    TABLE
}

use Source::{Compared, Facts, Observed, Sources, Transcript, Unproven, Vectors};

const fn row(id: &'static str, sentence: &'static str, source: Source) -> Behaviour {
    Behaviour { id, sentence, source }
}

#[rustfmt::skip]
const TABLE: &[Behaviour] = &[
    row("boot.drive", "The first drive with Talos on it is booted: an empty disk is passed over for the ISO behind it.", Facts("§4")),
    row("boot.iso-over-installation", "An ISO booted beside an installed disk waits and does nothing.", Unproven),
    row("boot.config-order", "A configuration on STATE comes before one of the platform, that before the API.", Facts("§4")),
    row("boot.bad-user-data", "User data that cannot be used never leads to maintenance: nobody listens.", Facts("§4")),
    row("boot.install-without-meta", "Talos installs itself only where there is no META partition, then restarts.", Facts("§4")),
    row("boot.install-told", "From 1.14 a configuration without a word about installing does not install.", Facts("§4")),
    row("boot.falls-back", "A new version that fails to boot before it was ready once gives way to the previous one.", Facts("§6.1")),
    row("boot.partition", "STATE and EPHEMERAL are made after the first configuration.", Observed("§3")),
    row("maintenance.certificate", "In maintenance the certificate is self-made and new at every boot; nobody is asked for one.", Facts("§1.3")),
    row("maintenance.version", "In maintenance Version has no features.", Transcript("maintenance-reads")),
    row("maintenance.transition", "The port is closed for a moment when maintenance ends, and for long if a stream was left open.", Observed("§1")),
    row("config.url", "A serial number with ds=nocloud-net and an address: three files are fetched before maintenance is thought of; a server that is away or not trusted is asked again and again.", Facts("§7")),
    row("install.disk", "An installation goes to the disk its selector or path names, and to none if none fits.", Facts("§4")),
    row("install.expression", "Of expressions about disks, comparisons of texts are made; whoever asks for more gets the first disk.", Unproven),
    row("logs.follow", "A log that is followed brings every line that is written, until the machine goes down.", Facts("§2")),
    row("maintenance.partial", "Documents without machine and cluster leave a node in maintenance.", Transcript("apply-real-partial")),
    row("maintenance.try", "A trial in maintenance ends with no configuration and nobody listening.", Transcript("maintenance-apply-try")),
    row("tls.authority", "A configured node wants a certificate of its authority or of one it accepts besides.", Facts("§1.2")),
    row("tls.worker", "A worker listens once a control plane's trustd has signed for it.", Facts("§1.2")),
    row("apply.nested-try", "Of two trials in a row the second goes back to the first one's configuration.", Observed("§1")),
    row("apply.trial", "A trial goes back without a word when its time is up; the same again without a trial confirms it.", Observed("day two §3.3")),
    row("apply.identical", "The same configuration again makes nothing but its own versions others.", Observed("day two §3.1")),
    row("apply.staged", "A staged configuration is persistent at once and in force after the next boot.", Observed("§2")),
    row("status.unmet", "Conditions are looked at only while booting and running; a health check that has not come yet is not held against a service.", Transcript("bootstrap-flow")),
    row("status.bootstrap", "The stage is running the instant a bootstrap is accepted.", Transcript("bootstrap-full")),
    row("status.join", "A node that joins is ready, not ready while it is a learner, ready, and not ready while its static pods start.", Transcript("join-flow")),
    row("status.cancelled-boot", "A cancelled boot shows running for an instant.", Observed("§1")),
    row("services.words", "Services wait, prepare, run and report in these words.", Transcript("prebootstrap")),
    row("services.stop", "Which services may be stopped by the API.", Transcript("prebootstrap")),
    row("bootstrap.order", "CRI, role, etcd's authority, clock and data directory are looked at in this order.", Facts("§4")),
    row("bootstrap.delay", "A bootstrap that is too early is refused after a second, with a wrong clock after five.", Transcript("vm-apply-flow")),
    row("bootstrap.per-node", "The guard is per node: two bootstraps make two clusters.", Facts("§4")),
    row("bootstrap.again", "A bootstrap may be accepted again until etcd has written its data.", Observed("§1")),
    row("bootstrap.after-leave", "A node that left etcd bootstraps a cluster of its own.", Observed("§1")),
    row("etcd.hang", "Calls about etcd hang where there is none to ask.", Transcript("prebootstrap-etcd")),
    row("etcd.members", "Members are listed by whichever member can be asked; a learner begins without a name.", Transcript("etcd-join")),
    row("etcd.one-learner", "There is one learner at a time; others wait for their turn.", Unproven),
    row("etcd.same-name", "A node without data that joins takes the place of a member of its name.", Observed("§2")),
    row("etcd.learner", "A learner does not answer for itself, and is not healthy.", Observed("§1")),
    row("etcd.no-quorum", "Without a quorum there is status with an error and a snapshot, and nothing else.", Observed("§1")),
    row("etcd.strict-removal", "A removal that would leave too few members is refused.", Unproven),
    row("etcd.forfeit", "Leadership goes to another member; one alone cannot give it away.", Transcript("etcd-leader")),
    row("etcd.leave", "A member that leaves takes the folder of its data along.", Observed("§3")),
    row("etcd.leave.slow", "Leaving is acknowledged after ten seconds; then the static pods go, while Kubernetes still shows node and pods as they were.", Observed("day two §4.1")),
    row("etcd.no-space", "A member without room raises an alarm; nothing is written until it is defragmented and the alarm disarmed.", Sources("etcd server/etcdserver/apply")),
    row("etcd.rolled-back", "A member whose disk is older than what it acknowledged fails, and stays so.", Sources("etcd raft log.go commitTo")),
    row("etcd.recover", "A recovery accepts any file; what is wrong with it shows in the service.", Transcript("etcd-recover")),
    row("life.takeover", "Which sequences give way to which; a refusal names nobody.", Observed("§1")),
    row("life.reset-arguments", "What a reset refuses before it begins.", Transcript("reset-flow")),
    row("life.reset-partitions", "A reset of EPHEMERAL keeps the configuration, one of STATE leads back to maintenance.", Transcript("vm-reset-state")),
    row("life.graceful-reset", "A reset that cannot leave etcd restarts the machine as it was.", Facts("§6.3")),
    row("life.container", "What containers refuse.", Transcript("prebootstrap")),
    row("life.meta", "Keys of META are bytes.", Transcript("vm-ops")),
    row("upgrade.legacy", "The older call pulls, looks at the installer and at etcd, and restarts into the new version.", Facts("§6.1")),
    row("upgrade.legacy.order", "The older call is acknowledged when the image was validated; its sequence begins after that.", Observed("day two §5.2")),
    row("upgrade.sick", "A node that is told to be sick with an image comes up with it, and its kubelet is never healthy.", Unproven),
    row("upgrade.legacy-stage", "A staged upgrade installs on the way down instead of at the next boot.", Unproven),
    row("upgrade.legacy-without-etcd", "On a control plane without etcd the older call never answers, and none after it succeeds.", Observed("day two §5.2")),
    row("upgrade.lifecycle", "The newer call neither pulls nor restarts; a failed installer ends with OK and its exit code.", Observed("day two §5.1")),
    row("upgrade.images", "Registries have every image but those they are said not to have, and no Talos but version 1.", Unproven),
    row("kubernetes.node", "Nodes register when an API server answers, and are ready when there is a network plugin.", Facts("§5")),
    row("kubernetes.kubeconfig", "A kubeconfig is signed on the spot, before Kubernetes runs as well.", Transcript("prebootstrap")),
    row("kubernetes.objects", "Objects are made, read, listed by labels and fields, replaced, patched and deleted; refusals have the server's words.", Compared("kube-apiserver")),
    row("kubernetes.versions", "A write for an older version of an object is a conflict; leases and custom objects must say which they mean.", Compared("kube-apiserver")),
    row("kubernetes.fields", "Server-side apply: who sets a field owns it, others conflict unless they force it, what nobody sets any more goes.", Compared("kube-apiserver")),
    row("kubernetes.definitions", "A definition brings its kind after a moment; it is gone with the definition. Schemas are not held against objects.", Compared("kube-apiserver")),
    row("kubernetes.evictions", "An eviction that a disruption budget does not allow names the budget; two budgets for a pod are a failure inside a success.", Compared("kube-apiserver")),
    row("kubernetes.kubectl", "kubectl cordons, drains, labels, taints, applies, patches and deletes, and prints what it prints elsewhere.", Compared("kubectl")),
    row("kubernetes.callers", "Strangers are told 401, who has no rights 403; a node may not list nodes.", Compared("kube-apiserver")),
    row("kubernetes.quorum", "Without a quorum of etcd the API server answers after a while: etcdserver: request timed out.", Unproven),
    row("kubernetes.silence", "A node whose kubelet is silent for 50 seconds is unknown; pods leave it after five minutes more.", Sources("pkg/controller/nodelifecycle")),
    row("kubernetes.controllers", "Daemon sets, deployments and budgets are worked out as their controllers do; jobs and stateful sets are only kept.", Sources("pkg/controller")),
    row("kubernetes.mirrors", "Static pods show as mirrors with the versions of their configuration and secrets; another configuration is another pod.", Facts("day two")),
    row("kubernetes.mirrors.replaced", "Another image or argument makes versions of resources others at once; the kubelet sees it later, ends the old pod, and only then there is a mirror of that version.", Observed("day two §3.1")),
    row("kubernetes.mirrors.api-server", "The API server of a node refuses its clients between its old pod and the new one.", Observed("day two §1.5")),
    row("kubernetes.kubelet-restart", "Another kubelet is another process at once; its node is not ready for a moment seconds later, and static pods are not known for half a minute.", Observed("day two §3.2")),
    row("kubernetes.deleted-node", "A node deleted under its kubelet stays away until that starts anew; its pods are collected.", Sources("pkg/kubelet")),
    row("kubernetes.volumes", "A volume is detached six seconds after its last pod on a node, after six minutes if the node does not answer.", Sources("pkg/controller/volume/attachdetach")),
    row("kubernetes.graces", "Pods go after a moment, or after as long as an annotation says, within their grace.", Unproven),
    row("kubernetes.authorities", "A kubeconfig and an API server know the authority that signs and those that are accepted besides.", Observed("day two §2.3")),
    row("kubernetes.watch", "A watch ends at once: whoever watches lists again.", Unproven),
    row("health.order", "The server's own check goes through sixteen conditions in order.", Transcript("health")),
    row("cosi.types", "Which types of resources there are, where they live and what they are called, by version.", Transcript("maintenance-cosi")),
    row("cosi.sensitive", "Sensitive types are for administrators; unknown types and namespaces are refused.", Transcript("maintenance-cosi")),
    row("cosi.watch", "A watch says that it is ready, then what is there, then what changes; one of an id may not ask for contents.", Transcript("maintenance-cosi")),
    row("cosi.watch-options", "Up to 1.12 a watch of an id without options crashes its handler.", Observed("§1")),
    row("roles.calls", "Which role may make which call; in maintenance everybody is a reader.", Transcript("auth")),
    row("roles.small-server", "Up to 1.12 maintenance is served by a small server of its own.", Transcript("maintenance-reads")),
    row("proxy.node", "`node` passes a reply through, `nodes` gathers entries with names and failures; workers do not forward.", Transcript("proxy")),
    row("proxy.names", "Nobody resolves names in the simulated network.", Transcript("proxy")),
    row("apply.words", "What is said of configurations that cannot be read, are not wanted, or want a reboot.", Transcript("maintenance-apply-invalid")),
    row("apply.dry-run", "A dry run shows the difference to what is in force.", Transcript("apply-running-dryrun")),
    row("apply.one-at-a-time", "A configuration that comes while another is applied is refused.", Transcript("apply-concurrent")),
    row("events.tail", "Events begin with an empty one, then those asked for, then what happens.", Transcript("bootstrap-flow")),
    row("nocloud.network", "What network-config of version 1 and 2 means.", Vectors("nocloud")),
    row("nocloud.name", "Without network-config the name in meta-data is dropped too.", Facts("§7")),
    row("nocloud.user-data", "`#cloud-config` is no configuration, `#include` names one URL, an empty file is a fault on a drive.", Facts("§7")),
    row("network.dhcp", "Links nobody speaks of ask for an address; the network gives what is reserved, or nothing.", Unproven),
    row("network.shared-address", "A shared address is held by the first control plane whose etcd is up.", Unproven),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_behaviour_is_there_twice_and_most_are_proven() {
        let mut ids: Vec<&str> = all().iter().map(|one| one.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all().len());
        let unproven = all().iter().filter(|one| !one.source.is_proven()).count();
        assert!(unproven * 5 < all().len(), "{unproven} of {} are guesses", all().len());
    }

    #[test]
    fn transcripts_that_are_named_exist() {
        let Some(folder) = crate::nocloud::shared_data() else { return };
        let file = std::fs::File::open(folder.join("talos-transcripts/transcripts.json")).unwrap();
        let calls: serde_json::Value = serde_json::from_reader(std::io::BufReader::new(file)).unwrap();
        let groups: Vec<&str> = calls
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|call| call["group"].as_str()?.split('@').next())
            .collect();
        for behaviour in all() {
            if let Transcript(group) = behaviour.source {
                assert!(groups.contains(&group), "{} names {group}", behaviour.id);
            }
        }
    }
}

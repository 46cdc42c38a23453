//! Where each behaviour of the nodes is known from.

pub use talmox_sim::behaviours::{Behaviour, Source};

/// The table, by subject.
pub fn all() -> &'static [Behaviour] {
    TABLE
}

use Source::{Compared, Facts, Observed, Sources, Transcript, Unproven, Vectors};

#[rustfmt::skip]
const TABLE: &[Behaviour] = &[
    Behaviour::new("boot.drive", "The first drive with Talos on it is booted: an empty disk is passed over for the ISO behind it.", Facts("§4")),
    Behaviour::new("boot.iso-over-installation", "An ISO booted beside an installed disk waits and does nothing.", Unproven),
    Behaviour::new("boot.config-order", "A configuration on STATE comes before one of the platform, that before the API.", Facts("§4")),
    Behaviour::new("boot.bad-user-data", "User data that cannot be used never leads to maintenance: nobody listens.", Facts("§4")),
    Behaviour::new("boot.install-without-meta", "Talos installs itself only where there is no META partition, then restarts.", Facts("§4")),
    Behaviour::new("boot.install-told", "From 1.14 a configuration without a word about installing does not install.", Facts("§4")),
    Behaviour::new("boot.falls-back", "A new version that fails to boot before it was ready once gives way to the previous one.", Facts("§6.1")),
    Behaviour::new("boot.partition", "STATE and EPHEMERAL are made after the first configuration.", Observed("§3")),
    Behaviour::new("maintenance.certificate", "In maintenance the certificate is self-made and new at every boot; nobody is asked for one.", Facts("§1.3")),
    Behaviour::new("maintenance.version", "In maintenance Version has no features.", Transcript("maintenance-reads")),
    Behaviour::new("maintenance.transition", "The port is closed for a moment when maintenance ends, and for long if a stream was left open.", Observed("§1")),
    Behaviour::new("config.url", "A serial number with ds=nocloud-net and an address: three files are fetched before maintenance is thought of; a server that is away or not trusted is asked again and again.", Facts("§7")),
    Behaviour::new("install.disk", "An installation goes to the disk its selector or path names, and to none if none fits.", Facts("§4")),
    Behaviour::new("install.expression", "Of expressions about disks, comparisons of texts are made; whoever asks for more gets the first disk.", Unproven),
    Behaviour::new("logs.follow", "A log that is followed brings every line that is written, until the machine goes down.", Facts("§2")),
    Behaviour::new("maintenance.partial", "Documents without machine and cluster leave a node in maintenance.", Transcript("apply-real-partial")),
    Behaviour::new("maintenance.try", "A trial in maintenance ends with no configuration and nobody listening.", Transcript("maintenance-apply-try")),
    Behaviour::new("tls.authority", "A configured node wants a certificate of its authority or of one it accepts besides.", Facts("§1.2")),
    Behaviour::new("tls.refusal", "A client that is refused has finished its handshake: the alert and the end of the connection race, and either comes first.", Observed("§1")),
    Behaviour::new("tls.worker", "A worker listens once the trustd of a control plane has signed for it: of one that discovery lists, or of the one at the endpoint's address.", Observed("driven")),
    Behaviour::new("discovery.away", "The discovery service can be out of reach: then no node hears of another by it.", Observed("driven")),
    Behaviour::new("apply.nested-try", "Of two trials in a row the second goes back to the first one's configuration.", Observed("§1")),
    Behaviour::new("apply.trial", "A trial goes back without a word when its time is up; the same again without a trial confirms it.", Observed("day two §3.3")),
    Behaviour::new("apply.identical", "The same configuration again makes nothing but its own versions others.", Observed("day two §3.1")),
    Behaviour::new("apply.staged", "A staged configuration is persistent at once and in force after the next boot.", Observed("§2")),
    Behaviour::new("status.unmet", "Conditions are looked at only while booting and running; a health check that has not come yet is not held against a service.", Transcript("bootstrap-flow")),
    Behaviour::new("status.bootstrap", "The stage is running the instant a bootstrap is accepted.", Transcript("bootstrap-full")),
    Behaviour::new("status.join", "A node that joins is ready, not ready while it is a learner, ready, and not ready while its static pods start.", Transcript("join-flow")),
    Behaviour::new("status.cancelled-boot", "A cancelled boot shows running for an instant.", Observed("§1")),
    Behaviour::new("services.words", "Services wait, prepare, run and report in these words.", Transcript("prebootstrap")),
    Behaviour::new("services.crash", "A program that cannot start is running for a moment and waits to be started again, every five seconds; such an etcd has no data.", Observed("driven")),
    Behaviour::new("services.images", "A kubelet or an etcd whose image no registry has prepares until one has it; without a kubelet the stage stays booting, also after a bootstrap.", Observed("driven")),
    Behaviour::new("services.stop", "Which services may be stopped by the API.", Transcript("prebootstrap")),
    Behaviour::new("bootstrap.order", "CRI, role, etcd's authority, clock and data directory are looked at in this order.", Facts("§4")),
    Behaviour::new("bootstrap.delay", "A bootstrap that is too early is refused after a second, with a wrong clock after five.", Transcript("vm-apply-flow")),
    Behaviour::new("bootstrap.per-node", "The guard is per node: two bootstraps make two clusters.", Facts("§4")),
    Behaviour::new("bootstrap.again", "A bootstrap may be accepted again until etcd has written its data.", Observed("§1")),
    Behaviour::new("bootstrap.after-leave", "A node that left etcd bootstraps a cluster of its own.", Observed("§1")),
    Behaviour::new("etcd.hang", "Calls about etcd hang where there is none to ask.", Transcript("prebootstrap-etcd")),
    Behaviour::new("etcd.members", "Members are listed by whichever member can be asked; a learner begins without a name.", Transcript("etcd-join")),
    Behaviour::new("etcd.one-learner", "There is one learner at a time; others wait for their turn.", Unproven),
    Behaviour::new("etcd.same-name", "A node without data that joins takes the place of a member of its name.", Observed("§2")),
    Behaviour::new("etcd.learner", "A learner does not answer for itself, and is not healthy.", Observed("§1")),
    Behaviour::new("etcd.no-quorum", "Without a quorum there is status with an error and a snapshot, and nothing else.", Observed("§1")),
    Behaviour::new("etcd.strict-removal", "A removal that would leave too few members is refused.", Unproven),
    Behaviour::new("etcd.forfeit", "Leadership goes to another member; one alone cannot give it away.", Transcript("etcd-leader")),
    Behaviour::new("etcd.leave", "A member that leaves takes the folder of its data along.", Observed("§3")),
    Behaviour::new("etcd.leave.slow", "Leaving is acknowledged after ten seconds; then the static pods go, while Kubernetes still shows node and pods as they were.", Observed("day two §4.1")),
    Behaviour::new("etcd.no-space", "A member without room raises an alarm; nothing is written until it is defragmented and the alarm disarmed.", Sources("etcd server/etcdserver/apply")),
    Behaviour::new("etcd.rolled-back", "A member whose disk is older than what it acknowledged fails, and stays so.", Sources("etcd raft log.go commitTo")),
    Behaviour::new("etcd.recover", "A recovery accepts any file; what is wrong with it shows in the service.", Transcript("etcd-recover")),
    Behaviour::new("life.takeover", "Which sequences give way to which; a refusal names nobody.", Observed("§1")),
    Behaviour::new("life.reset-arguments", "What a reset refuses before it begins.", Transcript("reset-flow")),
    Behaviour::new("life.reset-partitions", "A reset of EPHEMERAL keeps the configuration, one of STATE leads back to maintenance.", Transcript("vm-reset-state")),
    Behaviour::new("life.graceful-reset", "A reset that cannot leave etcd restarts the machine as it was.", Facts("§6.3")),
    Behaviour::new("life.container", "What containers refuse.", Transcript("prebootstrap")),
    Behaviour::new("life.meta", "Keys of META are bytes.", Transcript("vm-ops")),
    Behaviour::new("upgrade.legacy", "The older call pulls, looks at the installer and at etcd, and restarts into the new version.", Facts("§6.1")),
    Behaviour::new("upgrade.legacy.order", "The older call is acknowledged when the image was validated; its sequence begins after that.", Observed("day two §5.2")),
    Behaviour::new("upgrade.sick", "A node that is told to be sick with an image comes up with it, and its kubelet is never healthy.", Unproven),
    Behaviour::new("upgrade.legacy-stage", "A staged upgrade installs on the way down instead of at the next boot.", Unproven),
    Behaviour::new("upgrade.legacy-without-etcd", "On a control plane without etcd the older call never answers, and none after it succeeds.", Observed("day two §5.2")),
    Behaviour::new("upgrade.lifecycle", "The newer call neither pulls nor restarts; a failed installer ends with OK and its exit code.", Observed("day two §5.1")),
    Behaviour::new("upgrade.images", "Registries have every image but those they are said not to have, and no Talos but version 1.", Unproven),
    Behaviour::new("kubernetes.node", "Nodes register when an API server answers, and are ready when there is a network plugin.", Facts("§5")),
    Behaviour::new("kubernetes.kubeconfig", "A kubeconfig is signed on the spot, before Kubernetes runs as well.", Transcript("prebootstrap")),
    Behaviour::new("kubernetes.objects", "Objects are made, read, listed by labels and fields, replaced, patched and deleted; refusals have the server's words.", Compared("kube-apiserver")),
    Behaviour::new("kubernetes.versions", "A write for an older version of an object is a conflict; leases and custom objects must say which they mean.", Compared("kube-apiserver")),
    Behaviour::new("kubernetes.fields", "Server-side apply: who sets a field owns it, others conflict unless they force it, what nobody sets any more goes.", Compared("kube-apiserver")),
    Behaviour::new("kubernetes.definitions", "A definition brings its kind after a moment; it is gone with the definition. Schemas are not held against objects.", Compared("kube-apiserver")),
    Behaviour::new("kubernetes.evictions", "An eviction that a disruption budget does not allow names the budget; two budgets for a pod are a failure inside a success.", Compared("kube-apiserver")),
    Behaviour::new("kubernetes.kubectl", "kubectl cordons, drains, labels, taints, applies, patches and deletes, and prints what it prints elsewhere.", Compared("kubectl")),
    Behaviour::new("kubernetes.callers", "Strangers are told 401, who has no rights 403; a node may not list nodes.", Compared("kube-apiserver")),
    Behaviour::new("kubernetes.quorum", "Without a quorum of etcd the API server answers after a while: etcdserver: request timed out.", Unproven),
    Behaviour::new("kubernetes.silence", "A node whose kubelet is silent for 50 seconds is unknown; pods leave it after five minutes more.", Sources("pkg/controller/nodelifecycle")),
    Behaviour::new("kubernetes.controllers", "Daemon sets, deployments and budgets are worked out as their controllers do; jobs and stateful sets are only kept.", Sources("pkg/controller")),
    Behaviour::new("kubernetes.mirrors", "Static pods show as mirrors with the versions of their configuration and secrets; another configuration is another pod.", Facts("day two")),
    Behaviour::new("kubernetes.mirrors.replaced", "Another image or argument makes versions of resources others at once; the kubelet sees it later, ends the old pod, and only then there is a mirror of that version.", Observed("day two §3.1")),
    Behaviour::new("kubernetes.mirrors.api-server", "The API server of a node refuses its clients between its old pod and the new one.", Observed("day two §1.5")),
    Behaviour::new("kubernetes.kubelet-restart", "Another kubelet is another process at once; its node is not ready for a moment seconds later, and static pods are not known for half a minute.", Observed("day two §3.2")),
    Behaviour::new("kubernetes.deleted-node", "A node deleted under its kubelet stays away until that starts anew; its pods are collected.", Sources("pkg/kubelet")),
    Behaviour::new("kubernetes.volumes", "A volume is detached six seconds after its last pod on a node, after six minutes if the node does not answer.", Sources("pkg/controller/volume/attachdetach")),
    Behaviour::new("kubernetes.graces", "Pods go after a moment, or after as long as an annotation says, within their grace.", Unproven),
    Behaviour::new("kubernetes.authorities", "A kubeconfig and an API server know the authority that signs and those that are accepted besides.", Observed("day two §2.3")),
    Behaviour::new("kubernetes.watch", "A watch tells what is there, a bookmark at its end where that is asked for, and then what changes; one from before a removal is too old.", Observed("day two §1.1")),
    Behaviour::new("kubernetes.inventory", "From 1.13 on Talos lists the objects it brought in a config map, and each says that it is on it.", Observed("day two §1.1")),
    Behaviour::new("kubernetes.protobuf", "Config maps and namespaces may come as protocol buffers; other kinds in that form are refused here.", Sources("client-go gentype")),
    Behaviour::new("health.order", "The server's own check goes through sixteen conditions in order.", Transcript("health")),
    Behaviour::new("cosi.types", "Which types of resources there are, where they live and what they are called, by version.", Transcript("maintenance-cosi")),
    Behaviour::new("cosi.sensitive", "Sensitive types are for administrators; unknown types and namespaces are refused.", Transcript("maintenance-cosi")),
    Behaviour::new("cosi.watch", "A watch says that it is ready, then what is there, then what changes; one of an id may not ask for contents.", Transcript("maintenance-cosi")),
    Behaviour::new("cosi.watch-options", "Up to 1.12 a watch of an id without options crashes its handler.", Observed("§1")),
    Behaviour::new("roles.calls", "Which role may make which call; in maintenance everybody is a reader.", Transcript("auth")),
    Behaviour::new("roles.small-server", "Up to 1.12 maintenance is served by a small server of its own.", Transcript("maintenance-reads")),
    Behaviour::new("proxy.node", "`node` passes a reply through, `nodes` gathers entries with names and failures; workers do not forward.", Transcript("proxy")),
    Behaviour::new("proxy.names", "Nobody resolves names in the simulated network.", Transcript("proxy")),
    Behaviour::new("apply.words", "What is said of configurations that cannot be read, are not wanted, or want a reboot.", Transcript("maintenance-apply-invalid")),
    Behaviour::new("apply.dry-run", "A dry run shows the difference to what is in force.", Transcript("apply-running-dryrun")),
    Behaviour::new("apply.one-at-a-time", "A configuration that comes while another is applied is refused.", Transcript("apply-concurrent")),
    Behaviour::new("events.tail", "Events begin with an empty one, then those asked for, then what happens.", Transcript("bootstrap-flow")),
    Behaviour::new("nocloud.network", "What network-config of version 1 and 2 means.", Vectors("nocloud")),
    Behaviour::new("nocloud.name", "Without network-config the name in meta-data is dropped too.", Facts("§7")),
    Behaviour::new("nocloud.user-data", "`#cloud-config` is no configuration, `#include` names one URL, an empty file is a fault on a drive.", Facts("§7")),
    Behaviour::new("network.dhcp", "Links nobody speaks of ask for an address; the network gives what is reserved, or nothing.", Unproven),
    Behaviour::new("network.shared-address", "A shared address is held by a control plane, here the first whose etcd is up, and by none while etcd has no leader.", Observed("driven")),
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

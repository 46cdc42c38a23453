//! Where each behaviour of the simulator is known from.

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
    /// Request and reply pairs of the genuine server code; the name of the group.
    Transcript(&'static str),
    /// A recording of a production server; the name of the file.
    Recorded(&'static str),
    /// Read in the sources, not seen on the wire; the section of the facts.
    Facts(&'static str),
    /// Nothing proves it: a plausible answer where one is needed.
    Unproven,
}

impl Source {
    /// Is it seen on the wire, or at least read in the sources?
    pub fn is_proven(self) -> bool {
        self != Self::Unproven
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Transcript(group) => write!(f, "transcript {group}"),
            Self::Recorded(file) => write!(f, "recorded {file}"),
            Self::Facts(section) => write!(f, "facts {section}"),
            Self::Unproven => f.write_str("unproven"),
        }
    }
}

/// The table, by subject.
pub fn all() -> &'static [Behaviour] {
    TABLE
}

use Source::{Facts, Recorded, Transcript, Unproven};

const fn row(id: &'static str, sentence: &'static str, source: Source) -> Behaviour {
    Behaviour { id, sentence, source }
}

#[rustfmt::skip]
const TABLE: &[Behaviour] = &[
    row("wire.form-decoding", "Pairs split at `&` and `;`, a value ends at its second raw `=`, a repeated key is a list, a bare key is null.", Facts("§1"),
    ),
    row("wire.query-wins", "Query parameters override those of the body.", Facts("§1")),
    row("wire.json", "A JSON body is one object; malformed JSON is 500 in plain text.", Transcript("01-auth-routing"),
    ),
    row("wire.json-boolean", "A JSON boolean is refused where a string is due.", Transcript("01-auth-routing"),
    ),
    row("wire.content-type", "A content type the server does not know is 506 in plain text.", Transcript("01-auth-routing"),
    ),
    row("wire.limit", "A form of more than 512 KiB is 501 `for data too large`; uploads are exempt.", Transcript("01-auth-routing"),
    ),
    row("wire.body-on-get", "A body on GET or DELETE is 501.", Facts("§1")),
    row("wire.methods", "Methods other than GET, POST, PUT and DELETE are 501 with an empty body.", Transcript("01-auth-routing"),
    ),
    row("wire.formats", "An unknown format is 501 in plain text; extjs always answers 200.", Transcript("01-auth-routing"),
    ),
    row("wire.slashes", "Empty path parts are dropped.", Transcript("01-auth-routing")),
    row("wire.reason", "The reason phrase is the first line of the message; errors close the connection.", Transcript("01-auth-routing"),
    ),
    row("route.unknown", "An unknown path or method is 501 with a message that has no line feed.", Transcript("01-auth-routing"),
    ),
    row("route.doubled", "A path variable repeated with another value is 400.", Transcript("01-auth-routing"),
    ),
    row("route.unknown-host", "A host nobody knows is 500 `hostname lookup … failed`, before rights and schema of the call.", Transcript("01-auth-routing"),
    ),
    row("route.workers", "The privileged daemon handles three calls at a time; a fourth waits.", Transcript("07-concurrency"),
    ),
    row("schema.words", "Wrong parameters are 400 with a reason each, in the words of the schema.", Transcript("02-parameter-validation"),
    ),
    row("schema.properties", "A wrong property string names each wrong key after `format error`.", Transcript("02-parameter-validation"),
    ),
    row("schema.line-feed", "No option of a VM may contain a line feed, the description apart.", Facts("§5")),
    row("schema.line-feed-words", "The words of that refusal.", Unproven),
    row("schema.unknown-key", "An unknown key of a property string is reported like an unknown parameter.", Transcript("02-parameter-validation"),
    ),
    row("schema.cpu", "A CPU model that is not built in is refused by name.", Transcript("02-parameter-validation"),
    ),
    row("schema.formats", "Names, addresses, volumes, tags and hot-plug features have formats of their own.", Transcript("02-parameter-validation"),
    ),
    row("schema.rare-formats", "Texts of formats no transcript shows: bridge ids, URL-encoded strings, boot devices, pools, users.", Unproven),
    row("auth.token", "A token may stand after `=` or a blank; a wrong, unknown or expired one is 401 with an empty body.", Transcript("01-auth-routing"),
    ),
    row("auth.ticket", "A ticket logs in by cookie, needs the anti-forgery token to write, and lives two hours.", Transcript("01-auth-routing"),
    ),
    row("auth.delay", "A refusal while authenticating comes after three seconds.", Facts("§1")),
    row("auth.login", "A wrong password, user or realm is 401 `authentication failure` with a JSON body.", Transcript("01-auth-routing"),
    ),
    row("auth.capabilities", "A login tells what the user may do by area; members of a cluster also its name.", Transcript("10-node-down"),
    ),
    row("auth.ticket-only", "Some calls refuse tokens with 403.", Transcript("01-auth-routing")),
    row("access.order", "Rights are checked before the schema and before anything else is looked up.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("access.words", "A refusal names path and privileges; compound checks name nothing.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("access.separation", "A separated token has what both it and its user have.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("access.depth", "Entries of a deeper path replace those above; a pool adds to its members.", Facts("§8"),
    ),
    row("access.options", "Each option of a VM asks for a privilege of its own; some take only the real root.", Transcript("12-atomicity-and-visibility"),
    ),
    row("access.bridge", "A bridge asks for SDN.Use on its path, with the tag if there is one.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("access.bridge-tag", "The path of a tagged NIC ends in the tag.", Facts("§8")),
    row("access.permissions", "Effective permissions list the paths where any are held.", Transcript("01-auth-routing"),
    ),
    row("access.listings", "Lists leave out what the caller may not see; bridges need an SDN privilege.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("access.tokens", "Tokens can be made and removed; making one twice is 400.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("access.roles", "Built-in roles and their privileges are those of 9.2.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("access.role-edits", "Roles and entries can be written; texts of their failures are guesses.", Unproven),
    row("task.upid", "Workers are named by UPID; status splits user and token.", Transcript("03-vm-lifecycle"),
    ),
    row("task.status", "A running task has no exit status; line feeds of an error become blanks.", Transcript("03-vm-lifecycle"),
    ),
    row("task.log", "Logs come in pages of fifty with a total; a missing log is one line, an empty one `no content`.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("task.unknown", "A task of another host or none is 400 `no such task`, other text `unable to parse worker upid`.", Transcript("09-two-node-cluster"),
    ),
    row("task.list", "Lists show ended tasks, newest first, unless asked for active ones, which show the owner in one piece.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("task.cluster-list", "The list of the cluster holds the last 25.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("task.rights", "Others need Sys.Audit to look at a task and Sys.Modify to stop it.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("task.stop", "A stopped worker says `received interrupt`, one that waits for a lock says which.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("task.killed", "A worker killed hard leaves `unexpected status` and whatever it had done.", Facts("§2"),
    ),
    row("task.journal", "The cluster log holds starts and ends of tasks and changes of VMs.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("lock.file", "Workers of one VM queue for its lock and give up after ten seconds.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("lock.config", "A locked VM refuses changes, start, resize, clone, template and removal; stop and shutdown go on.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("lock.skip", "Only the real root may skip a lock.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("vm.create.checks", "Rights, storages and drives are checked in the call; the id is claimed before the worker starts.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.create.claim", "Of parallel creates of one id one wins, the others are 500 `already exists`.", Transcript("07-concurrency"),
    ),
    row("vm.create.disks", "Disks are made in the order of their keys, each with the next free number on its storage.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.create.failure", "A failed create frees its disks and its id; the reason stands after `unable to create VM N -`.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.create.defaults", "Boot order, SMBIOS uuid, generation id, creation note and MACs are filled in.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.create.start", "`start=1` spawns a task of its own.", Facts("§4")),
    row("vm.create.restore", "Restoring is refused: no storage holds backups here.", Unproven),
    row("vm.config.types", "Whole numbers and booleans are numbers in replies, all else is text; passwords are masked.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.config.normal", "Drives, NICs, tags and boot order are stored in normal form, all else as sent.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.config.digest", "A digest that is not the current one is refused.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.config.pending", "Changes go to the pending section one by one; what was written before a failure stays.", Transcript("12-atomicity-and-visibility"),
    ),
    row("vm.config.merged", "A read shows pending values unless asked for current ones.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.config.delete", "A removed drive becomes unused, a forced or unused one is freed; unknown keys are 400.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.config.boot", "A removed device leaves the boot order, a new CD joins it, a missing one is refused.", Transcript("05-storage-import-cloudinit"),
    ),
    row("vm.config.boot-missing", "A boot order may only name devices that are there.", Facts("§4")),
    row("vm.config.hotplug", "A running VM takes what can be plugged; a guest that does not react keeps a NIC busy.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.config.hotplug-detail", "Which disk options need a new start.", Facts("§4")),
    row("vm.config.reattach", "A volume that is attached again is no longer unused.", Unproven),
    row("vm.config.balloon", "A balloon larger than the memory is refused.", Facts("§5")),
    row("vm.config.background", "A delayed update says nothing if its worker ends in time.", Facts("§4")),
    row("vm.cloudinit.drive", "One cloud-init drive per VM, 4 MiB, without a size until it is cloned.", Transcript("05-storage-import-cloudinit"),
    ),
    row("vm.cloudinit.files", "User, network and meta data are those of the nocloud generator.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.cloudinit.custom", "A custom file that is missing stops the start.", Transcript("05-storage-import-cloudinit"),
    ),
    row("vm.efi", "An EFI disk of 4M firmware measures 528 KiB on files.", Transcript("03-vm-lifecycle")),
    row("vm.efi.small", "An EFI disk of 2M firmware measures 128 KiB; pre-enrolled keys add a marker.", Facts("§5"),
    ),
    row("vm.tpm", "A TPM state measures 4 MiB.", Facts("§5")),
    row("vm.import", "A disk can be made from an import file or another VM's disk, with its size.", Transcript("05-storage-import-cloudinit"),
    ),
    row("vm.resize", "Sizes are absolute or added; shrinking and CD-ROMs are refused by the worker.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.resize.base", "Base images cannot be resized.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("vm.template", "Disks of a template become base images; CD-ROMs and the cloud-init drive stay.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("vm.clone.full", "Full clones copy every disk; MACs, uuid and generation id are new.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("vm.clone.linked", "Linked clones need base images and name them in their volume id.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("vm.clone.raw-base", "On file storages an overlay is qcow2 whatever its base is.", Unproven),
    row("vm.clone.meanwhile", "The target is locked and nearly empty until the clone is done.", Transcript("07-concurrency"),
    ),
    row("vm.clone.race", "Of parallel clones to one id one wins; those already started fail in the worker, later ones in the call.", Transcript("07-concurrency"),
    ),
    row("vm.clone.hosts", "A clone to another host needs shared storages throughout.", Transcript("09-two-node-cluster"),
    ),
    row("vm.destroy", "Running, protected and HA-managed VMs are refused in the call, locked ones in the worker.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("vm.destroy.base", "A base image with linked clones keeps its VM, whichever host the clone is on.", Transcript("09-two-node-cluster"),
    ),
    row("vm.destroy.race", "Of parallel removals one does it, the others find nothing.", Transcript("07-concurrency"),
    ),
    row("vm.power", "Start of a running VM fails in the worker; stop and shutdown of a stopped one are fine; reset and reboot are refused.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.power.shutdown", "A guest that does not react lets a shutdown time out, or is ended if forced.", Transcript("03-vm-lifecycle"),
    ),
    row("vm.power.overrule", "A stop may overrule waiting shutdowns.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("vm.power.bridge", "A start fails where a bridge is missing.", Transcript("03-vm-lifecycle")),
    row("vm.disk-too-large", "A disk beyond 8 PiB is refused, new or grown.", Unproven),
    row("vm.move", "A disk moves to another storage or format; the source is removed or unused.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("vm.move.other-vm", "A disk can be handed to another VM of the same host.", Unproven),
    row("vm.migrate.preconditions", "Local disks and resources, and hosts that could take the VM.", Transcript("09-two-node-cluster"),
    ),
    row("vm.migrate", "Targets that are local or unknown are refused; a running VM needs `online`.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("vm.migrate.moves", "A migration takes local disks along and moves the configuration.", Unproven),
    row("vm.snapshot", "Snapshots are taken, listed, rolled back and removed as far as other calls depend on them.", Transcript("04-clone-template-delete-lock-snapshot-task"),
    ),
    row("vm.agent.errors", "No agent configured, VM not running, agent not running are 500 each.", Transcript("11-guest-agent"),
    ),
    row("vm.agent.answers", "What the agent says is passed through; a refusal of the agent is 200 with an error inside.", Unproven),
    row("vm.agent.made-up", "Unless told, an agent answers from the VM's own configuration.", Unproven),
    row("storage.content", "Listings filter by content and owner; disks need a privilege on their VM, snippets Datastore.Allocate.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("storage.upload", "Uploads are checked by content, extension, checksum and image format.", Transcript("05-storage-import-cloudinit"),
    ),
    row("storage.upload-no-file", "A body that brings no file is refused and changes nothing.", Unproven),
    row("storage.upload-denied", "A refused upload is 403 with an empty body.", Transcript("05-storage-import-cloudinit"),
    ),
    row("storage.download", "Downloads refuse to overwrite unless the checksum matches; decompression is for ISO images only.", Transcript("05-storage-import-cloudinit"),
    ),
    row("storage.delete", "Removing a missing file only says so; with a delay the reply is empty.", Transcript("05-storage-import-cloudinit"),
    ),
    row("storage.allocate", "A volume can be made by name; a name that is taken is refused.", Transcript("05-storage-import-cloudinit"),
    ),
    row("storage.disabled", "A disabled storage, or one of another host, shows zero sizes and fails the worker.", Transcript("09-two-node-cluster"),
    ),
    row("storage.zfs", "Zvols are whole mebibytes, are always raw, and need space.", Facts("§6")),
    row("storage.define", "Storages can be defined, changed and removed.", Transcript("05-storage-import-cloudinit"),
    ),
    row("storage.required", "A definition without what its type needs is refused.", Unproven),
    row("cluster.resources", "A new VM is `unknown` without a name until its host's next broadcast, every ten seconds.", Transcript("12-atomicity-and-visibility"),
    ),
    row("cluster.immediate", "Existence, host, lock and tags are immediate.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("cluster.offline", "A host that is gone is offline without figures; what it said last stays.", Transcript("10-node-down"),
    ),
    row("cluster.status", "The status names hosts, votes and the one that answers.", Transcript("09-two-node-cluster"),
    ),
    row("cluster.nextid", "The next id is the lowest free one, as text; a taken one is 400.", Transcript("03-vm-lifecycle"),
    ),
    row("cluster.hop", "A host whose API is down is 595 `Connection refused`, one out of reach 595 `No route to host`.", Transcript("10-node-down"),
    ),
    row("cluster.quorum", "Without quorum creates, clones and starts are refused, configuration files cannot be written.", Transcript("10-node-down"),
    ),
    row("cluster.quorum.workers", "Workers fail to write without quorum like calls do.", Unproven),
    row("cluster.quorum.files", "Users, pools and storages cannot be changed without quorum.", Transcript("10-node-down"),
    ),
    row("cluster.options", "Options come back taken apart, with the tags the caller may use.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("pool.members", "Members are added and removed; a pool that is not empty stays.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("pool.nested", "Pools may be nested; texts of their failures are guesses.", Unproven),
    row("ha.resources", "Resources are made, changed and removed; a VM must exist and be named once.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("ha.rules", "A rule that can never be kept is refused with the reasons.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("ha.sleeping", "A manager that has nothing to manage yet knows of no host.", Recorded("pve9_resource_affinity_placement"),
    ),
    row("ha.blocking", "A wish to move names the resources that stand in its way.", Recorded("pve9_ha_resource_migrate"),
    ),
    row("ha.groups", "Groups have become rules.", Transcript("06-permissions-cluster-ha-pools")),
    row("ha.power", "Start and stop of a managed VM become wishes to the manager.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("ha.manager", "Where a manager runs it starts and stops VMs as asked.", Unproven),
    row("mapping.pci", "PCI mappings are kept and shown; devices are not probed.", Unproven),
    row("host.figures", "Load, memory and disk figures of hosts are constants.", Unproven),
    row("host.containers", "There are no containers: their list is empty.", Unproven),
    row("host.network", "Interfaces and bridges are listed by kind.", Transcript("06-permissions-cluster-ha-pools"),
    ),
    row("host.capabilities", "CPU models and machine versions are those of QEMU 10.0.", Transcript("06-permissions-cluster-ha-pools"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_sentences_end() {
        let mut ids: Vec<&str> = all().iter().map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all().len());
        assert!(all().iter().all(|row| row.sentence.ends_with('.')));
    }

    #[test]
    fn most_is_proven() {
        let proven = all().iter().filter(|row| row.source.is_proven()).count();
        assert!(proven * 10 >= all().len() * 8, "{proven} of {}", all().len());
    }
}

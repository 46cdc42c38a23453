//! Whether a VM may be taken at all.

use talmox_plan::{Class, Guest, GuestConfig, GuestKind, Nonce, Seen};
use talmox_pve::property::{Smbios, VmConfig};
use talmox_types::{BootstrapWord, ClusterUid, Mark, NodeName, VmId};

use crate::Refused;
use crate::choose::{Choice, Field};

/// Proxmox keeps no more of a VM's notes.
const MAX_NOTES: usize = 8 * 1024;

/// A VM that may be taken, and the mark it would get.
pub(crate) struct Candidate<'a> {
    pub(crate) guest: &'a Guest,
    pub(crate) seen: &'a GuestConfig,
    pub(crate) mark: Mark,
    /// Notes with the mark below what people wrote.
    pub(crate) description: String,
    /// SMBIOS values with the witness.
    pub(crate) smbios: String,
}

/// Judges a choice.
pub(crate) fn judge<'a>(
    field: &Field<'a>,
    uid: &ClusterUid,
    choice: &Choice,
    nonce: &Nonce,
) -> Result<Candidate<'a>, Refused> {
    let refuse = |problem: String, hints: Vec<String>| {
        Err(Refused::new(Some(&choice.node), Some(choice.vmid), problem, hints))
    };
    let Some(guest) = field.observed.guests.get(&choice.vmid) else {
        return refuse("there is no such VM, or the credentials may not see it".to_owned(), Vec::new());
    };
    if let Err((problem, hints)) = is_free(guest) {
        return refuse(problem, hints);
    }
    let seen = match &guest.config {
        Seen::Read(seen) => seen,
        Seen::Unreadable(reason) => return refuse(format!("it could not be read: {reason}"), Vec::new()),
        Seen::NotAsked => return refuse("it was not read".to_owned(), Vec::new()),
    };
    if let Err((problem, hints)) = whose(field, uid, guest, seen, &choice.node) {
        return refuse(problem, hints);
    }
    let mark = if let Class::Lost { mark: Some(mark), .. } = field.identities.class(choice.vmid) {
        mark.clone()
    } else {
        let cluster = field.desired.name.clone();
        Mark::new(uid.clone(), cluster, choice.node.clone(), choice.vmid, nonce.as_str())
    };
    let description = with_mark(seen.next.description(), &mark);
    // With all that a mark may say later.
    let longest = Mark { configured: true, ..bootstrapped(&mark) };
    if with_mark(seen.next.description(), &longest).len() > MAX_NOTES {
        let problem = format!("its notes are so long that the mark does not fit into {MAX_NOTES} bytes");
        return refuse(problem, vec!["shorten them in Proxmox".to_owned()]);
    }
    let smbios = with_witness(&seen.next, &mark);
    Ok(Candidate { guest, seen, mark, description, smbios })
}

/// The mark of a VM in whose cluster etcd was begun.
pub(crate) fn bootstrapped(mark: &Mark) -> Mark {
    let word = BootstrapWord { incarnation: mark.incarnation.clone(), done: true, snapshot: None };
    Mark { bootstrap: Some(word), ..mark.clone() }
}

type Reason = (String, Vec<String>);

fn is_free(guest: &Guest) -> Result<(), Reason> {
    if guest.kind == GuestKind::Container {
        return Err(("it is a container".to_owned(), Vec::new()));
    }
    if guest.template {
        let hint = "clone it and adopt the clone, or name it as talos_template".to_owned();
        return Err(("it is a template".to_owned(), vec![hint]));
    }
    if let Some(lock) = &guest.lock {
        let hint = "run it again when Proxmox is done with it".to_owned();
        return Err((format!("it is locked ({lock})"), vec![hint]));
    }
    Ok(())
}

/// Whether nobody else lays claim to it.
fn whose(
    field: &Field<'_>,
    uid: &ClusterUid,
    guest: &Guest,
    seen: &GuestConfig,
    node: &NodeName,
) -> Result<(), Reason> {
    let found = seen.live.description().and_then(Mark::of_description);
    if let Some(mark) = found.filter(|mark| mark.uid != *uid) {
        let problem = format!(
            "it carries the mark of {} in another cluster {} ({})",
            mark.node, mark.cluster, mark.uid
        );
        let same_name = (mark.cluster == field.desired.name)
            .then(|| format!("if it is this cluster's: cluster_uid: \"{}\"", mark.uid));
        let gone = "if that cluster is gone: remove the line talmox:v1 … from its notes".to_owned();
        return Err((problem, same_name.into_iter().chain([gone]).collect()));
    }
    match field.identities.class(guest.vmid) {
        Class::Copy { mark, why } => {
            let problem = format!("it is a copy of {}: {why}", mark.node);
            let hint =
                "if it is no copy any more: remove the line talmox:v1 … from its notes and its SMBIOS serial";
            Err((problem, vec![hint.to_owned()]))
        }
        Class::Ours(owned) if owned.mark.node != *node => {
            Err((format!("it is {} already", owned.mark.node), Vec::new()))
        }
        Class::Lost { node: lost, mark: Some(_), .. } if lost != node => {
            let hint = format!("talmox adopt {lost} --vmid {}", guest.vmid);
            Err((format!("its mark or its SMBIOS values say that it is {lost}"), vec![hint]))
        }
        Class::Lost { mark: Some(_), .. } => Ok(()),
        Class::Ours(_) | Class::Lost { .. } | Class::InFlight { .. } | Class::Foreign => {
            no_other_witness(&seen.next, guest.vmid)
        }
    }
}

/// SMBIOS values of another cluster's, or of another VM of ours.
fn no_other_witness(config: &VmConfig, vmid: VmId) -> Result<(), Reason> {
    let smbios = config.smbios().ok().flatten().unwrap_or_default();
    let (Some(serial), Some(family)) = (smbios.serial, smbios.family) else { return Ok(()) };
    let is_ours = family.split_once('.').is_some_and(|(uid, _)| ClusterUid::parse(uid).is_ok());
    if !is_ours || !serial.starts_with("h=") {
        return Ok(());
    }
    let problem = format!("its SMBIOS values are those of another VM: serial {serial}, family {family}");
    Err((problem, vec![format!("if that VM is gone: qm set {vmid} --smbios1 uuid=$(uuidgen)")]))
}

/// What people wrote, byte for byte, and the mark below it.
fn with_mark(notes: Option<&str>, mark: &Mark) -> String {
    match notes {
        Some(notes) if Mark::of_description(notes).is_some() => mark.in_description(notes),
        None | Some("") => mark.to_string(),
        Some(notes) if notes.ends_with('\n') => format!("{notes}{mark}"),
        Some(notes) => format!("{notes}\n{mark}"),
    }
}

/// The VM's SMBIOS identity with our serial and family; uuid and everything else stay.
fn with_witness(config: &VmConfig, mark: &Mark) -> String {
    let held = config.smbios().ok().flatten().unwrap_or_default();
    let (serial, family) = (Some(mark.witness_serial()), Some(mark.witness_family()));
    Smbios { serial, family, ..held }.to_string()
}

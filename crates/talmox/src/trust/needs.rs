//! What a description would cause, gathered before anything happens, so that a person is asked once and a pipeline hears of
//! everything at once. Each place where something happens asks again by itself.

use std::path::Path;

use talmox_config::Outcome;
use talmox_image::OFFICIAL;
use talmox_secrets::age::Recipient;
use talmox_trust::{Access, Cause, Need, Origin, Receiver, Verb};
use talmox_types::SecretRef;
use talmox_types::desired::{Cni, ConfigDelivery, Desired, Patch};

use super::folder::Folder;
use super::program;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::{secrets_file, sops, variables_file};

/// What a verb is about to do with a description.
#[derive(Clone, Copy)]
pub(crate) struct Aim {
    pub(crate) verb: Verb,
    /// On a simulated Proxmox nothing runs, nothing is fetched and no server is contacted; files are still read.
    pub(crate) simulated: bool,
}

impl Aim {
    fn causes(self, cause: Cause) -> bool {
        self.verb.causes().contains(&cause) && (cause == Cause::Read || !self.simulated)
    }
}

/// All needs but those for tokens, which depend on the environment (`connect::choose`), and for variables, which flags may give.
pub(crate) fn needs(
    aim: Aim,
    outcome: &Outcome,
    desired: &Desired,
    folder: &Folder,
) -> Result<Vec<Need>, Failure> {
    let mut needs = Vec::new();
    if aim.causes(Cause::Read) {
        for name in named_files(outcome, desired) {
            needs.extend(folder.need_for(&folder.path().join(name), Access::Read)?);
        }
    }
    if aim.causes(Cause::Write)
        && let Some(backup) = &desired.talos.etcd_backup
    {
        needs.extend(folder.need_for(&folder.path().join(&backup.dir), Access::Write)?);
    }
    if aim.causes(Cause::Token) {
        match &desired.proxmox.api_token {
            Some(SecretRef::Exec(argv)) => needs.push(program::need(argv, folder)?),
            Some(SecretRef::File(file) | SecretRef::Sops { file, .. }) => {
                needs.extend(folder.need_for(&folder.path().join(file), Access::Read)?);
            }
            Some(SecretRef::Env(_)) | None => {}
        }
    }
    if aim.causes(Cause::Hook) && !desired.kubernetes.post_bootstrap.is_empty() {
        needs.push(program::need(&desired.kubernetes.post_bootstrap, folder)?);
    }
    if aim.causes(Cause::Fetch) {
        needs.extend(hosts(desired)?.into_iter().map(Need::Host));
    }
    // What `etcd snapshot` encrypts for may be named by its flags: it asks where it begins the file.
    if aim.causes(Cause::Receive) && aim.verb != Verb::EtcdSnapshot {
        needs.extend(receivers(aim.verb, desired, folder)?);
    }
    Ok(needs)
}

/// Every file the description names to be read, as it names it.
fn named_files(outcome: &Outcome, desired: &Desired) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for member in outcome.description.members() {
        for written in outcome.description.patches(&member) {
            if let Patch::File(file) = written.patch {
                names.push(file);
            }
        }
    }
    names.extend(desired.talos.secrets_file.clone());
    if let Cni::Manifest(file) = &desired.kubernetes.cni {
        names.push(file.clone());
    }
    names.extend(desired.kubernetes.bootstrap_manifests.iter().filter(|name| !name.contains("://")).cloned());
    names.extend(secrets_file::NAMES.map(str::to_owned));
    names.extend(variables_file::NAMES.map(str::to_owned));
    names.sort();
    names.dedup();
    names
}

/// Servers talmox itself would fetch from. Proxmox hosts and machines fetch by themselves; the plan shows that.
pub(crate) fn hosts(desired: &Desired) -> Result<Vec<Origin>, Failure> {
    let mut urls = vec![desired.talos.factory_url.as_str()];
    urls.extend(
        desired.kubernetes.bootstrap_manifests.iter().map(String::as_str).filter(|name| name.contains("://")),
    );
    for template in &desired.templates {
        urls.extend(template.image.schematic.as_ref().map(|schematic| schematic.factory.as_str()));
        // Proxmox cannot unpack it, so it comes by way of this machine.
        urls.extend(template.image.compression.map(|_| template.image.url.as_str()));
    }
    let mut hosts = Vec::new();
    for url in urls {
        let origin = Origin::of_url(url)
            .map_err(|invalid| Failure::new(format!("an address of the description: {invalid}")))?;
        if !is_official(&origin) && !hosts.contains(&origin) {
            hosts.push(origin);
        }
    }
    Ok(hosts)
}

/// The Image Factory everybody uses needs no grant.
pub(crate) fn is_official(origin: &Origin) -> bool {
    Origin::of_url(OFFICIAL).is_ok_and(|official| official == *origin)
}

/// Who would receive secrets, less the person, whose keys are at hand.
fn receivers(verb: Verb, desired: &Desired, folder: &Folder) -> Result<Vec<Need>, Failure> {
    let mut receivers = Vec::new();
    if let Some(backup) = &desired.talos.etcd_backup {
        receivers.extend(backup.age.iter().cloned().map(Receiver::Age));
    }
    let makes_secrets = matches!(verb, Verb::Plan | Verb::Apply | Verb::SecretsGenerate);
    if makes_secrets && !secrets_file::find(desired, folder).is_some_and(|path| path.exists()) {
        let file = desired.talos.secrets_file.as_deref().unwrap_or("secrets.sops.yaml");
        receivers.extend(of_rules(&folder.path().join(file))?);
    }
    if matches!(verb, Verb::Plan | Verb::Apply)
        && desired.talos.config_delivery == ConfigDelivery::Cidata
        && let Some(storage) = &desired.proxmox.seed_storage
    {
        receivers.push(Receiver::SeedStorage(storage.to_string()));
    }
    not_mine(receivers)
}

/// The receivers that `.sops.yaml` names for a file.
fn of_rules(path: &Path) -> Result<Vec<Receiver>, Failure> {
    let rule = sops::rule_for(path)?;
    Ok(rule.map(|rule| rule.recipients.iter().map(as_receiver).collect()).unwrap_or_default())
}

fn as_receiver(recipient: &Recipient) -> Receiver {
    Receiver::Age(recipient.to_string())
}

/// Needs for receivers that are not the person: a key at hand opens what is encrypted for it.
fn not_mine(receivers: Vec<Receiver>) -> Result<Vec<Need>, Failure> {
    if receivers.is_empty() {
        return Ok(Vec::new());
    }
    let own: Vec<Receiver> =
        sops::identities()?.iter().map(|identity| as_receiver(identity.recipient())).collect();
    Ok(receivers.into_iter().filter(|receiver| !own.contains(receiver)).map(Need::Recipient).collect())
}

/// Has the person allow receivers that are neither the person nor allowed yet, or refuses.
pub(crate) fn settle_receivers<'r>(
    recipients: impl IntoIterator<Item = &'r Recipient>,
    folder: &Folder,
    printer: &Printer,
) -> anyhow::Result<()> {
    let needs = not_mine(recipients.into_iter().map(as_receiver).collect())?;
    super::settle(&needs, folder, printer)
}

/// Refuses to encrypt for receivers the person neither is, nor named, nor allowed.
pub(crate) fn refuse_strange_receivers<'r>(
    recipients: impl IntoIterator<Item = &'r Recipient>,
    folder: &Folder,
) -> Result<(), Failure> {
    let needs = not_mine(recipients.into_iter().map(as_receiver).collect())?;
    let grants = folder.granted();
    let missing = grants.missing(&needs);
    if missing.is_empty() { Ok(()) } else { Err(folder.refusal(&missing)) }
}

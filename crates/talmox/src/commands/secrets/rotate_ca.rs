//! `talmox secrets rotate-ca`

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde::Serialize;
use talmox_machine::{Bundle, SystemRandom};
use talmox_render::Accepts;
use talmox_types::Realm;

use crate::args::{Format, SecretsRotateCa, Simulate};
use crate::commands::configs::Described;
use crate::commands::configs::now;
use crate::commands::rehearsal::accepts;
use crate::commands::shared::{Job, block_on, boxed, flags};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::secrets_file::{self, Loaded};
use crate::trust::{Aim, Folder, needs, settle};
use talmox_trust::Verb;

/// What is being replaced, for programs.
#[derive(Serialize)]
struct RotationData {
    format: &'static str,
    /// The file with the secrets.
    file: String,
    /// Authorities made by this run.
    begun: Vec<AuthorityData>,
    /// Those that were there already, and stay.
    pending: Vec<AuthorityData>,
}

#[derive(Serialize)]
struct AuthorityData {
    /// `talos` or `kubernetes`.
    authority: &'static str,
    ends: String,
}

impl AuthorityData {
    fn all(bundle: &Bundle, realms: &[Realm]) -> Vec<Self> {
        realms.iter().map(|realm| Self { authority: realm.word(), ends: ends(bundle, *realm) }).collect()
    }
}

pub(super) fn run(args: &SecretsRotateCa, printer: &Printer) -> anyhow::Result<()> {
    let (Loaded { path, mut bundle }, accepted) = open(args, printer)?;
    let name = path.display();
    let (pending, new) = sorted(args, &bundle, printer);
    for realm in &pending {
        printer.say(&format!(
            "the authority of {} is being replaced already: the new one is in {name}, and stays",
            realm.name()
        ));
    }
    if let Some(kept) = accepted.iter().find(|kept| new.contains(&kept.realm)) {
        return Err(Failure::new(kept.to_string())
            .with_hint("whoever has the key of that authority is let in until then; no new one was made")
            .into());
    }
    for realm in &new {
        bundle
            .begin_rotation(*realm, now(), &mut SystemRandom)
            .with_context(|| format!("could not make an authority of {}", realm.name()))?;
    }
    if !new.is_empty() {
        secrets_file::store(&path, &bundle)?;
        for realm in &new {
            let day = ends(&bundle, *realm);
            printer.say(&format!(
                "wrote a new authority of {} into {name}, good until {day}; no machine knows it yet",
                realm.name()
            ));
        }
    }
    let flags = flags(&args.description.file, &args.connection);
    printer.say(&format!("look: talmox plan{flags}\nthen: talmox apply{flags}"));
    match args.output.output {
        Format::Table => Ok(()),
        format @ (Format::Json | Format::Yaml) => {
            let (begun, pending) = (AuthorityData::all(&bundle, &new), AuthorityData::all(&bundle, &pending));
            let data = RotationData { format: "talmox.rotate-ca/v1", file: name.to_string(), begun, pending };
            printer.structured(format, &data)
        }
    }
}

/// Authorities that are being replaced already, and those to begin with. Who names none means what is there: halfway, one is settled
/// and the other is not, and the one that is new already is not replaced once more.
fn sorted(args: &SecretsRotateCa, bundle: &Bundle, printer: &Printer) -> (Vec<Realm>, Vec<Realm>) {
    let named = args.talos || args.kubernetes;
    let asked = |realm: &Realm| match realm {
        Realm::Talos => args.talos || !named,
        Realm::Kubernetes => args.kubernetes || !named,
    };
    let (pending, new): (Vec<Realm>, Vec<Realm>) =
        Realm::ALL.into_iter().filter(asked).partition(|realm| bundle.next(*realm).is_some());
    if named || pending.is_empty() {
        return (pending, new);
    }
    for realm in new {
        let (name, word) = (realm.name(), realm.word());
        printer.say(&format!("no new authority of {name} was made beside it: --{word} makes one"));
    }
    (pending, Vec::new())
}

/// The day on which the new authority ends.
fn ends(bundle: &Bundle, realm: Realm) -> String {
    let ends = bundle.next(realm).map(|next| next.certificate.not_after().to_string());
    ends.as_deref().and_then(|ends| ends.split('T').next()).unwrap_or_default().to_owned()
}

/// The secrets: those of the simulation, if that is meant. Those of the description are never changed for it. And what patches have
/// machines accept.
fn open(args: &SecretsRotateCa, printer: &Printer) -> anyhow::Result<(Loaded, BTreeSet<Accepts>)> {
    if args.connection.simulate == Simulate::Off {
        let own = Folder::open(&args.description.file, &args.description.trust)?;
        let (outcome, desired) = boxed(&own, printer)?;
        let aim = Aim { verb: Verb::SecretsRotateCa, simulated: true };
        settle(&needs(aim, &outcome, &desired, &own)?, &own, printer)?;
        let described =
            Described { outcome: &outcome, desired: &desired, folder: &own, variables: &args.variables };
        let loaded = secrets_file::load(&desired, &own)?;
        own.writable_path(&loaded.path)?;
        return Ok((loaded, accepts(&described)?));
    }
    block_on(async {
        let job = Job::open(Verb::SecretsRotateCa, &args.description, &args.connection, printer).await?;
        let simulation = job.session.simulated_in().map(std::path::Path::to_owned);
        let Job { outcome, desired, session, folder: own, .. } = job;
        session.close().await?;
        let described =
            Described { outcome: &outcome, desired: &desired, folder: &own, variables: &args.variables };
        let accepted = accepts(&described)?;
        let Some(simulation) = simulation else { return Ok((secrets_file::load(&desired, &own)?, accepted)) };
        let loaded = secrets_file::load_simulated(&desired, &own, &simulation)?;
        if loaded.path.starts_with(&simulation) {
            return Ok((loaded, accepted));
        }
        let name = loaded.path.display();
        Err(Failure::new(format!("the simulation uses {name}, which is not only its own"))
            .with_hint(
                "without --simulate it is changed there; a simulated apply then leaves the file as it is",
            )
            .into())
    })
}

//! `talmox adopt cluster`

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use talmox_adopt::cluster::{Described, LiveCluster, LiveNode, LiveVm, describe};
use talmox_config::{Files, read_files};
use talmox_machine::Bundle;
use talmox_machine::secrets::from_config;
use talmox_plan::{Guest, Observed};
use talmox_trust::{Certificate, Credential, Grant, Origin};
use talmox_types::desired::{Desired, Role};
use talmox_types::{ClusterName, ClusterUid, Mark, PoolName};

use super::folder::{refuse_existing, write};
use super::found::{Found, Way};
use crate::args::{AdoptCluster, Format, Simulate};
use crate::commands::shared::{block_on, nonce, quoted};
use crate::connect::{Session, ca_file};
use crate::failure::{Failure, Told};
use crate::printer::Printer;
use crate::screens::{ClusterAdoptionData, cluster_adoption_text};
use crate::secrets_file::now;
use crate::trust::{Folder, keep};

pub(super) fn run(args: &AdoptCluster, printer: &Printer) -> anyhow::Result<()> {
    refuse_existing(&args.file)?;
    let way = Way::of(args)?;
    let (described, bundle) = block_on(look(args, &way, printer))?;
    match args.output.output {
        Format::Table => printer.screen(&cluster_adoption_text(&described))?,
        format @ (Format::Json | Format::Yaml) => {
            printer.structured(format, &ClusterAdoptionData::new(&described, args.dry_run))?;
        }
    }
    if !args.dry_run {
        write(args, &described, (&bundle, &way.readers), printer)?;
        if args.connection.simulate == Simulate::Off
            && let Some(grant) = typed(args)?
        {
            keep(&[grant], &Folder::open(&args.file, &args.trust)?, printer)?;
        }
        printer.say(&next(args));
    }
    // Whatever could not be said was told; a script must hear of it too.
    let refused = described.vms.as_ref().is_some_and(|vms| !vms.refused.is_empty());
    if described.remaining.is_empty() && !refused { Ok(()) } else { Err(Told.into()) }
}

/// Asks machines and Proxmox, and describes what they say.
async fn look(args: &AdoptCluster, way: &Way, printer: &Printer) -> anyhow::Result<(Described, Bundle)> {
    let stub = stub(args, None)?;
    let session = match args.connection.simulate {
        Simulate::Off => {
            let folder = Folder::to_be(&args.file, &args.trust)?;
            folder.add(typed(args)?.as_slice());
            Session::open((&stub, &[]), &folder, &args.connection, printer).await?
        }
        Simulate::Here | Simulate::Folder(_) => {
            Session::open_simulated(&stub.name, &args.connection, printer).await?
        }
    };
    let result = describe_all(args, way, &session, &stub, printer).await;
    session.close().await?;
    result
}

/// Who types an endpoint says where the token goes.
fn typed(args: &AdoptCluster) -> Result<Option<Grant>, Failure> {
    let Some(endpoint) = &args.endpoint else { return Ok(None) };
    let origin =
        Origin::of_api(endpoint).map_err(|invalid| Failure::new(format!("--endpoint: {invalid}")))?;
    let certificate = match (&args.connection.fingerprint[..], &args.connection.ca_file) {
        ([], None) => Certificate::System,
        ([], Some(file)) => ca_file(file)?,
        (fingerprints, _) => Certificate::Fingerprints(fingerprints.iter().copied().collect()),
    };
    let secret = api_token(args).to_owned();
    Ok(Some(Grant::Credential(Credential { secret, endpoints: [origin].into(), certificate })))
}

fn api_token(args: &AdoptCluster) -> &str {
    args.api_token.as_deref().unwrap_or("env:PROXMOX_VE_API_TOKEN")
}

async fn describe_all(
    args: &AdoptCluster,
    way: &Way,
    session: &Session,
    stub: &Desired,
    printer: &Printer,
) -> anyhow::Result<(Described, Bundle)> {
    let transport = Arc::clone(&session.ways().talos);
    let (machines, alone) = way.machines(&transport, way.bundle.is_some() && args.nodes.len() > 1).await?;
    if alone {
        printer.say(
            "the machines do not tell of each other (discovery is off): only those that were named are described; \
             --nodes names all of them",
        );
    }
    for machine in machines.iter().filter(|machine| machine.waits) {
        printer.say(&format!(
            "{} has a configuration that waits for its restart; that one is described",
            machine.name
        ));
    }
    let bundle = bundle(way, &machines)?;
    let mut observed = observe(session, stub).await?;
    let pool = pool(&observed, &machines);
    if pool.is_some() {
        observed = observe(session, &self::stub(args, pool.as_ref())?).await?;
    }
    let nodes: Vec<LiveNode> =
        machines.iter().map(|machine| live(machine, &observed)).collect::<Result<_, Failure>>()?;
    let talos = machines.iter().find(|machine| machine.role == Role::Controller);
    let talos = talos.map(|machine| machine.talos.clone()).ok_or_else(no_control_plane)?;
    let live = LiveCluster {
        name: args.name.clone(),
        uid: uid(&bundle, &nodes, &observed)?,
        talos,
        bundle: &bundle,
        nodes,
        proxmox: proxmox(args, pool.as_ref()),
        observed: Some(&observed),
    };
    let described =
        describe(&live, &nonce()?).map_err(|error| Failure::new(format!("{error}; nothing was written")))?;
    Ok((described, bundle))
}

fn no_control_plane() -> Failure {
    Failure::new("none of the machines that answered is a control plane").with_hint("name one with --nodes")
}

async fn observe(session: &Session, desired: &Desired) -> anyhow::Result<Observed> {
    let observed = talmox_exec::observe(&session.client, desired);
    observed.await.context("could not look at Proxmox; nothing was written")
}

/// The secrets somebody gave, if they are this cluster's; else those of a control plane.
fn bundle(way: &Way, machines: &[Found]) -> anyhow::Result<Bundle> {
    let plane = machines.iter().find(|machine| machine.role == Role::Controller);
    let plane = plane.ok_or_else(no_control_plane)?;
    let own = from_config(&plane.config)
        .map_err(|error| Failure::new(format!("{}: {error}; nothing was written", plane.name)))?;
    let problems = own.broken(now());
    if !problems.is_empty() {
        let list = problems.join("\n  ");
        return Err(Failure::new(format!("the secrets of {} cannot be used:\n  {list}", plane.name)).into());
    }
    match &way.bundle {
        Some(given) if given.cluster_id != own.cluster_id => {
            Err(Failure::new("these secrets are not the ones the machines have; nothing was written").into())
        }
        Some(_) | None => Ok(own),
    }
}

/// The VM a machine is, by the uuid both know.
fn guest<'o>(machine: &Found, observed: &'o Observed) -> Option<&'o Guest> {
    observed.guests.values().find(|guest| {
        let uuid = guest.seen().and_then(|seen| seen.live.smbios().ok()??.uuid);
        uuid.is_some_and(|uuid| uuid.eq_ignore_ascii_case(&machine.uuid))
    })
}

fn live(machine: &Found, observed: &Observed) -> Result<LiveNode, Failure> {
    let Found { name, role, address, prefix, config, uuid, .. } = machine;
    let guest = guest(machine, observed).ok_or_else(|| {
        Failure::new(format!("{name} at {address} is no VM of this Proxmox: none has the uuid {uuid}"))
            .with_hint("nothing was written; described, a VM would be made for it")
            .with_hint("a token that may not see it (VM.Audit) has the same effect")
    })?;
    Ok(LiveNode {
        name: name.clone(),
        role: *role,
        address: *address,
        prefix: *prefix,
        config: config.clone(),
        vm: Some(LiveVm::of(guest, name)),
    })
}

/// The pool all of their VMs are in.
fn pool(observed: &Observed, machines: &[Found]) -> Option<PoolName> {
    let pools: BTreeSet<Option<&PoolName>> = machines
        .iter()
        .map(|machine| guest(machine, observed).and_then(|guest| guest.pool.as_ref()))
        .collect();
    let mut pools = pools.into_iter();
    pools.next().flatten().filter(|_| pools.next().is_none()).cloned()
}

/// The uid its VMs carry already, else one that follows from its secrets: whoever adopts it comes to the same.
fn uid(bundle: &Bundle, nodes: &[LiveNode], observed: &Observed) -> Result<ClusterUid, Failure> {
    let mark = |node: &LiveNode| {
        let guest = observed.guests.get(&node.vm.as_ref()?.vmid)?;
        let mark = Mark::of_description(guest.seen()?.live.description()?)?;
        Some((mark.uid.to_string(), format!("VM {}", guest.vmid)))
    };
    let mut marks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (uid, vm) in nodes.iter().filter_map(mark) {
        marks.entry(uid).or_default().push(vm);
    }
    if marks.len() > 1 {
        let list: Vec<String> =
            marks.iter().map(|(uid, vms)| format!("{uid} ({})", vms.join(", "))).collect();
        return Err(Failure::new(format!("its VMs carry marks of several clusters: {}", list.join("; ")))
            .with_hint("nothing was written; each mark is one line of a VM's notes")
            .with_hint(
                "if only one of these clusters is there: remove the others' marks, and run it again",
            ));
    }
    if let Some(uid) = marks.keys().next().and_then(|uid| ClusterUid::parse(uid).ok()) {
        return Ok(uid);
    }
    let digest = Sha256::digest(bundle.cluster_id.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    Ok(ClusterUid::from(first))
}

/// What `cluster.yaml` says of Proxmox.
fn proxmox(args: &AdoptCluster, pool: Option<&PoolName>) -> String {
    let mut text = match &args.endpoint {
        Some(endpoint) => {
            let token = api_token(args);
            format!("proxmox_endpoint: {endpoint}\nproxmox_api_token: {token:?}\n")
        }
        None => "# Where Proxmox is, and who we are to it, the environment says: PROXMOX_VE_ENDPOINT, PROXMOX_VE_API_TOKEN.\n"
            .to_owned(),
    };
    if !args.connection.fingerprint.is_empty() {
        let list: Vec<String> =
            args.connection.fingerprint.iter().map(|fingerprint| format!("\"{fingerprint}\"")).collect();
        text.push_str(&format!("proxmox_fingerprints: [{}]\n", list.join(", ")));
    }
    let pool = pool.map_or("none", PoolName::as_str);
    text + &format!("# The pool its VMs are in.\nproxmox_pool: {pool}\n")
}

/// A description that says nothing but where Proxmox is: its node is not there, so every VM is looked at.
fn stub(args: &AdoptCluster, pool: Option<&PoolName>) -> Result<Desired, Failure> {
    let name = args.name.as_ref().map_or("kubernetes", ClusterName::as_str);
    let text = format!(
        "cluster_name: {name}\ncluster_uid: \"0000000000000000\"\n{}nodes:\n  - {{name: nobody, address: 192.0.2.10, controller: true}}\n",
        proxmox(args, pool)
    );
    let outcome = read_files(Files::from_texts(&text, None));
    let problems: Vec<String> = outcome.problems.iter().map(|problem| problem.message.clone()).collect();
    outcome.desired.ok_or_else(|| Failure::new(format!("what is said of Proxmox: {}", problems.join("; "))))
}

/// What to type next.
fn next(args: &AdoptCluster) -> String {
    let mut flags = match &args.connection.simulate {
        Simulate::Off => String::new(),
        Simulate::Here => " --simulate".to_owned(),
        Simulate::Folder(folder) => format!(" --simulate={}", quoted(&folder.display().to_string())),
    };
    if args.file != Path::new(".") {
        flags.push_str(&format!(" -f {}", quoted(&args.file.display().to_string())));
    }
    format!(
        "\nnext:  talmox adopt --all-matching{flags}   marks the VMs; nothing that runs is changed\n       talmox plan{flags}"
    )
}

//! `talmox adopt`

mod begun;
mod cluster;
mod folder;
mod found;

use talmox_adopt::{Marked, Proposal, ProposeError, Selection, mark, probe, propose};
use talmox_types::desired::Role;
use talmox_types::{FamilyPair, VmId};

use super::replace_files::replace;
use super::shared::{Job, block_on, nonce};
use crate::args::{Adopt, AdoptWhat, Format, RoleWord};
use crate::failure::{Failure, Told, causes};
use crate::printer::Printer;
use crate::prompt;
use crate::screens::{AdoptionData, adoption_text, plural, question};
use talmox_trust::Verb;

pub(super) fn run(args: &Adopt, printer: &Printer) -> anyhow::Result<()> {
    if let Some(AdoptWhat::Cluster(args)) = &args.what {
        return cluster::run(args, printer);
    }
    let selection = selection(args)?;
    block_on(async {
        let job = Job::open(Verb::Adopt, &args.description, &args.connection, printer).await?;
        let result = adopt(&job, args, &selection, printer).await;
        job.session.close().await?;
        result
    })
}

fn selection(args: &Adopt) -> anyhow::Result<Selection> {
    let vmid = args.vmid.map(VmId::try_from).transpose()?;
    Ok(match (&args.node, vmid, &args.name, args.role) {
        (None, Some(vmid), Some(name), Some(role)) => {
            let role = match role {
                RoleWord::Controller => Role::Controller,
                RoleWord::Worker => Role::Worker,
            };
            Selection::New { vmid, name: name.clone(), role, address: address(args)? }
        }
        (Some(node), vmid, ..) => Selection::Node { node: node.clone(), vmid },
        (None, Some(vmid), ..) => Selection::Vm(vmid),
        (None, None, ..) if args.all_matching => Selection::AllMatching,
        (None, None, ..) => {
            return Err(Failure::new("nothing was named that could be adopted")
                .with_hint("name a node, a VM with --vmid, or --all-matching")
                .into());
        }
    })
}

fn address(args: &Adopt) -> anyhow::Result<Option<FamilyPair<std::net::IpAddr>>> {
    let pair = match args.address.as_slice() {
        [] => return Ok(None),
        [one] => Some(FamilyPair::one(*one)),
        [one, two] => FamilyPair::two(*one, *two),
        _ => None,
    };
    let problem = "--address takes one address, or one of each family";
    pair.map(Some).ok_or_else(|| Failure::new(problem).into())
}

async fn adopt(job: &Job, args: &Adopt, selection: &Selection, printer: &Printer) -> anyhow::Result<()> {
    let proposal = proposed(job, args, selection, printer).await?;
    match args.output.output {
        Format::Table => {
            printer.data(&adoption_text(&proposal, selection == &Selection::AllMatching))?;
        }
        format @ (Format::Json | Format::Yaml) => {
            printer.structured(format, &AdoptionData::new(&proposal, args.dry_run))?;
        }
    }
    if !proposal.adoptions.is_empty() && !args.dry_run {
        if !args.auto_approve {
            confirm(job, args, &proposal)?;
        }
        carry_out(job, &proposal, printer).await?;
    }
    // Whoever was refused was told why; a script must hear of it too.
    if proposal.refused.is_empty() { Ok(()) } else { Err(Told.into()) }
}

async fn proposed(
    job: &Job,
    args: &Adopt,
    selection: &Selection,
    printer: &Printer,
) -> anyhow::Result<Proposal> {
    let observed = job.observe_as(&probe(&job.desired, selection)).await?;
    let outcome = Box::new(talmox_config::read_files(job.outcome.description.with_texts(&[])));
    let mut proposal = propose(outcome, &observed, selection, &nonce()?).map_err(|error| {
        let hint = match &error {
            ProposeError::NoUid => Some("talmox apply offers the line to add to cluster.yaml".to_owned()),
            ProposeError::Known { name, vmid } => Some(job.command(&format!("adopt {name} --vmid {vmid}"))),
            ProposeError::NoAddress { .. } => Some("say it with --address".to_owned()),
            ProposeError::Invalid { .. } if args.address.is_empty() => {
                Some("--address gives it another address".to_owned())
            }
            ProposeError::NoVm { .. } | ProposeError::Edit(_) | ProposeError::Invalid { .. } => None,
        };
        let failure = Failure::new(format!("{error}; nothing was changed"));
        hint.into_iter().fold(failure, Failure::with_hint)
    })?;
    begun::remember(job, &observed, &mut proposal, printer).await;
    Ok(proposal)
}

fn confirm(job: &Job, args: &Adopt, proposal: &Proposal) -> anyhow::Result<()> {
    if !Printer::can_ask() {
        let mut words = "adopt --auto-approve".to_owned();
        words.extend(args.node.iter().map(|node| format!(" {node}")));
        words.extend(args.vmid.iter().map(|vmid| format!(" --vmid {vmid}")));
        if args.all_matching {
            words.push_str(" --all-matching");
        }
        if let (Some(name), Some(role)) = (&args.name, args.role) {
            let role = if role == RoleWord::Controller { "controller" } else { "worker" };
            words.push_str(&format!(" --as {name} --role {role}"));
        }
        let addresses: Vec<String> = args.address.iter().map(ToString::to_string).collect();
        if !addresses.is_empty() {
            words.push_str(&format!(" --address {}", addresses.join(",")));
        }
        return Err(Failure::new("there is nobody to ask, and without a yes nothing is changed")
            .with_hint(format!("if this is right: {}", job.command(&words)))
            .into());
    }
    let answer = prompt::line(&question(proposal))?.unwrap_or_default();
    if prompt::is_yes(&answer) {
        Ok(())
    } else {
        Err(Failure::new("not confirmed; nothing was changed").into())
    }
}

/// Files first: a mark without its description would be drift, a description without its mark is a node that is not
/// there yet, and the same command goes on from it.
async fn carry_out(job: &Job, proposal: &Proposal, printer: &Printer) -> anyhow::Result<()> {
    replace(&proposal.files)?;
    for file in &proposal.files {
        printer.say(&format!("wrote {}", file.name));
    }
    let mut failed = 0;
    for adoption in &proposal.adoptions {
        let (node, vmid) = (&adoption.node, adoption.vmid);
        match mark(&job.session.client, adoption).await {
            Ok(Marked::Now) => printer.say(&format!("marked VM {vmid} as {node}")),
            Ok(Marked::WitnessAfterRestart) => printer.say(&format!(
                "marked VM {vmid} as {node}; its SMBIOS serial follows at its next restart, and nothing waits for that"
            )),
            Err(error) => {
                failed += 1;
                let because: String = causes(&error).iter().map(|cause| format!("\n  {cause}")).collect();
                printer.problem(&format!("error: {error}{because}"));
            }
        }
    }
    if failed > 0 {
        let verb = job.command("adopt --all-matching");
        return Err(Failure::new(format!("{} not marked; what was written stays", plural(failed, "VM")))
            .with_hint(format!("run the same again, or look: {verb} --dry-run"))
            .into());
    }
    let done = plural(proposal.adoptions.len(), "VM");
    printer.say(&format!("\n{done} adopted. See for yourself: {}", job.command("plan")));
    Ok(())
}

//! `talmox check`

use std::time::{SystemTime, UNIX_EPOCH};

use talmox_exec::preflight::{Account, Facts, Login, Preflight, Trusted, collect, report, setup};
use talmox_trust::Verb;
use talmox_types::desired::Desired;

use super::read;
use super::shared::{Job, block_on};
use super::template::source;
use crate::args::{Check, Description, Format, TemplateSource};
use crate::connect::ShownCertificates;
use crate::failure::{Failure, Told};
use crate::printer::Printer;
use crate::screens::{CheckData, check_text};
use crate::trust::Folder;

const DAY: u64 = 86_400;
/// What the token of the lines to paste is called.
const TOKEN: &str = "talmox";

pub(super) fn run(args: &Check, printer: &Printer) -> anyhow::Result<()> {
    block_on(async {
        if args.setup {
            Box::pin(print_setup(args, printer)).await
        } else {
            Box::pin(check(args, printer)).await
        }
    })
}

async fn check(args: &Check, printer: &Printer) -> anyhow::Result<()> {
    let job = open(args, printer).await?;
    let facts = ask(&job).await;
    let flags = job.flags.clone();
    job.session.close().await?;
    let report = report(&job.desired, &facts?);
    match args.output.output {
        Format::Table => printer.screen(&check_text(&report, &flags))?,
        format @ (Format::Json | Format::Yaml) => printer.structured(format, &CheckData::new(&report))?,
    }
    if report.has_problem() { Err(Told.into()) } else { Ok(()) }
}

/// A description, or manifests of templates.
async fn open(args: &Check, printer: &Printer) -> anyhow::Result<Job> {
    let Description { file, trust } = &args.description;
    if !source::are_manifests(file) {
        return Job::open(Verb::Check, &args.description, &args.connection, printer).await;
    }
    let source = TemplateSource { file: file.clone(), trust: trust.clone() };
    let asked = (Verb::Check, source::Need::Templates);
    Ok(source::Source::open(&source, &args.connection, asked, printer).await?.job)
}

async fn ask(job: &Job) -> anyhow::Result<Facts> {
    let each = job.session.each()?;
    let preflight = Preflight {
        desired: &job.desired,
        client: &job.session.client,
        each: &each,
        certificates: &ShownCertificates,
        trusted: job.session.trusted.clone(),
        now: &now,
    };
    let mut facts = collect(&preflight).await;
    if job.session.simulated_in().is_some() {
        for host in facts.hosts.values_mut() {
            host.clock = Err("simulated time runs faster than ours".to_owned());
        }
    }
    Ok(facts)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Lines are wanted most before there is a token. So whatever cannot be asked is left open instead of an error.
async fn print_setup(args: &Check, printer: &Printer) -> anyhow::Result<()> {
    let (desired, facts) = match open(args, printer).await {
        Ok(job) => {
            let facts = ask(&job).await;
            job.session.close().await?;
            (job.desired, facts?)
        }
        Err(error) => {
            let Description { file, trust } = &args.description;
            let desired = match source::read_if_manifests(file, trust, printer)? {
                Some(desired) => desired,
                None => read(&Folder::open(file, trust)?, printer)?.1,
            };
            printer.say(&format!("Proxmox was not asked: {error}"));
            (desired, unasked())
        }
    };
    let facts = match &facts.reached {
        Ok(()) => facts,
        Err(words) => {
            printer.say(&format!("Proxmox was not asked: {words}"));
            unasked()
        }
    };
    let account = account(args, &desired, &facts)?;
    printer.data(&setup(&desired, &facts, &account))
}

fn unasked() -> Facts {
    let login = Login { name: String::new(), token: None, root: false };
    Facts::unasked(login, Trusted::System, now())
}

fn account(args: &Check, desired: &Desired, facts: &Facts) -> Result<Account, Failure> {
    let user = args.user.clone().unwrap_or_else(|| format!("talmox-{}@pve", desired.name));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fits = user.split_once('@').is_some_and(|(name, realm)| {
        !name.is_empty() && !realm.is_empty() && name.chars().all(plain) && realm.chars().all(plain)
    });
    if !fits {
        return Err(Failure::new(format!("--user {user} is no user of a realm")).with_hint("like talmox@pve"));
    }
    if user == "root@pam" {
        return Err(Failure::new("root@pam may do everything already, and these lines are about less")
            .with_hint("leave --user out: a user of its own is made"));
    }
    let exists = facts.login.name == format!("{user}!{TOKEN}");
    Ok(Account { user, token: TOKEN.to_owned(), expire: now() + args.expire * DAY, exists })
}

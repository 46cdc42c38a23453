//! `talmox template list` and `talmox template show`

use talmox_plan::{Goal, Observed, Plan, Request, plan};
use talmox_types::VmId;

use talmox_trust::Verb;

use super::source::{Need, Source};
use crate::args::{Format, TemplateList, TemplateShow};
use crate::commands::shared::nonce;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::screens::{TemplatesData, show_text, templates_text};

pub(super) async fn list(args: &TemplateList, printer: &Printer) -> anyhow::Result<()> {
    let source =
        Source::open(&args.source, &args.connection, (Verb::TemplateList, Need::Nothing), printer).await?;
    let data = look(&source).await;
    let flags = source.job.flags.clone();
    source.job.session.close().await?;
    let data = data?;
    match args.output.output {
        Format::Table => printer.data(&templates_text(&data, &flags)),
        format @ (Format::Json | Format::Yaml) => printer.structured(format, &data),
    }
}

pub(super) async fn show(args: &TemplateShow, printer: &Printer) -> anyhow::Result<()> {
    let source =
        Source::open(&args.source, &args.connection, (Verb::TemplateShow, Need::Nothing), printer).await?;
    let data = look(&source).await;
    source.job.session.close().await?;
    let mut data = data?;
    let vmid = args.template.parse::<u32>().ok().and_then(|id| VmId::try_from(id).ok());
    let names: Vec<String> = data.names().map(str::to_owned).collect();
    data.keep(|name, id| vmid.map_or(name == args.template, |vmid| vmid == id));
    if data.is_empty() {
        let failure = Failure::new(format!("there is no template {}", args.template));
        let hint = match talmox_config::read::suggest(&args.template, names.iter().map(String::as_str)) {
            Some(close) => format!("did you mean {close}?"),
            None if names.is_empty() => "there is none at all, or the token may see none".to_owned(),
            None => format!("templates there are: {}", names.join(", ")),
        };
        return Err(failure.with_hint(hint).into());
    }
    match args.output.output {
        Format::Table => printer.data(&show_text(&data)),
        format @ (Format::Json | Format::Yaml) => printer.structured(format, &data),
    }
}

/// Everything there is, held against what is wanted and what could go.
async fn look(source: &Source) -> anyhow::Result<TemplatesData> {
    let observed: Observed = source.job.observe_for(Goal::Templates).await?;
    let nonce = nonce()?;
    let planned = |goal| -> Plan {
        plan(&source.job.desired, &observed, &Request { goal, ..Request::default() }, &nonce)
    };
    let (wanted, gone) = (planned(Goal::Templates), planned(Goal::PruneTemplates));
    Ok(TemplatesData::new(&source.job.desired, &observed, &wanted, &gone))
}

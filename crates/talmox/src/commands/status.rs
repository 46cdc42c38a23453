//! `talmox status`

use std::time::Duration;

use talmox_plan::view;

use super::shared::{Job, block_on};
use super::signals::Signals;
use crate::args::{Format, Status};
use crate::printer::Printer;
use crate::screens::{StatusData, status_text};

/// Back to the top left, and clear what is below.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub(super) fn run(args: &Status, printer: &Printer) -> anyhow::Result<()> {
    block_on(async {
        let job = Job::open(&args.description, &args.connection, printer).await?;
        let result = match args.watch {
            None => once(&job, args.output.output, "", printer).await,
            Some(seconds) => watch(&job, args.output.output, seconds, printer).await,
        };
        job.session.close().await?;
        result
    })
}

async fn once(job: &Job, format: Format, before: &str, printer: &Printer) -> anyhow::Result<()> {
    let view = view(&job.desired, &job.observe().await?);
    match format {
        Format::Table => printer.data(&format!("{before}{}", status_text(&view, &job.flags))),
        Format::Json | Format::Yaml => printer.structured(format, &StatusData::new(&view)),
    }
}

/// Again and again until Ctrl-C. A look that fails is told, and the next one may succeed.
async fn watch(job: &Job, format: Format, seconds: u16, printer: &Printer) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let before = if Printer::data_is_watched() { CLEAR } else { "" };
    loop {
        let looked = tokio::select! {
            looked = once(job, format, before, printer) => looked,
            () = signals.once() => return Ok(()),
        };
        match looked {
            Err(error) if crate::is_broken_pipe(&error) => return Err(error),
            Err(error) => printer.failure(&error),
            Ok(()) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(seconds.into())) => {}
            () = signals.once() => return Ok(()),
        }
    }
}

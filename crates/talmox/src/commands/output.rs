//! `talmox output`

use talmox_plan::view;

use super::shared::{Job, block_on};
use crate::args::{Format, Outputs};
use crate::printer::Printer;
use crate::screens::{OutputData, output_text};
use talmox_trust::Verb;

pub(super) fn run(args: &Outputs, printer: &Printer) -> anyhow::Result<()> {
    block_on(async {
        let job = Job::open(Verb::Output, &args.description, &args.connection, printer).await?;
        let observed = job.observe().await;
        job.session.close().await?;
        let view = view(&job.desired, &observed?);
        match args.output.output {
            Format::Table => printer.data(&output_text(&view)),
            format @ (Format::Json | Format::Yaml) => printer.structured(format, &OutputData::new(&view)),
        }
    })
}

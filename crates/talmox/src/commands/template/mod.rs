//! `talmox template`

mod build;
mod list;
pub(super) mod source;

use super::Exit;
use super::shared::block_on;
use crate::args::{Template, TemplateWhat};
use crate::printer::Printer;

pub(super) fn run(args: &Template, printer: &Printer) -> anyhow::Result<Exit> {
    block_on(async {
        match &args.what {
            TemplateWhat::List(args) => list::list(args, printer).await?,
            TemplateWhat::Show(args) => list::show(args, printer).await?,
            TemplateWhat::Build(args) => build::build(args, printer).await?,
            TemplateWhat::Prune(args) => build::prune(args, printer).await?,
        }
        Ok(Exit::Done)
    })
}

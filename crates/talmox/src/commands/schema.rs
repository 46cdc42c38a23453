//! `talmox schema`

use talmox_config::describe::{FileKind, json_schema};

use crate::args::{Format, Schema, SchemaFile};
use crate::printer::Printer;

pub(super) fn run(args: &Schema, printer: &Printer) -> anyhow::Result<()> {
    let kind = match args.file {
        SchemaFile::Cluster => FileKind::Cluster,
        SchemaFile::Nodes => FileKind::Nodes,
    };
    printer.structured(Format::Json, &json_schema(kind))
}

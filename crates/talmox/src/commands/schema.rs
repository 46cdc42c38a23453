//! `talmox schema`

use talmox_config::describe::{FileKind, json_schema};

use crate::args::{Format, Schema, SchemaFile};
use crate::printer::Printer;
use crate::screens::PLAN_SCHEMA;
use crate::simulate::faults;

pub(super) fn run(args: &Schema, printer: &Printer) -> anyhow::Result<()> {
    let kind = match args.file {
        SchemaFile::Cluster => FileKind::Cluster,
        SchemaFile::Nodes => FileKind::Nodes,
        SchemaFile::Faults => return printer.structured(Format::Json, &faults::json_schema()),
        SchemaFile::Plan => return printer.data(PLAN_SCHEMA),
    };
    printer.structured(Format::Json, &json_schema(kind))
}

//! `talmox etcd restore`: a snapshot is looked at, and the way to a cluster built on it is told.

use std::path::Path;

use serde::Serialize;

use crate::args::{EtcdRestore, Format};
use crate::commands::shared::quoted;
use crate::printer::Printer;
use crate::screens::bytes;
use crate::snapshot_file::{Judged, judge};

/// A snapshot that is whole, for programs.
#[derive(Serialize)]
struct RestoreData {
    format: &'static str,
    file: String,
    bytes: u64,
    encrypted: bool,
    /// Of what is inside, in hexadecimal digits.
    sha256: String,
    /// What builds a cluster on it.
    command: String,
}

pub(super) fn run(args: &EtcdRestore, printer: &Printer) -> anyhow::Result<()> {
    let Judged { bytes: length, encrypted, digest } = judge(&args.snapshot)?;
    let name = args.snapshot.display();
    let how = if encrypted { ", encrypted, and a key at hand opens it" } else { "" };
    let file = quoted(&args.snapshot.display().to_string());
    let flags = match &args.description.file {
        here if here == Path::new(".") => String::new(),
        other => format!(" -f {}", quoted(&other.display().to_string())),
    };
    if let format @ (Format::Json | Format::Yaml) = args.output.output {
        let command = format!("talmox apply --restore {file}{flags}");
        let (file, sha256) = (name.to_string(), digest);
        let data =
            RestoreData { format: "talmox.etcd-restore/v1", file, bytes: length, encrypted, sha256, command };
        return printer.structured(format, &data);
    }
    printer.data(&format!(
        "{name} is a whole snapshot of etcd, {}{how}.\n\n\
         A cluster without data is built on it by one command, which shows its plan and asks first:\n\n  \
         talmox apply --restore {file}{flags}\n\n\
         While a control plane has data it is refused. If the snapshot is to take the place of what is there:\n\n  \
         talmox etcd snapshot before.snapshot{flags}\n  \
         talmox destroy{flags}\n  \
         talmox apply --restore {file}{flags}\n\n\
         The description and the secrets bundle must be those of the cluster the snapshot is of.",
        bytes(length)
    ))
}

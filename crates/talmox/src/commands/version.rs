//! `talmox version`

use serde::Serialize;
use talmox_types::support::{DEFAULT_TALOS, LINES};

use crate::args::{Format, Version};
use crate::printer::Printer;

#[derive(Serialize)]
struct Known {
    version: &'static str,
    talos_default: String,
    talos: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    talos: String,
    kubernetes_from: String,
    kubernetes_to: String,
    upgrade_from: String,
}

pub(super) fn run(args: &Version, printer: &Printer) -> anyhow::Result<()> {
    let known = Known {
        version: env!("CARGO_PKG_VERSION"),
        talos_default: DEFAULT_TALOS.to_string(),
        talos: LINES
            .iter()
            .map(|line| Line {
                talos: line.talos.to_string(),
                kubernetes_from: line.kubernetes_from.to_string(),
                kubernetes_to: line.kubernetes_to.to_string(),
                upgrade_from: line.upgrade_from.to_string(),
            })
            .collect(),
    };
    if args.output.output != Format::Table {
        return printer.structured(args.output.output, &known);
    }
    let mut text = format!("talmox {}\n\nTALOS  KUBERNETES   UPGRADE FROM\n", known.version);
    for line in &known.talos {
        let range = format!("{} – {}", line.kubernetes_from, line.kubernetes_to);
        text.push_str(&format!("{:5}  {range:11}  {} or newer\n", line.talos, line.upgrade_from));
    }
    text.push_str(&format!("\nA description without talos_version gets Talos {}.\n", known.talos_default));
    printer.data(&text)
}

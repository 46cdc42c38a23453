//! talmox at clusters it had no part in: the real `talosctl` made secrets and configurations, patched them as people do,
//! gave them to machines somebody else made, and bootstrapped the cluster.

use std::path::Path;

use super::adoption::Adoption;
use super::cluster::{Cluster, name};
use super::drawn::Drawn;
use super::own::talmox;
use super::programs::Talosctl;
use super::steps;
use crate::scratch::Scratch;

/// How many sets of patches running machines get, one after the other, beside those they begin with.
const SETS: u64 = 5;

/// Runs everything; gives the number of calls.
pub(super) fn run(own: &Path, talosctl: &Path, cluster: &Cluster) -> anyhow::Result<usize> {
    let (layout, scratch) = (&cluster.layout, Scratch::new("talos-adopt")?);
    let talosconfig = scratch.path().join("talosconfig");
    let program = talosctl;
    let mut talosctl = Talosctl::new(program, scratch.path(), talosconfig, layout.first());
    talosctl.ask(&["gen", "secrets"])?.well(&[])?;
    steps::generate(&mut talosctl, &["--with-secrets", "secrets.yaml"])?;
    steps::configure(&mut talosctl, layout)?;
    steps::bootstrap(&mut talosctl, layout)?;
    steps::look(&mut talosctl, layout)?;

    let own = talmox(own, scratch.path());
    let names = (0..=layout.control_planes.len()).map(name).collect();
    let adoption = Adoption { own: &own, scratch: &scratch, cluster, names };
    let first = layout.first();
    let way = ["--talosconfig", "talosconfig", "--nodes", &first];
    adoption.describe("as-made", &way)?;
    adoption.mark("as-made")?;
    adoption.unchanged("as-made", &mut talosctl)?;
    for set in 0..SETS {
        let folder = scratch.inside(&format!("set-{set}"))?;
        let (drawn, _) = Drawn::new(1000 + set, 4, true);
        let endpoint = format!("https://{}:6443", layout.first());
        let made = drawn.make(&folder, program, &endpoint, layout.control_planes.len())?;
        for (node, text) in layout.everybody().zip(made) {
            let (file, node) = (folder.write("apply.yaml", &text)?, node.to_string());
            talosctl.of(&node, &["apply-config", "--mode=no-reboot", "--file", &file])?.well(&[])?;
        }
        let adopted = format!("adopted-{set}");
        adoption.describe(&adopted, &way)?;
        adoption.unchanged(&adopted, &mut talosctl)?;
    }
    // The last description is what they run with: nobody is asked what a change would take.
    adoption.is_never_begun_again(&format!("adopted-{}", SETS - 1), &mut talosctl)?;
    Ok(talosctl.calls)
}

//! What a description makes of the nodes, held against what they run with.

use std::collections::BTreeMap;

use talmox_image::install::InstallImages;
use talmox_machine::{Config, Difference};
use talmox_render::{Common, PatchText, Renderer, Variables, Whereabouts};
use talmox_types::desired::{Desired, NodeAddress, Patch};
use talmox_types::{Contract, FamilyPair, NodeName};

use super::draft::Draft;
use super::patches::Written;
use super::{DescribeError, LiveCluster, LiveNode};

/// The layouts there are.
const MINORS: std::ops::RangeInclusive<u16> = 8..=14;

/// The contract whose layout is the nearest; of several, the newest the machines know.
pub(super) fn contract(live: &LiveCluster<'_>, draft: &Draft) -> Result<Contract, DescribeError> {
    let newest = draft.desired().talos.version.contract();
    let mut best: Option<(usize, Contract)> = None;
    let mut failed = None;
    for minor in MINORS {
        let contract = Contract::new(1, minor);
        if contract > newest {
            break;
        }
        match bases(live, draft, contract) {
            Ok(bases) => {
                let distance = steps(live, &bases);
                if best.is_none_or(|(least, _)| distance <= least) {
                    best = Some((distance, contract));
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    match (best, failed) {
        (Some((_, contract)), _) => Ok(contract),
        (None, Some(error)) => Err(error),
        (None, None) => Ok(draft.desired().talos.contract),
    }
}

/// How many places differ between what the description makes of the nodes without patches, and what they run with.
pub(super) fn distance(
    live: &LiveCluster<'_>,
    draft: &Draft,
    contract: Contract,
) -> Result<usize, DescribeError> {
    Ok(steps(live, &bases(live, draft, contract)?))
}

fn steps(live: &LiveCluster<'_>, bases: &[Config]) -> usize {
    live.nodes.iter().zip(bases).map(|(node, base)| base.change_to(&node.config).len()).sum()
}

/// What the description makes of each node without patches, in a contract.
pub(super) fn bases(
    live: &LiveCluster<'_>,
    draft: &Draft,
    contract: Contract,
) -> Result<Vec<Config>, DescribeError> {
    let mut desired = draft.desired().clone();
    desired.talos.contract = contract;
    render(live, &desired, &Variables::default(), &|_| Ok(Vec::new()))
}

/// What rendering the description would change, node by node.
pub(super) fn prove(
    live: &LiveCluster<'_>,
    draft: &Draft,
    written: &Written,
) -> Result<BTreeMap<NodeName, Vec<Difference>>, DescribeError> {
    let variables: Variables = written.variables.iter().cloned().collect();
    let patches = |node: &LiveNode| {
        let failed = |why: String| DescribeError::Render { node: node.name.clone(), why };
        let description = &draft.outcome().description;
        let member = description.member(node.name.as_str());
        let member = member.map_err(|_| failed("it is not in the description".to_owned()))?;
        let text = |patch: Patch| match patch {
            Patch::Inline(text) => Ok(PatchText { name: "a patch".to_owned(), text }),
            Patch::File(name) => {
                let text = written.files.get(&name).cloned();
                let text = text.ok_or_else(|| failed(format!("there is no patch {name}")))?;
                Ok(PatchText { name, text })
            }
        };
        description.patches(&member).into_iter().map(|written| text(written.patch)).collect()
    };
    let rendered = render(live, draft.desired(), &variables, &patches)?;
    let left = live.nodes.iter().zip(&rendered).filter_map(|(node, rendered)| {
        let differences = node.config.differences(rendered);
        (!differences.is_empty()).then(|| (node.name.clone(), differences))
    });
    Ok(left.collect())
}

fn render(
    live: &LiveCluster<'_>,
    desired: &Desired,
    variables: &Variables,
    patches: &dyn Fn(&LiveNode) -> Result<Vec<PatchText>, DescribeError>,
) -> Result<Vec<Config>, DescribeError> {
    let images = InstallImages::new(&desired.talos.install_images, |_| None);
    let common =
        Common { desired, bundle: live.bundle, install_images: &images, cni_manifest: None, variables };
    let renderer = Renderer::new(common);
    let one = |node: &LiveNode| {
        let failed = |why: String| DescribeError::Render { node: node.name.clone(), why };
        let described = desired.nodes.iter().find(|one| one.name == node.name);
        let described = described.ok_or_else(|| failed("it is not in the description".to_owned()))?;
        // As it will be rendered: what is said of the machine is what counts, not where it was asked.
        let address = match &described.address {
            NodeAddress::Declared(address) => *address,
            NodeAddress::FromPool(_) => FamilyPair::one(node.address),
        };
        let whereabouts = Whereabouts {
            vmid: node.vm.as_ref().map(|vm| vm.vmid),
            host: node.vm.as_ref().map(|vm| vm.host.clone()),
            uuid: node.vm.as_ref().and_then(|vm| vm.uuid.clone()),
            ..Whereabouts::at(address)
        };
        let made = renderer.render(described, &whereabouts, &patches(node)?);
        made.map(|made| made.config).map_err(|error| failed(error.to_string()))
    };
    live.nodes.iter().map(one).collect()
}

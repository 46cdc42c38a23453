//! One node's configuration.

use std::cell::RefCell;
use std::fmt;

use talmox_image::install::InstallImages;
use talmox_machine::validate::Problem;
use talmox_machine::{Bundle, Config, Faults, Hidden, InputError, PatchError};
use talmox_types::Contract;
use talmox_types::desired::{Desired, Node};

use crate::accepts::{self, Accepts};
use crate::base::{self, Machine};
use crate::conceal;
use crate::inputs::{Inputs, PatchText, Whereabouts};
use crate::layer::Layer;
use crate::patches::{self, Blamed};
use crate::variables::{InvalidVariable, Unset, Variables};

/// A configuration Talos takes.
#[derive(Clone, Debug)]
pub struct Rendered {
    pub config: Config,
    /// What Talos would remark upon.
    pub warnings: Vec<Problem>,
    /// What the description asks for and is not known yet, in words.
    pub left_out: Vec<String>,
    /// What variables stood for, which is shown nowhere.
    pub hidden: Hidden,
    /// Authorities that patches have machines accept.
    pub accepts: Vec<Accepts>,
}

/// Why there is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("{0}")]
    Input(InputError),
    #[error(
        "cluster_api_addr is two addresses, and the layout of contract {0} has room for one; set talos_contract to 1.12 or newer"
    )]
    TwoVirtualAddresses(Contract),
    #[error("two taints have the key {0}, and Talos gives a node one for each key")]
    TwoTaints(String),
    #[error("the text of the CNI manifest {0} is missing")]
    MissingManifest(String),
    #[error("{0}")]
    Variable(InvalidVariable),
    /// Variables without a value, of all patches of the node.
    #[error("{}", lines(.0))]
    Unset(Vec<Unset>),
    /// Not a patch.
    #[error("{0}")]
    InvalidPatch(Faults),
    /// Patches, or parts of them, that Talos would pass over in silence.
    #[error("{0}")]
    Idle(Faults),
    #[error("{0}")]
    Patch(PatchError),
    /// What patches made of it.
    #[error("{}", lines(.0))]
    Blamed(Vec<Blamed>),
    /// What the description itself made.
    #[error("Talos {talos} would refuse what the description says:\n{}", lines(.problems))]
    Refused { talos: Contract, problems: Vec<Problem> },
}

fn lines<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Makes a node's configuration: the base, what the description says, the patches; then asks what Talos would refuse.
pub fn render(inputs: &Inputs<'_>) -> Result<Rendered, RenderError> {
    render_over(&|| base::of(inputs), inputs)
}

/// Renders the nodes of one description. What nodes have in common is made once.
pub struct Renderer<'a> {
    common: Common<'a>,
    bases: RefCell<Vec<(Machine, Config)>>,
}

/// What goes into the configuration of every node.
#[derive(Clone, Copy, Debug)]
pub struct Common<'a> {
    pub desired: &'a Desired,
    pub bundle: &'a Bundle,
    pub install_images: &'a InstallImages,
    pub cni_manifest: Option<&'a str>,
    pub variables: &'a Variables,
}

impl<'a> Renderer<'a> {
    pub fn new(common: Common<'a>) -> Self {
        Self { common, bases: RefCell::default() }
    }

    pub fn render(
        &self,
        node: &Node,
        whereabouts: &Whereabouts,
        patches: &[PatchText],
    ) -> Result<Rendered, RenderError> {
        let Common { desired, bundle, install_images, cni_manifest, variables } = self.common;
        let inputs =
            Inputs { desired, node, bundle, whereabouts, install_images, patches, cni_manifest, variables };
        render_over(&|| self.base(&inputs), &inputs)
    }

    fn base(&self, inputs: &Inputs<'_>) -> Result<Config, RenderError> {
        let machine = Machine::of(inputs.node);
        let mut bases = self.bases.borrow_mut();
        if let Some((_, base)) = bases.iter().find(|(known, _)| *known == machine) {
            return Ok(base.clone());
        }
        let base = base::of(inputs)?;
        bases.push((machine, base.clone()));
        Ok(base)
    }
}

/// Nothing that comes out says what a variable stands for, except the configuration itself.
fn render_over(
    base: &dyn Fn() -> Result<Config, RenderError>,
    inputs: &Inputs<'_>,
) -> Result<Rendered, RenderError> {
    let hidden = inputs.variables.hidden();
    let mut rendered = make(base, inputs).map_err(|error| error.without(hidden))?;
    for warning in &mut rendered.warnings {
        conceal::problem(warning, hidden);
    }
    Ok(rendered)
}

fn make(
    base: &dyn Fn() -> Result<Config, RenderError>,
    inputs: &Inputs<'_>,
) -> Result<Rendered, RenderError> {
    let name = format!("the configuration of {}", inputs.node.name);
    let layer = Layer::of(inputs)?;
    let said = [layer.to_patch()?];
    let described = || patches::apply(base()?, &name, &said);
    let config = described()?;
    let accepted = accepts::listed(&config);
    let given = patches::read(inputs)?;
    let config = patches::apply(config, &name, &given)?;
    let talos = inputs.desired.talos.version.contract();
    let (refused, warnings) = patches::validate(&config, talos);
    if !refused.is_empty() {
        return Err(patches::blame(&described()?, &given, &refused, talos));
    }
    let accepts = accepts::of(&accepted, &config, &given);
    let hidden = inputs.variables.hidden().clone();
    Ok(Rendered { config, warnings, left_out: layer.left_out, hidden, accepts })
}

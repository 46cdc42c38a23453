//! Which settings apply to a node, and in which order they win.

use talmox_types::{NodeName, desired::Role};

use crate::description::Description;
use crate::file::{NodeBlock, PoolBlock, Settings};
use crate::read::{At, Block, Shown};

/// How near to a node a setting stands; the nearest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    BuiltIn,
    Cluster,
    Role,
    Pool,
    Node,
}

impl Rank {
    pub fn word(self) -> &'static str {
        match self {
            Self::BuiltIn => "built in",
            Self::Cluster => "cluster",
            Self::Role => "role",
            Self::Pool => "pool",
            Self::Node => "node",
        }
    }
}

/// Settings from one place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer<'d> {
    pub rank: Rank,
    pub settings: &'d Settings,
    /// What stands before a key when a person names it: `proxmox_vm_worker_defaults.`.
    pub prefix: &'static str,
}

/// A node as it is declared: on its own, or as one of a pool.
#[derive(Clone, Debug)]
pub struct Member<'d> {
    pub name: NodeName,
    pub role: Role,
    /// Counted from 1, declared nodes first, then pools in their order.
    pub position: u32,
    pub(crate) node: Option<&'d At<NodeBlock>>,
    pub(crate) pool: Option<&'d At<PoolBlock>>,
    /// From the farthest to the nearest.
    pub(crate) layers: Vec<Layer<'d>>,
}

impl<'d> Member<'d> {
    /// The value that wins.
    pub(crate) fn pick<T: 'd>(&self, get: impl Fn(&'d Settings) -> Option<&'d At<T>>) -> Option<&'d At<T>> {
        self.layers.iter().rev().find_map(|layer| get(layer.settings))
    }

    /// The value that wins, for settings that always have one because the built-in defaults do.
    pub(crate) fn value<T: Clone + 'd>(&self, get: impl Fn(&'d Settings) -> Option<&'d At<T>>) -> T {
        match self.pick(get) {
            Some(at) => at.value.clone(),
            None => unreachable!("built_in.yaml has a value for every setting read with value()"),
        }
    }

    /// Every value there is, from the farthest to the nearest.
    pub(crate) fn all<T: 'd>(
        &self,
        get: impl Fn(&'d Settings) -> Option<&'d At<T>>,
    ) -> impl Iterator<Item = (Rank, &'d At<T>)> {
        self.layers.iter().filter_map(move |layer| Some((layer.rank, get(layer.settings)?)))
    }

    /// Every value of a setting as text, the winner first.
    pub(crate) fn shown(&self, key: &str) -> Vec<(Layer<'d>, Shown)> {
        self.layers.iter().rev().filter_map(|layer| Some((*layer, layer.settings.shown(key)?))).collect()
    }
}

impl Description {
    /// Every node, in the order of the description; those without a usable name are left out (and reported).
    pub fn members(&self) -> Vec<Member<'_>> {
        let single = self.nodes.iter().filter_map(|node| {
            let role = role(node.controller.as_ref().is_some_and(|at| at.value));
            Some((node.name.as_ref()?.value.clone(), role, Some(node), None))
        });
        let pooled = self.pools.iter().flat_map(|pool| {
            let role = role(pool.controller.as_ref().is_some_and(|at| at.value));
            let count: u32 = pool.count.as_ref().map_or(0, |at| at.value.to());
            let name = pool.name.as_ref().map(|at| at.value.clone());
            (1..=count).filter_map(move |number| {
                let name = NodeName::parse(&format!("{}-{number}", name.as_ref()?)).ok()?;
                Some((name, role, None, Some(pool)))
            })
        });
        let mut members = Vec::with_capacity(self.nodes.len());
        members.extend(single.chain(pooled).zip(1..).map(|((name, role, node, pool), position)| Member {
            name,
            role,
            position,
            node,
            pool,
            layers: self.layers(role, node, pool),
        }));
        members
    }

    fn layers<'d>(
        &'d self,
        role: Role,
        node: Option<&'d At<NodeBlock>>,
        pool: Option<&'d At<PoolBlock>>,
    ) -> Vec<Layer<'d>> {
        let role_prefix = match role {
            Role::Controller => "proxmox_vm_controller_defaults.",
            Role::Worker => "proxmox_vm_worker_defaults.",
        };
        let layer = |rank, settings, prefix| Layer { rank, settings, prefix };
        let mut layers = Vec::with_capacity(10);
        for (written, rank) in [(&self.built_in, Rank::BuiltIn), (&self.cluster, Rank::Cluster)] {
            let role_rank = if rank == Rank::BuiltIn { rank } else { Rank::Role };
            layers.push(layer(rank, &written.top, ""));
            layers.push(layer(rank, &written.defaults, "proxmox_vm_defaults."));
            layers.push(layer(rank, &written.advanced, "proxmox_vm_advanced."));
            layers.push(layer(role_rank, written.role(role), role_prefix));
        }
        layers.extend(pool.map(|pool| layer(Rank::Pool, &pool.value.settings, "node_pools[].")));
        layers.extend(node.map(|node| layer(Rank::Node, &node.value.settings, "")));
        layers
    }
}

fn role(controller: bool) -> Role {
    if controller { Role::Controller } else { Role::Worker }
}

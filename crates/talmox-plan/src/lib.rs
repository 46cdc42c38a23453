//! What has to be done so that a cluster is as described.
//!
//! Pure functions: what is wanted ([`Desired`](talmox_types::desired::Desired)) and what is there ([`Observed`]) go in, a
//! [`Plan`] comes out, which is data. [`identify`] says whose each VM is, [`plan`] what to do, and [`check`] states the
//! safety rules once more, apart from the planner, and refuses a plan that breaks one.

mod away;
mod check;
mod component;
mod diff;
mod doubles;
mod identity;
mod installer;
mod live;
mod machine;
mod network;
mod observed;
mod plan;
mod planner;
mod privileges;
mod request;
mod rotation;
mod step;
mod template;
mod upkeep;
mod view;
mod window;

pub use away::{brings_back, kept_off, must_be_ready, unfinished};
pub use check::{Rule, Violation, check};
pub use component::{Component, image_version};
pub use identity::{Class, Identities, Owned, addresses, identify, macs};
pub use live::{Live, live};
pub use machine::{
    Incomparable, SeenCluster, SeenEtcd, SeenKubernetes, SeenKubernetesNode, SeenMachine, SeenNode,
    SeenService, SeenStage,
};
pub use network::NETWORK_KINDS;
pub use observed::{
    Depth, Guest, GuestConfig, GuestKind, HaGroup, Host, Observed, Power, Rewound, Seen, SeenFile, SeenHa,
    SeenJobs, SeenPool, Storage,
};
pub use plan::{
    Applies, Change, Effect, Expected, ExpectedTemplate, Intent, Note, NoteKind, Plan, Planned, Refusal,
    StepId, SubChange, Volume, Waiting,
};
pub use planner::{
    BEGINS_WITH_NOTHING, Given, IN_THE_END, assigned_addresses, config_source, first_control_plane,
    given_by_an_empty_proxmox, plan, seed_in, seed_storage, seeds_of,
};
pub use privileges::{
    Area, At, Grantee, Need, Release, Rights, Surroundings, TEMPLATES_POOL, Use, Weight, areas, bridge_path,
    disk_storages, entry_line, grant_lines, hosts_of, image_storage, needs, path_word, possible_hosts,
    role_line, templates, uses, uses_later,
};
pub use request::{Goal, HostsRequest, Nonce, Request, Until, UpkeepRequest};
pub use rotation::standing as rotation_standing;
pub use step::{
    CloneKind, DriveOptions, FileKind, HaRule, HaScope, Proof, Reconfigure, Step, TemplateSource,
};
pub use template::{
    NamedTemplate, OwnTemplate, TemplateState, Unusable, boot_iso, described_template, image_digest,
    import_image, is_template_in_use, managed_template, named_templates, outdated, own_templates,
    settings_digest, uses_managed_template, wanted_templates,
};
pub use upkeep::{CarriedRestart, ChangeMode, Snapshot, Upkeep};
pub use view::{DriveView, NodeState, NodeView, View, view};
pub use window::{Moment, Window};

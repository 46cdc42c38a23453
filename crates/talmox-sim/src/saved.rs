//! A world as text, and back.

use serde::{Deserialize, Serialize};

use crate::world::World;

/// The only layout there is so far; another one is refused rather than misread.
const LAYOUT: u32 = 1;

#[derive(Serialize)]
struct Saved<'w> {
    layout: u32,
    world: &'w World,
}

#[derive(Deserialize)]
struct Layout {
    layout: u32,
}

#[derive(Deserialize)]
struct Loaded {
    world: World,
}

/// A text that is no saved world.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("not a saved world")]
    Unreadable(#[source] serde_json::Error),
    #[error("saved with layout {found}; this version reads layout {LAYOUT}")]
    Layout { found: u32 },
}

impl World {
    /// Everything, work under way included: a loaded world goes on where this one stands. Holds secrets.
    pub fn save(&self) -> String {
        let saved = Saved { layout: LAYOUT, world: self };
        serde_json::to_string(&saved).expect("a world has only texts and numbers for keys")
    }

    pub fn load(text: &str) -> Result<Self, LoadError> {
        let Layout { layout } = serde_json::from_str(text).map_err(LoadError::Unreadable)?;
        if layout != LAYOUT {
            return Err(LoadError::Layout { found: layout });
        }
        let Loaded { world } = serde_json::from_str(text).map_err(LoadError::Unreadable)?;
        Ok(world)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Simulation;
    use crate::starter::Starter;
    use crate::wire::{Body, Request, encode_form};

    #[test]
    fn work_under_way_survives() {
        let started = Starter::new(2, 3, 1_800_000_000_000).build();
        let create = Request {
            method: "POST".into(),
            path: "/api2/json/nodes/pve2/qemu".into(),
            authorization: Some(format!("PVEAPIToken={}", started.token)),
            body: Body::Bytes {
                content_type: None,
                bytes: encode_form([
                    ("vmid", "100"),
                    ("net0", "virtio,bridge=vmbr0"),
                    ("scsi0", "local-zfs:1"),
                ])
                .into_bytes(),
            },
            ..Request::default()
        };
        let mut simulation = Simulation::new(started.world);
        simulation.handle(&create, 100);
        let mut loaded = World::load(&simulation.world.save()).unwrap();
        assert_eq!(loaded.lock_of_vm(100), Some("create"));
        simulation.world.advance_to(60_000);
        loaded.advance_to(60_000);
        assert_eq!(loaded.lock_of_vm(100), None);
        assert_eq!(loaded.save(), simulation.world.save(), "the same happens in both");
    }

    #[test]
    fn what_is_no_world_is_refused() {
        assert!(matches!(World::load("{}"), Err(LoadError::Unreadable(_))));
        assert_eq!(
            World::load(r#"{"layout":2,"world":{}}"#).unwrap_err().to_string(),
            "saved with layout 2; this version reads layout 1"
        );
    }
}

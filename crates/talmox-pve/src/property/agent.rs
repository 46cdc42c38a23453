//! The QEMU guest agent.

use crate::property::Grammar;
use crate::property::macros::{property_struct, words};

words! {
    /// The device the agent talks through.
    AgentType { Virtio => "virtio", Isa => "isa" }
}

property_struct! {
    /// `agent`: whether the guest runs the agent, and what it may be used for.
    Agent: Grammar::new("a guest agent setting").default_key("enabled").aliases(&[
        // Proxmox 9 calls it `freeze-fs` and takes the longer name too; Proxmox 8 knows only the longer one.
        ("freeze-fs", "freeze-fs-on-backup"),
        ("guest-fsfreeze", "freeze-fs-on-backup"),
    ]);
    required {
        enabled: bool => "enabled";
    }
    optional {
        fstrim_cloned_disks: bool => "fstrim_cloned_disks" = false;
        agent_type: AgentType => "type" = AgentType::Virtio;
        freeze_fs: bool => "freeze-fs-on-backup" = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_an_enabled_agent() {
        for same in ["1", "enabled=1", "enabled=on", "YES", "1,type=virtio", "freeze-fs=1,enabled=true"] {
            assert_eq!(Agent::parse(same).unwrap(), Agent::new(true), "{same}");
        }
        assert_eq!(Agent::parse("enabled=1").unwrap().to_string(), "1");
        assert_ne!(Agent::parse("1,fstrim_cloned_disks=1").unwrap(), Agent::new(true));
        assert!(Agent::parse("enabled=2").is_err());
        assert!(Agent::parse("type=isa").is_err());
    }
}

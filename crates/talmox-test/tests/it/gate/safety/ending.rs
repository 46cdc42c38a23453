//! The last that happens to a cluster: its etcd is lost. Nobody begins anew unless somebody gives their word for it.

use std::time::Duration;

use talmox_plan::Request;
use talmox_talos::ResetPlan;
use talmox_types::NodeName;

use super::case::{ACTORS, Case, OTHERS};
use super::wish::Wish;
use crate::chance::Chance;
use crate::gate::bed::Bed;

impl Case {
    pub(super) async fn ends(&mut self, wish: &Wish, chance: &Chance) {
        let mut ending = chance.number(0, 9);
        if ending > 4 {
            return;
        }
        // A survivor's disk that nobody described does not go with its VM unless somebody says so.
        if ending == 4 && self.has_spare_disks() {
            ending = 3;
        }
        let (bed, number) = (self.bed(ACTORS[0], wish), self.next_number());
        let mut restore = bed.restorable(number).await;
        match ending {
            0 | 1 => self.all_data_is_lost(wish),
            2 | 3 => self.everything_is_wiped(wish).await,
            _ => {
                restore.upkeep.quorum_lost = true;
                self.majority_is_lost(wish).await;
            }
        }
        tokio::time::sleep(Duration::from_mins(3)).await;
        let number = self.next_number();
        let ended = Box::pin(bed.converge(&wish.ask().request, number)).await;
        self.note(0, ended.map(drop));
        assert_eq!((self.bootstraps(), bed.etcd_clusters()), (1, 1), "a second etcd was begun");
        self.sum.emptied += 1;
        if ending > 1 {
            self.is_restored(&bed, &restore).await;
        }
    }

    /// Whether a VM has a disk that is not in use, as a call that was made twice leaves it.
    fn has_spare_disks(&self) -> bool {
        let vms = self.lab.world(|world| world.dump()).vms;
        vms.values().any(|vm| vm.config.keys().any(|key| key.starts_with("unused")))
    }

    /// Every member's data is gone.
    fn all_data_is_lost(&mut self, wish: &Wish) {
        self.story.push("all data of etcd is lost".to_owned());
        for node in wish.control_planes() {
            let machine = self.machine(&node).unwrap();
            self.lab.transport().others_take(machine);
            self.lab.nodes(|nodes| nodes.lose_etcd(machine));
        }
    }

    /// Others wipe the data of every control plane, all at the same moment, and they restart.
    async fn everything_is_wiped(&mut self, wish: &Wish) {
        self.story.push("all control planes are wiped".to_owned());
        let bed = self.bed(OTHERS, wish);
        let partitions = vec!["EPHEMERAL".to_owned()];
        let reset = ResetPlan { graceful: false, reboot: true, partitions };
        for (node, address) in bed.control_planes() {
            self.lab.transport().others_take(self.machine(&node).unwrap());
            bed.client(&address.to_string()).reset(&reset).await.unwrap();
        }
    }

    /// Others delete most of the control planes.
    async fn majority_is_lost(&mut self, wish: &Wish) {
        self.story.push("most control planes are deleted".to_owned());
        let planes = wish.control_planes();
        for node in planes.iter().take(planes.len() / 2 + 1) {
            self.delete(node).await;
        }
    }

    async fn delete(&self, node: &NodeName) {
        let machine = self.machine(node).unwrap();
        self.lab.transport().others_take(machine);
        let (lab, host, vmid) = (self.lab.by(OTHERS), talmox_test::host(1), talmox_test::vmid(machine.0));
        let client = lab.root();
        let task = client.stop_vm(&host, vmid, false).await.unwrap();
        lab.done(&client, &task).await.unwrap();
        let task = client.delete_vm(&host, vmid, true).await.unwrap();
        lab.done(&client, &task).await.unwrap();
    }

    /// With the word and the snapshot the cluster comes back, once.
    async fn is_restored(&mut self, bed: &Bed, restore: &Request) {
        self.story.push("somebody asks for the snapshot".to_owned());
        self.bed_converges(bed, restore).await;
        bed.settles().await;
        bed.is_healthy().await;
        assert_eq!(self.bootstraps(), 2, "the first, and the one with the snapshot");
        assert!(bed.plan(restore).await.is_empty());
        self.sum.restored += 1;
    }
}

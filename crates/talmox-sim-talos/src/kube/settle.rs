//! Everything that happens by itself, brought up to a point in time.

use super::Store;

/// What one controller does may be work for another; more rounds than this no chain of them needs.
const ROUNDS: usize = 8;

impl Store {
    pub(super) fn settle(&mut self, now: u64) {
        if now < self.wake {
            return;
        }
        let mut next = None;
        for _ in 0..ROUNDS {
            let before = self.revision;
            let definitions = self.establish(now);
            let nodes = self.miss_kubelets(now);
            self.run_daemon_sets(now);
            self.run_deployments(now);
            self.schedule(now);
            let pods = self.run_pods(now);
            let volumes = self.detach_volumes(now);
            self.count_budgets();
            next = [definitions, nodes, pods, volumes].into_iter().flatten().min();
            if self.revision == before {
                break;
            }
        }
        self.wake = next.unwrap_or(u64::MAX);
    }
}

//! Whole runs as people see them: the engine on a cluster in memory, told by the code that tells it on the command line.
//!
//! What is shown is what `talmox apply -f lab`, not on a terminal, prints for a real cluster, and `talmox plan` and `status`
//! beside it. Time is the cluster's own; how long things took is not part of the snapshots.

mod played;
mod rotations;
mod upgrades;

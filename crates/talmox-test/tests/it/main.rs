//! All integration tests of the crate: one program, since each would be linked with everything it tests.

mod bringup;
mod chance;
mod etcd;
mod exec;
mod gate;
mod hostile;
mod kube;
mod line;
mod load;
mod matrix;
mod nodes;
mod preflight;
mod property_strings;
mod pve;
mod rotate;
mod scale;
mod upgrade;

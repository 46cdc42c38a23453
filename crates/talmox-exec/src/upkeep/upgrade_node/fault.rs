//! Why a node does not run the Talos it was to run, and what became of it.

use std::time::Duration;

/// What went wrong with an upgrade, told by what is there now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeFault {
    /// Nothing was changed.
    #[error("{image} was not installed: {words}")]
    Installer { image: String, words: String },
    /// The new one did not boot, and Talos went back by itself.
    #[error("Talos {to} did not come up; it came back with {version}, as it was")]
    FellBack { to: String, version: String },
    /// The new one runs and is not well, or is not what it should be, and the one before runs again.
    #[error("Talos {to} {words}; it was taken back to {from}")]
    TakenBack { from: String, to: String, words: String },
    /// The same, and there was no way back.
    #[error("Talos {to} {words}, and it could not be taken back: {reason}")]
    Stranded { to: String, words: String, reason: String },
    /// Its VM does not run.
    #[error("its VM went off in the middle of the upgrade, and is off")]
    Off,
    /// Nobody knows what became of it.
    #[error("it has not come back for {} min: {words}", .after.as_secs() / 60)]
    Gone { after: Duration, words: String },
}

impl UpgradeFault {
    /// The next things to look at or do.
    pub(crate) fn hints(&self, node: &str) -> Vec<String> {
        let again = "run the same again once that is mended: it goes on with this node".to_owned();
        match self {
            Self::Installer { .. } => vec![
                format!("{node} runs as before. Is the image there, and can the node reach its registry?"),
                again,
            ],
            Self::FellBack { to, .. } => {
                vec![format!("the console of {node} in Proxmox shows why {to} does not boot"), again]
            }
            Self::TakenBack { .. } => vec![format!("talmox status shows how {node} does now"), again],
            Self::Stranded { .. } => vec![
                format!("talmox status shows how {node} does now; the console in Proxmox shows more"),
                format!("if it cannot be mended: talmox apply --replace {node}"),
            ],
            Self::Off => vec![
                format!("run the same again: it starts the VM, and {node} takes pods again when it is well"),
                format!("if it does not come up: talmox apply --replace {node} builds it anew"),
            ],
            Self::Gone { .. } => vec![
                format!("the VM's console in Proxmox shows what {node} is doing"),
                "run the same again once it answers: it goes on with this node".to_owned(),
                format!("if it never does: talmox apply --replace {node}"),
            ],
        }
    }
}

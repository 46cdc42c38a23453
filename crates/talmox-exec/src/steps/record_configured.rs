//! Writing into a VM's mark that its machine was configured.
//!
//! From then on nothing is sent to a machine in maintenance mode at its address unless a person approved it.

use talmox_plan::Expected;
use talmox_types::{AwayWord, Mark};

use crate::StepError;
use crate::lease::write_mark;
use crate::work::{End, Result, Work};

/// How often the mark is read and written anew where somebody else wrote into the VM meanwhile: the run's own lease may be in it.
const TRIES: u32 = 5;

pub(super) async fn run(work: &Work<'_>, vm: &Expected) -> Result {
    let mut last = None;
    for _ in 0..TRIES {
        let found = work.expect(vm).await?;
        let Some(mark) = found.mark() else {
            return Err(StepError::Changed { what: format!("the mark of {}", found.name()) });
        };
        // One that has left its cluster is wiped, or about to be.
        if mark.configured || mark.away == Some(AwayWord::Retired) {
            return Ok(End::Unchanged);
        }
        match write_mark(work.run, &found, &Mark { configured: true, ..mark }).await {
            Ok(()) => return Ok(End::Changed),
            Err(error) if error.wants_another_plan() => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| StepError::Changed { what: format!("the mark of {}", vm.mark.node) }))
}

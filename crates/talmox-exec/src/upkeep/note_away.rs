//! Writing into a VM's mark why it is away, that it is back, or what the mark of another said.

use talmox_plan::Expected;
use talmox_types::{AwayWord, Mark};

use crate::StepError;
use crate::lease::write_mark;
use crate::work::{End, Result, Work};

pub(super) async fn run(work: &Work<'_>, vm: &Expected, away: Option<&AwayWord>) -> Result {
    let found = work.expect(vm).await?;
    let Some(mark) = found.mark() else {
        return Err(StepError::Changed { what: format!("the mark of {}", found.name()) });
    };
    if mark.away.as_ref() == away {
        return Ok(End::Unchanged);
    }
    write_mark(work.run, &found, &Mark { away: away.cloned(), ..mark }).await?;
    Ok(End::Changed)
}

/// Writes that the cluster was bootstrapped, as the mark of the planned VM says.
pub(super) async fn bootstrapped(work: &Work<'_>, vm: &Expected) -> Result {
    let found = work.expect(vm).await?;
    let Some(mark) = found.mark() else {
        return Err(StepError::Changed { what: format!("the mark of {}", found.name()) });
    };
    if mark.bootstrap.as_ref().is_some_and(|word| word.done) {
        return Ok(End::Unchanged);
    }
    write_mark(work.run, &found, &Mark { bootstrap: vm.mark.bootstrap.clone(), ..mark }).await?;
    Ok(End::Changed)
}

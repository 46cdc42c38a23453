//! Writing into a VM's mark why it is away, or that it is back.

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

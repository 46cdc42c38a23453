//! Work on numbered cases, two at a time: programs that start slowly leave a core idle otherwise.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const AT_A_TIME: usize = 2;

/// What became of cases `0..count`, in their order.
pub(crate) fn run<T: Send>(count: usize, case: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let outcome = case(index);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_done_once_and_in_order() {
        assert_eq!(super::run(100, |index| index * 2), (0..200).step_by(2).collect::<Vec<_>>());
        assert!(super::run(0, |index| index).is_empty());
    }
}

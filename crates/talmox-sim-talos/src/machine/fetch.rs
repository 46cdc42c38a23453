//! Files a machine fetches from web servers before it has a configuration. The core says what it wants and is told what came of
//! it; who asks the servers is the shell's business.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::hardware::{MachineId, Platform};
use crate::nocloud;
use crate::nodes::{Event, Nodes};

/// How many looks elsewhere pass before a request that failed is made again.
const RETRIES: u64 = 4;

/// A file that a machine waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    pub machine: MachineId,
    /// It may hold a secret.
    pub url: String,
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq)]
pub enum Fetched {
    File(Vec<u8>),
    /// 404: there is no such file, and never will be.
    NotFound,
    /// Nobody answered, nobody who can be trusted, or not with a file: it is tried again.
    Failed(String),
}

impl Nodes {
    /// The files machines wait for now.
    pub fn wanted(&self) -> Vec<Wanted> {
        let of = |(id, machine): (&MachineId, &super::Machine)| {
            let urls = machine.run.as_ref().map(|run| run.wants.clone()).unwrap_or_default();
            urls.into_iter().map(|url| Wanted { machine: *id, url }).collect::<Vec<_>>()
        };
        self.machines.iter().flat_map(of).collect()
    }

    /// Tells a machine what became of its request. One that restarted meanwhile asks again.
    pub fn fetched(&mut self, wanted: &Wanted, outcome: Fetched, now: u64) {
        self.advance_to(now);
        let (id, retry) = (wanted.machine, RETRIES * self.timing.retry);
        let Some(run) = self.run_mut(id).filter(|run| run.wants.contains(&wanted.url)) else { return };
        match outcome {
            Fetched::File(file) => drop(run.fetched.insert(wanted.url.clone(), file)),
            Fetched::NotFound => drop(run.fetched.insert(wanted.url.clone(), Vec::new())),
            Fetched::Failed(reason) => {
                run.wants.clear();
                self.print(id, format!("[talos] failed to download config: {reason}"));
                self.schedule(id, retry, Event::Config);
                return;
            }
        }
        run.wants.retain(|url| *url != wanted.url);
        if run.wants.is_empty() {
            self.use_platform(id);
            self.find_config(id);
            self.settle(id);
            self.tell_watchers(id);
        }
    }

    /// Whether a machine has yet to fetch something; then it asks for it. What [`Nodes::sites`] has it has at once.
    pub(crate) fn waits_for_files(&mut self, id: MachineId) -> bool {
        let Some(machine) = self.machines.get(&id) else { return false };
        let Some(run) = machine.run.as_ref().filter(|run| run.image.platform == Platform::Nocloud) else {
            return false;
        };
        let urls = nocloud::wanted(&machine.hardware.serial);
        if urls.iter().any(|url| self.sites.contains_key(url)) {
            return false;
        }
        let missing: Vec<String> = urls.into_iter().filter(|url| !run.fetched.contains_key(url)).collect();
        let waits = !missing.is_empty();
        if let Some(run) = self.run_mut(id) {
            run.wants = missing;
        }
        waits
    }

    /// What a machine has of the web.
    pub(crate) fn sites_of(&self, id: MachineId) -> Cow<'_, BTreeMap<String, Vec<u8>>> {
        match self.run(id).map(|run| &run.fetched).filter(|fetched| !fetched.is_empty()) {
            None => Cow::Borrowed(&self.sites),
            Some(fetched) => {
                let own = fetched.iter().map(|(url, file)| (url.clone(), file.clone()));
                Cow::Owned(self.sites.clone().into_iter().chain(own).collect())
            }
        }
    }
}

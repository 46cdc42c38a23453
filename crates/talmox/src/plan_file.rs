//! Plans that are kept, to be carried out as they were looked at. No secret is in them.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use talmox_plan::{Nonce, Plan, Request};
use talmox_secrets::{Overwrite, write_secret_file};
use talmox_types::desired::Desired;

use crate::failure::Failure;

const FORMAT: &str = "talmox.planfile/v1";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A plan of a thousand nodes has a few MiB.
const MAX_SIZE: u64 = 64 * 1024 * 1024;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlanFile {
    format: String,
    /// Another version may plan otherwise.
    talmox: String,
    pub(crate) description: PathBuf,
    /// SHA-256 over what the description amounts to.
    sha256: String,
    pub(crate) request: Request,
    pub(crate) nonce: Nonce,
    pub(crate) plan: Plan,
}

impl PlanFile {
    pub(crate) fn new(
        description: &Path,
        desired: &Desired,
        request: &Request,
        nonce: &Nonce,
        plan: &Plan,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            format: FORMAT.to_owned(),
            talmox: VERSION.to_owned(),
            description: description.to_owned(),
            sha256: fingerprint(desired)?,
            request: request.clone(),
            nonce: nonce.clone(),
            plan: plan.clone(),
        })
    }

    /// For its owner alone, and whole or not at all. No secret is in it, but all that is known of a cluster is no news for others.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        Ok(write_secret_file(path, text.as_bytes(), Overwrite::Replace)?)
    }

    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let mut text = String::new();
        let file = std::fs::File::open(path).with_context(|| format!("could not read {name}"))?;
        file.take(MAX_SIZE).read_to_string(&mut text).with_context(|| format!("could not read {name}"))?;
        let not_one = || {
            Failure::new(format!("{name} is not a plan talmox kept"))
                .with_hint("talmox plan --out FILE keeps one")
        };
        // The header first: a file of another version may not fit in any other way.
        let head: Head = serde_json::from_str(&text).map_err(|_| not_one())?;
        if head.format != FORMAT {
            return Err(not_one().into());
        }
        if head.talmox != VERSION {
            let both = format!("{name} was made by talmox {}, this is {VERSION}", head.talmox);
            return Err(Failure::new(both).with_hint("make it anew with talmox plan --out").into());
        }
        serde_json::from_str(&text).map_err(|_| not_one().into())
    }

    /// Whether the description still amounts to what was planned for.
    pub(crate) fn fits(&self, desired: &Desired) -> anyhow::Result<bool> {
        Ok(fingerprint(desired)? == self.sha256)
    }
}

#[derive(Deserialize)]
struct Head {
    format: String,
    talmox: String,
}

fn fingerprint(desired: &Desired) -> anyhow::Result<String> {
    let bytes = serde_json::to_vec(desired).context("could not write the description down")?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What a plan made now has otherwise than one that was kept; nothing if they are the same.
pub(crate) fn differences(kept: &Plan, now: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    for step in &kept.steps {
        match now.steps.iter().find(|other| other.id == step.id) {
            None => found.push(format!("{} is no longer to be done", step.id)),
            Some(other) if other != step => found.push(format!("{} would be done otherwise", step.id)),
            Some(_) => {}
        }
    }
    for step in now.steps.iter().filter(|step| !kept.steps.iter().any(|other| other.id == step.id)) {
        found.push(format!("{} was not in it: {}", step.id, step.reason));
    }
    for refusal in now.refusals.iter().filter(|refusal| !kept.refusals.contains(refusal)) {
        found.push(refusal.problem.clone());
    }
    let rest_differs = kept.later != now.later || kept.waiting != now.waiting || kept.uid != now.uid;
    if found.is_empty() && rest_differs {
        found.push("what follows or is waited for has changed".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screens::testbed;

    fn kept() -> (PlanFile, Desired) {
        let (_, desired) = testbed::homelab();
        let file = PlanFile::new(
            Path::new("lab"),
            &desired,
            &Request::default(),
            &Nonce::new(7),
            &testbed::changes(),
        );
        (file.unwrap(), desired)
    }

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("talmox-planfile-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_is_kept_comes_back() {
        let (file, mut desired) = kept();
        let path = scratch("round");
        file.write(&path).unwrap();
        assert_eq!(PlanFile::read(&path).unwrap(), file);
        assert!(file.fits(&desired).unwrap());
        desired.nodes[0].vm.memory += 1;
        assert!(!file.fits(&desired).unwrap());
        std::fs::remove_file(path).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn what_is_kept_is_for_its_owner_alone_also_over_an_older_one() {
        use std::os::unix::fs::PermissionsExt as _;
        let (file, _) = kept();
        let path = scratch("private");
        std::fs::write(&path, "an older one").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        file.write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(PlanFile::read(&path).unwrap(), file);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        let path = scratch("foreign");
        let (file, _) = kept();
        let other = PlanFile { talmox: "0.0.1".to_owned(), ..file };
        for (text, words) in [
            ("hello".to_owned(), "is not a plan talmox kept"),
            ("{\"format\": \"x\", \"talmox\": \"1\"}".to_owned(), "is not a plan talmox kept"),
            (serde_json::to_string(&other).unwrap(), "was made by talmox 0.0.1"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = PlanFile::read(&path).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_differs_is_named() {
        let (kept, mut now) = (testbed::changes(), testbed::changes());
        assert!(differences(&kept, &now).is_empty());
        now.steps.remove(0);
        now.steps[1].changes[0].new = Some("x".to_owned());
        now.steps.push(testbed::clone_step("cp-2", 2001));
        now.refusals = testbed::refusals().refusals;
        assert_eq!(
            differences(&kept, &now),
            [
                "worker-2/configure is no longer to be done",
                "cp-1/configure would be done otherwise",
                "cp-2/clone was not in it: there is no VM for it",
                "scsi0 cannot shrink from 200 GiB to 100 GiB",
                "VM 2003 on pve has the MAC of worker-1 and no mark",
            ]
        );
        let later = Plan { later: Vec::new(), ..kept.clone() };
        assert_eq!(differences(&kept, &later), ["what follows or is waited for has changed"]);
    }
}

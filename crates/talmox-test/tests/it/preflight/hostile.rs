//! A server's words in the lines of `check --setup`: a real shell runs them, and each word stays one.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use talmox_exec::preflight::{Facts, setup};

use crate::preflight::bed::{Bed, small};

/// What a server may call a zone, and a storage may claim to take.
const EVIL: [&str; 8] = [
    "$(touch pwned)",
    "`touch pwned`",
    "x\ntouch pwned #",
    "x; touch pwned",
    "' ; touch pwned '",
    "x && touch pwned & touch pwned",
    "x\r\n# pveum\u{1b}[2K\rtouch pwned",
    "x > pwned",
];

/// Runs the lines with a `pveum` and `pvesm` that write down their words, one command a line.
fn run(block: &str, folder: &std::path::Path) -> Vec<String> {
    let tell = "{ printf '%s' \"$TOOL\"; printf '[%s]' \"$@\"; echo; }";
    let script = format!(
        "pveum() {}\npvesm() {}\n{block}",
        tell.replace("$TOOL", "pveum"),
        tell.replace("$TOOL", "pvesm")
    );
    let mut shell = Command::new("sh");
    shell.arg("-euc").arg(&script).env_clear().env("PATH", "/usr/bin:/bin").current_dir(folder);
    let output = shell.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}\n{script}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// What a server says, with these words in every place it has.
fn poisoned(facts: &Facts, evil: &str) -> Facts {
    let mut facts = facts.clone();
    facts.version = format!("9.2.11{evil}");
    facts.zones = [("vmbr0".to_owned(), evil.to_owned())].into();
    for host in facts.hosts.values_mut() {
        for storage in host.storages.as_mut().unwrap() {
            storage.content = [evil.to_owned()].into();
        }
    }
    facts
}

#[tokio::test(start_paused = true)]
async fn no_word_of_a_server_is_run() {
    let bed = Bed::new("9.2", |_| {}).await;
    let facts = bed.facts(&small(), &bed.root()).await;
    let folder = std::env::temp_dir().join(format!("talmox-setup-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let tame = run(&setup(&small(), &poisoned(&facts, "tame"), &bed.account()), &folder);
    assert!(tame.len() > 20 && tame.iter().any(|line| line.starts_with("pvesm[set]")), "{tame:#?}");
    for evil in EVIL {
        let block = setup(&small(), &poisoned(&facts, evil), &bed.account());
        assert!(!block.contains(|c: char| c.is_control() && c != '\n'), "{block:?}");
        let told = run(&block, &folder);
        let left: BTreeSet<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, BTreeSet::new(), "{evil:?}\n{block}");
        let programs = |lines: &[String]| -> Vec<String> {
            lines.iter().map(|line| line.split(']').next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(programs(&told), programs(&tame), "{evil:?}\n{block}");
        let shown = talmox_types::visible(evil);
        assert!(
            told.iter().any(|line| line.contains(&*shown)),
            "{evil:?} reaches its command as it is shown: {told:#?}"
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

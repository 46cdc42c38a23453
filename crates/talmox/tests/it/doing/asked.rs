//! Questions on a terminal, and what the answers do.

#![expect(clippy::disallowed_methods, reason = "files the test itself had written")]

use secrecy::ExposeSecret as _;

use crate::doing::Lab;
use crate::doing::connecting::Remote;
use crate::support::command;
use crate::support::terminal::Terminal;

#[tokio::test(flavor = "multi_thread")]
async fn init_offers_what_is_there_and_asks_again() {
    let remote = Remote::start("asked-init").await;
    let folder = remote.scratch.path("new");
    let mut program = command(&["init", &folder]);
    program.env("PROXMOX_VE_API_TOKEN", remote.token.expose_secret());
    program.env("PROXMOX_VE_ENDPOINT", remote.endpoint());
    let fingerprint = remote.server.hosts()[0].fingerprint.clone();
    let conversation = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::run(program);
        terminal.answers("Name of the cluster [homelab]: ", "no good name");
        let complaint = terminal.answers("Name of the cluster [homelab]: ", "lab");
        assert!(complaint.contains("no good name"), "{complaint}");
        terminal.answers("Proxmox API [https://127.0.0.1:", "");
        let shown = terminal.answers("Is it the same? [y/N]: ", "y");
        assert!(shown.contains(&fingerprint), "{shown}");
        let hosts = terminal.answers("Proxmox host [pve]: ", "pve7");
        assert!(hosts.contains("   1  pve"), "{hosts}");
        let complaint = terminal.answers("Proxmox host [pve]: ", "1");
        assert!(complaint.contains("pve7 is none of pve"), "{complaint}");
        let storages = terminal.answers("Storage for disks [local-zfs]: ", "");
        assert!(storages.contains("GiB free") && storages.contains("takes images"), "{storages}");
        for question in ["Bridge [vmbr0]: ", "are taken elsewhere) [2000-2999]: "] {
            terminal.answers(question, "");
        }
        terminal.answers(" [talmox-lab]: ", "mine");
        terminal.answers("Control planes (1, 3, 5 or 7) [3]: ", "2");
        terminal.answers("Control planes (1, 3, 5 or 7) [3]: ", "1");
        terminal.answers("Workers [3]: ", "0");
        terminal.answers("Network of the nodes [10.0.7.0/24]: ", "");
        terminal.answers("Gateway [10.0.7.1]: ", "");
        terminal.answers("Address of the first node [10.0.7.11]: ", "");
        terminal.ends()
    });
    let (code, rest) = conversation.await.unwrap();
    assert_eq!(code, 0, "{rest}");
    let written = std::fs::read_to_string(format!("{folder}/cluster.yaml")).unwrap();
    for line in ["cluster_name: lab", "proxmox_node: pve", "proxmox_pool: mine", "proxmox_fingerprints:"] {
        assert!(written.contains(line), "{line} is missing in\n{written}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_not_the_same_ends_init() {
    let remote = Remote::start("asked-no").await;
    let folder = remote.scratch.path("new");
    let mut program = command(&["init", &folder, "--name", "lab", "--endpoint", &remote.endpoint()]);
    program.env("PROXMOX_VE_API_TOKEN", remote.token.expose_secret());
    let conversation = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::run(program);
        terminal.answers("Is it the same? [y/N]: ", "");
        terminal.ends()
    });
    let (code, rest) = conversation.await.unwrap();
    assert!(code == 1 && rest.contains("nothing was sent, and nothing was written"), "{rest}");
    assert_eq!(remote.server.calls(), 0);
    assert!(!std::path::Path::new(&folder).join("cluster.yaml").exists());
}

#[test]
fn nothing_is_made_or_destroyed_without_the_right_answer() {
    let lab = Lab::new("asked");
    let mut terminal = Terminal::run(lab.command(&["apply"]));
    terminal.answers("Apply? [y/N] ", "n");
    let (code, rest) = terminal.ends();
    assert_eq!(code, 1, "{rest}");
    assert!(lab.run(&["plan"]).succeeded().stdout.contains("4 to create"));
    let mut terminal = Terminal::run(lab.command(&["apply"]));
    terminal.answers("Apply? [y/N] ", "y");
    let (code, rest) = terminal.ends();
    assert_eq!(code, 0, "{rest}");
    let mut terminal = Terminal::run(lab.command(&["destroy"]));
    terminal.sees("destroys scsi0");
    terminal.answers("name (lab) to go on: ", "yes");
    let (code, rest) = terminal.ends();
    assert_eq!(code, 1, "{rest}");
    assert!(lab.run(&["plan"]).succeeded().stdout.starts_with("No changes."));
    let mut terminal = Terminal::run(lab.command(&["destroy"]));
    terminal.sees("destroys scsi0");
    terminal.answers("name (lab) to go on: ", "lab");
    let (code, rest) = terminal.ends();
    assert_eq!(code, 0, "{rest}");
    assert!(lab.run(&["plan"]).succeeded().stdout.contains("4 to create"));
}

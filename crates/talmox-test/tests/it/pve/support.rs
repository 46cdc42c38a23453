//! Small things every test here needs.

use talmox_pve::client::{Client, CreateVm, Error, TaskError, Upid};
use talmox_pve::property::VmConfig;
use talmox_test::{Lab, host, vmid};

/// An error as the command line would print it, with its class first.
pub(crate) fn told(error: &Error) -> String {
    let mut lines = vec![format!("[{:?}, {:?}]", error.kind(), error.outcome()), format!("error: {error}")];
    lines.extend(error.hints().into_iter().map(|hint| format!("hint: {hint}")));
    lines.join("\n")
}

/// A failed task likewise, with the end of its log. What is another in every run is left out.
pub(crate) fn told_task(error: &TaskError) -> String {
    let (TaskError::Failed { upid, .. } | TaskError::Wait { upid, .. }) = error;
    let mut lines = vec![format!("[{:?}]", error.kind()), format!("error: {error}")];
    if let TaskError::Failed { log, .. } = error {
        lines.extend(log.iter().map(|line| format!("log: {line}")));
    }
    lines.extend(error.hints().into_iter().map(|hint| format!("hint: {hint}")));
    let short = format!("UPID:{}:…:{}:{}:", upid.node(), upid.kind(), upid.id());
    let text = lines.join("\n").replace(upid.as_str(), &short);
    match text.split_once("/var/tmp/pveupload-") {
        Some((before, after)) => format!("{before}/var/tmp/pveupload-…{}", &after[32..]),
        None => text,
    }
}

pub(crate) fn config(pairs: &[(&str, &str)]) -> VmConfig {
    pairs.iter().copied().collect()
}

/// Asks for a VM on the first host.
pub(crate) async fn ask_for(client: &Client, id: u32, pairs: &[(&str, &str)]) -> Result<Upid, Error> {
    let vm = CreateVm { vmid: vmid(id), config: config(pairs), pool: None, storage: None };
    client.create_vm(&host(1), &vm).await
}

/// Makes a VM on the first host.
pub(crate) async fn make(lab: &Lab, client: &Client, id: u32, pairs: &[(&str, &str)]) {
    let task = ask_for(client, id, pairs).await.unwrap();
    lab.done(client, &task).await.unwrap();
}

/// Makes a VM and starts it.
pub(crate) async fn make_running(lab: &Lab, client: &Client, id: u32, pairs: &[(&str, &str)]) {
    make(lab, client, id, pairs).await;
    let task = client.start_vm(&host(1), vmid(id)).await.unwrap();
    lab.done(client, &task).await.unwrap();
}

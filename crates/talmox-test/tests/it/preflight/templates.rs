//! The rights for templates of our own: what building one asks of Proxmox, call by call.

use std::collections::BTreeMap;

use serde_json::Value;
use talmox_exec::preflight::{Verdict, setup};
use talmox_pve::client::{Client, Credentials, Params, Upid};
use talmox_sim::{FileFacts, Site};
use talmox_types::desired::Desired;

use crate::preflight::bed::{ACCOUNT, Bed, described};
use crate::preflight::paste::{each_left_out, paste};

/// One node, from a template that is built.
fn managed() -> Desired {
    described("", "  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n")
}

async fn bed(release: &str) -> Bed {
    Bed::new(release, |world| {
        let mut bytes = b"QFI\xfb".to_vec();
        bytes.extend([0; 20]);
        bytes.extend((4_u64 << 30).to_be_bytes());
        bytes.extend([7; 1000]);
        let image = FileFacts::of_bytes(&bytes);
        let files = BTreeMap::from([("talos.qcow2".to_owned(), image)]);
        world.sites.insert("factory.example".to_owned(), Site { files });
    })
    .await
}

async fn block(bed: &Bed) -> String {
    let facts = bed.facts(&managed(), &bed.root()).await;
    setup(&managed(), &facts, &bed.account())
}

async fn made(bed: &Bed, block: &str) -> Client {
    let secret = paste(&bed.root(), block).await.unwrap();
    bed.client(&Credentials::token_parts(&format!("{ACCOUNT}!talmox"), secret).unwrap())
}

/// The VM a template becomes.
fn template() -> Params {
    [
        ("vmid", "9001"),
        ("name", "talos"),
        ("description", "a mark"),
        ("pool", "talmox-templates"),
        ("agent", "enabled=1"),
        ("boot", "order=scsi0"),
        ("machine", "q35"),
        ("memory", "2048"),
        ("ostype", "l26"),
        ("scsihw", "virtio-scsi-pci"),
        ("serial0", "socket"),
        ("scsi0", "local-zfs:0,import-from=local:import/talos.qcow2"),
    ]
    .into_iter()
    .fold(Params::new(), |params, (key, value)| params.with(key, value))
}

/// Fetches the image, builds the template, clones it, and removes both. Tells what was refused.
async fn build(bed: &Bed, client: &Client) -> Result<(), String> {
    let done = async |answer: Result<Option<Upid>, talmox_pve::client::Error>| -> Result<(), String> {
        let Some(task) = answer.map_err(|error| error.words().to_owned())? else { return Ok(()) };
        bed.lab.done(client, &task).await.map(drop).map_err(|error| error.to_string())
    };
    let fetch = Params::new()
        .with("content", "import")
        .with("filename", "talos.qcow2")
        .with("url", "https://factory.example/talos.qcow2");
    done(client.post("/nodes/pve1/storage/local/download-url", fetch).await).await?;
    let listed: Vec<Value> = client
        .get("/nodes/pve1/storage/local/content", Params::new())
        .await
        .map_err(|error| error.words().to_owned())?;
    assert_eq!(listed.len(), 1);
    done(client.post("/nodes/pve1/qemu", template()).await).await?;
    done(client.put("/nodes/pve1/qemu/9001/config", Params::new().with("tags", "talmox")).await).await?;
    done(client.post("/nodes/pve1/qemu/9001/template", Params::new()).await).await?;
    // Who names a pool is told of it without any right; a look lists them.
    let pools: Vec<Value> =
        client.get("/pools", Params::new()).await.map_err(|error| error.words().to_owned())?;
    if !pools.iter().any(|pool| pool["poolid"] == "talmox-templates") {
        return Err("the pool of templates is in no list".to_owned());
    }
    let clone = Params::new().with("newid", 2001).with("pool", "talmox-lab");
    done(client.post("/nodes/pve1/qemu/9001/clone", clone).await).await?;
    for vmid in [2001, 9001] {
        done(client.delete(&format!("/nodes/pve1/qemu/{vmid}"), Params::new()).await).await?;
    }
    // As `template prune` does.
    let image = "/nodes/pve1/storage/local/content/local:import/talos.qcow2";
    done(client.delete(image, Params::new()).await).await
}

/// Without any one of the grants that are there for templates, `check` names it and the building ends early.
async fn least(release: &str) {
    let first = bed(release).await;
    let whole = block(&first).await;
    build(&first, &made(&first, &whole).await).await.unwrap();
    let is_for_templates = |what: &str| {
        ["-templates ", "-storage ", "Sys.AccessNetwork", "/pool/talmox-templates", "/storage/local"]
            .iter()
            .any(|part| what.contains(part))
    };
    let mut count = 0;
    for (what, left) in each_left_out(&whole).into_iter().filter(|(what, _)| is_for_templates(what)) {
        count += 1;
        let bed = bed(release).await;
        let client = made(&bed, &left).await;
        assert!(build(&bed, &client).await.is_err(), "it works without {what}\n{left}");
        let report = bed.check(&managed(), &client).await;
        let named = what.rsplit(' ').next().unwrap_or(&what);
        let problem = |check: &talmox_exec::preflight::Check| {
            matches!(check.verdict, Verdict::Problem | Verdict::Warning) && check.message.contains(named)
        };
        assert!(report.checks.iter().any(problem), "without {what}: {report:#?}");
    }
    assert!(count >= 11, "{count}");
}

#[tokio::test(start_paused = true)]
async fn building_a_template_needs_each_of_them_on_nine() {
    least("9.2").await;
}

#[tokio::test(start_paused = true)]
async fn building_a_template_needs_each_of_them_on_eight() {
    least("8.4").await;
}

/// Who makes a VM with tags in one call needs the right to set them outside of the pool: the worker that checks them
/// does not look at pools. Set afterwards, the pool suffices.
#[tokio::test(start_paused = true)]
async fn tags_of_a_new_vm_are_not_covered_by_its_pool() {
    let bed = bed("9.2").await;
    let client = made(&bed, &block(&bed).await).await;
    let plain = Params::new()
        .with("vmid", 9001)
        .with("pool", "talmox-templates")
        .with("scsi0", "local-zfs:1")
        .with("tags", "talmox");
    let task: Upid = client.post("/nodes/pve1/qemu", plain).await.unwrap();
    let refused = bed.lab.done(&client, &task).await.unwrap_err().to_string();
    assert!(refused.contains("Permission check failed (/vms/9001, VM.Config.Options)"), "{refused}");
}

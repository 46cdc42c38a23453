//! What single calls send and make of the reply.

use std::time::Duration;

use bytes::Bytes;
use talmox_pve::client::{
    CloneKind, CloneVm, ConfigChange, CreateVm, Credentials, Download, Endpoint, ErrorKind, FileContent,
    ImageKind, MoveDisk, Peer, PoolChange, Resource, Settings, Silent, TaskQuery, Upload, Waiting,
};
use talmox_pve::property::{DiskSize, Slot, VmConfig, VolumeId};
use talmox_types::{Checksum, ChecksumAlgorithm, HostName, PoolName, StorageId, VmId};

use crate::client::fake::{Answer, Fake, data, refused_connection, token};

const UPID: &str = r#""UPID:pve1:000007EB:0003298C:6AF96CAA:qmstart:100:talmox@pve!ci:""#;

fn node() -> HostName {
    HostName::parse("pve1").unwrap()
}

fn vm(id: u32) -> VmId {
    VmId::try_from(id).unwrap()
}

fn local() -> StorageId {
    StorageId::parse("local").unwrap()
}

#[tokio::test(start_paused = true)]
async fn create_encodes_what_the_decoder_would_split() {
    let fake = Fake::new([data(UPID)]);
    let config: VmConfig =
        [("boot", "order=scsi0;net0"), ("tags", "a;b"), ("memory", "8192")].into_iter().collect();
    let pool = Some(PoolName::parse("talmox-home").unwrap());
    let create = CreateVm { vmid: vm(2001), config, pool, storage: None };
    assert_eq!(fake.client().create_vm(&node(), &create).await.unwrap().kind(), "qmstart");
    assert_eq!(fake.lines(), ["pve1 POST /nodes/pve1/qemu"]);
    assert_eq!(
        fake.seen()[0].body,
        "vmid=2001&pool=talmox-home&boot=order%3Dscsi0%3Bnet0&memory=8192&tags=a%3Bb"
    );
}

#[tokio::test(start_paused = true)]
async fn clones_linked_and_full() {
    let fake = Fake::new([data(UPID), data(UPID)]);
    let mut clone = CloneVm {
        newid: vm(2001),
        name: Some("cp-1".to_owned()),
        description: None,
        pool: None,
        target: None,
        kind: CloneKind::Linked,
    };
    fake.client().clone_vm(&node(), vm(9000), &clone).await.unwrap();
    clone.kind = CloneKind::Full { storage: Some(local()), format: Some("raw".to_owned()) };
    fake.client().clone_vm(&node(), vm(9000), &clone).await.unwrap();
    assert_eq!(fake.seen()[0].body, "newid=2001&name=cp-1&full=0");
    assert_eq!(fake.seen()[1].body, "newid=2001&name=cp-1&full=1&storage=local&format=raw");
}

#[tokio::test(start_paused = true)]
async fn a_configuration_is_texts_whatever_the_json() {
    let fake =
        Fake::new([data(r#"{"cores":4,"memory":"8192","numa":1,"digest":"abc","onboot":true,"lock":null}"#)]);
    let config = fake.client().vm_config(&node(), vm(100)).await.unwrap();
    assert_eq!(config.to_qm_config_text(), "cores: 4\nmemory: 8192\nnuma: 1\nonboot: 1\n");
    assert_eq!((config.digest(), config.lock()), (Some("abc"), None));
}

#[tokio::test(start_paused = true)]
async fn changes_go_by_put_or_in_a_task() {
    let fake = Fake::new([data("null"), data(UPID), data("null"), data("null")]);
    let client = fake.client();
    let change = ConfigChange::new().set("cores", "4").unwrap().delete("ide2").if_digest("abc");
    client.change_config(&node(), vm(100), &change).await.unwrap();
    assert!(client.change_config_in_task(&node(), vm(100), &change).await.unwrap().is_some());
    assert!(client.change_config_in_task(&node(), vm(100), &change).await.unwrap().is_none());
    let disk = Slot::parse("scsi0").unwrap();
    let size = DiskSize::from_gib(100);
    assert!(client.resize_disk(&node(), vm(100), disk, size, None).await.unwrap().is_none());
    let seen = fake.seen();
    assert_eq!(seen[0].line, "PUT /api2/json/nodes/pve1/qemu/100/config");
    assert_eq!(seen[0].body, "cores=4&delete=ide2&digest=abc");
    assert_eq!(seen[1].line, "POST /api2/json/nodes/pve1/qemu/100/config");
    assert_eq!(seen[3].body, "disk=scsi0&size=100G");
}

#[tokio::test(start_paused = true)]
async fn reads_and_deletes_have_a_query_and_no_body() {
    let fake = Fake::new([data(UPID), data("[]"), data("null"), data(UPID)]);
    let client = fake.client();
    client.delete_vm(&node(), vm(100), true).await.unwrap();
    client.tasks(&node(), &TaskQuery { vmid: Some(vm(100)), ..TaskQuery::default() }).await.unwrap();
    let iso = VolumeId::parse("local:iso/talos.iso").unwrap();
    assert!(client.delete_volume(&node(), &iso).await.unwrap().is_none());
    let target = MoveDisk::ToVm { vmid: vm(101), slot: Slot::parse("scsi1").unwrap() };
    client.move_disk(&node(), vm(100), Slot::parse("unused0").unwrap(), &target, None).await.unwrap();
    assert_eq!(
        fake.lines(),
        [
            "pve1 DELETE /nodes/pve1/qemu/100?purge=1",
            "pve1 GET /nodes/pve1/tasks?source=all&vmid=100",
            "pve1 DELETE /nodes/pve1/storage/local/content/local%3Aiso%2Ftalos.iso",
            "pve1 POST /nodes/pve1/qemu/100/move_disk",
        ]
    );
    assert!(fake.seen()[..3].iter().all(|seen| seen.body.is_empty()));
    assert_eq!(fake.seen()[3].body, "disk=unused0&target-vmid=101&target-disk=scsi1");
}

#[tokio::test(start_paused = true)]
async fn a_download_names_its_checksum() {
    let fake = Fake::new([data(UPID)]);
    let checksum = Checksum::new(ChecksumAlgorithm::Sha256, &"ab".repeat(32)).unwrap();
    let download = Download {
        url: "https://factory.talos.dev/image/x/v1.12.0/nocloud-amd64.qcow2".to_owned(),
        kind: ImageKind::Import,
        filename: "talos.qcow2".to_owned(),
        checksum: Some(checksum.clone()),
        compression: None,
        verify_certificates: true,
    };
    fake.client().download_url(&node(), &local(), &download).await.unwrap();
    assert!(
        fake.seen()[0].body.ends_with(&format!("checksum-algorithm=sha256&checksum={}", checksum.value()))
    );
}

#[tokio::test(start_paused = true)]
async fn an_upload_has_its_fields_before_the_file() {
    let fake = Fake::new([data(UPID)]);
    let upload = Upload {
        kind: ImageKind::Iso,
        filename: "seed.iso".to_owned(),
        content: FileContent::Memory(Bytes::from_static(b"CD001")),
        checksum: None,
        timeout: Duration::from_mins(1),
    };
    fake.client().upload(&node(), &local(), &upload, &Silent).await.unwrap();
    let body = fake.seen()[0].body.replace("\r\n", "\n");
    insta::assert_snapshot!(body, @r#"
    --talmox-00000000000000070000000000000007
    Content-Disposition: form-data; name="content"

    iso
    --talmox-00000000000000070000000000000007
    Content-Disposition: form-data; name="filename"; filename="seed.iso"
    Content-Type: application/octet-stream

    CD001
    --talmox-00000000000000070000000000000007--
    "#);
}

#[tokio::test(start_paused = true)]
async fn an_upload_tells_how_far_it_is() {
    let fake = Fake::new([Answer::Slowly(Duration::from_millis(2500))]);
    let upload = Upload {
        kind: ImageKind::Iso,
        filename: "seed.iso".to_owned(),
        content: FileContent::Memory(Bytes::from(vec![0; 3 << 20])),
        checksum: None,
        timeout: Duration::from_mins(1),
    };
    let told = std::sync::Mutex::new(Vec::new());
    let progress =
        |waiting: &Waiting<'_>| told.lock().unwrap().push(format!("{}: {}", waiting.name, waiting.detail));
    // The script's `null` is no task id; what counts here is what was told before.
    fake.client().upload(&node(), &local(), &upload, &progress).await.unwrap_err();
    assert_eq!(*told.lock().unwrap(), ["upload of seed.iso to local: 0 of 3 MiB"; 2]);
}

#[tokio::test(start_paused = true)]
async fn resources_of_every_kind_and_unknown_ones() {
    let fake = Fake::new([data(
        r#"[{"type":"qemu","id":"qemu/100","vmid":"100","node":"pve1","status":"unknown","template":0,"lock":"create"},
            {"type":"lxc","id":"lxc/101","vmid":101,"node":"pve1","status":"running","maxcpu":0.5},
            {"type":"node","id":"node/pve1","node":"pve1","status":"online"},
            {"type":"storage","storage":"local","node":"pve1","content":"iso,import","shared":0,"maxdisk":"12"},
            {"type":"pool","pool":"talos"},
            {"type":"network","id":"network/pve1/zone/localnetwork"}]"#,
    )]);
    let resources = fake.client().resources().await.unwrap();
    let Resource::Qemu(new) = &resources[0] else { panic!("{resources:?}") };
    assert_eq!((new.vmid.get(), new.name.as_deref(), new.lock.as_deref()), (100, None, Some("create")));
    assert!(matches!(&resources[3], Resource::Storage(storage) if storage.content == ["iso", "import"]));
    assert_eq!(resources[5], Resource::Other);
}

#[tokio::test(start_paused = true)]
async fn a_refusing_agent_is_an_error() {
    let refusal =
        r#"{"result":{"error":{"class":"CommandNotFound","desc":"The command has not been found"}}}"#;
    let fake = Fake::new([data(refusal), data(r#"{"result":{}}"#)]);
    let client = fake.client();
    let error = client.agent_interfaces(&node(), vm(100)).await.unwrap_err();
    assert_eq!((error.kind(), error.words()), (&ErrorKind::Agent, "The command has not been found"));
    client.agent_ping(&node(), vm(100)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_not_there_is_none() {
    let fake = Fake::new([crate::client::fake::refusal(500, "pool 'pp' does not exist"), data("null")]);
    let pool = PoolName::parse("pp").unwrap();
    assert_eq!(fake.client().pool(&pool).await.unwrap(), None);
    let change = PoolChange { vms: vec![vm(100), vm(101)], ..PoolChange::default() };
    fake.client().change_pool(&pool, &change).await.unwrap();
    assert_eq!(fake.seen()[1].body, "poolid=pp&vms=100%2C101");
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_waited_for() {
    let fake =
        Fake::new([data(r#"{"lock":"clone"}"#), data(r#"{"lock":"clone"}"#), data(r#"{"name":"cp-1"}"#)]);
    let told = std::sync::Mutex::new(Vec::new());
    let progress =
        |waiting: &Waiting<'_>| told.lock().unwrap().push(format!("{}: {}", waiting.name, waiting.detail));
    let limit = Duration::from_mins(1);
    let config = fake.client().wait_unlocked(&node(), vm(2001), limit, &progress).await.unwrap();
    assert_eq!(config.name(), Some("cp-1"));
    assert_eq!(told.lock().unwrap()[0], "the lock of VM 2001: locked (clone)");
}

const PRINT: &str =
    "AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB";

/// What pve1 tells of its cluster: hosts by name and address.
fn cluster(hosts: &[(&str, &str)]) -> [Answer; 2] {
    let member = |(name, ip): &(&str, &str)| {
        let local = u8::from(*name == "pve1");
        format!(
            r#"{{"type":"node","id":"node/{name}","name":"{name}","ip":"{ip}","online":"1","local":{local}}}"#
        )
    };
    let node = |(name, _): &(&str, &str)| {
        format!(r#"{{"node":"{name}","status":"online","ssl_fingerprint":"{PRINT}"}}"#)
    };
    let list = |entries: Vec<String>| data(&format!("[{}]", entries.join(",")));
    [list(hosts.iter().map(member).collect()), list(hosts.iter().map(node).collect())]
}

/// Who is asked when pve1, which reported a peer, is gone.
async fn asked_after_learning(credentials: &Credentials) -> Vec<String> {
    let gone = std::iter::repeat_with(refused_connection).take(3);
    let fake = Fake::new(cluster(&[("pve1", "192.0.2.1"), ("pve2", "192.0.2.2")]).into_iter().chain(gone));
    let client = fake.client_of(&["pve1"], credentials, Settings::default());
    let peers = client.learn_peers().await.unwrap();
    assert_eq!(peers.len(), 1);
    assert_eq!(peers[0].endpoint.to_string(), "https://192.0.2.2:8006");
    assert_eq!(peers[0].fingerprint.to_string(), PRINT);
    client.version().await.unwrap_err();
    fake.seen()[2..].iter().map(|seen| seen.host.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn peers_are_learned_with_their_fingerprints_and_asked_when_the_first_is_gone() {
    assert_eq!(asked_after_learning(&token()).await, ["pve1", "192.0.2.2", "pve1"]);
}

/// The peers that a client of these endpoints learns, each time it asks.
async fn learned(endpoints: &[&str], hosts: &[(&str, &str)]) -> [Vec<String>; 2] {
    let fake = Fake::new(cluster(hosts).into_iter().chain(cluster(hosts)));
    let client = fake.client_of(endpoints, &token(), Settings::default());
    let names = |peers: Vec<Peer>| peers.iter().map(|peer| peer.node.to_string()).collect();
    let first = names(client.learn_peers().await.unwrap());
    [first, names(client.learn_peers().await.unwrap())]
}

#[tokio::test(start_paused = true)]
async fn hosts_that_share_an_address_are_not_taken_for_each_other() {
    let forwarded = [("pve1", "192.0.2.1"), ("pve2", "192.0.2.1"), ("pve3", "192.0.2.1")];
    assert_eq!(learned(&["192.0.2.1"], &forwarded).await, [[""; 0]; 2]);
    assert_eq!(learned(&["pve1"], &forwarded).await, [[""; 0]; 2]);
    let two_of_three =
        [("pve1", "192.0.2.1"), ("pve2", "192.0.2.9"), ("pve3", "192.0.2.9"), ("pve4", "192.0.2.4")];
    assert_eq!(learned(&["pve1"], &two_of_three).await, [["pve4"]; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_host_at_a_given_endpoint_is_no_peer() {
    let hosts = [("pve1", "192.0.2.1"), ("pve2", "192.0.2.2"), ("pve3", "192.0.2.3")];
    assert_eq!(learned(&["192.0.2.1", "192.0.2.2"], &hosts).await, [["pve3"]; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_bound_token_goes_to_peers_only_if_that_was_said() {
    let home = Endpoint::parse("pve1").unwrap();
    let bound = token().only_for([home.clone()]);
    assert_eq!(asked_after_learning(&bound).await, ["pve1"; 3]);
    assert_eq!(asked_after_learning(&bound.and_their_peers()).await, ["pve1", "192.0.2.2", "pve1"]);
    let both = token().only_for([home, Endpoint::parse("192.0.2.2").unwrap()]);
    assert_eq!(asked_after_learning(&both).await, ["pve1", "192.0.2.2", "pve1"]);
}

#[tokio::test(start_paused = true)]
async fn calls_can_move_between_threads() {
    fn is_send<T: Send>(work: T) -> T {
        work
    }
    let fake = Fake::new([data(r#"{"status":"stopped","exitstatus":"OK"}"#), data("{}")]);
    let client = fake.client();
    let upid = talmox_pve::client::Upid::parse(UPID.trim_matches('"')).unwrap();
    is_send(client.follow(&upid, "a task", Duration::from_secs(9), &Silent)).await.unwrap();
    is_send(client.wait_unlocked(&node(), vm(100), Duration::from_secs(9), &Silent)).await.unwrap();
}

//! The least any client has to ask for: what `cargo xtask bench` holds tools against.
//!
//! It knows what is there and what is wanted, compares nothing and checks nothing; only the number of requests in flight
//! is limited. `bare prepare|first|same|change|destroy ENDPOINT CA-FILE IN-FLIGHT VMS`, the token on standard input.

#![expect(clippy::disallowed_methods, reason = "a program of its own that reads what it is told to")]

use std::error::Error;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use talmox_pve::client::{
    Client, CloneKind, CloneVm, ConfigChange, CreateVm, Credentials, Endpoint, HttpsTransport, Settings,
    Silent, Trust, Upid,
};
use talmox_pve::property::VmConfig;
use talmox_types::{HostName, VmId};
use tokio::task::JoinSet;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

const TEMPLATE: u32 = 9000;
const FIRST: u32 = 2001;
const LIMIT: Duration = Duration::from_mins(10);

/// One VM's part of the work.
#[derive(Clone)]
struct Work {
    client: Client,
    host: HostName,
    vmid: VmId,
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [operation, endpoint, ca_file, in_flight, vms] = arguments.as_slice() else {
        return Err("bare OPERATION ENDPOINT CA-FILE IN-FLIGHT VMS".into());
    };
    let mut token = String::new();
    std::io::stdin().read_to_string(&mut token)?;
    let transport = HttpsTransport::new(Trust::Authorities(std::fs::read_to_string(ca_file)?))?;
    let in_flight = in_flight.parse()?;
    let settings = Settings {
        in_flight_per_host: in_flight,
        writes_in_flight_per_host: in_flight,
        ..Settings::default()
    };
    let credentials = Credentials::token(&SecretString::from(token.trim()))?;
    let client = Client::new(vec![Endpoint::parse(endpoint)?], &credentials, Arc::new(transport), settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(operation, &client, vms.parse()?))
}

async fn run(operation: &str, client: &Client, vms: u32) -> Outcome {
    let host = HostName::parse("pve1")?;
    if operation == "prepare" {
        return Work { client: client.clone(), host, vmid: VmId::try_from(TEMPLATE)? }.prepare().await;
    }
    if operation == "same" {
        client.vm_resources().await?;
    }
    let mut all = JoinSet::new();
    for id in FIRST..FIRST + vms {
        let work = Work { client: client.clone(), host: host.clone(), vmid: VmId::try_from(id)? };
        let operation = operation.to_owned();
        all.spawn(async move { work.run(&operation).await });
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    Ok(())
}

impl Work {
    async fn run(&self, operation: &str) -> Outcome {
        let Self { client, host, vmid } = self;
        match operation {
            "first" => self.make().await,
            "same" => Ok(client.pending(host, *vmid).await.map(drop)?),
            "change" => self.set(&[("memory", "1152")]).await,
            "destroy" => self.follow(Some(client.delete_vm(host, *vmid, true).await?)).await,
            _ => Err(format!("there is no operation {operation}").into()),
        }
    }

    async fn make(&self) -> Outcome {
        let clone = CloneVm {
            newid: self.vmid,
            name: Some(format!("vm-{}", self.vmid)),
            description: None,
            pool: None,
            target: None,
            kind: CloneKind::Linked,
        };
        let template = VmId::try_from(TEMPLATE)?;
        self.follow(Some(self.client.clone_vm(&self.host, template, &clone).await?)).await?;
        self.set(&[("cores", "2"), ("memory", "1024"), ("tags", "bench")]).await
    }

    async fn set(&self, pairs: &[(&str, &str)]) -> Outcome {
        let mut change = ConfigChange::new();
        for (key, value) in pairs {
            change = change.set(key, value)?;
        }
        Ok(self.client.change_config(&self.host, self.vmid, &change).await?)
    }

    async fn follow(&self, task: Option<Upid>) -> Outcome {
        if let Some(task) = task {
            self.client.follow(&task, "a task", LIMIT, &Silent).await?;
        }
        Ok(())
    }

    /// The template everybody clones.
    async fn prepare(&self) -> Outcome {
        let config = VmConfig::from_iter([
            ("name", "talos-template"),
            ("bios", "ovmf"),
            ("machine", "q35"),
            ("cpu", "host"),
            ("cores", "1"),
            ("efidisk0", "local-zfs:1,efitype=4m"),
            ("scsi0", "local-zfs:10,discard=on,ssd=1"),
            ("scsihw", "virtio-scsi-pci"),
            ("net0", "virtio,bridge=vmbr0"),
            ("memory", "512"),
            ("ostype", "l26"),
        ]);
        let vm = CreateVm { vmid: self.vmid, config, pool: None, storage: None };
        self.follow(Some(self.client.create_vm(&self.host, &vm).await?)).await?;
        self.follow(self.client.make_template(&self.host, self.vmid).await?).await
    }
}

//! A VM that boots Talos, and a cluster's secrets.

use std::net::IpAddr;
use std::sync::Arc;

use talmox_machine::client::TalosRole;
use talmox_machine::{Bundle, Input, Options, Role, SystemRandom, Time};
use talmox_pve::client::{CreateVm, Download, ImageKind};
use talmox_pve::property::VmConfig;
use talmox_talos::{Access, Identity};
use talmox_test::{Lab, host, storage, vmid};
use talmox_types::{Contract, VmId};

/// The schematic of images without changes.
const PLAIN: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";

pub(crate) const ADDRESS: &str = "10.0.0.5";

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn machine() -> VmId {
    vmid(100)
}

/// A lab in which a VM with Talos on its disk was just started.
pub(crate) async fn started(seed: u64) -> Lab {
    let lab = Lab::one_host(seed).with_nodes();
    let client = lab.client();
    let url = format!("https://factory.talos.dev/image/{PLAIN}/v1.13.9/nocloud-amd64.qcow2");
    let download = Download {
        url,
        filename: "talos.qcow2".to_owned(),
        kind: ImageKind::Import,
        checksum: None,
        compression: None,
        verify_certificates: true,
    };
    let task = client.download_url(&host(1), &storage("local"), &download).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    let config = VmConfig::from_iter([
        ("name", "cp-1"),
        ("scsi0", "local-zfs:0,import-from=local:import/talos.qcow2"),
        ("ide2", "local-zfs:cloudinit"),
        ("net0", "virtio,bridge=vmbr0"),
        ("ipconfig0", "ip=10.0.0.5/24,gw=10.0.0.1"),
        ("boot", "order=scsi0"),
        ("memory", "4096"),
        ("ostype", "l26"),
    ]);
    let vm = CreateVm { vmid: machine(), config, pool: None, storage: None };
    let made = client.create_vm(&host(1), &vm).await.unwrap();
    lab.done(&client, &made).await.unwrap();
    let begun = client.start_vm(&host(1), machine()).await.unwrap();
    lab.done(&client, &begun).await.unwrap();
    lab
}

/// Secrets of a cluster. Keys are drawn anew each time.
pub(crate) struct Cluster {
    bundle: Bundle,
    now: Time,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        // When the hosts of every lab booted.
        let now = Time::from_unix(1_767_225_600);
        Self { bundle: Bundle::generate(Contract::new(1, 13), now, &mut SystemRandom).unwrap(), now }
    }

    pub(crate) fn access(&self) -> Access {
        let made =
            self.bundle.talos_client(&[TalosRole::Admin], self.now, 86_400, &mut SystemRandom).unwrap();
        let (authority, certificate) = (self.bundle.os.certificate.pem(), made.certificate.pem());
        Access::Secure(Arc::new(Identity::from_pem(authority, certificate, made.key.pem()).unwrap()))
    }

    /// The configuration of a control plane.
    pub(crate) fn config(&self, endpoint: &str) -> String {
        let input = Input {
            contract: Contract::new(1, 13),
            cluster_name: "lab".to_owned(),
            endpoint: format!("https://{endpoint}:6443"),
            kubernetes: "1.36.3".to_owned(),
            secrets: &self.bundle,
            options: Options { install_disk: Some("/dev/sda".to_owned()), ..Options::default() },
        };
        input.generate(Role::ControlPlane).unwrap().to_yaml()
    }
}

//! Resources about the machine itself: stage, services, configuration, clock, version.

use talmox_machine::{Map, Value};
use talmox_proto::definitions::{
    ExtensionMetadata, ExtensionStatus, MachineConfig, MachineStage, MachineStatus, MachineStatusStatus,
    MachineType, MachineTypeSpec, SecurityState, Service, SystemInformation, TimeStatus, UnmetCondition,
    Version,
};

use super::View;
use super::resource::{Resource, texts};
use crate::hardware::Platform;
use crate::machine::Stage;
use crate::machine::settings::Role;
use crate::services::Health;

impl View<'_> {
    pub(super) fn machine_resources(&self, kind: &str) -> Vec<Resource> {
        match kind {
            "MachineStatuses.runtime.talos.dev" => vec![self.machine_status()],
            "Services.v1alpha1.talos.dev" => self.services(),
            "TimeStatuses.v1alpha1.talos.dev" => vec![self.time_status()],
            "MachineConfigs.config.talos.dev" => self.machine_configs(),
            "MachineTypes.config.talos.dev" => vec![self.machine_type()],
            "Versions.runtime.talos.dev" => vec![self.version()],
            "SecurityStates.talos.dev" => vec![self.security_state()],
            "ExtensionStatuses.runtime.talos.dev" => self.extensions(),
            "SystemInformations.hardware.talos.dev" => self.system_information(),
            "PlatformMetadatas.talos.dev" => vec![self.platform_metadata()],
            "MaintenanceServiceConfigs.runtime.talos.dev" => self.maintenance_config(),
            "APIServiceConfigs.runtime.talos.dev" => vec![self.api_service_config()],
            "MetaKeys.runtime.talos.dev" => self.meta_keys(),
            "KernelCmdlines.runtime.talos.dev" => self.command_line(),
            "KernelParamStatuses.runtime.talos.dev" => self.kernel_parameters(),
            _ => Vec::new(),
        }
    }

    fn machine_status(&self) -> Resource {
        let status = &self.run.status;
        let stage = match status.stage {
            Stage::Booting => MachineStage::StageBooting,
            Stage::Installing => MachineStage::StageInstalling,
            Stage::Maintenance => MachineStage::StageMaintenance,
            Stage::Running => MachineStage::StageRunning,
            Stage::Rebooting => MachineStage::StageRebooting,
            Stage::ShuttingDown => MachineStage::StageShuttingDown,
            Stage::Resetting => MachineStage::StageResetting,
            Stage::Upgrading => MachineStage::StageUpgrading,
        };
        let unmet = |one: &crate::machine::status::Unmet| UnmetCondition {
            name: one.name.clone(),
            reason: one.reason.clone(),
        };
        let proto = MachineStatus {
            stage: stage.into(),
            status: Some(MachineStatusStatus {
                ready: status.ready,
                unmet_conditions: status.unmet.iter().map(unmet).collect(),
            }),
        };
        let conditions = status.unmet.iter();
        let conditions = conditions
            .map(|one| Map::new().with("name", one.name.clone()).with("reason", one.reason.clone()).into());
        let shown =
            Map::new().with("ready", status.ready).with("unmetConditions", Value::List(conditions.collect()));
        Resource::new(
            ("runtime", "MachineStatuses.runtime.talos.dev"),
            "machine",
            "runtime.MachineStatusController",
            self.run.started,
        )
        .changed(status.version, status.changed)
        .proto(&proto)
        .yaml(Map::new().with("stage", status.stage.name()).with("status", shown))
    }

    /// Only services whose process runs are here.
    fn services(&self) -> Vec<Resource> {
        let up = self.run.services.iter().filter(|(_, service)| service.is_running());
        up.map(|(id, service)| {
            let (healthy, unknown) = (service.health == Health::Healthy, service.health == Health::Unknown);
            let since = service.said.last().map_or(self.run.started, |said| said.at);
            Resource::new(("runtime", "Services.v1alpha1.talos.dev"), id, "v1alpha1.ServiceController", since)
                .changed(if unknown { 1 } else { 2 }, service.health_changed.unwrap_or(since))
                .proto(&Service { running: true, healthy, unknown })
                .yaml(Map::new().with("running", true).with("healthy", healthy).with("unknown", unknown))
        })
        .collect()
    }

    fn time_status(&self) -> Resource {
        let (synced, disabled) = (self.run.time_synced, self.run.is_container());
        Resource::new(
            ("runtime", "TimeStatuses.v1alpha1.talos.dev"),
            "node",
            "time.SyncController",
            self.run.started,
        )
        .proto(&TimeStatus { synced, epoch: 0, sync_disabled: disabled })
        .yaml(Map::new().with("synced", synced).with("epoch", 0_u16).with("syncDisabled", disabled))
    }

    fn machine_configs(&self) -> Vec<Resource> {
        let config = |id: &str, text: &str, version: u64, since: u64| {
            Resource::new(("config", "MachineConfigs.config.talos.dev"), id, "", since)
                .changed(version, since)
                .annotation("talos.dev/yaml-spec", "1")
                .proto(&MachineConfig { yaml_marshalled: text.as_bytes().to_vec() })
                .scalar(text)
        };
        let mut found = Vec::new();
        let active = self.run.active.as_ref();
        let since = active.map_or(self.run.started, |active| active.since);
        if let Some(text) = &self.run.persistent {
            // A run of before this was kept, or one that found it on its disk, has it as long as the one in force.
            let at = if self.run.persisted_at == 0 { since } else { self.run.persisted_at };
            found.push(config("persistent", text, self.run.persisted, at));
        }
        if let Some(active) = active {
            found.push(config("v1alpha1", &active.text, active.version, since));
        }
        found
    }

    fn machine_type(&self) -> Resource {
        let (kind, name) = match self.run.settings().map(|settings| settings.role) {
            None => (MachineType::TypeUnknown, "unknown"),
            Some(Role::ControlPlane) => (MachineType::TypeControlPlane, "controlplane"),
            Some(Role::Worker) => (MachineType::TypeWorker, "worker"),
        };
        Resource::new(
            ("config", "MachineTypes.config.talos.dev"),
            "machine-type",
            "config.MachineTypeController",
            self.run.started,
        )
        .proto(&MachineTypeSpec { machine_type: kind.into() })
        .scalar(name)
    }

    fn version(&self) -> Resource {
        let version = format!("v{}", self.run.image.version);
        let map = Map::new().with("name", "Talos").with("version", version.clone());
        Resource::new(
            ("runtime", "Versions.runtime.talos.dev"),
            "version",
            "runtime.VersionController",
            self.run.started,
        )
        .proto(&Version { version, name: "Talos".to_owned() })
        .yaml(map)
    }

    fn security_state(&self) -> Resource {
        Resource::new(
            ("runtime", "SecurityStates.talos.dev"),
            "securitystate",
            "runtime.SecurityStateController",
            self.run.started,
        )
        .proto(&SecurityState::default())
        .yaml(Map::new().with("secureBoot", false))
    }

    fn extensions(&self) -> Vec<Resource> {
        let names = self.run.image.extensions.iter().map(|name| name.rsplit('/').next().unwrap_or(name));
        let names: Vec<&str> = names.chain(["schematic"]).collect();
        // The schematic's id is told like an extension; there is one only if an image came from a factory.
        let count =
            if self.run.is_container() || self.run.image.extensions.is_empty() { 0 } else { names.len() };
        names[..count]
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let version =
                    if *name == "schematic" { self.run.image.schematic.clone() } else { "v1".to_owned() };
                let image = format!("{index:03}.ghcr.io-siderolabs-{name}.sqsh");
                let metadata = Map::new().with("name", *name).with("version", version.clone());
                let proto =
                    ExtensionMetadata { name: (*name).to_owned(), version, ..ExtensionMetadata::default() };
                Resource::new(
                    ("runtime", "ExtensionStatuses.runtime.talos.dev"),
                    index.to_string(),
                    "runtime.ExtensionStatusController",
                    self.run.started,
                )
                .proto(&ExtensionStatus { image: image.clone(), metadata: Some(proto) })
                .yaml(Map::new().with("image", image).with("metadata", metadata))
            })
            .collect()
    }

    fn system_information(&self) -> Vec<Resource> {
        if self.run.is_container() {
            return Vec::new();
        }
        let Some(machine) = self.nodes.machines.get(&self.machine) else { return Vec::new() };
        let hardware = &machine.hardware;
        let proto = SystemInformation {
            manufacturer: "QEMU".to_owned(),
            product_name: "Standard PC (i440FX + PIIX, 1996)".to_owned(),
            version: "pc-i440fx-10.0".to_owned(),
            serial_number: hardware.serial.clone(),
            uuid: hardware.uuid.clone(),
        };
        let map = Map::new()
            .with("manufacturer", proto.manufacturer.clone())
            .with("productName", proto.product_name.clone())
            .with("version", proto.version.clone())
            .with("serialnumber", proto.serial_number.clone())
            .with("uuid", proto.uuid.clone())
            .with("wakeUpType", "Power Switch");
        let resource = Resource::new(
            ("hardware", "SystemInformations.hardware.talos.dev"),
            "systeminformation",
            "hardware.SystemInfoController",
            self.run.started,
        );
        vec![resource.proto(&proto).yaml(map)]
    }

    fn platform_metadata(&self) -> Resource {
        let platform = match self.run.image.platform {
            Platform::Nocloud => "nocloud",
            Platform::Metal => "metal",
            Platform::Container => "container",
        };
        let map =
            Map::new().with("platform", platform).with_some("hostname", self.run.platform.hostname.clone());
        Resource::new(
            ("runtime", "PlatformMetadatas.talos.dev"),
            "platformmetadata",
            "network.PlatformConfigApplyController",
            self.run.started,
        )
        .yaml(map)
    }

    fn maintenance_config(&self) -> Vec<Resource> {
        if self.run.active.is_some() {
            return Vec::new();
        }
        let map = Map::new()
            .with("listenAddress", ":50000")
            .with("reachableAddresses", texts(self.run.network.ips()));
        let resource = Resource::new(
            ("runtime", "MaintenanceServiceConfigs.runtime.talos.dev"),
            "maintenance",
            "runtime.MaintenanceConfigController",
            self.run.started,
        );
        vec![resource.yaml(map)]
    }

    fn api_service_config(&self) -> Resource {
        let maintenance = self.run.active.is_none();
        let map = Map::new()
            .with("listenAddress", ":50000")
            .with("nodeRoutingDisabled", maintenance)
            .with("readonlyRoleMode", maintenance)
            .with("skipVerifyingClientCert", maintenance);
        Resource::new(
            ("runtime", "APIServiceConfigs.runtime.talos.dev"),
            "apid",
            "runtime.APIServiceConfigController",
            self.run.started,
        )
        .yaml(map)
    }

    fn meta_keys(&self) -> Vec<Resource> {
        let disk = self.nodes.system_disk(self.machine).filter(|_| !self.run.is_container());
        let mut keys = disk.and_then(|disk| disk.meta.clone()).unwrap_or_default();
        if self.run.volumes {
            // How STATE is encrypted: not at all.
            keys.insert(9, b"null".to_vec());
        }
        keys.iter()
            .map(|(key, value)| {
                let place = ("runtime", "MetaKeys.runtime.talos.dev");
                Resource::new(place, format!("0x{key:02x}"), "", self.run.started)
                    .yaml(Map::new().with("value", String::from_utf8_lossy(value).into_owned()))
            })
            .collect()
    }

    fn command_line(&self) -> Vec<Resource> {
        let platform = match self.run.image.platform {
            Platform::Nocloud => "nocloud",
            Platform::Metal => "metal",
            Platform::Container => return Vec::new(),
        };
        let line = format!("talos.platform={platform} console=tty1 console=ttyS0 net.ifnames=0");
        let resource = Resource::new(
            ("runtime", "KernelCmdlines.runtime.talos.dev"),
            "cmdline",
            "runtime.KernelCmdlineController",
            self.run.started,
        );
        vec![resource.yaml(Map::new().with("cmdline", line))]
    }

    /// What Talos sets in the network part of the kernel; the rest is the host's, in a container.
    fn kernel_parameters(&self) -> Vec<Resource> {
        const PARAMETERS: [(&str, &str); 8] = [
            ("ipv4.icmp_echo_ignore_broadcasts", "1"),
            ("ipv4.icmp_ignore_bogus_error_responses", "1"),
            ("ipv4.ip_forward", "1"),
            ("ipv4.ip_local_reserved_ports", "50000,50001"),
            ("ipv4.tcp_keepalive_intvl", "60"),
            ("ipv4.tcp_keepalive_time", "600"),
            ("ipv6.conf.default.accept_ra", "2"),
            ("ipv6.conf.default.forwarding", "1"),
        ];
        PARAMETERS
            .iter()
            .map(|(name, value)| {
                let place = ("runtime", "KernelParamStatuses.runtime.talos.dev");
                let id = format!("proc.sys.net.{name}");
                Resource::new(place, id, "runtime.KernelParamSpecController", self.run.started)
                    .yaml(Map::new().with("current", *value).with("unsupported", false))
            })
            .collect()
    }
}

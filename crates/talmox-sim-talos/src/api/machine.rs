//! What a machine says of itself.

use talmox_proto::machine::{
    CpuStat, FeaturesInfo, Hostname, HostnameResponse, LoadAvg, LoadAvgResponse, MemInfo, Memory,
    MemoryResponse, PlatformInfo, ServiceEvent, ServiceEvents, ServiceHealth, ServiceInfo, ServiceList,
    ServiceListResponse, SystemStat, SystemStatResponse, Version, VersionInfo, VersionResponse,
};

use super::reply::never;
use super::{Asked, Handlers};
use crate::hardware::Platform;
use crate::machine::{Run, Stage};
use crate::nodes::Nodes;
use crate::services::{Health, Service};
use crate::wire::{ApiReply, Code, Status};

pub(super) const HANDLERS: Handlers = &[
    ("/machine.MachineService/Version", version),
    ("/machine.MachineService/Hostname", hostname),
    ("/machine.MachineService/ServiceList", service_list),
    ("/machine.MachineService/Memory", memory),
    ("/machine.MachineService/LoadAvg", load),
    ("/machine.MachineService/SystemStat", system_stat),
];

/// The machine is there: the call reached it.
pub(super) fn run<'a>(nodes: &'a Nodes, asked: &Asked<'_>) -> Result<&'a Run, Status> {
    nodes.run(asked.machine).ok_or_else(|| Status::new(Code::Unavailable, "connection refused"))
}

fn version(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let run = run(nodes, asked)?;
    let (name, mode) = match run.image.platform {
        Platform::Nocloud => ("nocloud", "cloud"),
        Platform::Metal => ("metal", "metal"),
        Platform::Container => ("container", "container"),
    };
    let message = Version {
        metadata: None,
        version: Some(VersionInfo {
            tag: format!("v{}", run.image.version),
            os: "linux".to_owned(),
            arch: "amd64".to_owned(),
            go_version: "go1.26.0".to_owned(),
            ..VersionInfo::default()
        }),
        platform: Some(PlatformInfo { name: name.to_owned(), mode: mode.to_owned() }),
        // In maintenance there are no roles to speak of.
        features: (run.stage != Stage::Maintenance).then_some(FeaturesInfo { rbac: true }),
    };
    Ok(nodes.reply(&VersionResponse { messages: vec![message] }))
}

fn hostname(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let hostname = run(nodes, asked)?.network.hostname.clone();
    Ok(nodes.reply(&HostnameResponse { messages: vec![Hostname { metadata: None, hostname }] }))
}

#[expect(clippy::unnecessary_wraps, reason = "a handler may fail")]
fn memory(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let hardware = nodes.machines.get(&asked.machine).map_or(0, |machine| machine.hardware.memory);
    // The kernel keeps a little for itself.
    let memtotal = hardware / 1024 * 97 / 100;
    let meminfo = MemInfo {
        memtotal,
        memfree: memtotal / 2,
        memavailable: memtotal * 3 / 4,
        buffers: memtotal / 100,
        cached: memtotal / 5,
        ..MemInfo::default()
    };
    Ok(nodes.reply(&MemoryResponse { messages: vec![Memory { metadata: None, meminfo: Some(meminfo) }] }))
}

#[expect(clippy::unnecessary_wraps, reason = "a handler may fail")]
fn load(nodes: &mut Nodes, _: &Asked<'_>) -> Result<ApiReply, Status> {
    let message = LoadAvg { metadata: None, load1: 0.4, load5: 0.3, load15: 0.2 };
    Ok(nodes.reply(&LoadAvgResponse { messages: vec![message] }))
}

fn system_stat(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let started = run(nodes, asked)?.started;
    let boot_time = u64::try_from(nodes.timestamp(started).seconds).unwrap_or_default();
    let cpus = nodes.machines.get(&asked.machine).map_or(1, |machine| machine.hardware.cpus);
    let one = CpuStat { user: 1.0, system: 1.0, idle: 8.0, ..CpuStat::default() };
    let cpu = (0..cpus).map(|_| one).collect();
    let message = SystemStat { metadata: None, boot_time, cpu_total: Some(one), cpu };
    Ok(nodes.reply(&SystemStatResponse { messages: vec![message] }))
}

fn service_list(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let run = run(nodes, asked)?;
    let services = run.services.iter().map(|(id, one)| service_info(nodes, id, one)).collect();
    Ok(nodes.reply(&ServiceListResponse { messages: vec![ServiceList { metadata: None, services }] }))
}

pub(crate) fn service_info(nodes: &Nodes, id: &str, service: &Service) -> ServiceInfo {
    let events = service.said.iter().map(|said| ServiceEvent {
        msg: said.message.clone(),
        state: said.state.name().to_owned(),
        ts: Some(nodes.timestamp(said.at)),
    });
    ServiceInfo {
        id: id.to_owned(),
        state: service.state.name().to_owned(),
        events: Some(ServiceEvents { events: events.collect() }),
        health: Some(ServiceHealth {
            unknown: service.health == Health::Unknown,
            healthy: service.health == Health::Healthy,
            last_message: service.health_message.clone(),
            last_change: Some(service.health_changed.map_or_else(never, |at| nodes.timestamp(at))),
        }),
    }
}

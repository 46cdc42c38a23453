//! Messages are on the wire what the facts say: numbers of fields, not names, are what counts.

use talmox_proto::machine::{
    ApplyConfigurationRequest, EtcdMember, ServiceInfo, apply_configuration_request::Mode, machine_service,
};
use talmox_proto::machine::{ImageServicePullRequest, lifecycle_service};
use talmox_proto::resource::{WatchOptions, WatchRequest, state};
use talmox_proto::{Message as _, common};

#[test]
fn fields_have_their_numbers() {
    let member = EtcdMember { id: 1, hostname: "a".to_owned(), ..EtcdMember::default() };
    assert_eq!(member.encode_to_vec(), [0x10, 1, 0x1a, 1, b'a'], "there is no field 1");
    let apply = ApplyConfigurationRequest { mode: Mode::Try.into(), dry_run: true, ..Default::default() };
    assert_eq!(apply.encode_to_vec(), [0x20, 4, 0x28, 1]);
    let pull = ImageServicePullRequest { image_ref: "i".to_owned(), ..Default::default() };
    assert_eq!(pull.encode_to_vec(), [0x1a, 1, b'i']);
    let address = common::NetIpPrefix { ip: vec![10, 0, 0, 1], prefix_length: 24 };
    assert_eq!(address.encode_to_vec(), [0x0a, 4, 10, 0, 0, 1, 0x10, 24]);
}

/// A message that is there and empty is not the same as none: Talos 1.12 fails on a watch without options.
#[test]
fn empty_options_are_sent() {
    let watch = WatchRequest { options: Some(WatchOptions::default()), api_version: 1, ..Default::default() };
    assert_eq!(watch.encode_to_vec(), [0x22, 0, 0x28, 1]);
}

/// What a newer server sends beside what is known here is skipped.
#[test]
fn unknown_fields_are_skipped() {
    let bytes = [0x0a, 4, b'e', b't', b'c', b'd', 0xfa, 0x07, 2, 9, 9];
    let info = ServiceInfo::decode(bytes.as_slice()).unwrap();
    assert_eq!(info.id, "etcd");
}

#[test]
fn calls_have_their_paths() {
    assert_eq!(machine_service::VERSION.path, "/machine.MachineService/Version");
    let streams =
        (machine_service::ETCD_RECOVER.streams_requests, machine_service::ETCD_RECOVER.streams_replies);
    assert_eq!(streams, (true, false));
    assert_eq!(lifecycle_service::UPGRADE.path, "/machine.LifecycleService/Upgrade");
    assert_eq!(lifecycle_service::UPGRADE.streams_replies, state::LIST.streams_replies);
    assert_eq!((state::WATCH.path, state::WATCH.name()), ("/cosi.resource.State/Watch", "Watch"));
}

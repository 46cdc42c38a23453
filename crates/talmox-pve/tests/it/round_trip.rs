//! Parse → print → parse is identity, and neither order nor spelling of options makes a difference.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use talmox_pve::property::{
    Agent, Boot, Disk, DiskSize, Grammar, HostPci, IpConfig, NetDevice, PropertyString, Slot, SlotKind,
    Smbios, Startup, Tags,
};

fn boolean() -> impl Strategy<Value = String> {
    proptest::sample::select(vec!["0", "1", "on", "off", "yes", "no", "True", "FALSE"])
        .prop_map(str::to_owned)
}

fn size() -> impl Strategy<Value = String> {
    (1_u64..4_000_000, proptest::sample::select(vec!["", "K", "M", "G"]))
        .prop_map(|(n, unit)| format!("{n}{unit}"))
}

fn word() -> impl Strategy<Value = String> {
    "[a-z0-9][a-z0-9._-]{0,10}"
}

/// Some options of a table, each once, in any order.
fn options(
    table: Vec<(&'static str, BoxedStrategy<String>)>,
) -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    let some: Vec<_> = table
        .into_iter()
        .map(|(key, value)| proptest::option::of(value.prop_map(move |value| format!("{key}={value}"))))
        .collect();
    some.prop_map(|parts| parts.into_iter().flatten().collect::<Vec<_>>())
        .prop_flat_map(|parts| (Just(parts.clone()), Just(parts).prop_shuffle()))
}

fn disk_options() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    options(vec![
        ("backup", boolean().boxed()),
        ("discard", proptest::sample::select(vec!["on", "ignore"]).prop_map(str::to_owned).boxed()),
        ("iothread", boolean().boxed()),
        ("media", proptest::sample::select(vec!["disk", "cdrom"]).prop_map(str::to_owned).boxed()),
        ("replicate", boolean().boxed()),
        ("size", size().boxed()),
        ("ssd", boolean().boxed()),
        ("wwn", word().boxed()),
        ("future-option", word().boxed()),
    ])
}

fn net_options() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    options(vec![
        ("virtio", "(0A|bc):[0-9a-fA-F]{2}:24:11:00:ff".boxed()),
        ("bridge", "vmbr[0-9]{1,3}".boxed()),
        ("firewall", boolean().boxed()),
        ("queues", (0_u16..64).prop_map(|n| n.to_string()).boxed()),
        ("rate", "[1-9][0-9]{0,2}(\\.[0-9]{1,3})?".boxed()),
        ("tag", (1_u16..4095).prop_map(|n| n.to_string()).boxed()),
        ("trunks", "[1-9](;[1-9]0(-[1-9]00)?){0,3}".boxed()),
        ("future-option", word().boxed()),
    ])
}

proptest! {
    #[test]
    fn any_text_that_parses_prints_and_parses_the_same(text in "[ a-z0-9=,;:._+-]{0,40}") {
        let grammar = Grammar::new("a thing").default_key("file").aliases(&[("volume", "file")]);
        if let Ok(parsed) = PropertyString::parse(&text, &grammar) {
            let printed = parsed.print(&grammar);
            prop_assert_eq!(PropertyString::parse(&printed, &grammar).unwrap(), parsed, "{}", printed);
        }
    }

    #[test]
    fn any_text_a_typed_view_takes_survives(text in "[ a-z0-9=,;:._/+-]{0,40}") {
        macro_rules! survives {
            ($($kind:ty),+) => {$(
                if let Ok(parsed) = <$kind>::parse(&text) {
                    prop_assert_eq!(<$kind>::parse(&parsed.to_string()).unwrap(), parsed);
                }
            )+};
        }
        survives!(Agent, Boot, Disk, HostPci, IpConfig, NetDevice, Smbios, Startup, Tags);
    }

    #[test]
    fn options_of_a_property_string(options in btree_map("[a-z][a-z0-9_-]{0,8}", "[^,=\\s][^,\\s]{0,12}", 0..6)) {
        let grammar = Grammar::new("a thing");
        let string = PropertyString::from(options);
        prop_assert_eq!(PropertyString::parse(&string.print(&grammar), &grammar).unwrap(), string);
    }

    #[test]
    fn disks((parts, shuffled) in disk_options()) {
        let disk = Disk::parse(&format!("local-zfs:vm-100-disk-0,{}", parts.join(","))).unwrap();
        let other = Disk::parse(&format!("{},file=local-zfs:vm-100-disk-0", shuffled.join(","))).unwrap();
        prop_assert_eq!(&disk, &other);
        prop_assert_eq!(disk.to_string(), other.to_string());
        prop_assert_eq!(Disk::parse(&disk.to_string()).unwrap(), disk);
    }

    #[test]
    fn nics((parts, shuffled) in net_options()) {
        let model = if parts.iter().any(|part| part.starts_with("virtio=")) { "" } else { "virtio," };
        let nic = NetDevice::parse(&format!("{model}{}", parts.join(","))).unwrap();
        let other = NetDevice::parse(&format!("{model}{}", shuffled.join(",").to_ascii_lowercase())).unwrap();
        prop_assert_eq!(&nic, &other);
        prop_assert_eq!(nic.to_string(), NetDevice::parse(&nic.to_string()).unwrap().to_string());
        prop_assert_eq!(NetDevice::parse(&nic.to_string()).unwrap(), nic);
    }

    #[test]
    fn sizes(bytes in any::<u64>(), shift in 0_u32..50) {
        let size = DiskSize::from_bytes(bytes >> shift << shift);
        prop_assert_eq!(DiskSize::parse(&size.to_string()).unwrap(), size);
    }

    #[test]
    fn smbios_texts(texts in vec("\\PC{0,20}", 3)) {
        let smbios = Smbios {
            serial: Some(texts[0].clone()).filter(|text| !text.is_empty()),
            family: Some(texts[1].clone()).filter(|text| !text.is_empty()),
            product: Some(texts[2].clone()).filter(|text| !text.is_empty()),
            ..Smbios::default()
        };
        prop_assert_eq!(Smbios::parse(&smbios.to_string()).unwrap(), smbios);
    }

    #[test]
    fn slots(kind in proptest::sample::select(SlotKind::ALL), index in any::<u8>()) {
        if let Some(slot) = Slot::new(kind, index) {
            prop_assert_eq!(Slot::parse(&slot.to_string()).unwrap(), slot);
        }
    }
}

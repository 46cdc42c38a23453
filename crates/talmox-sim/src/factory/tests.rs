use super::*;

const AGENT: &str = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";
const EMPTY_ID: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";

fn ask(factory: &mut Factory, method: &str, target: &str, body: &str) -> FactoryReply {
    let request = FactoryRequest {
        method: method.into(),
        authority: "127.0.0.1:1".into(),
        target: target.into(),
        body: body.into(),
    };
    factory.handle(&request).expect("it lives")
}

fn status(factory: &mut Factory, method: &str, target: &str) -> u16 {
    ask(factory, method, target, "").status
}

#[test]
fn only_registered_schematics_have_images() {
    let mut factory = Factory::default();
    let image = |id: &str| format!("/image/{id}/v1.13.9/nocloud-amd64.qcow2");
    assert_eq!(status(&mut factory, "HEAD", &image(EMPTY_ID)), 200);
    assert_eq!(status(&mut factory, "HEAD", &image(AGENT)), 404);
    let body = "customization: {systemExtensions: {officialExtensions: [siderolabs/qemu-guest-agent]}}";
    let made = ask(&mut factory, "POST", "/schematics", body);
    let answer: serde_json::Value = serde_json::from_slice(&made.body).unwrap();
    assert_eq!((made.status, answer["id"].as_str()), (201, Some(AGENT)));
    assert_eq!(
        ask(&mut factory, "GET", &format!("/schematics/{AGENT}"), "").body,
        answer["schematic"].as_str().unwrap().as_bytes()
    );
    assert_eq!(status(&mut factory, "HEAD", &image(AGENT)), 200);
    assert_eq!(ask(&mut factory, "POST", "/schematics", "customisation: {}").status, 400);
}

#[test]
fn a_get_is_redirected_and_a_head_is_not() {
    let mut factory = Factory::default();
    let target = format!("/image/{EMPTY_ID}/v1.13.9/nocloud-amd64.qcow2");
    let head = ask(&mut factory, "HEAD", &target, "");
    let moved = ask(&mut factory, "GET", &target, "");
    let location = moved.location.expect("a location");
    let file = ask(&mut factory, "GET", &location, "");
    assert_eq!((moved.status, file.status, head.body.len()), (302, 200, 0));
    assert_eq!(file.length, head.length);
}

#[test]
fn what_is_not_there_says_so() {
    let mut factory = Factory::default();
    let image = |version: &str, name: &str| format!("/image/{EMPTY_ID}/{version}/{name}");
    for (target, expected) in [
        (image("v1.99.0", "nocloud-amd64.qcow2"), 404),
        (image("v1.13.9", "proxmox-amd64.qcow2"), 400),
        (image("v1.13.9", "nocloud-riscv.qcow2"), 400),
        (image("v1.13.9", "nocloud-amd64.qcow2.sha256"), 402),
        (image("v1.13.9", "digital-ocean-amd64.raw.gz"), 302),
        ("/version/v1.13.9/extensions/official".to_owned(), 200),
        ("/version/v1.99.0/extensions/official".to_owned(), 404),
        ("/version/v1.13.9/overlays/official".to_owned(), 200),
        ("/versions?broken=true".to_owned(), 200),
        (format!("/pxe/{EMPTY_ID}/v1.13.9/metal-amd64"), 200),
        ("/ui".to_owned(), 404),
    ] {
        assert_eq!(status(&mut factory, "GET", &target), expected, "{target}");
    }
    let body =
        "customization: {systemExtensions: {officialExtensions: [siderolabs/i915-ucode, siderolabs/nope]}}";
    let answer: serde_json::Value =
        serde_json::from_slice(&ask(&mut factory, "POST", "/schematics", body).body).unwrap();
    let target = format!("/image/{}/v1.13.9/nocloud-amd64.iso", answer["id"].as_str().unwrap());
    let reply = ask(&mut factory, "GET", &target, "");
    assert_eq!(reply.status, 400);
    // The old name of an extension is good enough, an unknown one is not.
    assert!(String::from_utf8_lossy(&reply.body).contains("\"siderolabs/nope\" is not available"));
}

#[test]
fn troubles_are_those_of_the_simulated_hosts_too() {
    let url = format!("https://{PUBLIC}/image/{EMPTY_ID}/v1.13.9/nocloud-amd64.qcow2");
    let mut factory = Factory::default();
    let Some(Fetched::File { file, location: Some(_), delay: 0 }) = factory.fetch(&url) else {
        panic!("a file")
    };
    assert_eq!((file.format.as_deref(), file.virtual_size), (Some("qcow2"), Some(1246 << 20)));
    assert_eq!(factory.fetch("https://elsewhere.example/x"), None);
    factory.trouble.cut = Some(10);
    assert_eq!(factory.fetch(&url), Some(Fetched::Cut { came: 10, size: file.size }));
    factory.trouble.missing.insert("v1.13.9".to_owned());
    assert_eq!(factory.fetch(&url), Some(Fetched::Refused { status: 404 }));
    factory.trouble.dead = true;
    assert_eq!(factory.fetch(&url), Some(Fetched::Dead));
    assert!(factory.handle(&FactoryRequest::default()).is_none());
}

#[test]
fn files_are_what_they_say() {
    let make = |name: &str| make_bytes(EMPTY_ID, "v1.13.9", name).expect("an image");
    let raw = make("nocloud-amd64.raw");
    assert_eq!(raw[510..512], [0x55, 0xaa]);
    let iso = make("nocloud-amd64.iso");
    assert_eq!(&iso[16 * 2048 + 1..16 * 2048 + 6], b"CD001");
    assert_eq!(&iso[16 * 2048 + 40..16 * 2048 + 53], b"TALOS_V1_13_9");
    assert!(make("azure-amd64.vhd").ends_with(&[0; 100]), "a footer");
    assert_eq!(make("metal-amd64.raw.gz")[..2], [0x1f, 0x8b]);
    assert_eq!(make("metal-amd64.raw.zst")[..4], [0x28, 0xb5, 0x2f, 0xfd]);
    assert_eq!(&make("metal-amd64.raw.xz")[1..5], b"7zXZ");
    assert_ne!(make("metal-amd64.raw"), raw);
}

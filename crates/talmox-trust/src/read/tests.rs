//! What is written is read back, and nothing else is.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::print::{by_folder, list};
use crate::{Need, Verb};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z./:#\\-]{1,12}",
        "\\PC{1,12}",
        Just("- x: {y".to_owned()),
        Just("a\nb\u{7}\"'\\".to_owned())
    ]
}

fn digest() -> impl Strategy<Value = String> {
    "[0-9a-f]{64}"
}

fn origin() -> impl Strategy<Value = Origin> {
    ("[a-z]{1,8}", 1..u16::MAX)
        .prop_map(|(host, port)| Origin::of_api(&format!("https://{host}:{port}")).unwrap())
}

fn certificate() -> impl Strategy<Value = Certificate> {
    let fingerprints = btree_set(any::<[u8; 32]>().prop_map(Fingerprint::from), 1..3);
    prop_oneof![
        Just(Certificate::System),
        Just(Certificate::Unchecked),
        fingerprints.prop_map(Certificate::Fingerprints),
        (text(), digest()).prop_map(|(file, digest)| Certificate::Authority { file, digest }),
    ]
}

fn any_grant() -> impl Strategy<Value = Grant> {
    let program = (vec(text(), 1..4), text(), btree_map(text(), digest(), 0..3), btree_set(text(), 0..3));
    let credential = (text(), btree_set(origin(), 1..3), certificate());
    let access = prop_oneof![Just(Access::Read), Just(Access::Write)];
    prop_oneof![
        program.prop_map(|(argv, path, files, variables)| Grant::Program(Program {
            argv,
            path,
            files,
            variables
        })),
        credential.prop_map(|(secret, endpoints, certificate)| {
            Grant::Credential(Credential { secret, endpoints, certificate })
        }),
        text().prop_map(Grant::Variable),
        (text(), access).prop_map(|(path, access)| Grant::Folder { path: format!("/{path}"), access }),
        origin().prop_map(Grant::Host),
        "age1[a-z0-9]{8}".prop_map(|key| Grant::Recipient(Receiver::Age(key))),
        "[a-z]{1,8}".prop_map(|storage| Grant::Recipient(Receiver::SeedStorage(storage))),
    ]
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(grants in vec(any_grant(), 0..6)) {
        let text = list(&grants);
        prop_assert_eq!(read_list(&text).unwrap_or_else(|error| panic!("{error}\n{text}")), grants.clone());
        if !grants.is_empty() {
            let folders = BTreeMap::from([("/home/me/lab: \"x\"".to_owned(), grants)]);
            let text = by_folder(&folders);
            prop_assert_eq!(read_by_folder(&text).unwrap_or_else(|error| panic!("{error}\n{text}")), folders);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = read_list(&text);
        let _ = read_by_folder(&text);
    }
}

#[test]
fn a_single_grant_needs_no_dash() {
    assert_eq!(read_list("variable: DOMAIN").unwrap(), [Grant::Variable("DOMAIN".to_owned())]);
    assert_eq!(read_list("").unwrap(), []);
}

#[test]
fn half_a_grant_is_an_error() {
    for (text, reason) in [
        ("- program: [sh]\n", "line 1: path is missing"),
        ("- variable: A\n- folder: /x\n", "line 2: access is missing"),
        ("- folder: x\n  access: read\n", "line 1: a folder is granted by its absolute path"),
        ("- folder: /x\n  access: all\n", "line 2: access is read or write"),
        ("- variable: A\n  value: B\n", "line 2: value is not known here"),
        ("- anything: true\n", "line 1: a grant is one of program"),
        ("- everything\n", "line 1: a grant is one of program"),
        ("true\n", "line 1: grants are a list of mappings"),
        (
            "- credential: env:T\n  endpoint: https://u:p@pve\n  certificate: system\n",
            "line 2: an address looks like",
        ),
        ("- credential: env:T\n  endpoint: pve\n  certificate: system\n", "line 2: an address looks like"),
        ("- credential: env:T\n  endpoint: https://pve\n", "line 1: certificate is missing"),
        (
            "- credential: env:T\n  endpoint: https://pve\n  certificate: none\n",
            "line 3: `none` is not a certificate",
        ),
        (
            "- credential: env:T\n  endpoint: https://pve\n  certificate: []\n",
            "line 3: certificate is system",
        ),
        ("- variable: A\n  variable: B\n", "line 2: variable stands here twice"),
        ("- variable: ''\n", "line 1: a value is missing"),
        ("- host: ftp://x\n", "line 1: an address looks like"),
        ("a: [\n", "this is no YAML"),
    ] {
        let error = read_list(text).unwrap_err().to_string();
        assert!(error.contains(reason), "{text:?}: {error}");
    }
    assert!(read_by_folder("/a: []\n/a: []\n").is_err());
    assert!(read_by_folder("- variable: A\n").is_err());
}

fn need_of(text: &str) -> Need {
    Need::Program {
        argv: text.split(' ').map(str::to_owned).collect(),
        path: "/usr/bin/pass".to_owned(),
        files: BTreeMap::new(),
    }
}

#[test]
fn a_grant_allows_what_it_names_and_nothing_near_it() {
    let mut grants = crate::Grants::new(vec![need_of("pass show a").grant()]);
    assert!(grants.allows(&need_of("pass show a")));
    for other in ["pass show b", "pass show", "pass show a b", "pass  show a"] {
        assert!(!grants.allows(&need_of(other)), "{other}");
    }
    let changed = |path: &str, files: &[(&str, &str)]| Need::Program {
        argv: ["pass", "show", "a"].map(str::to_owned).to_vec(),
        path: path.to_owned(),
        files: files.iter().map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned())).collect(),
    };
    assert!(!grants.allows(&changed("/tmp/pass", &[])), "another program of that name");
    assert!(
        !grants.allows(&changed("/usr/bin/pass", &[("hook.sh", "00")])),
        "a file of the folder that was not there"
    );

    let api = |text: &str| Origin::of_api(text).unwrap();
    let token = |secret: &str, endpoint: &str| Need::Credential {
        secret: secret.to_owned(),
        endpoint: api(endpoint),
    };
    grants.add([token("file:token", "https://pve.lan").grant()]);
    assert!(grants.allows(&token("file:token", "https://PVE.lan:8006/")));
    for (secret, endpoint) in [
        ("file:token", "https://pve.lan:8007"),
        ("file:token", "https://evil.lan"),
        ("file:../token", "https://pve.lan"),
    ] {
        assert!(!grants.allows(&token(secret, endpoint)), "{secret} {endpoint}");
    }

    let folder = |path: &str, access| Need::Folder { path: path.to_owned(), access };
    grants.add([folder("/srv/shared", Access::Read).grant()]);
    assert!(
        grants.allows(&folder("/srv/shared", Access::Read))
            && grants.allows(&folder("/srv/shared/a", Access::Read))
    );
    assert!(!grants.allows(&folder("/srv/shared", Access::Write)), "reading is not writing");
    assert!(
        !grants.allows(&folder("/srv/shared2", Access::Read))
            && !grants.allows(&folder("/srv", Access::Read))
    );
    grants.add([folder("/srv/out", Access::Write).grant()]);
    assert!(grants.allows(&folder("/srv/out", Access::Read)), "writing includes reading");

    assert!(!grants.allows(&Need::Variable("HOME".to_owned())));
    assert!(!grants.allows(&Need::Host(Origin::of_url("https://example.org").unwrap())));
    assert!(!grants.allows(&Need::Recipient(Receiver::Age("age1x".to_owned()))));
    assert!(!grants.allows(&Need::Recipient(Receiver::SeedStorage("local".to_owned()))));
}

#[test]
fn what_is_missing_is_named_once_and_its_grant_meets_it() {
    let needs = [need_of("a"), need_of("b"), need_of("a")];
    let mut grants = crate::Grants::new(vec![need_of("b").grant()]);
    assert_eq!(grants.missing(&needs), [&needs[0]]);
    let granted: Vec<Grant> = grants.missing(&needs).into_iter().map(Need::grant).collect();
    grants.add(granted);
    assert!(grants.missing(&needs).is_empty());
    assert!(Verb::ALL.iter().all(|verb| !verb.words().is_empty()));
}

#[test]
fn a_later_grant_decides_about_the_certificate() {
    let one = |certificate| {
        Grant::Credential(Credential {
            secret: "file:t".to_owned(),
            endpoints: [Origin::of_api("https://pve").unwrap()].into(),
            certificate,
        })
    };
    let grants = crate::Grants::new(vec![one(Certificate::Unchecked), one(Certificate::System)]);
    let found = grants.credential("file:t", &Origin::of_api("https://pve").unwrap()).unwrap();
    assert_eq!(found.certificate, Certificate::System);
}

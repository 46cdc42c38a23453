//! Which credentials go where.

use insta::assert_snapshot;
use talmox_types::SecretRef;

use super::*;
use crate::screens::testbed;

const SECRET: &str = "11111111-2222-3333-4444-555555555555";
const WHOLE: &str = "ci@pve!talmox=11111111-2222-3333-4444-555555555555";

fn proxmox(endpoints: &[&str], token: Option<&str>) -> Proxmox {
    let (_, desired) = testbed::homelab();
    Proxmox {
        endpoints: endpoints.iter().map(|text| (*text).to_owned()).collect(),
        api_token: token.map(|text| SecretRef::parse(text).unwrap()),
        ..desired.proxmox
    }
}

fn chosen(proxmox: &Proxmox, variables: &[(&str, &str)]) -> Result<Choice, String> {
    let file = |_: &SecretRef| Ok(Some(SecretString::from(WHOLE)));
    choose(proxmox, &Environment::of_table(variables), &file).map_err(|failure| {
        let error = anyhow::Error::from(failure);
        let hints = crate::failure::hints(&error).into_iter().map(|hint| format!("\nhint: {hint}"));
        format!("{error}{}", hints.collect::<String>())
    })
}

/// Who is asked and as whom; never the secret.
fn told(proxmox: &Proxmox, variables: &[(&str, &str)]) -> String {
    let text = match chosen(proxmox, variables) {
        Ok(choice) => {
            assert!(!format!("{choice:?}").contains(SECRET));
            choice.warnings.into_iter().chain(choice.said).collect::<Vec<_>>().join("\n")
        }
        Err(text) => text,
    };
    assert!(!text.contains(SECRET), "{text}");
    text
}

#[test]
fn a_token_of_the_environment_goes_to_the_endpoint_of_the_environment() {
    let pair = [("PROXMOX_VE_ENDPOINT", "https://pve.lan:8006/"), ("PROXMOX_VE_API_TOKEN", WHOLE)];
    assert_snapshot!(told(&proxmox(&[], None), &pair), @r"
    endpoint https://pve.lan:8006 from PROXMOX_VE_ENDPOINT
    credentials ci@pve!talmox from PROXMOX_VE_API_TOKEN (as bpg/proxmox has it)
    certificates: what this system trusts
    ");
    let described = proxmox(&["https://pve.lan:8006"], Some("env:PROXMOX_VE_API_TOKEN"));
    assert_snapshot!(told(&described, &pair), @r"
    endpoint https://pve.lan:8006 from proxmox_endpoint, vouched for by PROXMOX_VE_ENDPOINT
    credentials ci@pve!talmox from proxmox_api_token (env:PROXMOX_VE_API_TOKEN)
    certificates: what this system trusts
    ");
}

#[test]
fn a_description_cannot_send_it_elsewhere() {
    let evil = ["https://evil.example:8006"];
    let token = ("PROXMOX_VE_API_TOKEN", WHOLE);
    let home = ("PROXMOX_VE_ENDPOINT", "pve.lan");
    for (described, variables) in [
        (proxmox(&evil, None), vec![token, home]),
        (proxmox(&evil, None), vec![token]),
        (proxmox(&evil, Some("env:PROXMOX_VE_API_TOKEN")), vec![token, home]),
        (proxmox(&evil, Some("env:PROXMOX_VE_API_TOKEN")), vec![token]),
        (proxmox(&evil, Some("env:OTHER")), vec![("OTHER", WHOLE), home]),
        (proxmox(&evil, Some("env:OTHER")), vec![("OTHER", WHOLE)]),
        (proxmox(&evil, Some("file:token")), vec![home]),
        (
            proxmox(&evil, None),
            vec![("PROXMOX_VE_USERNAME", "root@pam"), ("PROXMOX_VE_PASSWORD", SECRET), home],
        ),
        (
            proxmox(&evil, None),
            vec![("PROXMOX_TOKEN", "ci@pve!x"), ("PROXMOX_SECRET", SECRET), ("PROXMOX_URL", "pve.lan")],
        ),
        // A token is for the endpoint of its own tool, not for that of another.
        (
            proxmox(&["pve.lab"], Some("env:PROXMOX_VE_API_TOKEN")),
            vec![token, home, ("PROXMOX_URL", "https://pve.lab:8006")],
        ),
    ] {
        let text = chosen(&described, &variables).unwrap_err();
        assert!(text.contains("are not sent to https://"), "{text}");
        assert!(text.contains("hint: if that is your Proxmox: export PROXMOX_"), "{text}");
    }
    assert_snapshot!(told(&proxmox(&evil, None), &[token, home]));
    assert_snapshot!(told(&proxmox(&evil, Some("env:PROXMOX_VE_API_TOKEN")), &[token]));
}

#[test]
fn of_several_endpoints_only_those_that_are_vouched_for_are_asked() {
    let described = proxmox(&["https://a:8006", "https://b:8006", "https://evil:8006"], None);
    let variables = [("PROXMOX_VE_ENDPOINT", "https://b:8006, a"), ("PROXMOX_VE_API_TOKEN", WHOLE)];
    let choice = chosen(&described, &variables).unwrap();
    let asked: Vec<String> = choice.endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(asked, ["https://a:8006", "https://b:8006"]);
    assert!(choice.credentials.check(&Endpoint::parse("evil").unwrap()).is_err());
}

#[test]
fn the_words_of_other_tools() {
    for (variables, expected) in [
        (
            vec![
                ("PROXMOX_URL", "https://pve.lan:8006/api2/json"),
                ("PROXMOX_TOKEN", "ci@pve!x"),
                ("PROXMOX_SECRET", SECRET),
            ],
            "credentials ci@pve!x from PROXMOX_TOKEN and PROXMOX_SECRET (as Cluster API has it)",
        ),
        (
            vec![
                ("PROXMOX_HOST", "pve.lan"),
                ("PROXMOX_TOKEN_ID", "ci@pve!y"),
                ("PROXMOX_TOKEN_SECRET", SECRET),
            ],
            "credentials ci@pve!y from PROXMOX_TOKEN_ID and PROXMOX_TOKEN_SECRET (as Ansible has it)",
        ),
        (
            vec![
                ("PROXMOX_VE_ENDPOINT", "pve.lan"),
                ("PROXMOX_VE_USERNAME", "root@pam"),
                ("PROXMOX_VE_PASSWORD", SECRET),
            ],
            "credentials root@pam from PROXMOX_VE_USERNAME and PROXMOX_VE_PASSWORD",
        ),
    ] {
        let text = told(&proxmox(&["https://pve.lan:8006"], None), &variables);
        assert!(text.contains(expected), "{text}");
    }
    let both = [
        ("PROXMOX_VE_ENDPOINT", "prod"),
        ("PROXMOX_VE_API_TOKEN", WHOLE),
        ("PROXMOX_URL", "https://lab:8006"),
        ("PROXMOX_TOKEN", "lab@pve!x"),
        ("PROXMOX_SECRET", SECRET),
    ];
    assert!(told(&proxmox(&["https://lab:8006"], None), &both).contains("credentials lab@pve!x"));
    assert!(told(&proxmox(&["https://prod:8006"], None), &both).contains("credentials ci@pve!talmox"));
}

#[test]
fn a_token_of_a_file_stands_beside_its_endpoint() {
    assert_snapshot!(told(&proxmox(&["https://pve.lan:8006"], Some("file:token")), &[]), @r"
    endpoint https://pve.lan:8006 from proxmox_endpoint
    credentials ci@pve!talmox from proxmox_api_token (file:token)
    certificates: what this system trusts
    ");
    let program = proxmox(&["https://pve.lan:8006"], Some("exec:[\"pass\", \"show\", \"hunter2\"]"));
    assert!(!told(&program, &[]).contains("hunter2"));
}

#[test]
fn what_is_missing_is_named() {
    assert_snapshot!(told(&proxmox(&["https://pve.lan:8006"], None), &[]));
    assert_snapshot!(told(&proxmox(&["https://pve.lan:8006"], Some("env:MY_TOKEN")), &[]));
    assert_snapshot!(told(&proxmox(&[], None), &[("PROXMOX_VE_API_TOKEN", WHOLE)]));
    assert_snapshot!(told(&proxmox(&[], None), &[("PROXMOX_VE_API_TOKEN", SECRET)]));
    assert_snapshot!(told(
        &proxmox(&[], None),
        &[("PROXMOX_VE_API_TOKEN", WHOLE), ("PROXMOX_VE_ENDPOINT", "http://u:hunter2@x")]
    ));
}

#[test]
fn certificates() {
    let variables = |insecure: &'static str| {
        [("PROXMOX_VE_ENDPOINT", "pve"), ("PROXMOX_VE_API_TOKEN", WHOLE), ("PROXMOX_VE_INSECURE", insecure)]
    };
    let plain = proxmox(&[], None);
    let trust = |proxmox: &Proxmox, insecure| chosen(proxmox, &variables(insecure)).unwrap();
    assert_eq!(trust(&plain, "").trust, TrustChoice::System);
    assert_eq!(trust(&plain, "false").trust, TrustChoice::System);
    let insecure = trust(&plain, "true");
    assert_eq!((insecure.trust, insecure.warnings.len()), (TrustChoice::Insecure, 1));
    let authority = Proxmox { ca_file: Some("ca.pem".to_owned()), ..plain.clone() };
    assert_eq!(trust(&authority, "true").trust, TrustChoice::AuthorityFile("ca.pem".to_owned()));
    let fingerprint = Fingerprint::from([7; 32]);
    let pinned = Proxmox { fingerprints: vec![fingerprint], insecure: true, ..authority };
    assert_eq!(trust(&pinned, "true").trust, TrustChoice::Fingerprints(vec![fingerprint]));
}

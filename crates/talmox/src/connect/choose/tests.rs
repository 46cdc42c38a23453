//! Which credentials go where.

use insta::assert_snapshot;
use talmox_types::SecretRef;

use talmox_pve::client::Trust;

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
    chosen_by(proxmox, variables, &Grants::default(), Beside::default())
}

/// The same with grants, and with what stands beside a token in a SOPS file.
fn chosen_by(
    proxmox: &Proxmox,
    variables: &[(&str, &str)],
    grants: &Grants,
    beside: Beside,
) -> Result<Choice, String> {
    let person = Person { grants, fingerprints: &[], ca_file: None };
    let beside = std::cell::Cell::new(Some(beside));
    let file = |_: &SecretRef| {
        Ok(Secret { text: SecretString::from(WHOLE), beside: beside.take().unwrap_or_default() })
    };
    choose(proxmox, &Environment::of_table(variables), &person, &file).map_err(|unfit| {
        let (Unfit::Failure(failure) | Unfit::Ungranted { failure, .. }) = unfit;
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
        assert!(text.contains("is not sent to https://"), "{text}");
        assert!(text.contains("hint: if that is your Proxmox: export PROXMOX_"), "{text}");
    }
    for unsaid in [Some("file:token"), Some("sops:a.yaml#a.token"), Some("exec:[\"pass\"]")] {
        let text = chosen(&proxmox(&evil, unsaid), &[]).unwrap_err();
        assert!(
            text.contains("is not sent to https://evil.example:8006: you have allowed no endpoint"),
            "{text}"
        );
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
                ("PROXMOX_HOST", "pve.lan"),
                ("PROXMOX_PORT", "8006"),
                ("PROXMOX_USER", "ci@pve"),
                ("PROXMOX_TOKEN_ID", "y"),
                ("PROXMOX_TOKEN_SECRET", SECRET),
            ],
            "credentials ci@pve!y from PROXMOX_TOKEN_ID and PROXMOX_TOKEN_SECRET (as Ansible has it)",
        ),
        (
            vec![("TF_VAR_proxmox_endpoint", "https://pve.lan:8006/"), ("TF_VAR_proxmox_api_token", WHOLE)],
            "credentials ci@pve!talmox from TF_VAR_proxmox_api_token (as OpenTofu has it)",
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

/// Only a no in so many words: what is missing, or misspelled, never makes anything less safe.
#[test]
fn certificates_are_accepted_unseen_in_the_words_of_other_tools() {
    for (name, value, insecure) in [
        ("PROXMOX_VALIDATE_CERTS", "false", true),
        ("PROXMOX_VALIDATE_CERTS", "no", true),
        ("PROXMOX_VALIDATE_CERTS", "true", false),
        ("PROXMOX_VALIDATE_CERTS", "nope", false),
        ("PROXMOX_VALIDATE_CERTS", "", false),
        ("TF_VAR_proxmox_insecure", "true", true),
        ("TF_VAR_proxmox_insecure", "false", false),
    ] {
        let variables = [("PROXMOX_VE_ENDPOINT", "pve"), ("PROXMOX_VE_API_TOKEN", WHOLE), (name, value)];
        let choice = chosen(&proxmox(&[], None), &variables).unwrap();
        assert_eq!(choice.certificates.load(&here()).unwrap() == Trust::Insecure, insecure, "{name}={value}");
        let told = choice.warnings.iter().any(|warning| warning.contains(name));
        assert_eq!(told, insecure, "{name}={value}: {:?}", choice.warnings);
    }
    // Another port than the one that is vouched for is another endpoint.
    let elsewhere = [
        ("PROXMOX_HOST", "pve.lan"),
        ("PROXMOX_PORT", "8443"),
        ("PROXMOX_USER", "ci@pve"),
        ("PROXMOX_TOKEN_ID", "y"),
        ("PROXMOX_TOKEN_SECRET", SECRET),
    ];
    assert!(chosen(&proxmox(&["https://pve.lan:8006"], None), &elsewhere).is_err());
    assert!(chosen(&proxmox(&["https://pve.lan:8443"], None), &elsewhere).is_ok());
}

/// Nothing of it is read: no case has a CA file and an unchecked certificate but the one that wants the file.
fn here() -> crate::trust::Folder {
    crate::trust::Folder::closed(std::path::Path::new(env!("CARGO_MANIFEST_DIR")))
}

fn granted(secret: &str, endpoint: &str, certificate: Certificate) -> talmox_trust::Grant {
    let endpoints = [Origin::of_api(endpoint).unwrap()].into();
    talmox_trust::Grant::Credential(talmox_trust::Credential {
        secret: secret.to_owned(),
        endpoints,
        certificate,
    })
}

#[test]
fn a_token_of_a_file_goes_where_the_person_allowed() {
    let described = proxmox(&["https://pve.lan:8006", "https://evil.example:8006"], Some("file:token"));
    let grants = Grants::new(vec![granted("file:token", "https://pve.lan:8006", Certificate::System)]);
    let choice = chosen_by(&described, &[], &grants, Beside::default()).unwrap();
    let asked: Vec<String> = choice.endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(asked, ["https://pve.lan:8006"], "the other endpoint is not asked");
    assert!(choice.credentials.check(&Endpoint::parse("evil.example").unwrap()).is_err());
    let other = proxmox(&["https://pve.lan:8006"], Some("file:other"));
    assert!(chosen_by(&other, &[], &grants, Beside::default()).is_err(), "another file is another token");
    let home = [("PROXMOX_VE_ENDPOINT", "https://pve.lan:8006")];
    assert!(chosen(&proxmox(&["https://pve.lan:8006"], Some("file:token")), &home).is_ok());
    let program = proxmox(&["https://pve.lan:8006"], Some("exec:[\"pass\", \"show\", \"hunter2\"]"));
    assert!(!told(&program, &home).contains("hunter2"));
}

#[test]
fn a_program_does_not_run_for_a_token_that_goes_nowhere() {
    let described = proxmox(&["https://pve.lan:8006"], Some("exec:[\"pass\"]"));
    let person = Person { grants: &Grants::default(), fingerprints: &[], ca_file: None };
    let ran = std::cell::Cell::new(false);
    let run = |_: &SecretRef| {
        ran.set(true);
        Ok(Secret { text: SecretString::from(WHOLE), beside: Beside::default() })
    };
    assert!(choose(&described, &Environment::of_table(&[]), &person, &run).is_err());
    assert!(!ran.get());
}

#[test]
fn a_token_of_sops_goes_to_the_endpoint_that_is_encrypted_beside_it() {
    let sops = |endpoint| proxmox(&[endpoint], Some("sops:a.sops.yaml#a.token"));
    let beside =
        |endpoint: &str| Beside { endpoint: Some(SecretString::from(endpoint)), ..Beside::default() };
    let none = Grants::default();
    let choice =
        chosen_by(&sops("https://pve.lan:8006"), &[], &none, beside("https://pve.lan:8006/")).unwrap();
    assert_eq!(choice.endpoints.len(), 1);
    let evil = chosen_by(&sops("https://evil.example:8006"), &[], &none, beside("https://pve.lan:8006"));
    assert!(evil.unwrap_err().contains("the endpoint beside the token is another"));
    let plain = Beside { is_plain: true, ..Beside::default() };
    let refused = chosen_by(&sops("https://pve.lan:8006"), &[], &none, plain).unwrap_err();
    assert!(refused.contains("is not encrypted, so anybody could have written it"), "{refused}");
    // Without an endpoint in the description, the one beside the token is where it goes.
    let unsaid = proxmox(&[], Some("sops:a.sops.yaml#a.token"));
    assert!(chosen_by(&unsaid, &[], &none, beside("https://pve.lan:8006")).is_ok());
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
fn the_description_narrows_what_is_trusted_and_never_widens_it() {
    let variables = |insecure: &'static str| {
        [("PROXMOX_VE_ENDPOINT", "pve"), ("PROXMOX_VE_API_TOKEN", WHOLE), ("PROXMOX_VE_INSECURE", insecure)]
    };
    let plain = proxmox(&[], None);
    let (one, other) = (Fingerprint::from([7; 32]), Fingerprint::from([8; 32]));
    let insecure = Proxmox { insecure: true, ..plain.clone() };
    let pinned = Proxmox { fingerprints: vec![one], insecure: true, ..plain.clone() };
    let authority = Proxmox { ca_file: Some("ca.pem".to_owned()), ..plain.clone() };
    let trust = |proxmox: &Proxmox, insecure| chosen(proxmox, &variables(insecure)).unwrap();
    for described in [&plain, &insecure, &authority] {
        let choice = trust(described, "");
        assert!(choice.certificates.is_system(), "{:?}", choice.certificates);
        assert_eq!(choice.certificates.load(&here()).unwrap(), Trust::System);
    }
    assert!(
        trust(&insecure, "false").warnings[0].contains("proxmox_insecure of the description is not obeyed")
    );
    assert_eq!(trust(&pinned, "").certificates.load(&here()).unwrap(), Trust::System.narrowed(vec![one]));
    assert_eq!(trust(&plain, "true").certificates.load(&here()).unwrap(), Trust::Insecure);
    assert_eq!(trust(&plain, "true").warnings.len(), 1);
    let missing = trust(&authority, "true").certificates.load(&here()).unwrap_err().to_string();
    assert!(missing.contains("ca.pem"), "the CA file of the description is what is checked then: {missing}");
    assert_eq!(trust(&pinned, "true").certificates.load(&here()).unwrap(), Trust::Fingerprints(vec![one]));
    // A flag of this run decides, and a description that names another fingerprint cannot be right.
    let environment = variables("");
    let typed = |proxmox: &Proxmox, fingerprints: &[Fingerprint]| {
        let person = Person { grants: &Grants::default(), fingerprints, ca_file: None };
        let never = |_: &SecretRef| Err(Failure::new("nothing is read"));
        choose(proxmox, &Environment::of_table(&environment), &person, &never)
    };
    let choice = typed(&insecure, &[one, other]).unwrap_or_else(|_| panic!("it fits"));
    assert_eq!(choice.certificates.load(&here()).unwrap(), Trust::Fingerprints(vec![one, other]));
    let choice = typed(&pinned, &[one, other]).unwrap_or_else(|_| panic!("it fits"));
    assert_eq!(choice.certificates.load(&here()).unwrap(), Trust::Fingerprints(vec![one]));
    assert!(typed(&pinned, &[other]).is_err());
}

#[test]
fn a_grant_says_how_the_certificate_is_checked() {
    let described = proxmox(&["https://a:8006", "https://b:8006"], Some("file:token"));
    let (one, other) = (Fingerprint::from([7; 32]), Fingerprint::from([8; 32]));
    let pinned = |fingerprint: Fingerprint| Certificate::Fingerprints([fingerprint].into());
    let both = Grants::new(vec![
        granted("file:token", "https://a:8006", pinned(one)),
        granted("file:token", "https://b:8006", pinned(other)),
    ]);
    let choice = chosen_by(&described, &[], &both, Beside::default()).unwrap();
    assert_eq!(choice.certificates.load(&here()).unwrap(), Trust::Fingerprints(vec![one, other]));
    // Endpoints whose grants differ in kind are not mixed: the laxer one would hold for both.
    let mixed = Grants::new(vec![
        granted("file:token", "https://a:8006", pinned(one)),
        granted("file:token", "https://b:8006", Certificate::Unchecked),
    ]);
    let choice = chosen_by(&described, &[], &mixed, Beside::default()).unwrap();
    assert_eq!(choice.endpoints, [Endpoint::parse("a").unwrap()]);
    assert_eq!(choice.certificates.load(&here()).unwrap(), Trust::Fingerprints(vec![one]));
}

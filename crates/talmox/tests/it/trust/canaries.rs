//! Secrets of the person in every place talmox reads them from: no verb shows one, in no format, however verbose.

use secrecy::ExposeSecret as _;
use talmox_secrets::SystemRandom;
use talmox_secrets::age::Identity;
use talmox_trust::Verb;

use crate::trust::lab::Stranger;
use crate::trust::matrix::words;

/// How each verb is made to say more, or to say it otherwise.
const FORMATS: [&[&str]; 3] = [&["-v"], &["-o", "json"], &["-v", "-o", "yaml"]];

/// A secret, and the name of where it is kept.
type Canaries = Vec<(&'static str, String)>;

async fn prepare(lines: &str) -> (Stranger, Canaries, Vec<(&'static str, String)>) {
    let stranger = Stranger::new("canaries", lines).await;
    let endpoint = stranger.remote.endpoint();
    let identity = Identity::generate(&mut SystemRandom).unwrap();
    let key = identity.to_text().expose_secret().to_owned();
    let own = stranger.token().rsplit('=').next().unwrap().to_owned();
    stranger.write("lab/token", &stranger.token());
    let plain = format!("a:\n  token: {}\n  endpoint: {endpoint}\n  other: CANARYSOPS01\n", stranger.token());
    stranger.write("plain.yaml", &plain);
    stranger.write("talenv.yaml", "KEPT: CANARYTALENV1\nNUMBER: 17\n");
    let recipient = identity.recipient().to_string();
    for (from, to) in [("plain.yaml", "lab/proxmox.sops.yaml"), ("talenv.yaml", "lab/talenv.sops.yaml")] {
        let (from, to) = (stranger.path(from).display().to_string(), stranger.path(to).display().to_string());
        stranger.run(&["secrets", "encrypt", &from, "--to", &to, "--age", &recipient], &[]).await.succeeded();
    }
    stranger.run(&["secrets", "generate", "--offline", "--age", &recipient], &[]).await.succeeded();
    let bundle = stranger.path("lab/secrets.sops.yaml").display().to_string();
    let keys = [("SOPS_AGE_KEY", key.as_str())];
    let opened = stranger.run(&["secrets", "decrypt", &bundle, "--stdout"], &keys).await.succeeded().stdout;
    let mut canaries: Canaries = vec![
        ("the token", own),
        ("the age key", key.clone()),
        ("another value of the token's file", "CANARYSOPS01".to_owned()),
        ("a variable of talenv", "CANARYTALENV1".to_owned()),
        ("a variable of the environment", "CANARYVARIABLE1".to_owned()),
        ("a password of the environment", "CANARYPASSWORD1".to_owned()),
    ];
    // Every secret of the bundle: keys and tokens are long texts.
    for line in opened.lines().filter(|line| !line.contains("crt:")) {
        if let Some((_, value)) = line.split_once(": ").filter(|(_, value)| value.len() > 20) {
            canaries.push(("a secret of the bundle", value.trim().trim_matches('"').to_owned()));
        }
    }
    let fingerprint = stranger.remote.server.hosts()[0].fingerprint.clone();
    let variables = vec![
        ("SOPS_AGE_KEY", key),
        ("PROXMOX_VE_ENDPOINT", endpoint),
        ("TALMOX_FINGERPRINT", fingerprint),
        ("PROXMOX_VE_API_TOKEN", stranger.token()),
        ("PROXMOX_VE_PASSWORD", "CANARYPASSWORD1".to_owned()),
        ("TALMOX_VAR_OWN", "CANARYVARIABLE1".to_owned()),
        ("RUST_BACKTRACE", "full".to_owned()),
        ("RUST_LOG", "trace".to_owned()),
    ];
    (stranger, canaries, variables)
}

/// What these verbs are for is to show configurations or secrets, or to write them.
fn shows_secrets(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::RenderConfig | Verb::RenderAll | Verb::SecretsDecrypt | Verb::Talosconfig | Verb::Kubeconfig
    )
}

/// Runs every verb with the token kept in one way; gives how often a secret was looked for.
async fn looks_with(token: &str) -> usize {
    let patches = "patches:\n  - |\n    machine:\n      sysctls: {a: \"${KEPT}\", \"k${OWN}\": \"1\", b: \"${NUMBER}\"}\n      unknown-${OWN}: ${KEPT}\n";
    let (stranger, canaries, variables) = prepare(&format!("proxmox_api_token: {token}\n{patches}")).await;
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut looks = 0;
    for verb in Verb::ALL.into_iter().filter(|verb| !shows_secrets(*verb)) {
        for format in FORMATS {
            let run = stranger.run(&[words(verb), format].concat(), &variables).await;
            for (kind, canary) in &canaries {
                let shown = run.stdout.contains(canary.as_str()) || run.stderr.contains(canary.as_str());
                assert!(!shown, "{kind} is shown by {} {format:?} with {token}", verb.words());
                looks += 1;
            }
            assert!(!run.stderr.contains("panicked"), "{}", verb.words());
        }
    }
    looks
}

#[tokio::test(flavor = "multi_thread")]
async fn no_verb_shows_a_secret_of_the_person() {
    let (sops, file, variable) = tokio::join!(
        looks_with("sops:proxmox.sops.yaml#a.token"),
        looks_with("file:token"),
        looks_with("env:PROXMOX_VE_API_TOKEN"),
    );
    println!("{} looks, 0 hits", sops + file + variable);
}

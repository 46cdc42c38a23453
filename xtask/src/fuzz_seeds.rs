//! `cargo xtask fuzz-seeds`: what the fuzz targets start from, beside the files in `fuzz/seeds`: files of this repository, and what
//! this program makes itself, like certificates and encrypted texts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use secrecy::ExposeSecret as _;
use talmox_machine::client::{
    ClientFile as _, Context, DEFAULT_LIFETIME, Kubeconfig, TalosRole, Talosconfig,
};
use talmox_machine::{Bundle, Input, Options, Role, SystemRandom, Time};
use talmox_secrets::age::{Identity, encrypt, encrypt_armored};
use talmox_secrets::sops::{self, Rule};
use talmox_types::support;

/// Opens what is encrypted for the targets; they read the same file.
const KEY: &str = include_str!("../../fuzz/key.txt");
const NOW: Time = Time::from_unix(1_790_000_000);
/// Larger files make slow inputs.
const LARGEST: usize = 64 * 1024;

pub fn command(mut args: impl Iterator<Item = String>) -> Result<String> {
    ensure!(args.next().is_none(), "fuzz-seeds takes no arguments");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seeds = Seeds { folder: root.join("fuzz/corpus"), written: 0 };
    let descriptions =
        yaml_files(&["crates/talmox-config/tests/faulty", "examples"].map(|name| root.join(name)))?;
    for text in &descriptions {
        seeds.write("reader", text.as_bytes())?;
        seeds.write("yaml", text.as_bytes())?;
    }
    machine(&mut seeds)?;
    encrypted(&mut seeds)?;
    Ok(format!("{} seeds in {}", seeds.written, seeds.folder.display()))
}

struct Seeds {
    folder: PathBuf,
    written: usize,
}

impl Seeds {
    /// Adds a seed to a target's corpus, under a name made of its bytes: the same seed is written once.
    fn write(&mut self, target: &str, bytes: &[u8]) -> Result<()> {
        let folder = self.folder.join(target);
        fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
        let name = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let path = folder.join(format!("seed-{name:016x}"));
        fs::write(&path, bytes).with_context(|| format!("could not write {}", path.display()))?;
        self.written += 1;
        Ok(())
    }
}

/// The texts of all YAML files in folders and those inside.
fn yaml_files(folders: &[PathBuf]) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let mut waiting = folders.to_vec();
    while let Some(folder) = waiting.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                // Some are faulty because they are no text.
                #[expect(clippy::disallowed_methods, reason = "files of this repository")]
                let text = fs::read_to_string(&path).ok().filter(|text| text.len() <= LARGEST);
                texts.extend(text);
            }
        }
    }
    Ok(texts)
}

/// Configurations, secrets and what people reach a cluster by.
fn machine(seeds: &mut Seeds) -> Result<()> {
    let mut client_files = Vec::new();
    for line in support::LINES.iter().filter(|line| line.talos.minor >= 12) {
        let bundle = Bundle::for_rehearsal(line.talos, NOW, &mut SystemRandom)?;
        let text = bundle.to_yaml();
        seeds.write("bundle", text.expose_secret().as_bytes())?;
        for role in [Role::ControlPlane, Role::Worker] {
            let input = Input {
                contract: line.talos,
                cluster_name: "test".to_owned(),
                endpoint: "https://10.0.0.1:6443".to_owned(),
                kubernetes: format!("v{}", line.default_kubernetes()),
                secrets: &bundle,
                options: Options { install_disk: Some("/dev/sda".to_owned()), ..Options::default() },
            };
            let config = input.generate(role)?.to_yaml();
            seeds.write("config", config.as_bytes())?;
            seeds.write("yaml", config.as_bytes())?;
            seeds.write("patch", config.as_bytes())?;
        }
        let talos = bundle.talos_client(&[TalosRole::Admin], NOW, DEFAULT_LIFETIME, &mut SystemRandom)?;
        let admin = bundle.kubernetes_admin(NOW, DEFAULT_LIFETIME, &mut SystemRandom)?;
        let context = Context { name: "test", endpoints: &["10.0.0.1".to_owned()], nodes: &[] };
        client_files.push((
            Talosconfig::new(&context, &bundle, &talos).to_yaml(),
            Kubeconfig::new("test", "https://10.0.0.1:6443", &bundle, &admin).to_yaml(),
        ));
        let pems = [talos.certificate.pem(), admin.certificate.pem(), talos.key.pem().expose_secret()];
        for pem in pems {
            seeds.write("certificate", pem.as_bytes())?;
        }
    }
    for (mine, other) in client_files.iter().zip(client_files.iter().rev()) {
        for (mine, other) in [(&mine.0, &other.0), (&mine.1, &other.1)] {
            let both = format!("{}\0{}", mine.expose_secret(), other.expose_secret());
            seeds.write("client_file", both.as_bytes())?;
        }
    }
    Ok(())
}

/// What the targets' key opens.
fn encrypted(seeds: &mut Seeds) -> Result<()> {
    let identity = Identity::parse(KEY.trim())?;
    let recipients = vec![identity.recipient().clone()];
    for length in [0, 100, 70_000] {
        let text = vec![b'x'; length];
        seeds.write("age", &encrypt(&text, &recipients, &mut talmox_secrets::SystemRandom)?)?;
        let armored = encrypt_armored(&text, &recipients, &mut talmox_secrets::SystemRandom)?;
        seeds.write("age", armored.as_bytes())?;
    }
    seeds.write("age", KEY.as_bytes())?;
    seeds.write("age", identity.recipient().to_string().as_bytes())?;
    let texts = [
        "token: a\nlist: [1, 2.5, true, null, \"\"]\n# a comment\nnested:\n  deeper: {a: b}\n",
        "a: |\n  lines\n  of text\nb_unencrypted: plain\n---\nsecond: 2026-01-31T12:00:00Z\n",
    ];
    for text in texts {
        let rule = Rule::for_recipients(recipients.clone());
        let file = sops::encrypt(text, &rule, "2026-01-31T12:00:00Z", &mut talmox_secrets::SystemRandom)?;
        seeds.write("sops", file.as_bytes())?;
    }
    Ok(())
}

//! `secrets.yaml`: read, checked, written.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};
use talmox_yaml::{Node, NodeKind, Span};
use zeroize::Zeroizing;

use super::{Authority, Bundle, Encryption, Rotation};
use crate::document::parse_nodes;
use crate::fault::{Fault, Faults, Path, Source, add};
use crate::pki::{Certificate, PrivateKey};
use crate::print::print;
use crate::value::{Map, Value};

impl Bundle {
    /// Reads `talosctl`'s `secrets.yaml` or talhelper's `talsecret.yaml`. What is wrong is told without telling secrets.
    pub fn parse(source: Source<'_>) -> Result<Self, Faults> {
        let nodes = parse_nodes(source).map_err(without_texts)?;
        let mut reader = Reader { source, faults: Vec::new(), more_faults: 0 };
        let bundle = match nodes.as_slice() {
            [node] => reader.bundle(node),
            _ => {
                reader.fault(Span::default(), &[], "a secrets bundle is one document");
                None
            }
        };
        match bundle {
            Some(bundle) if reader.faults.is_empty() => Ok(bundle),
            Some(_) | None => Err(Faults(reader.faults)),
        }
    }

    /// The bundle as `talosctl` writes it: all of the cluster's secrets. Authorities that are to come are in a section of our
    /// own.
    pub fn to_yaml(&self) -> SecretString {
        let text = |secret: &SecretString| Value::text(secret.expose_secret());
        let key = |key: &PrivateKey| Value::Text(STANDARD.encode(key.pem().expose_secret()));
        let pair = |authority: &Authority| {
            Map::new()
                .with("crt", STANDARD.encode(authority.certificate.pem()))
                .with("key", key(&authority.key))
        };
        let secrets = Map::new().with("bootstraptoken", text(&self.bootstrap_token));
        let secrets = match &self.encryption {
            Encryption::AesCbc(secret) => secrets.with("aescbcencryptionsecret", text(secret)),
            Encryption::Secretbox(secret) => secrets.with("secretboxencryptionsecret", text(secret)),
        };
        let cluster =
            Map::new().with("id", self.cluster_id.as_str()).with("secret", text(&self.cluster_secret));
        let certs = Map::new()
            .with("etcd", pair(&self.etcd))
            .with("k8s", pair(&self.kubernetes))
            .with("k8saggregator", pair(&self.aggregator))
            .with("k8sserviceaccount", Map::new().with("key", key(&self.service_account)))
            .with("os", pair(&self.os));
        let file = Map::new()
            .with("cluster", cluster)
            .with("secrets", secrets)
            .with("trustdinfo", Map::new().with("token", text(&self.trustd_token)))
            .with("certs", certs);
        let Rotation { os, kubernetes } = &self.rotation;
        let next =
            Map::new().with_some("k8s", kubernetes.as_ref().map(pair)).with_some("os", os.as_ref().map(pair));
        let file = if next.is_empty() { file } else { file.with("rotation", next) };
        SecretString::from(print(&Value::Map(file)))
    }
}

struct Reader<'a> {
    source: Source<'a>,
    faults: Vec<Fault>,
    more_faults: usize,
}

/// The keys a bundle may have.
const KNOWN: [(&[&str], &[&str]); 13] = [
    (&[], &["cluster", "secrets", "trustdinfo", "certs", "rotation"]),
    (&["cluster"], &["id", "secret"]),
    (&["secrets"], &["bootstraptoken", "aescbcencryptionsecret", "secretboxencryptionsecret"]),
    (&["trustdinfo"], &["token"]),
    (&["certs"], &["etcd", "k8s", "k8saggregator", "k8sserviceaccount", "os"]),
    (&["certs", "etcd"], &["crt", "key"]),
    (&["certs", "k8s"], &["crt", "key"]),
    (&["certs", "k8saggregator"], &["crt", "key"]),
    (&["certs", "k8sserviceaccount"], &["key"]),
    (&["certs", "os"], &["crt", "key"]),
    (&["rotation"], &["k8s", "os"]),
    (&["rotation", "k8s"], &["crt", "key"]),
    (&["rotation", "os"], &["crt", "key"]),
];

impl Reader<'_> {
    fn fault(&mut self, span: Span, path: &[&str], message: &str) {
        let (source, path) = (self.source, path.iter().fold(Path::default(), |path, key| path.key(key)));
        add(&mut self.faults, &mut self.more_faults, || Fault {
            place: source.place(span, &path),
            message: message.to_owned(),
        });
    }

    fn bundle(&mut self, root: &Node) -> Option<Bundle> {
        if !matches!(root.kind, NodeKind::Mapping(_)) {
            self.fault(
                root.place(),
                &[],
                "a secrets bundle is a mapping with cluster, secrets, trustdinfo and certs",
            );
            return None;
        }
        for (path, keys) in KNOWN {
            self.unknown_keys(root, path, keys);
        }
        // All of it is read before anything is given up, so that every fault is told at once.
        let cluster_id = self.text(root, &["cluster", "id"]);
        let cluster_secret = self.cluster_secret(root);
        let bootstrap_token = self.token(root, &["secrets", "bootstraptoken"]);
        let encryption = self.encryption(root);
        let trustd_token = self.token(root, &["trustdinfo", "token"]);
        let etcd = self.authority(root, "certs", "etcd");
        let kubernetes = self.authority(root, "certs", "k8s");
        let aggregator = self.authority(root, "certs", "k8saggregator");
        let service_account = self.key(root, &["certs", "k8sserviceaccount", "key"]);
        let os = self.authority(root, "certs", "os");
        let rotation = Rotation { os: self.next(root, "os"), kubernetes: self.next(root, "k8s") };
        Some(Bundle {
            cluster_id: cluster_id?.expose_secret().to_owned(),
            cluster_secret: cluster_secret?,
            bootstrap_token: bootstrap_token?,
            encryption: encryption?,
            trustd_token: trustd_token?,
            etcd: etcd?,
            kubernetes: kubernetes?,
            aggregator: aggregator?,
            service_account: service_account?,
            os: os?,
            rotation,
        })
    }

    fn unknown_keys(&mut self, root: &Node, path: &[&str], known: &[&str]) {
        let Some(node) = find(root, path) else { return };
        let NodeKind::Mapping(entries) = &node.kind else {
            if !node.is_null() {
                self.fault(node.place(), path, "a mapping is wanted here");
            }
            return;
        };
        for entry in entries {
            let key = entry.key.as_scalar().map(|scalar| scalar.text.as_str()).unwrap_or_default();
            // What SOPS adds to a file it encrypts.
            let sops = path.is_empty() && key == "sops";
            // The key is not named: whatever a description calls its secrets may be another file.
            if !known.contains(&key) && !sops {
                self.fault(entry.key.place(), path, "a secrets bundle has no such key");
            }
        }
    }

    fn text(&mut self, root: &Node, path: &[&str]) -> Option<SecretString> {
        let node = find(root, path);
        let text = node.and_then(Node::as_scalar).map(|scalar| scalar.text.as_str()).unwrap_or_default();
        let place = node.unwrap_or(root).place();
        if text.is_empty() {
            self.fault(place, path, "is missing");
            return None;
        }
        if text.starts_with("ENC[") {
            self.fault(place, path, "is encrypted; decrypt the file first");
            return None;
        }
        if text == crate::scalar::REDACTED {
            self.fault(
                place,
                path,
                "was masked when it was shown; the file with the secrets themselves is needed",
            );
            return None;
        }
        Some(SecretString::from(text))
    }

    fn place(root: &Node, path: &[&str]) -> Span {
        find(root, path).unwrap_or(root).place()
    }

    fn cluster_secret(&mut self, root: &Node) -> Option<SecretString> {
        let path = ["cluster", "secret"];
        let text = self.text(root, &path)?;
        let bytes = STANDARD.decode(text.expose_secret()).map(Zeroizing::new);
        if bytes.is_ok_and(|bytes| bytes.len() == 32) {
            return Some(text);
        }
        self.fault(Self::place(root, &path), &path, "32 bytes in base64 are wanted");
        None
    }

    fn token(&mut self, root: &Node, path: &[&str]) -> Option<SecretString> {
        let text = self.text(root, path)?;
        if text.expose_secret().split_once('.').is_some_and(|(id, rest)| !id.is_empty() && !rest.is_empty()) {
            return Some(text);
        }
        self.fault(Self::place(root, path), path, "a token has two parts with a dot between");
        None
    }

    fn encryption(&mut self, root: &Node) -> Option<Encryption> {
        let has =
            |key| find(root, &["secrets", key]).and_then(Node::as_scalar).is_some_and(|s| !s.text.is_empty());
        match (has("secretboxencryptionsecret"), has("aescbcencryptionsecret")) {
            (true, true) => {
                let message = "either secretboxencryptionsecret or aescbcencryptionsecret, not both";
                self.fault(Self::place(root, &["secrets"]), &["secrets"], message);
                None
            }
            (false, true) => self.text(root, &["secrets", "aescbcencryptionsecret"]).map(Encryption::AesCbc),
            _ => self.text(root, &["secrets", "secretboxencryptionsecret"]).map(Encryption::Secretbox),
        }
    }

    fn pem(&mut self, root: &Node, path: &[&str]) -> Option<SecretString> {
        let text = self.text(root, path)?;
        let bare: Zeroizing<String> =
            Zeroizing::new(text.expose_secret().chars().filter(|c| !c.is_ascii_whitespace()).collect());
        let decoded = STANDARD.decode(bare.as_bytes()).ok().map(Zeroizing::new);
        let pem = decoded.and_then(|bytes| std::str::from_utf8(&bytes).ok().map(SecretString::from));
        if pem.is_none() {
            self.fault(Self::place(root, path), path, "PEM in base64 is wanted");
        }
        pem
    }

    fn key(&mut self, root: &Node, path: &[&str]) -> Option<PrivateKey> {
        let pem = self.pem(root, path)?;
        PrivateKey::parse(pem)
            .map_err(|error| self.fault(Self::place(root, path), path, &error.to_string()))
            .ok()
    }

    /// An authority that is to come, if there is one.
    fn next(&mut self, root: &Node, name: &str) -> Option<Authority> {
        find(root, &["rotation", name]).filter(|node| !node.is_null())?;
        self.authority(root, "rotation", name)
    }

    fn authority(&mut self, root: &Node, section: &str, name: &str) -> Option<Authority> {
        let path = [section, name, "crt"];
        let certificate = self.pem(root, &path).and_then(|pem| {
            Certificate::parse(pem.expose_secret())
                .map_err(|error| self.fault(Self::place(root, &path), &path, &error.to_string()))
                .ok()
        });
        let key = self.key(root, &[section, name, "key"]);
        Some(Authority { certificate: certificate?, key: key? })
    }
}

/// The same faults without what parsers quote: the file may be another one.
fn without_texts(faults: Faults) -> Faults {
    let Faults(mut faults) = faults;
    for fault in &mut faults {
        "this is not YAML, or a key is there twice".clone_into(&mut fault.message);
    }
    Faults(faults)
}

fn find<'a>(root: &'a Node, path: &[&str]) -> Option<&'a Node> {
    path.iter().try_fold(root, |node, key| crate::document::top_level(node, key))
}

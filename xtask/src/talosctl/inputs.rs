//! Random inputs, as flags of `talosctl gen config` and as inputs of ours.

use std::collections::BTreeMap;

use talmox_machine::sample::Sampler;
use talmox_machine::{Bundle, Input, Options};
use talmox_types::{Contract, support};

/// What a config is made of.
pub(super) struct Drawn {
    pub contract: Contract,
    pub cluster_name: &'static str,
    pub endpoint: &'static str,
    pub kubernetes: String,
    pub options: Options,
}

/// Draws inputs for any contract a version of `talosctl` can make.
pub(super) fn draw(sampler: &mut Sampler, minor: u16) -> Drawn {
    let oldest = 8;
    let contract_minor =
        oldest + u16::try_from(sampler.below(usize::from(minor - oldest) + 1)).unwrap_or_default();
    let line = support::LINES.iter().find(|line| line.talos.minor == contract_minor);
    let kubernetes = line.map_or_else(|| "1.35.0".to_owned(), |line| line.default_kubernetes().to_string());
    Drawn {
        contract: Contract { major: 1, minor: contract_minor },
        cluster_name: sampler.one_of(&["base", "yes", "1.10", "a-b", "null", "0x10", "with space"]),
        endpoint: sampler.one_of(&[
            "https://base:6443",
            "https://[fd00::1]:6443",
            "https://10.0.0.1",
            "https://a.b.example/",
            "https://10.5.0.1:443",
        ]),
        kubernetes: if sampler.below(2) == 0 { kubernetes } else { format!("v{kubernetes}") },
        options: options(sampler),
    }
}

fn options(sampler: &mut Sampler) -> Options {
    let sans = ["10.0.0.1", "fd00::1", "a.example.com", "127.0.0.1", "on"];
    let mirrors = [
        ("docker.io", "https://mirror.example"),
        ("ghcr.io", "http://10.0.0.1:5000"),
        ("registry.k8s.io:443", "https://m.example/v2/k8s"),
        ("*", "https://all.example"),
    ];
    let mut registry_mirrors = BTreeMap::new();
    for (host, url) in mirrors {
        if sampler.below(4) == 0 {
            registry_mirrors.insert(host.to_owned(), vec![url.to_owned()]);
        }
    }
    let discovery = sampler.below(3) > 0;
    Options {
        additional_sans: (0..sampler.below(4)).map(|_| sampler.one_of(&sans).to_owned()).collect(),
        dns_domain: sampler.one_of(&["cluster.local", "example.com", "k8s"]).to_owned(),
        install_disk: Some(sampler.one_of(&["/dev/sda", "/dev/vda", "/dev/disk/by-id/x"]).to_owned()),
        install_image: Some(
            sampler.one_of(&["factory.example/nocloud-installer/abc:v1.13.0", "i:v1"]).to_owned(),
        ),
        registry_mirrors,
        discovery,
        // Without discovery it is refused.
        kubespan: (discovery && sampler.below(3) == 0).then_some(true),
        ..Options::default()
    }
}

impl Drawn {
    pub(super) fn input<'a>(&self, secrets: &'a Bundle) -> Input<'a> {
        Input {
            contract: self.contract,
            cluster_name: self.cluster_name.to_owned(),
            endpoint: self.endpoint.to_owned(),
            kubernetes: self.kubernetes.clone(),
            secrets,
            options: self.options.clone(),
        }
    }

    /// The same as arguments; the configs go to a folder.
    pub(super) fn arguments(&self, secrets: &str, folder: &str) -> Vec<String> {
        let options = &self.options;
        let mut arguments: Vec<String> = [
            "gen",
            "config",
            self.cluster_name,
            self.endpoint,
            "--with-docs=false",
            "--with-examples=false",
            "--with-secrets",
            secrets,
            "--output",
            folder,
            "--dns-domain",
            &options.dns_domain,
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--talos-version=v{}", self.contract));
        arguments.push(format!("--kubernetes-version={}", self.kubernetes));
        arguments.push(format!("--with-cluster-discovery={}", options.discovery));
        arguments.push(format!("--with-kubespan={}", options.kubespan.unwrap_or_default()));
        arguments.extend(options.install_disk.iter().map(|disk| format!("--install-disk={disk}")));
        arguments.extend(options.install_image.iter().map(|image| format!("--install-image={image}")));
        arguments.extend(options.additional_sans.iter().map(|san| format!("--additional-sans={san}")));
        for (host, urls) in &options.registry_mirrors {
            arguments.extend(urls.iter().map(|url| format!("--registry-mirror={host}={url}")));
        }
        arguments
    }
}

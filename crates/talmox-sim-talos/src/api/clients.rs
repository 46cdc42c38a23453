//! Files that let people in: kubeconfig, talosconfig.

use secrecy::ExposeSecret as _;
use talmox_machine::secrets::{Leaf, Purpose};
use talmox_machine::{Map, Value, print};
use talmox_proto::common::Data;
use talmox_proto::machine::{
    GenerateClientConfiguration, GenerateClientConfigurationRequest, GenerateClientConfigurationResponse,
};

use super::files::{archived, zipped};
use super::machine::run;
use super::{Asked, Handlers};
use crate::machine::certificates::authority;
use crate::machine::settings::{Settings, Signer};
use crate::nodes::Nodes;
use crate::wire::{ApiReply, Code, Status};

pub(super) const HANDLERS: Handlers = &[
    ("/machine.MachineService/Kubeconfig", kubeconfig),
    ("/machine.MachineService/GenerateClientConfiguration", generate),
];

/// How long a kubeconfig holds: a year.
const YEAR: i64 = 8760 * 3600;

type Reply = Result<ApiReply, Status>;

fn control_plane<'a>(nodes: &'a Nodes, asked: &Asked<'_>, what: &str) -> Result<&'a Settings, Status> {
    let run = run(nodes, asked)?;
    run.settings().filter(|_| run.is_control_plane()).ok_or_else(|| {
        Status::new(Code::Unimplemented, format!("{what} is only available on control plane nodes"))
    })
}

/// Certificate and key, in PEM.
fn issue(nodes: &mut Nodes, signer: &Signer, leaf: &Leaf, seconds: i64) -> Result<(String, String), Status> {
    let failed = || Status::new(Code::Internal, "failed to sign the certificate");
    let now = nodes.today();
    let authority = authority(signer).ok_or_else(failed)?;
    let pair =
        authority.issue(leaf, (now.plus(-10), now.plus(seconds)), &mut nodes.random).map_err(|_| failed())?;
    Ok((pair.certificate.pem().to_owned(), pair.key.pem().expose_secret().to_owned()))
}

fn encoded(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Signed on the spot, whether Kubernetes runs or not.
fn kubeconfig(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let settings = control_plane(nodes, asked, "kubeconfig")?.clone();
    let Some(signer) = &settings.kubernetes else {
        return Err(Status::new(Code::FailedPrecondition, "k8s API server CA config is not set"));
    };
    let leaf = Leaf {
        organizations: vec!["system:masters".to_owned()],
        common_name: Some("admin".to_owned()),
        purpose: Purpose::KubernetesClient,
    };
    let (certificate, key) = issue(nodes, signer, &leaf, YEAR)?;
    let name = &settings.cluster_name;
    let admin = format!("admin@{name}");
    let entry = |name: &str, key: &str, body: Map| {
        Value::List(vec![Value::Map(Map::new().with("name", name).with(key, body))])
    };
    let server = Map::new()
        .with("server", settings.endpoint.as_str())
        .with("certificate-authority-data", encoded(&settings.kubernetes_authorities().concat()));
    let user = Map::new()
        .with("client-certificate-data", encoded(&certificate))
        .with("client-key-data", encoded(&key));
    let context =
        Map::new().with("cluster", name.as_str()).with("namespace", "default").with("user", admin.as_str());
    let file = Map::new()
        .with("apiVersion", "v1")
        .with("kind", "Config")
        .with("clusters", entry(name, "cluster", server))
        .with("users", entry(&admin, "user", user))
        .with("contexts", entry(&admin, "context", context))
        .with("current-context", admin.as_str());
    let text = print(&Value::Map(file));
    let bytes = zipped(&archived("kubeconfig", text.as_bytes()));
    Ok(nodes.reply_all([Data { metadata: None, bytes }]))
}

/// Any role is taken, known or not, and none as well.
fn generate(nodes: &mut Nodes, asked: &Asked<'_>) -> Reply {
    let request: GenerateClientConfigurationRequest = asked.request()?;
    let settings = control_plane(nodes, asked, "generate client configuration")?.clone();
    let seconds = request.crt_ttl.map_or(0, |length| length.seconds);
    if seconds <= 0 {
        return Err(Status::new(Code::InvalidArgument, "crt_ttl should be positive"));
    }
    let Some(signer) = &settings.signer else {
        return Err(Status::new(Code::FailedPrecondition, "API CA config is not set"));
    };
    let leaf = Leaf { organizations: request.roles, ..Leaf::default() };
    let (certificate, key) = issue(nodes, signer, &leaf, seconds)?;
    let name = &settings.cluster_name;
    let endpoints: Vec<Value> =
        run(nodes, asked)?.network.ips().iter().map(|ip| Value::text(ip.to_string())).collect();
    let context = Map::new()
        .with("endpoints", Value::List(endpoints))
        .with("ca", encoded(&signer.certificate))
        .with("crt", encoded(&certificate))
        .with("key", encoded(&key));
    let file = Map::new()
        .with("context", name.as_str())
        .with("contexts", Value::Map(Map::new().with(name, Value::Map(context))));
    let message = GenerateClientConfiguration {
        metadata: None,
        ca: signer.certificate.clone().into_bytes(),
        crt: certificate.into_bytes(),
        key: key.into_bytes(),
        talosconfig: print(&Value::Map(file)).into_bytes(),
    };
    Ok(nodes.reply(&GenerateClientConfigurationResponse { messages: vec![message] }))
}

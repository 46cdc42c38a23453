//! What each verb may cause, if the person allows it: the table that the product obeys, the documents print and the
//! matrix test walks.

/// A way in which a description could reach beyond its own folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Reads files the description names outside its folder.
    Read,
    /// Writes files the description names outside its folder.
    Write,
    /// Uses variables of the environment.
    Variable,
    /// Runs the program that prints the token, and sends the token to the endpoint.
    Token,
    /// Runs `post_bootstrap`.
    Hook,
    /// Fetches from servers the description names.
    Fetch,
    /// Writes secrets for receivers that the description or a `.sops.yaml` names.
    Receive,
}

impl Cause {
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Write, Self::Variable, Self::Token, Self::Hook, Self::Fetch, Self::Receive];

    /// The heading of its column in the table of verbs.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Read => "reads outside",
            Self::Write => "writes outside",
            Self::Variable => "variables",
            Self::Token => "token, `exec:`",
            Self::Hook => "`post_bootstrap`",
            Self::Fetch => "fetches",
            Self::Receive => "receivers",
        }
    }
}

/// Every verb of the command line, down to the last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Init,
    Validate,
    Check,
    Plan,
    Apply,
    Status,
    Health,
    Destroy,
    Adopt,
    AdoptCluster,
    Explain,
    RenderVm,
    RenderConfig,
    RenderAll,
    RenderInstallImage,
    Diff,
    Talosconfig,
    Kubeconfig,
    Output,
    SecretsGenerate,
    SecretsShow,
    SecretsCheck,
    SecretsEncrypt,
    SecretsDecrypt,
    SecretsRotateClient,
    SecretsRotateCa,
    EtcdStatus,
    EtcdMembers,
    EtcdSnapshot,
    EtcdDefrag,
    EtcdRestore,
    SchematicId,
    SchematicUrl,
    SchematicShow,
    Convert,
    TemplateBuild,
    TemplateList,
    TemplateShow,
    TemplatePrune,
    HostDrain,
    HostReturn,
    Trust,
    Sim,
    Schema,
    Completion,
    Man,
    Version,
}

use Cause::{Fetch, Hook, Read, Receive, Token, Variable, Write};

impl Verb {
    pub const ALL: [Self; 47] = [
        Self::Init,
        Self::Validate,
        Self::Check,
        Self::Plan,
        Self::Apply,
        Self::Status,
        Self::Health,
        Self::Destroy,
        Self::Adopt,
        Self::AdoptCluster,
        Self::Explain,
        Self::RenderVm,
        Self::RenderConfig,
        Self::RenderAll,
        Self::RenderInstallImage,
        Self::Diff,
        Self::Talosconfig,
        Self::Kubeconfig,
        Self::Output,
        Self::SecretsGenerate,
        Self::SecretsShow,
        Self::SecretsCheck,
        Self::SecretsEncrypt,
        Self::SecretsDecrypt,
        Self::SecretsRotateClient,
        Self::SecretsRotateCa,
        Self::EtcdStatus,
        Self::EtcdMembers,
        Self::EtcdSnapshot,
        Self::EtcdDefrag,
        Self::EtcdRestore,
        Self::SchematicId,
        Self::SchematicUrl,
        Self::SchematicShow,
        Self::Convert,
        Self::TemplateBuild,
        Self::TemplateList,
        Self::TemplateShow,
        Self::TemplatePrune,
        Self::HostDrain,
        Self::HostReturn,
        Self::Trust,
        Self::Sim,
        Self::Schema,
        Self::Completion,
        Self::Man,
        Self::Version,
    ];

    /// What this verb may cause if the person allows it. Without a grant it causes none of these.
    pub const fn causes(self) -> &'static [Cause] {
        match self {
            // `plan` runs no hook and writes nothing, but refuses what `apply` would be refused: before anything is built.
            Self::Plan | Self::Apply => &[Read, Write, Variable, Token, Hook, Fetch, Receive],
            Self::Status
            | Self::Health
            | Self::Diff
            | Self::HostDrain
            | Self::HostReturn
            | Self::Adopt
            | Self::Destroy
            | Self::EtcdStatus
            | Self::EtcdMembers
            | Self::EtcdDefrag
            | Self::RenderConfig
            | Self::RenderAll => &[Read, Variable, Token],
            Self::EtcdSnapshot => &[Read, Write, Variable, Token, Receive],
            Self::Talosconfig => &[Read, Token],
            Self::Check
            | Self::Output
            | Self::Explain
            | Self::TemplateList
            | Self::TemplateShow
            | Self::TemplatePrune => &[Token],
            Self::TemplateBuild => &[Token, Fetch],
            Self::SecretsGenerate => &[Read, Write, Token, Receive],
            Self::SecretsRotateCa => &[Read, Write, Variable],
            Self::Validate | Self::Convert => &[Read, Variable],
            Self::SecretsShow | Self::SecretsCheck | Self::SecretsRotateClient | Self::Kubeconfig => &[Read],
            Self::AdoptCluster => &[Token, Receive],
            Self::Init | Self::SecretsEncrypt => &[Receive],
            Self::SchematicUrl => &[Fetch],
            Self::RenderVm
            | Self::RenderInstallImage
            | Self::SecretsDecrypt
            | Self::EtcdRestore
            | Self::SchematicId
            | Self::SchematicShow
            | Self::Trust
            | Self::Sim
            | Self::Schema
            | Self::Completion
            | Self::Man
            | Self::Version => &[],
        }
    }

    /// What a person types.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Validate => "validate",
            Self::Check => "check",
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Status => "status",
            Self::Health => "health",
            Self::Destroy => "destroy",
            Self::Adopt => "adopt",
            Self::AdoptCluster => "adopt cluster",
            Self::Explain => "explain",
            Self::RenderVm => "render vm",
            Self::RenderConfig => "render config",
            Self::RenderAll => "render all",
            Self::RenderInstallImage => "render install-image",
            Self::Diff => "diff",
            Self::Talosconfig => "talosconfig",
            Self::Kubeconfig => "kubeconfig",
            Self::Output => "output",
            Self::SecretsGenerate => "secrets generate",
            Self::SecretsShow => "secrets show",
            Self::SecretsCheck => "secrets check",
            Self::SecretsEncrypt => "secrets encrypt",
            Self::SecretsDecrypt => "secrets decrypt",
            Self::SecretsRotateClient => "secrets rotate-client",
            Self::SecretsRotateCa => "secrets rotate-ca",
            Self::EtcdStatus => "etcd status",
            Self::EtcdMembers => "etcd members",
            Self::EtcdSnapshot => "etcd snapshot",
            Self::EtcdDefrag => "etcd defrag",
            Self::EtcdRestore => "etcd restore",
            Self::SchematicId => "schematic id",
            Self::SchematicUrl => "schematic url",
            Self::SchematicShow => "schematic show",
            Self::Convert => "convert talhelper",
            Self::TemplateBuild => "template build",
            Self::TemplateList => "template list",
            Self::TemplateShow => "template show",
            Self::TemplatePrune => "template prune",
            Self::HostDrain => "host drain",
            Self::HostReturn => "host return",
            Self::Trust => "trust",
            Self::Sim => "sim",
            Self::Schema => "schema",
            Self::Completion => "completion",
            Self::Man => "man",
            Self::Version => "version",
        }
    }
}

/// The table of verbs as the documents have it: a row for each verb that may cause anything.
pub fn table() -> String {
    let headings: Vec<&str> = Cause::ALL.iter().map(|cause| cause.heading()).collect();
    let mut text = format!("| verb | {} |\n|---{}|\n", headings.join(" | "), "|---".repeat(headings.len()));
    for verb in Verb::ALL.into_iter().filter(|verb| !verb.causes().is_empty()) {
        let marks: Vec<&str> =
            Cause::ALL.iter().map(|cause| if verb.causes().contains(cause) { "yes" } else { "" }).collect();
        text.push_str(&format!("| `{}` | {} |\n", verb.words(), marks.join(" | ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_stands_in_the_list_once() {
        let mut words: Vec<&str> = Verb::ALL.iter().map(|verb| verb.words()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Verb::ALL.len());
    }
}

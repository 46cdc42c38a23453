//! talosconfig and kubeconfig.

use secrecy::ExposeSecret as _;
use talmox_machine::client::{
    ClientCertificate, ClientError, ClientFile as _, Conflict, Context, DEFAULT_LIFETIME, Kubeconfig, Rename,
    TalosRole, Talosconfig,
};
use talmox_machine::pki::KeyKind;
use talmox_machine::{Bundle, SystemRandom};

use crate::{NOW, bundle, source};

fn talos_client() -> ClientCertificate {
    bundle().talos_client(&[TalosRole::Admin], NOW, DEFAULT_LIFETIME, &mut SystemRandom).unwrap()
}

fn talosconfig(name: &str) -> Talosconfig {
    let endpoints = ["10.0.0.1".to_owned()];
    Talosconfig::new(&Context { name, endpoints: &endpoints, nodes: &[] }, bundle(), &talos_client())
}

fn kubeconfig() -> Kubeconfig {
    let admin = bundle().kubernetes_admin(NOW, DEFAULT_LIFETIME, &mut SystemRandom).unwrap();
    Kubeconfig::new("test", "https://10.0.0.1:6443", bundle(), &admin)
}

/// A bundle whose Talos authority is that of another cluster.
fn other_cluster() -> Bundle {
    let mut other = bundle().clone();
    other.os = bundle().kubernetes.clone();
    other
}

#[test]
fn certificates_follow_their_authority_and_end_in_a_year() {
    let client = talos_client();
    assert_eq!(client.key.kind(), KeyKind::Ed25519);
    assert!(client.certificate.belongs_to(&client.key) && !client.certificate.is_authority());
    assert_eq!(client.certificate.not_after(), NOW.plus(DEFAULT_LIFETIME));
    assert!(client.certificate.not_before() < NOW);
    let none = bundle().talos_client(&[], NOW, DEFAULT_LIFETIME, &mut SystemRandom);
    assert_eq!(none.map(|_| ()).unwrap_err(), ClientError::NoRole);
}

#[test]
fn a_talosconfig_has_the_keys_talosctl_writes() {
    let text = talosconfig("test").to_yaml();
    let keys: Vec<&str> = text.expose_secret().lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(
        keys,
        [
            "context",
            "contexts",
            "    test",
            "        endpoints",
            "            - 10.0.0.1",
            "        ca",
            "        crt",
            "        key"
        ]
    );
}

#[test]
fn a_context_whose_name_is_taken_gets_another_and_becomes_the_current_one() {
    let existing = "context: old\ncontexts:\n  old: {endpoints: [x], cluster: kept}\n  test: {endpoints: []}\nextra: kept\n";
    let mut file = Talosconfig::parse(source("config", existing)).unwrap();
    assert_eq!(
        file.merge(&talosconfig("test")),
        [Rename { from: "test".to_owned(), to: "test-1".to_owned() }]
    );
    assert_eq!(file.current(), Some("test-1"));
    assert_eq!(
        file.merge(&talosconfig("test")),
        [Rename { from: "test".to_owned(), to: "test-2".to_owned() }]
    );
    let text = file.to_yaml().expose_secret().to_owned();
    assert!(text.contains("cluster: kept") && text.contains("extra: kept"), "nothing is lost");
    assert_eq!(Talosconfig::parse(source("config", &text)).unwrap(), file);
}

#[test]
fn renewing_never_piles_up_contexts() {
    let mut file = Talosconfig::parse(source("config", "")).unwrap();
    assert!(file.renew(&talosconfig("test")).is_empty());
    let before = file.certificate("test").unwrap();
    assert!(file.renew(&talosconfig("test")).is_empty());
    assert_eq!(file.contexts(), ["test"]);
    assert_ne!(file.certificate("test").unwrap(), before);
    // The same name for another cluster is not the same context.
    let other = Talosconfig::new(
        &Context { name: "test", endpoints: &[], nodes: &[] },
        &other_cluster(),
        &talos_client(),
    );
    assert_eq!(file.renew(&other).len(), 1);
    assert_eq!(file.contexts().len(), 2);
    // And the one that got a number is found again.
    assert_eq!(file.counterpart(&other), Some("test-1"));
    assert!(file.renew(&other).is_empty());
    assert_eq!((file.contexts().len(), file.current()), (2, Some("test-1")));
}

/// Who works with another cluster at the moment must not find their next command at this one.
#[test]
fn renewing_leaves_the_current_context_alone() {
    let mut talos = Talosconfig::parse(source("config", "context: \"\"\ncontexts: {}\n")).unwrap();
    talos.renew(&talosconfig("test"));
    assert_eq!(talos.current(), Some("test"), "a context that is added is the current one");
    talos.set_current("other");
    talos.renew(&talosconfig("test"));
    assert_eq!(talos.current(), Some("other"));

    let mut kubernetes = Kubeconfig::parse(source("config", "")).unwrap();
    kubernetes.renew(&kubeconfig());
    assert_eq!(kubernetes.current(), Some("admin@test"));
    kubernetes.set_current("other");
    kubernetes.renew(&kubeconfig());
    assert_eq!(kubernetes.current(), Some("other"));
}

#[test]
fn removing_takes_out_what_is_ours_and_nothing_else() {
    let existing = "context: old\ncontexts:\n  old: {endpoints: [x]}\n";
    let mut file = Talosconfig::parse(source("config", existing)).unwrap();
    assert_eq!(file.remove(&talosconfig("test")), None);
    file.renew(&talosconfig("test"));
    assert_eq!(file.remove(&talosconfig("test")).as_deref(), Some("test"));
    assert_eq!((file.contexts(), file.current()), (vec!["old"], None));

    let existing = "apiVersion: v1\nkind: Config\nclusters:\n- name: other\n  cluster: {server: x}\nusers: []\ncontexts:\n- name: other\n  context: {cluster: other}\n";
    let mut file = Kubeconfig::parse(source("config", existing)).unwrap();
    let before = file.to_yaml().expose_secret().to_owned();
    assert_eq!(file.remove(&kubeconfig()), None);
    file.renew(&kubeconfig());
    assert_eq!(file.remove(&kubeconfig()).as_deref(), Some("admin@test"));
    assert_eq!((file.contexts(), file.current()), (vec!["other"], None));
    let after = file.to_yaml().expose_secret().to_owned();
    assert_eq!(after.replace("current-context: \"\"\n", ""), before);
}

#[test]
fn renewing_a_kubeconfig_changes_what_is_ours_and_nothing_else() {
    let existing = "apiVersion: v1\nkind: Config\nclusters: []\nusers:\n- name: admin@test\n  user: {token: abc}\ncontexts:\n- name: admin@test\n  context: {cluster: gone, user: admin@test}\n";
    let mut file = Kubeconfig::parse(source("config", existing)).unwrap();
    assert_eq!(file.counterpart(&kubeconfig()), None, "a context without a certificate is somebody else's");
    assert!(!file.renew(&kubeconfig()).is_empty());
    let context = file.counterpart(&kubeconfig()).unwrap().to_owned();
    assert_eq!(context, "admin@test-1");
    let before = file.certificate(&context).unwrap();
    assert!(file.leads_alike(&context, &kubeconfig()));
    assert!(file.renew(&kubeconfig()).is_empty());
    assert_eq!((file.contexts().len(), file.current()), (2, Some(context.as_str())));
    assert_ne!(file.certificate(&context).unwrap(), before);
    assert!(file.to_yaml().expose_secret().contains("token: abc"));
}

#[test]
fn a_kubeconfig_is_merged_without_touching_other_clusters() {
    let existing = "apiVersion: v1\nkind: Config\npreferences: {colors: true}\nclusters:\n- name: test\n  cluster: {server: 'https://elsewhere'}\nusers: []\ncontexts: []\ncurrent-context: none\n";
    let mut file = Kubeconfig::parse(source("config", existing)).unwrap();
    let renamed = |from: &str, to: &str| Rename { from: from.to_owned(), to: to.to_owned() };
    let admin = renamed("admin@test", "admin@test-1");
    assert_eq!(
        file.merge(&kubeconfig(), Conflict::Rename),
        [renamed("test", "test-1"), admin.clone(), admin]
    );
    assert_eq!(file.current(), Some("admin@test-1"));
    let text = file.to_yaml().expose_secret().to_owned();
    assert!(
        text.contains("https://elsewhere")
            && text.contains("colors: true")
            && text.contains("cluster: test-1")
    );
    assert_eq!(file.certificate("admin@test-1").unwrap().not_after(), NOW.plus(DEFAULT_LIFETIME));
}

#[test]
fn an_overwritten_kubeconfig_keeps_its_names() {
    let mut file = kubeconfig();
    let before = file.certificate("admin@test").unwrap();
    assert!(file.merge(&kubeconfig(), Conflict::Overwrite).is_empty());
    assert_eq!(file.contexts(), ["admin@test"]);
    assert_ne!(file.certificate("admin@test").unwrap(), before);
    let same = file.clone();
    assert!(file.merge(&same, Conflict::Rename).is_empty(), "what says the same is no conflict");
}

#[test]
fn other_files_are_refused() {
    for text in ["[]", "kind: Pod", "contexts: 5", "a: [", "text"] {
        assert!(Talosconfig::parse(source("x", text)).is_err(), "{text:?}");
        assert!(Kubeconfig::parse(source("x", text)).is_err(), "{text:?}");
    }
}

/// As with `talosctl`: user and context follow the name their cluster got, whatever other names are free.
#[test]
fn users_and_contexts_are_named_after_their_cluster() {
    let text =
        kubeconfig().to_yaml().expose_secret().replace("https://10.0.0.1:6443", "https://10.0.0.2:6443");
    let other = Kubeconfig::parse(source("other", &text)).unwrap();
    let mut merged = kubeconfig();
    let taken = text.replace("    cluster: test", "    cluster: x").replace("name: test", "name: test-1");
    merged.merge(&Kubeconfig::parse(source("taken", &taken)).unwrap(), Conflict::Overwrite);
    let renames = merged.merge(&other, Conflict::Rename);
    let names: Vec<&str> = renames.iter().map(|rename| rename.to.as_str()).collect();
    assert_eq!(names, ["test-2", "admin@test-2", "admin@test-2"]);
    assert_eq!(merged.current(), Some("admin@test-2"));
}

/// What was added is taken back, with the entries only it needs; what somebody changed, and everything else, stays.
#[test]
fn only_what_is_as_it_was_added_is_taken_back() {
    let foreign = "apiVersion: v1\nkind: Config\nclusters:\n- {name: test, cluster: {server: x}}\nusers: []\ncontexts: []\n";
    let mut kubernetes = Kubeconfig::parse(source("config", foreign)).unwrap();
    let before = kubernetes.clone();
    kubernetes.renew(&kubeconfig());
    assert_eq!(kubernetes.contexts().len(), 1);
    assert_eq!(kubernetes.current(), kubernetes.contexts().first().copied());
    let mut changed = kubernetes.to_yaml().expose_secret().replace("namespace: default", "namespace: mine");
    // The certificate may be an earlier one.
    assert!(kubernetes.take_back(&kubeconfig()).is_some());
    assert_eq!((kubernetes.contexts().len(), kubernetes.current()), (0, None));
    kubernetes.set_current("");
    let mut emptied = before;
    emptied.set_current("");
    assert_eq!(kubernetes, emptied, "another cluster's entry stays");
    let mut file = Kubeconfig::parse(source("config", &changed)).unwrap();
    assert_eq!(file.take_back(&kubeconfig()), None);
    changed = changed
        .replace("namespace: mine", "namespace: default")
        .replace("kind: Config", "kind: Config\npreferences: {}");
    file = Kubeconfig::parse(source("config", &changed)).unwrap();
    assert!(file.take_back(&kubeconfig()).is_some());

    let mut talos =
        Talosconfig::parse(source("config", "context: other\ncontexts:\n  other: {endpoints: [x]}\n"))
            .unwrap();
    talos.renew(&talosconfig("test"));
    talos.set_current("other");
    let changed = talos.to_yaml().expose_secret().replace("- 10.0.0.1", "- 10.0.0.9");
    assert_eq!(talos.take_back(&talosconfig("test")).as_deref(), Some("test"));
    assert_eq!((talos.contexts(), talos.current()), (vec!["other"], Some("other")));
    let mut file = Talosconfig::parse(source("config", &changed)).unwrap();
    assert_eq!(file.take_back(&talosconfig("test")), None);
}

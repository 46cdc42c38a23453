//! Features × privileges × what looks at them: what `check` says is missing is what a plan refuses, and with the rest no
//! run is refused by Proxmox.
//!
//! Each cluster is brought up as people do it, by the token that `check --setup` grants.

use std::collections::BTreeSet;

use talmox_exec::observe;
use talmox_exec::preflight::{
    Account, Certificates, Facts, Preflight, Report, Told, Trusted, Verdict, collect, report, setup,
};
use talmox_plan::{Nonce, Observed, Plan, Request, plan};
use talmox_pve::client::{BoxFuture, Client, Endpoint};
use talmox_test::bed::{Bed, described, healthy};
use talmox_test::{Lab, TOKEN};
use talmox_types::Fingerprint;
use talmox_types::desired::Desired;

use crate::preflight::paste::{each_left_out, paste};

/// What descriptions make use of, beside what every cluster does.
const FEATURES: [(&str, &str); 5] = [
    ("own template", ""),
    ("configuration by drive", "config_delivery: cidata"),
    ("configuration by address", "config_delivery: url\nnode_network: dhcp"),
    ("boots the image", "proxmox_vm_defaults: {boot: import}"),
    ("boots the ISO", "proxmox_vm_defaults: {boot: iso}"),
];

/// A privilege and where it is missing.
type Missing = BTreeSet<(String, String)>;

struct NoCertificates;

impl Certificates for NoCertificates {
    fn of<'a>(&'a self, _endpoint: &'a Endpoint) -> BoxFuture<'a, Told<Fingerprint>> {
        Box::pin(async { Err("not looked at".to_owned()) })
    }
}

async fn facts(desired: &Desired, client: &Client) -> Facts {
    let (each, now) = ([], || 1_767_225_700);
    let (certificates, trusted) = (&NoCertificates, Trusted::Fingerprints);
    collect(&Preflight { desired, client, each: &each, certificates, trusted, now: &now }).await
}

/// The lines for the token that a lab has.
async fn lines(bed: &Bed) -> String {
    let (user, token) = TOKEN.split_once('!').unwrap();
    let account = Account { user: user.to_owned(), token: token.to_owned(), expire: 0, exists: true };
    setup(&bed.desired, &facts(&bed.desired, &bed.lab.root()).await, &account)
}

/// A lab whose token has what these lines grant and nothing else.
async fn granted(settings: &str, lines: &str) -> Bed {
    let bed = bed(settings);
    bed.lab.world(|world| world.access.acl.clear());
    paste(&bed.lab.root(), lines).await;
    bed
}

fn bed(settings: &str) -> Bed {
    let bed = Bed::in_lab(Lab::one_host(90).with_nodes(), pooled((1, 1), settings));
    bed.reserve();
    bed
}

fn pooled((controllers, workers): (usize, usize), settings: &str) -> Desired {
    let pool = "talmox-lab";
    let described = described(controllers, workers, settings);
    let proxmox = talmox_types::desired::Proxmox {
        pool: Some(talmox_types::PoolName::parse(pool).unwrap()),
        ..described.proxmox.clone()
    };
    Desired { proxmox, ..described }
}

/// What the problems of a report name.
fn named(report: &Report) -> Missing {
    let bad = report.checks.iter().filter(|check| check.verdict == Verdict::Problem);
    bad.filter_map(|check| missing(&check.message)).collect()
}

fn refused(plan: &Plan) -> Missing {
    plan.refusals.iter().filter_map(|refusal| missing(&refusal.problem)).collect()
}

/// `VM.Audit is missing on /vms: to see …`
fn missing(text: &str) -> Option<(String, String)> {
    let (privilege, rest) = text.split_once(" is missing on ")?;
    let path = rest.split([':', ' ']).next()?;
    Some((privilege.to_owned(), path.to_owned()))
}

async fn is_needed(settings: &str, left: &str, what: &str) {
    is_refused_by_proxmox(&granted(settings, left).await, &healthy(), what).await;
}

/// Carries a plan out that was made with every right: Proxmox itself refuses what the table says is missing.
async fn is_refused_by_proxmox(bed: &Bed, request: &Request, what: &str) {
    let rights = observe(&bed.lab.root(), &bed.desired).await.unwrap().rights;
    let observed = Observed { rights, ..bed.look(request).await };
    let made = plan(&bed.desired, &observed, request, &Nonce::new(1));
    assert_eq!(refused(&made), Missing::new(), "{what}");
    let ended = bed.carry_out(&made, request, 9).await;
    let calls = bed.lab.calls();
    let refused = calls.writes().any(|call| call.status() == Some(403));
    let tasks = bed.lab.world(|world| world.task_records());
    let failed = tasks.iter().any(|task| task.status.contains("Permission check failed"));
    // A configuration drive that could not be removed again is not sent in the first place.
    let asked = ended
        .as_ref()
        .is_err_and(|error| error.contains("Datastore.Allocate ") && !error.contains(" is missing on "));
    assert!(refused || failed || asked, "{what}: {ended:?}\n{calls}");
}

#[tokio::test(start_paused = true)]
async fn what_check_misses_is_what_a_plan_refuses_and_nothing_else_is_refused() {
    for (feature, settings) in FEATURES {
        let whole = lines(&bed(settings)).await;
        let first = granted(settings, &whole).await;
        let told = named(&report(&first.desired, &facts(&first.desired, &first.lab.client()).await));
        assert_eq!(told, Missing::new(), "{feature}\n{whole}");
        if let Err(error) = first.converge(&healthy(), 1).await {
            panic!("{feature}: {error}\n{whole}");
        }
        let variants = each_left_out(&whole);
        let mut refusals = 0;
        for (what, left) in variants.iter().filter(|(what, _)| what.contains(' ')) {
            let bed = granted(settings, left).await;
            let client = bed.lab.client();
            let told = named(&report(&bed.desired, &facts(&bed.desired, &client).await));
            let observed = observe(&client, &bed.desired).await.unwrap();
            let made = plan(&bed.desired, &observed, &healthy(), &Nonce::new(1));
            assert_eq!(told, refused(&made), "{feature}, without {what}: {:#?}", made.refusals);
            let before = bed.lab.calls().writes().count();
            let ended = bed.converge(&healthy(), 1).await;
            if told.is_empty() {
                ended.unwrap_or_else(|error| panic!("{feature}, without {what}: {error}"));
                continue;
            }
            refusals += 1;
            let error = ended.unwrap_err();
            assert!(error.contains(" is missing on "), "{feature}, without {what}: {error}");
            assert_eq!(bed.lab.calls().writes().count(), before, "{feature}, without {what}");
            if !what.ends_with(".Audit") {
                is_needed(settings, left, &format!("{feature}, without {what}")).await;
            }
        }
        assert!(refusals >= 16, "{feature}: {refusals} of {}", variants.len());
    }
}

/// What is changed on a cluster that stands: a name, the description then, and what is asked for.
fn changes() -> Vec<(&'static str, (usize, usize), &'static str, Request)> {
    let restarting = || Request { allow_reboot: true, ..healthy() };
    let worker = talmox_types::NodeName::parse("worker-1").unwrap();
    vec![
        ("memory", (1, 2), "proxmox_vm_defaults: {memory: 6144}", restarting()),
        ("processors", (1, 2), "proxmox_vm_defaults: {cores: 3}", restarting()),
        ("a larger disk", (1, 2), "proxmox_vm_defaults: {disk_size: 120}", healthy()),
        ("tags", (1, 2), "proxmox_vm_defaults: {tags: [lab]}", healthy()),
        ("one node more", (1, 3), "", healthy()),
        ("one node fewer", (1, 1), "", Request { prune: true, ..healthy() }),
        ("one built anew", (1, 2), "", Request { replace: [worker].into(), ..healthy() }),
    ]
}

/// The same on day two: a plan refuses what the change needs, and nothing that it does not.
#[tokio::test(start_paused = true)]
async fn what_a_change_lacks_is_refused_and_nothing_else() {
    let stood = |lines: &str| {
        let lines = lines.to_owned();
        async move {
            let mut bed = bed("");
            bed.desired = pooled((1, 2), "");
            bed.lab.world(|world| world.access.acl.clear());
            paste(&bed.lab.root(), &lines).await;
            bed.converge(&healthy(), 1).await.unwrap_or_else(|error| panic!("{error}\n{lines}"));
            bed
        }
    };
    let whole = lines(&bed("")).await;
    // Pools and users are there.
    let with_less = |bed: &Bed, left: &str| {
        bed.lab.world(|world| world.access.acl.clear());
        let is_about_rights = |line: &&str| line.starts_with("pveum role ") || line.starts_with("pveum acl ");
        let left: String = left.lines().filter(is_about_rights).map(|line| format!("{line}\n")).collect();
        let root = bed.lab.root();
        async move { paste(&root, &left).await }
    };
    for (change, nodes, settings, request) in changes() {
        let mut refusals = Vec::new();
        for (what, left) in each_left_out(&whole).iter().filter(|(what, _)| what.contains(' ')) {
            let about = format!("{change}, without {what}");
            let mut bed = stood(&whole).await;
            with_less(&bed, left).await;
            bed.desired = pooled(nodes, settings);
            let client = bed.lab.client();
            let told = named(&report(&bed.desired, &facts(&bed.desired, &client).await));
            let lacking = refused(&bed.plan(&request).await);
            assert!(lacking.is_subset(&told), "{about}: check says {told:?}, plan {lacking:?}");
            let before = bed.lab.calls().writes().count();
            let ended = bed.converge(&request, 2).await;
            if lacking.is_empty() {
                ended.unwrap_or_else(|error| panic!("{about}: {error}"));
                continue;
            }
            let error = ended.unwrap_err();
            assert!(error.contains(" is missing on "), "{about}: {error}");
            assert_eq!(bed.lab.calls().writes().count(), before, "{about}");
            refusals.push(what.clone());
            if !what.ends_with(".Audit") {
                is_refused_by_proxmox(&bed, &request, &about).await;
            }
        }
        assert!((1..30).contains(&refusals.len()), "{change}: {refusals:?}");
        println!("{change}: {}", refusals.join(", "));
    }
}

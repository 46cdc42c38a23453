//! `talmox talosconfig` and `talmox kubeconfig`

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use secrecy::ExposeSecret as _;
use talmox_machine::client::{
    ClientFile, Context, DEFAULT_LIFETIME, Kubeconfig, Rename, TalosRole, Talosconfig,
};
use talmox_machine::pki::Certificate;
use talmox_machine::{Bundle, Source, SystemRandom, Time};
use talmox_secrets::Overwrite;
use talmox_types::Realm;
use talmox_types::desired::Desired;

use super::configs::{Workshop, now, open_secrets, read_text};
use super::shared::boxed;
use super::standing::Standing;
use crate::args;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::private_file;
use crate::screens::Ending;
use crate::trust::Folder;
use talmox_trust::Verb;

/// A certificate is renewed when less than this share of its life is left: a year's has four months then, time enough
/// for whoever runs this now and then.
const RENEWED_AT: i64 = 3;
/// By how much a certificate must outlive another to be worth a renewal. Of an authority that ends soon itself both end with it.
const WORTH_IT: i64 = 86_400;

pub(super) fn talosconfig(args: &args::Talosconfig, printer: &Printer) -> anyhow::Result<()> {
    let workshop = Workshop::open(Verb::Talosconfig, &args.making, printer)?;
    let made = workshop.talosconfig(now(), printer)?;
    place(&args.file, &made, default_talosconfig, printer)
}

pub(super) fn kubeconfig(args: &args::Kubeconfig, printer: &Printer) -> anyhow::Result<()> {
    let folder = Folder::open(&args.description.file, &args.description.trust)?;
    let (_, desired) = boxed(&folder, printer)?;
    let secrets = open_secrets(&desired, &folder, None, printer)?;
    if let Some(remark) = Standing::default().remark(&secrets.bundle, Realm::Kubernetes) {
        printer.say(&remark);
    }
    let client = secrets.bundle.kubernetes_admin(now(), DEFAULT_LIFETIME, &mut SystemRandom)?;
    let made = Kubeconfig::new(desired.name.as_str(), &desired.network.endpoint, &secrets.bundle, &client);
    place(&args.file, &made, default_kubeconfig, printer)
}

/// The files people reach one cluster by.
pub(super) struct Clients {
    talosconfig: Talosconfig,
    kubeconfig: Kubeconfig,
}

/// Where they go.
pub(super) enum Home {
    /// Where `talosctl` and `kubectl` of this user look.
    User,
    /// A simulated cluster is no business of theirs.
    Simulation(PathBuf),
}

impl Home {
    fn paths(&self) -> Option<(PathBuf, PathBuf)> {
        match self {
            Self::User => Some((default_talosconfig()?, default_kubeconfig()?)),
            Self::Simulation(folder) => Some((folder.join("talosconfig"), folder.join("kubeconfig"))),
        }
    }
}

impl Clients {
    /// With new certificates, which machines that stand like this take. `endpoints` are the control planes.
    pub(super) fn make(
        desired: &Desired,
        bundle: &Bundle,
        standing: Standing,
        endpoints: &[String],
    ) -> anyhow::Result<Self> {
        let (name, now) = (desired.name.as_str(), now());
        let signing = standing.signing(bundle);
        let talos = signing.talos_client(&[TalosRole::Admin], now, DEFAULT_LIFETIME, &mut SystemRandom)?;
        let admin = signing.kubernetes_admin(now, DEFAULT_LIFETIME, &mut SystemRandom)?;
        // The first alone: a command without `--nodes` must not meet the whole cluster.
        let nodes = &endpoints[..endpoints.len().min(1)];
        Ok(Self {
            talosconfig: Talosconfig::new(&Context { name, endpoints, nodes }, bundle, &talos),
            kubeconfig: Kubeconfig::new(name, &desired.network.endpoint, bundle, &admin),
        })
    }

    /// Both as files of their own in a folder; gives their paths.
    pub(super) fn write_into(&self, folder: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
        let (talosconfig, kubeconfig) = (folder.join("talosconfig"), folder.join("kubeconfig"));
        write_new(&talosconfig, &self.talosconfig, true, &Printer::silent())?;
        write_new(&kubeconfig, &self.kubeconfig, true, &Printer::silent())?;
        Ok((talosconfig, kubeconfig))
    }

    /// Whether the cluster's contexts are there and good as they are.
    pub(super) fn are_good(&self, home: &Home) -> bool {
        home.paths().is_none_or(|(talosconfig, kubeconfig)| {
            is_good(&talosconfig, &self.talosconfig) && is_good(&kubeconfig, &self.kubeconfig)
        })
    }

    /// Adds or renews the cluster's contexts. Of contexts that are good as they are nothing is said.
    pub(super) fn merge(&self, home: &Home, printer: &Printer) -> anyhow::Result<()> {
        let Some((talosconfig, kubeconfig)) = home.paths() else { return Ok(()) };
        if !is_good(&talosconfig, &self.talosconfig) {
            merge(&talosconfig, &self.talosconfig, Merging::Unasked, printer)?;
        }
        if !is_good(&kubeconfig, &self.kubeconfig) {
            merge(&kubeconfig, &self.kubeconfig, Merging::Unasked, printer)?;
        }
        Ok(())
    }

    /// Takes the place of contexts that were made with the authority before; those that are not there stay away.
    pub(super) fn succeed(&self, old: &Self, home: &Home) -> anyhow::Result<()> {
        let Some((talosconfig, kubeconfig)) = home.paths() else { return Ok(()) };
        succeed(&talosconfig, &old.talosconfig, &self.talosconfig)?;
        succeed(&kubeconfig, &old.kubeconfig, &self.kubeconfig)
    }

    /// Certificates of this cluster's contexts that end soon. Every `apply` renews them long before.
    pub(super) fn ending(&self, home: &Home, now: Time) -> Vec<Ending> {
        let Some((talosconfig, kubeconfig)) = home.paths() else { return Vec::new() };
        let talos = ending_in(&talosconfig, &self.talosconfig, now, "talmox talosconfig --merge");
        let kubernetes = ending_in(&kubeconfig, &self.kubeconfig, now, "talmox kubeconfig --merge");
        talos.into_iter().chain(kubernetes).collect()
    }

    /// The contexts of this cluster that are there, as `CONTEXT in FILE`.
    pub(super) fn found(&self, home: &Home) -> Vec<String> {
        let Some((talosconfig, kubeconfig)) = home.paths() else { return Vec::new() };
        let talos = context_in(&talosconfig, &self.talosconfig).map(|name| (name, talosconfig));
        let kubernetes = context_in(&kubeconfig, &self.kubeconfig).map(|name| (name, kubeconfig));
        let both = talos.into_iter().chain(kubernetes);
        both.map(|(name, path)| format!("{name} in {}", path.display())).collect()
    }

    /// Takes out those that say only what `apply` wrote, and says so.
    pub(super) fn take_back(&self, home: &Home, printer: &Printer) -> anyhow::Result<()> {
        let Some((talosconfig, kubeconfig)) = home.paths() else { return Ok(()) };
        take_back(&talosconfig, &self.talosconfig, printer)?;
        take_back(&kubeconfig, &self.kubeconfig, printer)
    }

    /// Takes them out, and says so.
    pub(super) fn remove(&self, home: &Home, printer: &Printer) -> anyhow::Result<()> {
        let Some((talosconfig, kubeconfig)) = home.paths() else { return Ok(()) };
        remove(&talosconfig, &self.talosconfig, printer)?;
        remove(&kubeconfig, &self.kubeconfig, printer)
    }
}

/// A file that can be read as what it should be.
fn opened<C: ClientFile>(path: &Path) -> Option<C> {
    let text = read_text(path).ok()?;
    C::parse(Source { name: &path.display().to_string(), text: &text }).ok()
}

fn context_in<C: ClientFile>(path: &Path, made: &C) -> Option<String> {
    Some(same_cluster(&opened::<C>(path)?, made)?.0)
}

fn ending_in<C: ClientFile>(path: &Path, made: &C, now: Time, renews: &str) -> Option<Ending> {
    let (context, certificate, _) = same_cluster(&opened::<C>(path)?, made)?;
    let what = format!("the certificate of context {context} in {}", path.display());
    Ending::soon(what, certificate.not_after(), now, format!("talmox apply renews it, or {renews}"))
}

/// Whether it has the cluster's context, which does the same and has a while to live.
fn is_good<C: ClientFile>(path: &Path, made: &C) -> bool {
    opened::<C>(path)
        .and_then(|file| same_cluster(&file, made))
        .is_some_and(|(_, certificate, does_alike)| does_alike && !is_due(&certificate, made, now()))
}

fn succeed<C: ClientFile>(path: &Path, old: &C, new: &C) -> anyhow::Result<()> {
    let Some(mut file) = opened::<C>(path) else { return Ok(()) };
    if file.succeed(old, new).is_some() {
        private_file::write(path, file.to_yaml().expose_secret(), Overwrite::Replace)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(())
}

fn take_back<C: ClientFile>(path: &Path, made: &C, printer: &Printer) -> anyhow::Result<()> {
    drop_while(path, |file: &mut C| file.take_back(made), printer)
}

fn remove<C: ClientFile>(path: &Path, made: &C, printer: &Printer) -> anyhow::Result<()> {
    drop_while(path, |file: &mut C| file.remove(made), printer)
}

/// Drops one context after the other, until there is none left that is to go.
fn drop_while<C: ClientFile>(
    path: &Path,
    drop_next: impl Fn(&mut C) -> Option<String>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let Some(mut file) = opened::<C>(path) else { return Ok(()) };
    let name = path.display();
    while let Some(context) = drop_next(&mut file) {
        private_file::write(path, file.to_yaml().expose_secret(), Overwrite::Replace)
            .with_context(|| format!("could not write {name}"))?;
        printer.say(&format!("removed context {context} from {name}"));
    }
    Ok(())
}

/// The context of the same cluster, its certificate, and whether it does all that the new one would.
fn same_cluster<C: ClientFile>(file: &C, made: &C) -> Option<(String, Certificate, bool)> {
    let context = file.counterpart(made)?;
    Some((context.to_owned(), file.certificate(context)?, file.does_alike(context, made)))
}

/// Prints it, writes it, or merges it, as was asked for.
fn place<C: ClientFile>(
    args: &args::ClientFile,
    made: &C,
    usual: impl FnOnce() -> Option<PathBuf>,
    printer: &Printer,
) -> anyhow::Result<()> {
    if args.merge {
        let path = args.to.clone().or_else(usual).ok_or_else(|| {
            Failure::new("there is no home folder to merge into").with_hint("--to FILE names a file")
        })?;
        return merge(&path, made, Merging::Asked { force: args.force }, printer);
    }
    match &args.to {
        None => printer.data(made.to_yaml().expose_secret()),
        Some(path) => write_new(path, made, args.force, printer),
    }
}

fn write_new<C: ClientFile>(path: &Path, made: &C, force: bool, printer: &Printer) -> anyhow::Result<()> {
    let name = path.display();
    if !force && path.symlink_metadata().is_ok() {
        return Err(Failure::new(format!("{name} is there already; nothing was written"))
            .with_hint("--merge adds to it, --force replaces it")
            .into());
    }
    let overwrite = if force { Overwrite::Replace } else { Overwrite::Refuse };
    private_file::write(path, made.to_yaml().expose_secret(), overwrite)
        .with_context(|| format!("could not write {name}"))?;
    printer.say(&format!("wrote {name}, context {}", made.current().unwrap_or_default()));
    Ok(())
}

/// Who wants a context to be there.
#[derive(Clone, Copy, PartialEq)]
enum Merging {
    /// The user, who means to work with it, as with `talosctl config merge`; `force` replaces a certificate that is still good.
    Asked { force: bool },
    /// An `apply` on the way: a context that is there already is not what the user works with just because it was renewed.
    Unasked,
}

fn merge<C: ClientFile>(path: &Path, made: &C, merging: Merging, printer: &Printer) -> anyhow::Result<()> {
    let name = path.display().to_string();
    let text = if path.exists() { read_text(path)? } else { String::new() };
    let mut file = C::parse(Source { name: &name, text: &text }).map_err(|faults| {
        Failure::new(format!("{name} cannot be merged into, and was left as it is:\n{faults}"))
    })?;
    let same = same_cluster(&file, made);
    if let Some((context, certificate, true)) = &same
        && merging != (Merging::Asked { force: true })
        && !is_due(certificate, made, now())
    {
        let ends = certificate.not_after();
        printer.say(&format!("{name} has context {context}, good until {ends}; nothing was written"));
        return Ok(());
    }
    let before = file.current().map(str::to_owned);
    let renames = file.renew(made);
    let context = file.counterpart(made).or(file.current()).unwrap_or_default().to_owned();
    if matches!(merging, Merging::Asked { .. }) {
        file.set_current(&context);
    }
    private_file::write(path, file.to_yaml().expose_secret(), Overwrite::Replace)
        .with_context(|| format!("could not write {name}"))?;
    let what = if same.is_some() { "renewed" } else { "added" };
    let became_current = before.as_deref() != Some(&context) && file.current() == Some(&context);
    let and = if became_current { ", and made it the current one" } else { "" };
    printer.say(&format!("{what} context {context} in {name}{and}"));
    for Rename { from, to } in &renames {
        printer.say(&format!("{from} was taken by something else, so this one is called {to}"));
    }
    Ok(())
}

/// Whether a certificate is to be renewed by what was made: in time for its life, and in any case where people are told that it ends
/// soon and that this renews it.
fn is_due<C: ClientFile>(certificate: &Certificate, made: &C, now: Time) -> bool {
    let successor = made.current().and_then(|context| made.certificate(context));
    let lives_longer = successor
        .is_some_and(|successor| successor.not_after().unix() - certificate.not_after().unix() > WORTH_IT);
    near_its_end(certificate, now) || lives_longer && Ending::is_soon(certificate.not_after(), now)
}

/// Whether little of a certificate's life is left, or none.
fn near_its_end(certificate: &Certificate, now: Time) -> bool {
    let life = certificate.not_after().unix() - certificate.not_before().unix();
    let left = certificate.not_after().unix() - now.unix();
    left.saturating_mul(RENEWED_AT) < life
}

#[expect(clippy::disallowed_methods, reason = "variables of other tools, read as they are")]
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var(name).ok().filter(|value| !value.is_empty()).map(PathBuf::from)
}

pub(super) fn default_talosconfig() -> Option<PathBuf> {
    let home = || variable("TALOS_HOME").or_else(|| Some(variable("HOME")?.join(".talos")));
    variable("TALOSCONFIG").or_else(|| Some(home()?.join("config")))
}

/// `KUBECONFIG` may name several files; the first is the one that is written to.
fn default_kubeconfig() -> Option<PathBuf> {
    let listed = variable("KUBECONFIG")
        .and_then(|list| std::env::split_paths(&list).find(|path| !path.as_os_str().is_empty()));
    listed.or_else(|| Some(variable("HOME")?.join(".kube/config")))
}

#[cfg(test)]
mod tests {
    use talmox_types::Contract;

    use super::*;

    #[test]
    fn a_certificate_is_renewed_in_the_last_third_of_its_life() {
        let start = Time::from_unix(1_790_000_000);
        let bundle = Bundle::generate(Contract::new(1, 13), start, &mut SystemRandom).unwrap();
        let life = 300 * 86_400;
        let client = bundle.talos_client(&[TalosRole::Admin], start, life, &mut SystemRandom).unwrap();
        for (days, renewed) in [(0, false), (199, false), (201, true), (299, true), (301, true)] {
            let now = start.plus(days * 86_400);
            assert_eq!(near_its_end(&client.certificate, now), renewed, "{days}");
        }
    }

    #[test]
    fn a_certificate_people_are_told_of_is_renewed_if_that_helps() {
        const DAY: i64 = 86_400;
        let start = Time::from_unix(1_790_000_000);
        let bundle = Bundle::generate(Contract::new(1, 13), start, &mut SystemRandom).unwrap();
        let living = |days: i64| {
            bundle.talos_client(&[TalosRole::Admin], start, days * DAY, &mut SystemRandom).unwrap()
        };
        let made = |days: i64| {
            let context = Context { name: "lab", endpoints: &[], nodes: &[] };
            Talosconfig::new(&context, &bundle, &living(days))
        };
        for (days, successor, due) in [(10, 365, true), (29, 365, true), (31, 365, false), (10, 10, false)] {
            let certificate = living(days).certificate;
            assert_eq!(is_due(&certificate, &made(successor), start), due, "{days} {successor}");
        }
    }
}

//! When certificates end, and what to do before that and after.

use talmox_machine::Time;
use talmox_types::Realm;

use super::Inside;
use crate::commands::configs::now;
use crate::failure::Failure;
use crate::screens::Ending;

/// What is left once an authority has ended: only the time of those who look at it says that it has.
const TURN_BACK: &str = "with its clock before that day, and this computer's, a machine believes it again";

impl Inside<'_> {
    /// Why no machine lets anybody in: the authority of Talos ended, and there is none that takes its place.
    pub(in crate::commands) fn shut_out(&self) -> Option<Failure> {
        let known = self.known().ok()?;
        let bundle = &known.secrets.bundle;
        let ended = bundle.os.certificate.not_after();
        if ended >= now() || bundle.next(Realm::Talos).is_some() {
            return None;
        }
        let what = format!("the Talos authority ended {}: no machine lets anybody in any more", day(ended));
        let rotate = self.job.command("secrets rotate-ca --talos");
        Some(
            Failure::new(what)
                .with_hint(format!(
                    "VMs can still be looked after: {}",
                    self.job.command("apply --until vms")
                ))
                .with_hint(format!("{TURN_BACK}; then {rotate}, and talmox apply")),
        )
    }

    /// When the first of the cluster's certificates ends that nobody renews by itself.
    pub(super) fn certificates_end(&self) -> Option<Time> {
        let known = self.known().ok()?;
        let bundle = &known.secrets.bundle;
        let authorities = [&bundle.os, &bundle.kubernetes, &bundle.etcd, &bundle.aggregator];
        authorities.into_iter().map(|authority| authority.certificate.not_after()).min()
    }

    /// What of the cluster's authorities and of this user's certificates ends soon.
    pub(super) fn ending(&self, now: Time) -> Vec<Ending> {
        let Ok(known) = self.known() else { return Vec::new() };
        let bundle = &known.secrets.bundle;
        let remedy = |realm: Realm| match bundle.next(realm) {
            Some(_) => "another is to take its place: talmox apply goes on with that".to_owned(),
            // Machines let nobody in by it any more who could give them another.
            None if bundle.present(realm).certificate.not_after() < now => {
                format!(
                    "it is too late for talmox secrets rotate-ca, unless clocks are turned back: {TURN_BACK}"
                )
            }
            None => {
                let command = self.job.command(&format!("secrets rotate-ca --{}", realm.word()));
                format!("everything it signed ends with it; before that: {command}, then talmox apply")
            }
        };
        let of_etcd = "everything it signed ends with it, and talmox does not replace it; keep a snapshot: "
            .to_owned()
            + &self.job.command("etcd snapshot");
        let of_proxy = "everything it signed ends with it, and talmox does not replace it; another comes from talosctl gen \
                        secrets: put its certs.k8saggregator into the bundle, then talmox apply"
            .to_owned();
        let authorities = [
            ("the Talos authority", &bundle.os, remedy(Realm::Talos)),
            ("the Kubernetes authority", &bundle.kubernetes, remedy(Realm::Kubernetes)),
            ("the etcd authority", &bundle.etcd, of_etcd),
            ("the authority of Kubernetes' front proxy", &bundle.aggregator, of_proxy),
        ];
        let soon = authorities.into_iter().filter_map(|(name, authority, remedy)| {
            Ending::soon(name, authority.certificate.not_after(), now, remedy)
        });
        let mut soon: Vec<Ending> = soon.collect();
        soon.extend(self.clients().map(|clients| clients.ending(&self.home(), now)).unwrap_or_default());
        soon
    }
}

/// `2036-11-02`.
pub(super) fn day(time: Time) -> String {
    let text = time.to_string();
    text.split('T').next().unwrap_or(&text).to_owned()
}

//! Templates that are built from images: for nodes that need one, for their own sake, and what may go.

mod build;
mod prune;
mod site;

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::VmConfig;
use talmox_types::desired::{Template, TemplateRef};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{Digest16, HostName, StorageId};

use super::ids::Ids;
use super::{Draft, Planner};
use crate::{
    Effect, ExpectedTemplate, Intent, NamedTemplate, NoteKind, Observed, OwnTemplate, Step, StepId,
    TemplateSource, TemplateState, image_digest, named_templates, own_templates, settings_digest,
    wanted_templates,
};

pub(super) use build::volume;
pub(super) use site::{NoSite, Site, file_storage, find as find_site};

/// What is known of templates while a plan is made.
pub(super) struct Templates {
    own: Vec<OwnTemplate>,
    /// What each reference of the description means, looked up once for all nodes.
    named: BTreeMap<TemplateRef, Vec<NamedTemplate>>,
    ids: Ids,
    built: BTreeMap<Key, Built>,
}

/// One template for each image and storage; of a storage that is not shared, on each host.
type Key = (Digest16, StorageId, Option<HostName>);

/// A template that this plan makes or finishes.
#[derive(Clone)]
pub(super) struct Built {
    pub source: TemplateSource,
    /// What it will look like.
    pub config: VmConfig,
    /// The step after which it can be cloned.
    pub done: StepId,
}

impl Templates {
    pub(super) fn new(desired: &talmox_types::desired::Desired, observed: &Observed) -> Self {
        let references: BTreeSet<&TemplateRef> =
            desired.nodes.iter().filter_map(|node| node.vm.template.as_ref()).collect();
        let named = references.into_iter().map(|wanted| (wanted.clone(), named_templates(observed, wanted)));
        Self {
            own: own_templates(observed),
            named: named.collect(),
            ids: Ids::for_templates(desired, observed),
            built: BTreeMap::new(),
        }
    }

    /// What a reference means, usable or not.
    pub(super) fn named(&self, wanted: &TemplateRef) -> &[NamedTemplate] {
        self.named.get(wanted).map_or(&[], Vec::as_slice)
    }

    /// Templates of ours that are made from this image and can be cloned.
    pub(super) fn ready(&self, wanted: &Template) -> impl Iterator<Item = &OwnTemplate> {
        let digest = image_digest(wanted);
        self.own.iter().filter(move |own| own.state == TemplateState::Ready && own.mark.image == digest)
    }

    fn at(&self, digest: &Digest16, site: &Site, state: TemplateState) -> Option<&OwnTemplate> {
        self.own.iter().find(|own| {
            (own.mark.image == *digest || sabotaged(Defect::OtherTemplateUsed))
                && own.state == state
                && own.storage.as_ref() == Some(&site.disk)
                && (site.shared || own.host == site.host)
        })
    }
}

fn key(digest: Digest16, site: &Site) -> Key {
    (digest, site.disk.clone(), (!site.shared).then(|| site.host.clone()))
}

impl Planner<'_> {
    /// Plans every template of the description on every host that may carry VMs.
    pub(super) fn templates(&mut self) {
        if self.is_blind(None) {
            return;
        }
        if self.wait_for_templates_in_flight() {
            // Approved with the plan, so that one run is enough whatever is found then.
            self.plan.later.push(Intent {
                node: None,
                step: "build-template".to_owned(),
                effect: Effect::Create,
                reason: "unless it turns out to be there already".to_owned(),
            });
            return;
        }
        for template in wanted_templates(self.desired) {
            let hosts = match super::place::allowed_hosts(self.desired, self.observed) {
                Ok(hosts) => hosts,
                Err(no) => return self.refuse(None, no.problem, no.choices),
            };
            let (mut sites, mut reasons) = (Vec::new(), Vec::new());
            for host in &hosts {
                match find_site(self.observed, host, &template) {
                    Ok(site) => sites.push(site),
                    Err(no) => reasons.push(no.reason().to_owned()),
                }
            }
            if sites.is_empty() {
                let problem =
                    format!("there is no place for the template {}: {}", template.name, reasons.join("; "));
                self.refuse(
                    None,
                    problem,
                    vec!["name other storages for it, or give one of these the content".to_owned()],
                );
                continue;
            }
            for reason in reasons {
                self.note(None, NoteKind::Placement, format!("{} is left out: {reason}", template.name));
            }
            for site in sites {
                self.ensure_template(&template, &site);
            }
        }
    }

    /// Plans a template where there is none, and changes one that differs.
    fn ensure_template(&mut self, template: &Template, site: &Site) {
        let digest = image_digest(template);
        match self.templates.at(&digest, site, TemplateState::Ready).cloned() {
            Some(own) => self.configure_template(template, &own),
            None => {
                self.build_template(template, site);
            }
        }
    }

    fn configure_template(&mut self, template: &Template, own: &OwnTemplate) {
        let settings = settings_digest(template);
        if own.mark.settings == settings {
            return;
        }
        let Some(seen) = self.observed.guests.get(&own.mark.vmid).and_then(crate::Guest::seen) else {
            return;
        };
        let set = build::with_addresses(build::options(template), &seen.next);
        let delete = build::superfluous(&seen.next, &set);
        let mark = talmox_types::TemplateMark { settings, ..own.mark.clone() };
        let changes = build::changes(&seen.next, &set, &delete);
        let (name, host) = (own.name.clone(), own.host.clone());
        let expected = ExpectedTemplate { name, host, mark: own.mark.clone() };
        let step = Step::ConfigureTemplate { template: expected, set, delete, mark };
        let draft = Draft::new(None, step, "its description has changed", Effect::ChangeLive);
        self.push(Draft { part: Some(own.mark.vmid.to_string()), changes, ..draft });
    }
}

//! How a command gets to Proxmox: which endpoint, whose credentials, which certificates.
//!
//! ```text
//!  description ─┐
//!  environment ─┴─ choose() ─▶ Choice ─▶ Session { client, .. }
//!                  pure        endpoints, credentials, trust, and which source gave each
//! ```
//!
//! With `--simulate` the world is served by this very process, and neither is asked.

mod ask;
mod certificate;
mod certificates;
mod choose;
mod count;
mod environment;
mod hosts;
mod images;
pub(crate) mod secret;
pub(crate) mod visit;
mod ways;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use talmox_exec::Factories;
use talmox_exec::preflight::Trusted;
use talmox_pve::client::{Client, Credentials, Endpoint, HttpsTransport, Settings, Transport, Trust};
use talmox_types::ClusterName;
use talmox_types::desired::{Desired, TemplateRef};

use crate::args::{Connection, Simulate};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::simulate::{self, Simulated};
use crate::trust::Folder;
pub(crate) use ask::{allow_typed, token_needs};
pub(crate) use certificate::ShownCertificates;
pub(crate) use certificates::ca_file;
use choose::Choice;
use count::Counted;
pub(crate) use ways::Ways;

/// A way to Proxmox that is open.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Where images come from.
    pub(crate) images: Factories,
    /// How the endpoints' certificates are vouched for.
    pub(crate) trusted: Trusted,
    credentials: Credentials,
    counted: Arc<Counted>,
    simulated: Option<Simulated>,
}

impl Session {
    /// Opens the way a command was told to take. `named` are templates beside those of the description that must be there:
    /// a simulated Proxmox has them.
    pub(crate) async fn open(
        (desired, named): (&Desired, &[TemplateRef]),
        folder: &Folder,
        connection: &Connection,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        if connection.simulate == Simulate::Off {
            only_for_simulations(connection)?;
            return Self::real(desired, folder, connection, printer).await;
        }
        // The world is large, and so is what waits for it.
        let simulated = Box::pin(simulate::open((desired, named), connection, printer)).await?;
        printer.say(&format!("{}\n", simulated.banner(folder.description())));
        Self::simulated(simulated)
    }

    /// A simulated Proxmox that is not made to fit anything: what it has is to be chosen from.
    pub(crate) async fn open_simulated(
        name: &ClusterName,
        connection: &Connection,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        let opening = simulate::open_as_it_is(name, connection, printer);
        Self::simulated(Box::pin(opening).await?)
    }

    /// Proxmox itself, as description, environment and grants say.
    async fn real(
        desired: &Desired,
        folder: &Folder,
        connection: &Connection,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        let choice = ask::choose(desired, folder, connection, printer).await?;
        for warning in &choice.warnings {
            printer.say(warning);
        }
        for said in choice.said.iter().filter(|_| printer.is_verbose()) {
            printer.say(said);
        }
        let Choice { endpoints, credentials, certificates, .. } = choice;
        let trusted = certificates.in_words();
        let images = images::real(folder.granted())?;
        Self::new(endpoints, credentials, certificates.load(folder)?, trusted, (images, None))
    }

    fn simulated(simulated: Simulated) -> anyhow::Result<Self> {
        let endpoints: Result<Vec<Endpoint>, _> =
            simulated.endpoints().iter().map(|text| Endpoint::parse(text)).collect();
        let credentials = Credentials::token(simulated.token())?;
        let trust = Trust::Authorities(simulated.authority().to_owned());
        let trusted = Trusted::Authority("the simulator".to_owned());
        let images = match simulated.factory() {
            Some(factory) => images::simulated(&factory)?,
            None => images::none(),
        };
        Self::new(endpoints?, credentials, trust, trusted, (images, Some(simulated)))
    }

    fn new(
        endpoints: Vec<Endpoint>,
        credentials: Credentials,
        trust: Trust,
        trusted: Trusted,
        (images, simulated): (Factories, Option<Simulated>),
    ) -> anyhow::Result<Self> {
        let transport = HttpsTransport::new(trust).map_err(|error| Failure::new(error.to_string()))?;
        let counted = Arc::new(Counted::new(Arc::new(transport)));
        let transport = Arc::clone(&counted) as Arc<dyn Transport>;
        let client = Client::new(endpoints, &credentials, transport, Settings::default())
            .context("could not get ready to ask Proxmox")?;
        Ok(Self { client, images, trusted, credentials, counted, simulated })
    }

    /// A client for each endpoint that asks it alone.
    pub(crate) fn each(&self) -> anyhow::Result<Vec<(Endpoint, Client)>> {
        let one = |endpoint: Endpoint| {
            let transport = Arc::clone(&self.counted) as Arc<dyn Transport>;
            let client =
                Client::new(vec![endpoint.clone()], &self.credentials, transport, Settings::default())
                    .context("could not get ready to ask Proxmox")?;
            Ok((endpoint, client))
        };
        self.client.endpoints().into_iter().map(one).collect()
    }

    /// How machines are reached.
    pub(crate) fn ways(&self) -> Ways {
        self.simulated.as_ref().map_or_else(Ways::real, Simulated::ways)
    }

    /// Simulated machines trust these authorities, as PEM, when they fetch their configuration; what real ones trust is in
    /// their image.
    pub(crate) fn have_machines_trust(&self, authorities: &str) {
        if let Some(simulated) = &self.simulated {
            simulated.have_machines_trust(authorities);
        }
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.counted.requests()
    }

    /// The folder of a world that is not real.
    pub(crate) fn simulated_in(&self) -> Option<&Path> {
        self.simulated.as_ref().map(Simulated::folder)
    }

    /// Ends it; a simulated world is kept.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let Self { client, images, trusted: _, credentials, counted, simulated } = self;
        drop((client, images, credentials, counted));
        match simulated {
            Some(simulated) => simulated.close().await,
            None => Ok(()),
        }
    }
}

/// Refuses flags that mean nothing on a real Proxmox.
fn only_for_simulations(connection: &Connection) -> Result<(), Failure> {
    if let Some(file) = &connection.fault {
        let said =
            format!("{} says what goes wrong on a simulated Proxmox, and this is a real one", file.display());
        return Err(Failure::new(said).with_hint("add --simulate, or leave --fault (TALMOX_FAULT) out"));
    }
    if connection.speed.is_some() {
        return Err(Failure::new("only a simulated Proxmox has a speed, and this is a real one")
            .with_hint("add --simulate, or leave --speed (TALMOX_SPEED) out"));
    }
    Ok(())
}

//! Configurations by the API: what is accepted, and in which words.

mod decode;
mod diff;
mod judge;
mod validate;

use talmox_machine::validate::Mode;
use talmox_machine::{Config, Source};
use talmox_proto::machine::{ApplyConfiguration, ApplyConfigurationRequest, ApplyConfigurationResponse};

use super::{Asked, Handlers};
use crate::hardware::Platform;
use crate::machine::Stage;
use crate::machine::configure::Takes;
use crate::nodes::Nodes;
use crate::wire::{ApiReply, Code, Status};
use judge::{Circumstances, Deed};

pub(super) const HANDLERS: Handlers =
    &[(talmox_proto::machine::machine_service::APPLY_CONFIGURATION.path, apply)];

fn apply(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let request: ApplyConfigurationRequest = asked.request()?;
    let run = super::machine::run(nodes, asked)?;
    if run.is_going_down() {
        let words = "configuration was already applied and node is rebooting, cannot apply more configuration changes until next reboot";
        return Err(Status::new(Code::FailedPrecondition, words));
    }
    if nodes.clock() < run.applying {
        let words = "another apply configuration is already in progress";
        return Err(Status::new(Code::FailedPrecondition, words));
    }
    let active = run.active.as_ref().map(|active| active.text.as_str());
    let circumstances = Circumstances {
        version: &run.image.version,
        platform: match run.image.platform {
            Platform::Nocloud => Mode::Cloud,
            Platform::Metal => Mode::Metal,
            Platform::Container => Mode::Container,
        },
        maintenance: run.stage == Stage::Maintenance,
        active: active.or(run.partial.as_deref()),
    };
    let verdict = circumstances.judge(&request)?;
    let until = nodes.clock() + nodes.timing.call;
    if let Some(run) = nodes.run_mut(asked.machine) {
        run.applying = until;
    }
    let takes = match verdict.deed {
        Deed::Nothing => None,
        Deed::Immediately => Some(Takes::Effect),
        Deed::Try(time) => Some(Takes::Trial(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))),
        Deed::Stage => Some(Takes::Later),
        Deed::Reboot => Some(Takes::Reboot),
    };
    if let Some(takes) = takes {
        let text = String::from_utf8_lossy(&request.data).into_owned();
        let config = Config::parse(Source { name: "config", text: &text })
            .map_err(|faults| Status::new(Code::InvalidArgument, faults.to_string()))?;
        nodes.take_config(asked.machine, &text, &config, takes);
    }
    let message = ApplyConfiguration {
        mode: verdict.mode,
        mode_details: verdict.details,
        ..ApplyConfiguration::default()
    };
    Ok(nodes.reply(&ApplyConfigurationResponse { messages: vec![message] }))
}

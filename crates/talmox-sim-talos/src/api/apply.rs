//! Configurations by the API: what is accepted, and in which words.

use talmox_proto::machine::apply_configuration_request::Mode;
use talmox_proto::machine::{ApplyConfiguration, ApplyConfigurationRequest, ApplyConfigurationResponse};

use super::{Asked, Handlers};
use crate::machine::configure::Takes;
use crate::nodes::Nodes;
use crate::wire::{ApiReply, Code, Status};

pub(super) const HANDLERS: Handlers = &[("/machine.MachineService/ApplyConfiguration", apply)];

fn apply(nodes: &mut Nodes, asked: &Asked<'_>) -> Result<ApiReply, Status> {
    let request: ApplyConfigurationRequest = asked.request()?;
    let text = String::from_utf8_lossy(&request.data).into_owned();
    let config =
        nodes.judge(asked.machine, &text).map_err(|reason| Status::new(Code::InvalidArgument, reason))?;
    let (takes, mode) = match request.mode() {
        Mode::Staged => (Takes::Later, Mode::Staged),
        Mode::Try => (Takes::Trial(60_000), Mode::Try),
        Mode::Reboot | Mode::Auto | Mode::NoReboot => (Takes::Effect, Mode::NoReboot),
    };
    let message = ApplyConfiguration {
        mode: mode.into(),
        mode_details: "Applied configuration without a reboot".to_owned(),
        ..ApplyConfiguration::default()
    };
    if !request.dry_run {
        nodes.take_config(asked.machine, &text, &config, takes);
    }
    Ok(nodes.reply(&ApplyConfigurationResponse { messages: vec![message] }))
}

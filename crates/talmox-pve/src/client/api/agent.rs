//! What the guest agent says. Never waited for: Talos has one only with an extension.

use serde::Deserialize;
use serde_json::Value;
use talmox_types::{HostName, VmId};

use super::qemu::vm_path;
use crate::client::{Client, Error, ErrorKind, Outcome, Params, scalar};

/// An interface as the guest sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AgentInterface {
    pub name: String,
    #[serde(rename = "hardware-address", default, deserialize_with = "scalar::optional")]
    pub hardware_address: Option<String>,
    #[serde(rename = "ip-addresses", default)]
    pub addresses: Vec<AgentAddress>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AgentAddress {
    #[serde(rename = "ip-address")]
    pub address: String,
    #[serde(deserialize_with = "scalar::scalar")]
    pub prefix: u16,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    result: Value,
}

impl Client {
    pub async fn agent_ping(&self, node: &HostName, vmid: VmId) -> Result<(), Error> {
        let call = vm_path(node, vmid, &[&"agent", &"ping"]);
        let answer: Answer = self.post(&call, Params::new()).await?;
        self.agent_result::<Value>(&format!("POST {call}"), answer).map(drop)
    }

    pub async fn agent_interfaces(&self, node: &HostName, vmid: VmId) -> Result<Vec<AgentInterface>, Error> {
        let call = vm_path(node, vmid, &[&"agent", &"network-get-interfaces"]);
        let answer: Answer = self.get(&call, Params::new()).await?;
        self.agent_result(&format!("GET {call}"), answer)
    }

    /// A command the agent refuses comes as a success with an error inside.
    fn agent_result<T: serde::de::DeserializeOwned>(&self, call: &str, answer: Answer) -> Result<T, Error> {
        let endpoint = self.endpoints().swap_remove(0);
        if let Some(refusal) = answer.result.get("error") {
            let words = refusal["desc"].as_str().unwrap_or("the agent refused the command");
            return Err(Error::new(call, &endpoint, ErrorKind::Agent, Outcome::Refused, words));
        }
        serde_json::from_value(answer.result).map_err(|error| {
            let words = format!("the agent's answer is not what was expected: {error}");
            Error::new(call, &endpoint, ErrorKind::Unreadable, Outcome::MayHaveHappened, &words)
        })
    }
}

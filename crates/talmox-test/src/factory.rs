//! The way to a lab's Image Factory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use talmox_image::client::{BoxFuture, Chunks, Request, Response, Transport, TransportError};
use talmox_sim::FactoryRequest;

use crate::MemoryTransport;

/// How much of a body comes at a time.
const PIECE: usize = 64 << 10;

/// Carries requests to the factory of a simulated world, without a network.
pub struct FactoryTransport {
    pub(crate) cluster: Arc<MemoryTransport>,
}

impl Transport for FactoryTransport {
    fn send<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, TransportError>> {
        let asked = FactoryRequest {
            method: request.method.as_str().to_owned(),
            authority: request.address.authority.clone(),
            target: request.address.target.clone(),
            body: request.body.to_vec(),
        };
        let reply = self.cluster.world(|world| world.factory.as_mut()?.handle(&asked));
        Box::pin(async move {
            let refused = || TransportError::Connect { reason: "Connection refused".to_owned() };
            let reply = reply.ok_or_else(refused)?;
            tokio::time::sleep(Duration::from_millis(reply.delay)).await;
            let mut body = Bytes::from(reply.body);
            let cut = reply.cut.and_then(|cut| usize::try_from(cut).ok()).filter(|cut| *cut < body.len());
            if let Some(cut) = cut {
                body.truncate(cut);
            }
            let mut pieces = VecDeque::new();
            while !body.is_empty() {
                pieces.push_back(body.split_to(PIECE.min(body.len())));
            }
            Ok(Response {
                status: reply.status,
                location: reply.location,
                content_length: Some(reply.length),
                body: Box::new(Pieces { pieces, breaks: cut.is_some() }),
            })
        })
    }
}

struct Pieces {
    pieces: VecDeque<Bytes>,
    breaks: bool,
}

impl Chunks for Pieces {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportError>> {
        let piece = self.pieces.pop_front();
        let broken = piece.is_none() && self.breaks;
        Box::pin(std::future::ready(if broken {
            Err(TransportError::Lost { reason: "the connection broke".to_owned() })
        } else {
            Ok(piece)
        }))
    }
}

//! A connection that remembers the first thing the node said in it.
//!
//! In TLS 1.3 a client has shown its certificate before anybody has looked at it, so a handshake that went well proves nothing. A
//! server of HTTP/2 speaks first, and does so only to whom it let in: until its first word is there, no request leaves. If an alert
//! comes instead, the node has refused our certificate and done nothing, whatever would have been asked.
//!
//! HTTP/2 turns what TLS says into words, and at times it finds a closed connection before the alert in it; so it is listened for
//! here, below HTTP/2.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::AlertDescription;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use crate::TransportError;

/// What a node said first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Something of HTTP: it let us in.
    Word,
    Alert(AlertDescription),
    /// Nothing: the connection ended.
    End,
}

/// Hears what was said first.
pub(super) struct FirstWord(watch::Receiver<Option<First>>);

impl FirstWord {
    /// Waits for it. Somebody has to read from the connection meanwhile.
    pub(super) async fn heard(mut self) -> Result<(), TransportError> {
        let heard = self.0.wait_for(Option::is_some).await.map_or(Some(First::End), |heard| *heard);
        match heard {
            Some(First::Word) => Ok(()),
            Some(First::Alert(alert)) => Err(refusal(alert)),
            Some(First::End) | None => Err(TransportError::Closed {
                reason: "the connection was closed before anything was said in it".to_owned(),
            }),
        }
    }
}

/// What an alert in the place of a first word means.
pub(super) fn refusal(alert: AlertDescription) -> TransportError {
    TransportError::Refused { reason: format!("the machine refuses our certificate: {alert:?}") }
}

/// Whether an alert in the middle of a handshake is about what we showed; others are about the handshake itself.
pub(super) fn is_about_certificates(alert: AlertDescription) -> bool {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, DecryptError, UnknownCA, UnsupportedCertificate,
    };
    let of_trust = [AccessDenied, BadCertificate, CertificateRequired, DecryptError, UnknownCA];
    let of_state = [CertificateExpired, CertificateRevoked, CertificateUnknown, UnsupportedCertificate];
    of_trust.contains(&alert) || of_state.contains(&alert)
}

/// The alert an error of a TLS connection is about.
pub(super) fn alert(error: &io::Error) -> Option<AlertDescription> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    if let rustls::Error::AlertReceived(alert) = error { Some(*alert) } else { None }
}

/// The connection.
pub(super) struct Listening<S> {
    stream: S,
    first: watch::Sender<Option<First>>,
}

impl<S: AsyncRead + Unpin> Listening<S> {
    pub(super) fn new(stream: S) -> (Self, FirstWord) {
        let (first, heard) = watch::channel(None);
        (Self { stream, first }, FirstWord(heard))
    }

    /// Only the first counts: an alert after a word may come when a request has been looked at already.
    fn note(&self, heard: First) {
        self.first.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(heard);
            is_first
        });
    }

    fn read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match &read {
            Poll::Ready(Ok(())) if buffer.filled().len() > before => self.note(First::Word),
            Poll::Ready(Ok(())) if buffer.remaining() > 0 => self.note(First::End),
            Poll::Ready(Err(error)) => self.note(alert(error).map_or(First::End, First::Alert)),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        read
    }

    /// Whoever cannot write any more may still find why in what has come; it is over either way.
    fn written<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(done, Poll::Ready(Err(_))) && self.first.borrow().is_none() {
            let mut bytes = [0; 1];
            if self.read(context, &mut ReadBuf::new(&mut bytes)).is_pending() {
                self.note(First::End);
            }
        }
        done
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Listening<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut().read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Listening<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.written(context, done)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_flush(context);
        this.written(context, done)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_write_vectored(context, pieces);
        this.written(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A stream that cannot be written to, in which something has come.
    struct Broken(Option<rustls::Error>);

    impl AsyncRead for Broken {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let Some(error) = self.get_mut().0.take() else {
                buffer.put_slice(b"x");
                return Poll::Ready(Ok(()));
            };
            Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)))
        }
    }

    impl AsyncWrite for Broken {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn an_alert_is_heard_when_only_writing_fails() {
        let error = rustls::Error::AlertReceived(AlertDescription::DecryptError);
        let (mut stream, first) = Listening::new(Broken(Some(error)));
        stream.write_all(b"hello").await.unwrap_err();
        assert_eq!(first.heard().await.unwrap_err(), refusal(AlertDescription::DecryptError));
    }

    #[tokio::test]
    async fn an_alert_after_a_word_is_no_refusal() {
        let (mut stream, first) = Listening::new(Broken(None));
        stream.read_u8().await.unwrap();
        stream.stream.0 = Some(rustls::Error::AlertReceived(AlertDescription::DecryptError));
        stream.read_u8().await.unwrap_err();
        assert_eq!(first.heard().await, Ok(()));
    }

    #[tokio::test]
    async fn a_connection_nobody_spoke_in_was_closed() {
        let (stream, first) = Listening::new(Broken(None));
        drop(stream);
        assert!(matches!(first.heard().await, Err(TransportError::Closed { .. })));
    }
}

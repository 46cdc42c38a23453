//! A door of plain HTTP before a simulated API server, for programs that cannot call it in memory.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Context as _;

use super::simulated::{Asked, Simulated};

/// Serves one request for each connection, one after the other, until it is dropped.
pub(super) struct Front {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // It waits for a connection.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Front {
    pub(super) fn open(server: Arc<Simulated>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let ends = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ending.load(Ordering::SeqCst) {
                    break;
                }
                // Whoever hangs up hears nothing more.
                let _ = answer(&server, &stream);
            }
        });
        Ok(Self { address, ends, thread: Some(thread) })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn answer(server: &Simulated, mut stream: &TcpStream) -> anyhow::Result<()> {
    let asked = read(&mut BufReader::new(stream))?;
    let (status, body) = server.answer(asked);
    let kind = if body.starts_with(b"{") { "application/json" } else { "text/plain" };
    let head = format!(
        "HTTP/1.1 {status} -\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)?;
    Ok(())
}

fn read(reader: &mut BufReader<&TcpStream>) -> anyhow::Result<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ');
    let (method, target) = words.next().zip(words.next()).context("no request")?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut asked = Asked { method: method.to_owned(), path: path.to_owned(), ..Asked::default() };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        asked.query.push((decoded(key), decoded(value)));
    }
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse()?,
            "content-type" => asked.content_type = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    asked.body = vec![0; length];
    reader.read_exact(&mut asked.body)?;
    Ok(asked)
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail
            .get(..2)
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, hex) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

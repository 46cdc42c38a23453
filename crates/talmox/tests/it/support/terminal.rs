//! A terminal of the test's own, with the program behind it and somebody who answers.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Far beyond what any answer takes; only a program that hangs gets there.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// What was shown since the last question.
    shown: String,
    /// What came of a character whose rest has not come yet.
    begun: Vec<u8>,
}

impl Terminal {
    pub(crate) fn run(mut command: Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
        grantpt(&ours).expect("it is ours");
        unlockpt(&ours).expect("it is ours");
        let name = ptsname(&ours, Vec::new()).expect("it has a name").into_string().expect("a plain name");
        let theirs = || Stdio::from(File::options().read(true).write(true).open(&name).expect("it is there"));
        command.stdin(theirs()).stdout(theirs()).stderr(theirs()).env("NO_COLOR", "1").env("TERM", "dumb");
        let child = command.spawn().expect("the program was built for this test");
        // Whoever holds a copy of the other end keeps it open.
        drop(command);
        let keyboard = File::from(ours);
        let mut reader = keyboard.try_clone().expect("it can be shared");
        let (send, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // When the program has ended, reading fails.
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                if send.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, screen, shown: String::new(), begun: Vec::new() }
    }

    /// Waits until this is on the screen; gives everything that came up to it.
    #[track_caller]
    pub(crate) fn sees(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                return std::mem::replace(&mut self.shown, rest);
            }
            let bytes = self.screen.recv_timeout(PATIENCE);
            assert!(bytes.is_ok(), "waited for {text:?} and saw\n{}", self.shown);
            self.show(&bytes.unwrap_or_default());
        }
    }

    /// Types a line.
    pub(crate) fn types(&mut self, line: &str) {
        writeln!(self.keyboard, "{line}").expect("somebody listens");
    }

    /// Waits for a question and answers it; gives what was shown before.
    #[track_caller]
    pub(crate) fn answers(&mut self, question: &str, line: &str) -> String {
        let before = self.sees(question);
        self.types(line);
        before
    }

    /// What comes until the program ends, and its exit code.
    pub(crate) fn ends(mut self) -> (i32, String) {
        while let Ok(bytes) = self.screen.recv_timeout(PATIENCE) {
            self.show(&bytes);
        }
        let status = self.child.wait().expect("it was started here");
        (status.code().unwrap_or(-1), self.shown)
    }

    /// Adds what came to what is shown. A read may end in the middle of a character: it waits for the next.
    fn show(&mut self, bytes: &[u8]) {
        self.begun.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Ok(text) => text.len(),
            Err(error) => {
                assert!(error.error_len().is_none(), "the program writes UTF-8");
                error.valid_up_to()
            }
        };
        let rest = self.begun.split_off(whole);
        let text = std::mem::replace(&mut self.begun, rest);
        self.shown.push_str(&String::from_utf8_lossy(&text).replace('\r', ""));
    }
}

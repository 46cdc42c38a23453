//! A folder for programs to work in.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A folder that is gone at the end. It may hold secrets, so nobody else can look into it.
pub(crate) struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Scratch {
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("talmox-{name}-{}", std::process::id()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// A folder of its own inside, for one of several that work at the same time.
    pub(crate) fn inside(&self, name: &str) -> anyhow::Result<Self> {
        let path = self.0.join(name);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it, as an argument.
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Writes a file and gives its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<String> {
        let path = self.file(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    #[expect(clippy::disallowed_methods, reason = "what a program wrote into a scratch folder")]
    pub(crate) fn read(&self, name: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.0.join(name)).with_context(|| format!("nothing wrote {name}"))
    }
}

//! Writes the code for the messages of `proto/` into `src/generated`; with `--check` it only compares.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use prost_build::{Config, Service, ServiceGenerator};

const FILES: [&str; 8] = [
    "common.proto",
    "machine.proto",
    "lifecycle.proto",
    "time.proto",
    "storage.proto",
    "cluster.proto",
    "resource.proto",
    "definitions.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let check = std::env::args().any(|argument| argument == "--check");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generated = root.join("src/generated");
    let scratch = std::env::temp_dir().join(format!("talmox-proto-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let result = generate(root, &scratch).and_then(|files| compare(&files, &generated, check));
    std::fs::remove_dir_all(&scratch)?;
    result
}

fn generate(root: &Path, into: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let descriptors = protox::compile(FILES, [root.join("proto")])?;
    let mut config = Config::new();
    config.out_dir(into).service_generator(Box::new(Methods)).btree_map(["."]);
    config.compile_fds(descriptors)?;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(into)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    Ok(files)
}

fn compare(files: &[PathBuf], generated: &Path, check: bool) -> Result<(), Box<dyn Error>> {
    for file in files {
        let Some(name) = file.file_name() else { continue };
        let (new, target) = (read(file)?, generated.join(name));
        let stale = read(&target).ok().as_deref() != Some(&new);
        if stale && check {
            return Err(format!("{} is stale: run this without --check", target.display()).into());
        }
        if stale {
            std::fs::write(&target, new)?;
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "no description: code that was generated")]
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// A constant for each call of a service: its path and the types of its messages.
struct Methods;

impl ServiceGenerator for Methods {
    fn generate(&mut self, service: Service, out: &mut String) {
        let mut constants = String::new();
        for method in &service.methods {
            let path = format!("/{}.{}/{}", service.package, service.proto_name, method.proto_name);
            let outer = |name: &str| if name == "()" { name.to_owned() } else { format!("super::{name}") };
            // Writing into a text cannot fail.
            let _ = writeln!(
                constants,
                "    pub const {}: crate::Method<{}, {}> = crate::Method::new({path:?}, {}, {});",
                method.name.to_uppercase(),
                outer(&method.input_type),
                outer(&method.output_type),
                method.client_streaming,
                method.server_streaming,
            );
        }
        let name = snake(&service.name);
        out.push_str(&format!(
            "/// Calls of `{}.{}`.\npub mod {name} {{\n{constants}}}\n",
            service.package, service.proto_name
        ));
    }
}

fn snake(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

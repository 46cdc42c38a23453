//! A schematic: its canonical text is a schematic with the same id.

#![no_main]

use libfuzzer_sys::fuzz_target;
use talmox_image::Schematic;

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    let Ok(schematic) = Schematic::parse(text) else { return };
    let _ = (schematic.canonical(), schematic.id(), schematic.submission());
});

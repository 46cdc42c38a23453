//! Marks of VMs and templates, and what is read from serial numbers and descriptions.

#![no_main]

use libfuzzer_sys::fuzz_target;
use talmox_types::{Mark, TemplateMark, split_serial};

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    if let Ok(mark) = Mark::parse(text) {
        let line = mark.to_string();
        assert_eq!(Mark::parse(&line).as_ref(), Ok(&mark), "{line}");
        let described = mark.in_description("notes of somebody\n");
        assert_eq!(Mark::of_description(&described).as_ref(), Some(&mark), "{described}");
    }
    if let Ok(mark) = TemplateMark::parse(text) {
        let line = mark.to_string();
        assert_eq!(TemplateMark::parse(&line).as_ref(), Ok(&mark), "{line}");
    }
    if let Some(mark) = Mark::of_description(text) {
        mark.in_description(text);
    }
    let _ = split_serial(text);
});

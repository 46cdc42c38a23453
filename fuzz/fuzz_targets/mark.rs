//! Marks of VMs and templates, and what is read from serial numbers and descriptions.

#![no_main]

use libfuzzer_sys::fuzz_target;
use talmox_types::{Mark, TemplateMark, split_serial};

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    let _ = (Mark::parse(text), split_serial(text));
    if let Ok(mark) = TemplateMark::parse(text) {
        let line = mark.to_string();
        assert_eq!(TemplateMark::parse(&line).as_ref(), Ok(&mark), "{line}");
    }
    // As it is read from a VM and written back to it. Blanks of other kinds at the end of a line may go the first time.
    let written =
        |mark: &Mark| Mark::of_description(&mark.in_description(text)).expect("what was written is a mark");
    if let Some(mark) = Mark::of_description(text) {
        let once = written(&mark);
        assert_eq!((&once.uid, &once.node, &once.vmid), (&mark.uid, &mark.node, &mark.vmid));
        assert_eq!(written(&once), once);
    }
});

//! Streams and whole bodies of the `openai` adapter.
#![no_main]

#[path = "../../tests/suite/wire_fuzz/bodies.rs"]
#[expect(dead_code, reason = "one body per target")]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::stream("openai", bytes));

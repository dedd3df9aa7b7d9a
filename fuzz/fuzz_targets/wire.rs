#![no_main]

#[path = "../../crates/policytest/tests/fuzz_targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::wire(data));

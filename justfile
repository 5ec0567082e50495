# `just` lists the recipes; each is one command that can be typed as well.

default:
    @just --list

# everything continuous integration runs
ci:
    .ci/run

# quick tests while working: without polars
test *ARGS:
    cargo test --no-default-features {{ARGS}}

# format and lint
lint:
    cargo fmt --all
    cargo clippy --all-targets --no-default-features -- -D warnings

# the comparison from the README
compare *ARGS:
    cargo run --release -- compare workloads/support.toml {{ARGS}}

# requests per second and core: draw and six policies through the router core
bench:
    cargo bench --no-default-features --bench fused

# nanoseconds per request written and answer read, by dialect
bench-wire:
    cargo bench --no-default-features --bench wire

# calls per second through the live client and a stand-in on this machine
bench-loopback:
    cargo bench --no-default-features --features live --bench loopback

# accept new snapshots after looking at them
snapshots:
    INSTA_UPDATE=always cargo test --no-default-features

# make the committed reference report again
reference:
    cargo run --release -- compare workloads/support.toml --quiet --report reports/reference/support > /dev/null

# Recipes for everyday work. `just` lists them.

[private]
default:
    @just --list

# Everything that must pass before a commit: the fast stage.
check:
    .ci/run fast

# The tests alone.
test *arguments:
    cargo test --workspace {{arguments}}

# Generated documents, anew.
docs:
    cargo xtask docs

# Reports of the faulty inputs, anew; read the difference.
bless:
    TALMOX_BLESS=1 cargo test --package talmox-config --test it faulty

# The benchmarks.
bench:
    cargo bench --workspace

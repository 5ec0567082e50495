//! What a report was made from: version, seed, command line, and digests of what went in and came out.
//!
//! There is no date, host or commit in it, so that a report can be made again byte for byte.

use sha2::{Digest as _, Sha256};

/// A file and the digest of its bytes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FileDigest {
    /// Path as given, relative.
    pub path: String,
    /// SHA-256 in lower-case hexadecimal (FIPS 180-4).
    pub sha256: String,
}

impl FileDigest {
    /// Of `bytes` that are, or will be, at `path`.
    #[must_use]
    pub fn of(path: &str, bytes: &[u8]) -> Self {
        Self {
            path: path.to_owned(),
            sha256: sha256_hex(bytes),
        }
    }
}

/// What a run needs to be repeated, and what it wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Manifest {
    /// Version of the program.
    pub version: String,
    /// Seed of the experiment.
    pub seed: u64,
    /// Every file that was read.
    pub inputs: Vec<FileDigest>,
    /// Every file that was written, except the manifest.
    pub outputs: Vec<FileDigest>,
    /// The command line, without what cannot change the result (threads, report folder, quietness).
    pub command: Vec<String>,
}

/// SHA-256 of `bytes` in lower-case hexadecimal.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    Sha256::digest(bytes)
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        // FIPS 180-4 examples, "abc" and the empty message.
        assert_eq!(
            sha256_hex(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            FileDigest::of("x", b"").sha256,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}

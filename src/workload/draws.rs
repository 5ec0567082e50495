//! Random lanes: every number a world draws is a pure function of (seed, domain, replicate, request, lane).
//!
//! The generator is ChaCha8 (Bernstein, "ChaCha, a variant of Salsa20", 2008) from `rand_chacha`. Its
//! key is the [`DrawKey`]; request i owns the 64-byte block i of each *page* (stream), which is sixteen
//! 32-bit lanes. So a request can be read alone, and a batch reads its blocks in sequence, which is
//! four to ten times cheaper than seeking for each request.
//!
//! Routes get their lanes by name: [`split`] mixes 64 fresh bits of the request with a key made from
//! the route's name, so that adding, removing or reordering routes never moves another route's draws.
//!
//! Lane numbers are frozen: changing one changes every number that was ever reported.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::{Domain, DrawKey};
use crate::units::{self, mix64};

/// Which task.
pub(crate) const TASK: usize = 0;
/// How difficult.
pub(crate) const DIFFICULTY: usize = 1;
/// Noise of the difficulty hint.
pub(crate) const HINT: usize = 2;
/// Prompt tokens.
pub(crate) const INPUT_TOKENS: usize = 3;
/// Answer tokens.
pub(crate) const OUTPUT_TOKENS: usize = 4;
/// Which tenant.
pub(crate) const TENANT: usize = 5;
/// Which language.
pub(crate) const LANGUAGE: usize = 6;
/// Whether there are tools.
pub(crate) const TOOLS: usize = 7;
/// The first of the two lanes that are split by route for the grades.
pub(crate) const GRADE: usize = 8;
/// The first of the two lanes that are split by route for simulated verifiers.
pub(crate) const VERIFIER: usize = 10;
/// Whether all routes share one uniform.
pub(crate) const COIN: usize = 12;
/// The uniform that they share.
pub(crate) const SHARED: usize = 13;
/// The first of the two lanes that policies split among themselves.
pub(crate) const POLICY: usize = 14;
/// On the second page: which user.
pub(crate) const USER: usize = 0;
/// On the second page: which data class.
pub(crate) const DATA_CLASS: usize = 1;
/// On the second page: which of the user's conversations.
pub(crate) const SESSION: usize = 2;

/// Requests that are drawn together: small enough that a page of them stays in the first-level cache.
pub(crate) const GROUP: usize = 64;
/// Changes when the meaning of a lane changes, so that old and new draws are never mixed up.
const VERSION: u32 = 1;

/// One request's lanes on one page.
pub(crate) type Block = [u32; 16];

/// A stream of blocks, one per request.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    generator: ChaCha8Rng,
    /// One group's blocks as the generator gives them.
    bytes: [u8; 64 * GROUP],
}

impl Page {
    /// The stream `page` of `key`'s world, from request `first` on.
    pub(crate) fn open(key: DrawKey, page: u64, first: u64) -> Self {
        let domain: u32 = match key.domain {
            Domain::Traffic => 0,
            Domain::Lab => 1,
        };
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(b"routelab");
        seed[8..16].copy_from_slice(&key.seed.to_le_bytes());
        seed[16..20].copy_from_slice(&domain.to_le_bytes());
        seed[20..24].copy_from_slice(&key.replicate.to_le_bytes());
        seed[24..28].copy_from_slice(&VERSION.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(seed);
        generator.set_stream(page);
        generator.set_word_pos(u128::from(first) * 16);
        Self {
            generator,
            bytes: [0; 64 * GROUP],
        }
    }

    /// The next blocks.
    pub(crate) fn read(&mut self, blocks: &mut [Block]) {
        for group in blocks.chunks_mut(GROUP) {
            let bytes = &mut self.bytes[..64 * group.len()];
            self.generator.fill_bytes(bytes);
            for (block, bytes) in group.iter_mut().zip(bytes.as_chunks::<64>().0) {
                for (lane, word) in block.iter_mut().zip(bytes.as_chunks::<4>().0) {
                    *lane = u32::from_le_bytes(*word);
                }
            }
        }
    }
}

/// Two neighbouring lanes as 64 bits, the first one low.
#[inline(always)]
pub(crate) fn wide(block: &Block, lane: usize) -> u64 {
    u64::from(block[lane]) | u64::from(block[lane + 1]) << 32
}

/// A lane as a uniform number in (0, 1): the middle of its cell, so that neither end occurs.
#[inline(always)]
pub(crate) fn unit(lane: u32) -> f64 {
    (f64::from(lane) + 0.5) * (1.0 / 4_294_967_296.0)
}

/// 64 bits that stand for a name and what the draws are for.
pub(crate) fn name_key(purpose: &str, name: &str) -> u64 {
    units::name_key(&format!("{purpose}\0{name}"))
}

/// The lane of the name behind `key`, out of a request's 64 fresh bits. Different names see the bits
/// through different offsets of a bijection, so their lanes look independent (tested pairwise).
#[inline(always)]
pub(crate) const fn split(word: u64, key: u64) -> u32 {
    (mix64(word.wrapping_add(key)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: DrawKey = DrawKey {
        seed: 2026,
        domain: Domain::Traffic,
        replicate: 0,
    };

    fn blocks(key: DrawKey, page: u64, first: u64, count: usize) -> Vec<Block> {
        let mut blocks = vec![[0; 16]; count];
        Page::open(key, page, first).read(&mut blocks);
        blocks
    }

    /// A χ² statistic as a z-score (Wilson & Hilferty, 1931), so that one limit suits all sizes.
    fn chi_square_z(counts: &[u64]) -> f64 {
        let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let statistic: f64 = counts
            .iter()
            .map(|&count| (count as f64 - expected).powi(2) / expected)
            .sum();
        let freedom = counts.len() as f64 - 1.0;
        let scale = 2.0 / (9.0 * freedom);
        (libm::cbrt(statistic / freedom) - (1.0 - scale)) / scale.sqrt()
    }

    #[test]
    fn the_generator_is_chacha8_as_published() {
        let vectors = include_str!("../../tests/fixtures/chacha8.txt");
        let mut seen = 0;
        for line in vectors.lines().filter(|line| !line.starts_with('#')) {
            let mut parts = line.split_whitespace();
            let (key, stream, block, expected) = (
                parts.next().unwrap(),
                parts.next().unwrap(),
                parts.next().unwrap(),
                parts.next().unwrap(),
            );
            let bytes = |hex: &str| -> Vec<u8> {
                (0..hex.len() / 2)
                    .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                    .collect()
            };
            let key: [u8; 32] = bytes(key).try_into().unwrap();
            let stream = u64::from_le_bytes(bytes(stream).try_into().unwrap());
            let block: u128 = block.parse().unwrap();
            let mut generator = ChaCha8Rng::from_seed(key);
            generator.set_stream(stream);
            generator.set_word_pos(16 * block);
            let mut out = [0; 64];
            generator.fill_bytes(&mut out);
            assert_eq!(out.to_vec(), bytes(expected), "{line}");
            seen += 1;
        }
        assert!(seen >= 4, "only {seen} vectors were read");
    }

    #[test]
    fn lane_numbers_and_keys_are_frozen() {
        assert_eq!(
            [
                TASK,
                DIFFICULTY,
                HINT,
                INPUT_TOKENS,
                OUTPUT_TOKENS,
                TENANT,
                LANGUAGE,
                TOOLS,
                GRADE,
                VERIFIER,
                COIN,
                SHARED,
                POLICY,
                USER,
                DATA_CLASS,
                SESSION
            ],
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 0, 1, 2]
        );
        let block = blocks(KEY, 0, 7, 1)[0];
        let other = DrawKey {
            domain: Domain::Lab,
            replicate: 3,
            ..KEY
        };
        let lines = format!(
            "{block:x?}\n{:x?}\n{:x?}\n{:x} {:x} {:x}",
            blocks(KEY, 1, 7, 1)[0],
            blocks(other, 0, u64::MAX, 1)[0],
            name_key("grade", "small"),
            split(wide(&block, GRADE), name_key("grade", "small")),
            split(wide(&block, VERIFIER), name_key("verifier", "large")),
        );
        insta::assert_snapshot!(lines);
    }

    #[test]
    fn splitmix64_gives_its_published_sequence() {
        // SplitMix64 with seed 1234567: the golden-gamma counter through `mix`. The values are those of
        // Vigna's splitmix64.c, listed at rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64.
        let gamma = 0x9e37_79b9_7f4a_7c15_u64;
        let found: Vec<u64> = (1..=5)
            .map(|n: u64| mix64(1_234_567_u64.wrapping_add(gamma.wrapping_mul(n))))
            .collect();
        assert_eq!(
            found,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn routes_lanes_are_uniform_and_pairwise_independent() {
        let names = ["small", "medium", "large", "small2", "a", "b", ""];
        let keys: Vec<u64> = names
            .iter()
            .flat_map(|name| [name_key("grade", name), name_key("verifier", name)])
            .collect();
        let words: Vec<u64> = blocks(KEY, 0, 0, 200_000)
            .iter()
            .map(|block| wide(block, GRADE))
            .collect();
        // 14 uniformity tests and 91 tests of pairs: |z| ≤ 4.5 fails by chance once in 1,400 seeds.
        for (at, &one) in keys.iter().enumerate() {
            let mut single = vec![0; 256];
            for &word in &words {
                single[(split(word, one) >> 24) as usize] += 1;
            }
            assert!(chi_square_z(&single).abs() < 4.5, "lane {at}");
            for (also, &other) in keys.iter().enumerate().skip(at + 1) {
                let mut pairs = vec![0; 256];
                for &word in &words {
                    let cell = (split(word, one) >> 28) << 4 | split(word, other) >> 28;
                    pairs[cell as usize] += 1;
                }
                let z = chi_square_z(&pairs);
                assert!(z.abs() < 4.5, "lanes {at} and {also}: z = {z}");
            }
        }
    }

    #[test]
    fn the_independence_test_would_notice_dependence() {
        let words = blocks(KEY, 0, 0, 20_000);
        let mut pairs = vec![0; 256];
        for block in &words {
            let word = wide(block, GRADE);
            // Keys that differ in one low bit under a weak mix (the plain sum): nearly the same lane.
            let weak = |key: u64| (word.wrapping_add(key) >> 60) as usize;
            pairs[weak(1) << 4 | weak(2)] += 1;
        }
        assert!(chi_square_z(&pairs) > 100.0);
    }

    #[test]
    fn worlds_of_different_keys_differ() {
        let mut seen = Vec::new();
        for seed in [0, 1] {
            for domain in [Domain::Traffic, Domain::Lab] {
                for replicate in [0, 1] {
                    let key = DrawKey {
                        seed,
                        domain,
                        replicate,
                    };
                    for page in [0, 1] {
                        seen.push(blocks(key, page, 0, 1)[0]);
                    }
                }
            }
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 16);
    }

    proptest! {
        #[test]
        fn a_run_of_blocks_equals_the_blocks_one_by_one(
            seed: u64, replicate: u32, page: u64, first in 0..u64::MAX - 300, count in 1..300_usize,
        ) {
            let key = DrawKey { seed, domain: Domain::Lab, replicate };
            let run = blocks(key, page, first, count);
            for at in [0, count / 2, count - 1] {
                prop_assert_eq!(run[at], blocks(key, page, first + at as u64, 1)[0]);
            }
        }
    }
}

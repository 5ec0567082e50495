//! Sixty-four requests abreast: a yes or no about each of them is one bit of a word.
//!
//! Where the same question is asked about many requests, one `and` or `or` answers it for 64 of them.
//! Bit i of a [`Lanes`] is about the i-th of the requests at hand. What this module is not: parallel.

/// A bit for each of [`LANES`] requests.
pub(crate) type Lanes = u64;

/// Requests that stand abreast.
pub(crate) const LANES: usize = 64;

/// All of them.
pub(crate) const ALL: Lanes = Lanes::MAX;

/// The lanes for which `holds`.
#[inline(always)]
pub(crate) fn which(mut holds: impl FnMut(usize) -> bool) -> Lanes {
    // One byte for each lane first: compilers know how to do that many at a time.
    let mut bytes = [0u8; LANES];
    for (lane, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from(holds(lane));
    }
    pack(&bytes)
}

/// Zeros and ones to bits. The product moves the lowest bit of byte j to bit 56 + j, and no two of its
/// terms meet.
#[inline(always)]
fn pack(bytes: &[u8; LANES]) -> Lanes {
    let mut lanes = 0;
    for (at, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let word = u64::from_le_bytes(*eight);
        lanes |= (word.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * at);
    }
    lanes
}

/// All ones if the lane is in `lanes`, else zero. In a loop over all lanes this is done many at a time.
#[inline(always)]
pub(crate) fn mask(lanes: Lanes, lane: usize) -> u64 {
    ((lanes >> lane) & 1).wrapping_neg()
}

/// Adds `from` to `to` in the lanes that are in `lanes`, wrapping.
#[inline(always)]
pub(crate) fn add_where(lanes: Lanes, from: &[u64; LANES], to: &mut [u64; LANES]) {
    for (lane, (to, from)) in to.iter_mut().zip(from).enumerate() {
        *to = to.wrapping_add(*from & mask(lanes, lane));
    }
}

/// The numbers of the lanes in `lanes`, rising.
pub(crate) fn each(mut lanes: Lanes) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = lanes.trailing_zeros() as usize;
        lanes &= lanes.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_where_they_belong(lanes: u64) {
            prop_assert_eq!(which(|lane| lanes >> lane & 1 == 1), lanes);
            let found: Vec<usize> = each(lanes).collect();
            let wanted: Vec<usize> = (0..LANES).filter(|lane| lanes >> lane & 1 == 1).collect();
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn sums_grow_in_the_chosen_lanes_alone(lanes in prop_oneof![Just(ALL), Just(0), any::<u64>()], seed: u64) {
            let from: [u64; LANES] = std::array::from_fn(|lane| seed.rotate_left(lane as u32));
            let mut to: [u64; LANES] = std::array::from_fn(|lane| seed.wrapping_mul(lane as u64));
            let before = to;
            add_where(lanes, &from, &mut to);
            for lane in 0..LANES {
                let grown = if lanes >> lane & 1 == 1 { from[lane] } else { 0 };
                prop_assert_eq!(to[lane], before[lane].wrapping_add(grown));
            }
        }
    }
}

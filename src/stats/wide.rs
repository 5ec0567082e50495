//! Whole numbers of up to 1,024 bits, for decisions that must not depend on rounding.
//!
//! A decision rule with a margin and a critical value of twelve decimals compares products of more than
//! a hundred digits. What is here is just enough for that: sums, products and comparisons, of fixed
//! width, without allocation. It is not a number library: there is no sign and no division.

use std::cmp::Ordering;

/// Words of 64 bits.
const WORDS: usize = 16;

/// A whole number below 2¹⁰²⁴, least significant word first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wide([u64; WORDS]);

impl Wide {
    /// From an ordinary number.
    pub(super) fn new(value: u128) -> Self {
        let mut words = [0; WORDS];
        words[0] = value as u64;
        words[1] = (value >> 64) as u64;
        Self(words)
    }

    /// The sum. `None` from 2¹⁰²⁴ on.
    pub(super) fn plus(self, other: Self) -> Option<Self> {
        let (mut words, mut carry) = ([0; WORDS], false);
        for (word, (a, b)) in words.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            let (sum, over) = a.overflowing_add(b);
            let (sum, again) = sum.overflowing_add(u64::from(carry));
            *word = sum;
            carry = over || again;
        }
        (!carry).then_some(Self(words))
    }

    /// The difference. `None` if `other` is larger.
    pub(super) fn minus(self, other: Self) -> Option<Self> {
        let (mut words, mut borrow) = ([0; WORDS], false);
        for (word, (a, b)) in words.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            let (rest, under) = a.overflowing_sub(b);
            let (rest, again) = rest.overflowing_sub(u64::from(borrow));
            *word = rest;
            borrow = under || again;
        }
        (!borrow).then_some(Self(words))
    }

    /// The product. `None` from 2¹⁰²⁴ on.
    pub(super) fn times(self, other: Self) -> Option<Self> {
        let (left, right) = (self.used(), other.used());
        // One word more than fits, to see what does not.
        let mut words = [0_u64; WORDS + 1];
        for (i, &a) in left.iter().enumerate() {
            let mut carry = 0_u128;
            for (j, &b) in right.iter().enumerate() {
                let at = i + j;
                if at > WORDS {
                    return None;
                }
                let sum = u128::from(a) * u128::from(b) + u128::from(words[at]) + carry;
                words[at] = sum as u64;
                carry = sum >> 64;
            }
            let at = i + right.len();
            if carry > 0 {
                *words.get_mut(at)? = carry as u64;
            }
        }
        let mut fits = [0; WORDS];
        fits.copy_from_slice(&words[..WORDS]);
        (words[WORDS] == 0).then_some(Self(fits))
    }

    /// The words up to the last that is not zero.
    fn used(&self) -> &[u64] {
        let length = WORDS - self.0.iter().rev().take_while(|&&word| word == 0).count();
        &self.0[..length]
    }
}

/// The product of several ordinary numbers. `None` from 2¹⁰²⁴ on.
pub(super) fn product(factors: &[u128]) -> Option<Wide> {
    factors
        .iter()
        .try_fold(Wide::new(1), |sum, &factor| sum.times(Wide::new(factor)))
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wide {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arithmetic_is_that_of_ordinary_numbers(a in any::<u64>(), b in any::<u64>(), c in any::<u64>()) {
            let [wa, wb, wc] = [a, b, c].map(|v| Wide::new(v.into()));
            let (a, b, c) = (u128::from(a), u128::from(b), u128::from(c));
            prop_assert_eq!(wa.times(wb), Some(Wide::new(a * b)));
            prop_assert_eq!(wa.plus(wb), Some(Wide::new(a + b)));
            prop_assert_eq!(wa.minus(wb), a.checked_sub(b).map(Wide::new));
            prop_assert_eq!(wa.cmp(&wb), a.cmp(&b));
            // (a + b)·c = a·c + b·c, and a product does not depend on the order.
            let left = wa.plus(wb).unwrap().times(wc);
            let right = wa.times(wc).unwrap().plus(wb.times(wc).unwrap());
            prop_assert_eq!(left, right);
            prop_assert_eq!(product(&[a, b, c, a]), product(&[c, a, a, b]));
        }
    }

    #[test]
    fn squares_of_large_numbers_obey_the_binomial_formula() {
        let large = product(&[u128::MAX, u128::MAX, u128::MAX]).unwrap();
        let next = large.plus(Wide::new(1)).unwrap();
        // (x + 1)² − x² = 2x + 1.
        let difference = next
            .times(next)
            .unwrap()
            .minus(large.times(large).unwrap())
            .unwrap();
        assert_eq!(difference, large.plus(next).unwrap());
        assert!(next > large);
        assert_eq!(large.minus(next), None);
    }

    #[test]
    fn what_does_not_fit_is_said_to_not_fit() {
        assert_eq!(product(&[u128::MAX; 9]), None);
        let most = Wide([u64::MAX; WORDS]);
        assert_eq!(most.plus(Wide::new(1)), None);
        assert_eq!(most.times(Wide::new(2)), None);
        assert_eq!(most.times(most), None);
        assert_eq!(most.times(Wide::new(1)), Some(most));
        assert_eq!(most.times(Wide::new(0)), Some(Wide::new(0)));
    }
}

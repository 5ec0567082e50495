//! Distributions as monotone functions of one uniform 32-bit lane: quantile tables.
//!
//! A variate that is a monotone function of its lane couples all policies and variants that share the
//! lane (common random numbers), and can be recomputed from the request's number alone. A table cuts
//! v = min(u, 1 − u) into octaves and each octave into equal cells, so that cells shrink towards both
//! ends; in a cell the quantile is a cubic through the exact values and slopes at its ends (Hermite),
//! slopes limited as Fritsch & Carlson (SIAM J. Numer. Anal. 17, 1980) do, so that it never falls.
//!
//! The nodes are computed here with `libm` alone, not with the platform's `exp` and `ln`, so that every
//! machine gets the same bits. `statrs` is the independent check in the tests.

use super::draws::unit;

/// Octaves of v = min(u, 1 − u): a lane's smallest v is 2⁻³³.
const OCTAVES: usize = 32;
/// Smallest shape parameter of a Beta distribution. Below it the distribution sits so close to 0 and 1
/// that a 64-bit float cannot tell its values from them.
pub(crate) const SHAPE_MIN: f64 = 0.05;
/// Largest shape parameter of a Beta distribution (standard deviation about 0.01).
pub(crate) const SHAPE_MAX: f64 = 1_000.0;
/// Largest ratio of a lognormal distribution's 95th percentile to its median.
pub(crate) const SPREAD_MAX: f64 = 10_000.0;
/// The standard normal distribution's 95 % point.
pub(crate) const NORMAL_95: f64 = 1.644_853_626_951_472_2;

/// A quantile function, tabulated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    /// log₂ of the cells in an octave.
    cell_bits: u32,
    /// Cubic coefficients of each cell for u < 1/2, by rising v, then for u ≥ 1/2, by rising v.
    cells: Vec<[f64; 4]>,
}

impl Table {
    /// The quantile at the middle of `lane`'s cell.
    #[inline(always)]
    pub(crate) fn at(&self, lane: u32) -> f64 {
        let (index, part) = find(self.cell_bits, lane);
        let [a, b, c, d] = self.cells[index];
        a + part * (b + part * (c + part * d))
    }

    /// A table from what it has to know at a node with tail probability v: the quantile and its
    /// derivative by v, for the lower tail and for the upper one. Nodes are asked from v = 1/2 down.
    pub(crate) fn build(
        cell_bits: u32,
        mut lower: impl FnMut(f64) -> (f64, f64),
        mut upper: impl FnMut(f64) -> (f64, f64),
    ) -> Self {
        let mut cells = Vec::with_capacity((2 * OCTAVES) << cell_bits);
        Self::side(cell_bits, &mut lower, &mut cells);
        Self::side(cell_bits, &mut upper, &mut cells);
        Self { cell_bits, cells }
    }

    fn side(cell_bits: u32, node: &mut dyn FnMut(f64) -> (f64, f64), cells: &mut Vec<[f64; 4]>) {
        let count = 1_usize << cell_bits;
        let start = cells.len();
        cells.resize(start + OCTAVES * count, [0.0; 4]);
        let (mut right, mut slope_right) = node(0.5);
        for octave in (0..OCTAVES).rev() {
            // This octave is v from 2^(octave − 33) to twice that.
            let low = libm::exp2(octave as f64 - 33.0);
            let width = low / count as f64;
            for cell in (0..count).rev() {
                let (left, slope_left) = node(low + width * cell as f64);
                let rise = right - left;
                let limit = |slope: f64| {
                    let step = slope * width;
                    if rise >= 0.0 {
                        step.clamp(0.0, 3.0 * rise)
                    } else {
                        step.clamp(3.0 * rise, 0.0)
                    }
                };
                let (b, end) = (limit(slope_left), limit(slope_right));
                cells[start + octave * count + cell] =
                    [left, b, 3.0 * rise - 2.0 * b - end, b + end - 2.0 * rise];
                (right, slope_right) = (left, slope_left);
            }
        }
    }

    /// Standard normal.
    pub(crate) fn normal() -> Self {
        let mut last = 0.0;
        let mut node = move |v: f64| {
            last = normal_tail_quantile(v, last);
            (-last, 1.0 / normal_density(last))
        };
        let mut last = 0.0;
        let mirrored = move |v: f64| {
            last = normal_tail_quantile(v, last);
            (last, -1.0 / normal_density(last))
        };
        Self::build(5, &mut node, mirrored)
    }

    /// Beta with both shapes in [`SHAPE_MIN`]`..=`[`SHAPE_MAX`].
    pub(crate) fn beta(a: f64, b: f64) -> Self {
        Self::beta_through(a, b, |x| (x, 1.0))
    }

    /// e^(slope·X) for a Beta-distributed X: cells as narrow as those of [`Table::beta`].
    pub(crate) fn beta_odds(a: f64, b: f64, slope: f64) -> Self {
        Self::beta_through(a, b, |x| {
            let odds = libm::exp(slope * x);
            (odds, slope * odds)
        })
    }

    /// A rising function of a Beta-distributed number; `through` gives its value and derivative.
    fn beta_through(a: f64, b: f64, through: impl Fn(f64) -> (f64, f64)) -> Self {
        // Sharply curved tails (q ~ u^(1/a)) need narrower cells for the same error.
        let cell_bits = if a.min(b) < 0.5 { 7 } else { 5 };
        let mut lower = BetaTail::new(a, b);
        let mut upper = BetaTail::new(b, a);
        Self::build(
            cell_bits,
            |v| {
                let (x, slope) = lower.node(v);
                let (value, steepness) = through(x);
                (value, steepness * slope)
            },
            |v| {
                let (y, slope) = upper.node(v);
                let (value, steepness) = through(1.0 - y);
                (value, -steepness * slope)
            },
        )
    }

    /// Exponential with mean 1.
    pub(crate) fn exponential() -> Self {
        // −ln(1 − u) in the lower tail, where u = v, and −ln v in the upper one.
        Self::build(
            5,
            |v| (-libm::log1p(-v), 1.0 / (1.0 - v)),
            |v| (-libm::log(v), -1.0 / v),
        )
    }

    /// Lognormal with median `p50` and 95th percentile `p95`.
    pub(crate) fn lognormal(p50: f64, p95: f64) -> Self {
        let sigma = libm::log(p95 / p50) / NORMAL_95;
        let value = move |z: f64| p50 * libm::exp(sigma * z);
        let mut last = 0.0;
        let lower = move |v: f64| {
            last = normal_tail_quantile(v, last);
            let value = value(-last);
            (value, sigma * value / normal_density(last))
        };
        let mut last = 0.0;
        let upper = move |v: f64| {
            last = normal_tail_quantile(v, last);
            let value = value(last);
            (value, -sigma * value / normal_density(last))
        };
        Self::build(if sigma > 1.5 { 7 } else { 5 }, lower, upper)
    }
}

/// Where `lane` falls in a table of 2^`cell_bits` cells an octave: a cell, and the part of it.
#[inline(always)]
fn find(cell_bits: u32, lane: u32) -> (usize, f64) {
    let upper = lane >> 31;
    let folded = lane ^ upper.wrapping_neg();
    // v·2³³ is odd and below 2³². Left-aligned, its leading one names the octave.
    let scaled = (u64::from(folded) << 1) | 1;
    let zeros = scaled.leading_zeros();
    let aligned = (scaled << zeros) << 1;
    let cell = (aligned >> (64 - cell_bits)) as usize;
    // Fifty-two bits are exact in a float, and as a signed number convert in one instruction.
    let part = ((aligned << cell_bits) >> 12) as i64 as f64 * (1.0 / 4_503_599_627_370_496.0);
    let octave = (63 - zeros) as usize;
    let index = ((upper as usize * OCTAVES + octave) << cell_bits) + cell;
    (index, part)
}

/// Two tables with cells as narrow as each other's, cell beside cell: a lane is found once, and what is
/// read for it lies in one cache line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Twin {
    cell_bits: u32,
    cells: Vec<TwinCell>,
}

/// Coefficients of both cubics, degree by degree.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct TwinCell([[f64; 2]; 4]);

impl Twin {
    /// Both tables in one; `None` if their cells differ.
    pub(crate) fn new(one: &Table, other: &Table) -> Option<Self> {
        if one.cell_bits != other.cell_bits || one.cells.len() != other.cells.len() {
            return None;
        }
        let pairs = one.cells.iter().zip(&other.cells);
        Some(Self {
            cell_bits: one.cell_bits,
            cells: pairs
                .map(|(a, b)| TwinCell(std::array::from_fn(|degree| [a[degree], b[degree]])))
                .collect(),
        })
    }

    /// What [`Table::at`] gives for either table.
    #[inline(always)]
    pub(crate) fn at(&self, lane: u32) -> (f64, f64) {
        let (index, part) = find(self.cell_bits, lane);
        let [a, b, c, d] = &self.cells[index].0;
        let read = |i: usize| a[i] + part * (b[i] + part * (c[i] + part * d[i]));
        (read(0), read(1))
    }
}

/// A distribution that a lane is turned into.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Variate {
    /// Always this.
    Fixed(f64),
    /// Evenly between `low` and `low + width`.
    Uniform {
        /// Lower end.
        low: f64,
        /// Upper end minus lower end.
        width: f64,
    },
    /// By table.
    Table(Table),
    /// One of several: each takes a stretch of the lane as wide as its weight.
    Mixture(Vec<Part>),
}

/// One component of a mixture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// First lane value of the stretch.
    start: u32,
    /// Stretches the part over all lane values.
    scale: f64,
    /// What is drawn there.
    variate: Variate,
}

impl Variate {
    /// A mixture of components with weights that sum to one. Components without weight are dropped.
    pub(crate) fn mixture(parts: Vec<(f64, Self)>) -> Self {
        const SPAN: f64 = 4_294_967_296.0;
        let mut below = 0.0;
        let mut mixture = Vec::with_capacity(parts.len());
        for (weight, variate) in parts {
            let start = (below * SPAN).round();
            below += weight;
            let end = (below * SPAN).round().min(SPAN);
            if end > start {
                mixture.push(Part {
                    start: start as u32,
                    scale: SPAN / (end - start),
                    variate,
                });
            }
        }
        Self::Mixture(mixture)
    }

    /// For a mixture of two fixed values: the first, where the second starts, the second.
    pub(crate) fn as_either(&self) -> Option<(f64, u32, f64)> {
        let Self::Mixture(parts) = self else {
            return None;
        };
        match parts.as_slice() {
            [
                Part {
                    variate: Self::Fixed(low),
                    ..
                },
                Part {
                    start,
                    variate: Self::Fixed(high),
                    ..
                },
            ] => Some((*low, *start, *high)),
            _ => None,
        }
    }

    /// The value at the middle of `lane`'s cell.
    #[inline(always)]
    pub(crate) fn at(&self, lane: u32) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Table(table) => table.at(lane),
            _ => self.rare(lane),
        }
    }

    fn rare(&self, lane: u32) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Table(table) => table.at(lane),
            Self::Uniform { low, width } => low + width * unit(lane),
            Self::Mixture(parts) => {
                let after = parts.partition_point(|part| part.start <= lane);
                let part = &parts[after.saturating_sub(1)];
                let within = (f64::from(lane.saturating_sub(part.start)) + 0.5) * part.scale;
                // A float-to-integer `as` saturates.
                part.variate.at(within as u32)
            }
        }
    }
}

/// Where a function that rises (or falls) is `goal`, and its derivative near there: Newton's method from
/// `start`, kept inside the bracket and bisected where it leaves it, until a step is below 10⁻¹⁵ of the place,
/// or of `floor` if that is more. `of` gives the function and its derivative.
pub(crate) fn within(
    of: impl Fn(f64) -> (f64, f64),
    goal: f64,
    (mut low, mut high): (f64, f64),
    start: f64,
    rises: bool,
    floor: f64,
) -> (f64, f64) {
    let mut place = start;
    let mut slope = f64::INFINITY;
    for _ in 0..200 {
        let (value, derivative) = of(place);
        slope = derivative;
        let miss = value - goal;
        if (miss < 0.0) == rises {
            low = place;
        } else {
            high = place;
        }
        let mut next = place - miss / derivative;
        if next.is_nan() || next < low || next > high {
            next = 0.5 * (low + high);
        }
        let moved = (next - place).abs();
        place = next;
        if moved <= 1e-15 * place.abs().max(floor) {
            break;
        }
    }
    (place, slope)
}

fn normal_density(z: f64) -> f64 {
    libm::exp(-0.5 * z * z) / (2.0 * std::f64::consts::PI).sqrt()
}

/// z ≥ 0 with P(Z > z) = v for v ≤ 1/2, by Newton's method on ln P from `guess`. ln P is concave, so
/// from the left the iteration climbs to the root without overshooting.
fn normal_tail_quantile(v: f64, guess: f64) -> f64 {
    if v == 0.5 {
        return 0.0;
    }
    let mut z = guess;
    for _ in 0..50 {
        let tail = 0.5 * libm::erfc(z / std::f64::consts::SQRT_2);
        let step = libm::log(tail / v) * tail / normal_density(z);
        z += step;
        if step.abs() <= 1e-15 * (1.0 + z) {
            break;
        }
    }
    z.max(0.0)
}

/// One tail of a Beta distribution, walked from the median outwards.
struct BetaTail {
    a: f64,
    b: f64,
    /// ln B(a, b).
    log_beta: f64,
    /// ln of the last node's quantile, where the next search starts.
    last: f64,
}

impl BetaTail {
    fn new(a: f64, b: f64) -> Self {
        Self {
            a,
            b,
            log_beta: libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b),
            last: libm::log(a / (a + b)),
        }
    }

    /// The quantile at tail probability `v` ≤ 1/2 and its derivative: Newton's method for
    /// ln I(e^L; a, b) = ln v, kept inside a bracket and bisected where it leaves it.
    fn node(&mut self, v: f64) -> (f64, f64) {
        let goal = libm::log(v);
        let of = |log_x| self.log_cdf(log_x);
        let (log_x, slope) = within(of, goal, (-1e5, 0.0), self.last, true, 1e-3);
        self.last = log_x;
        let x = libm::exp(log_x);
        // d ln I / d ln x = slope, so dx/dv = x / (v·slope).
        (x, x / (v * slope))
    }

    /// ln I(x; a, b) at ln x, and its derivative by ln x.
    fn log_cdf(&self, log_x: f64) -> (f64, f64) {
        let (a, b) = (self.a, self.b);
        let x = libm::exp(log_x);
        let log_y = if log_x > -0.5 {
            // 1 − x without cancellation.
            libm::log(-libm::expm1(log_x))
        } else {
            libm::log1p(-x)
        };
        // ln of x^a (1 − x)^b / B(a, b).
        let log_front = a * log_x + b * log_y - self.log_beta;
        let log_cdf = if x < (a + 1.0) / (a + b + 2.0) {
            log_front + libm::log(continued_fraction(a, b, x) / a)
        } else {
            let other = libm::exp(log_front) * continued_fraction(b, a, -libm::expm1(log_x)) / b;
            libm::log1p(-other.min(1.0))
        };
        // density·x = x^a (1 − x)^(b − 1) / B.
        (log_cdf, libm::exp(log_front - log_y - log_cdf))
    }
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22, <https://dlmf.nist.gov/8.17>),
/// evaluated by the modified Lentz method; converges fast for x < (a + 1)/(a + b + 2).
fn continued_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..2_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        value *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        let change = d * c;
        value *= change;
        if (change - 1.0).abs() < 1e-16 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use statrs::distribution::{Beta, ContinuousCDF as _, LogNormal, Normal};

    use super::*;

    /// Lanes across the range, denser towards both ends, cell borders included.
    fn lanes() -> Vec<u32> {
        let mut lanes: Vec<u32> = (0..20_000_u32)
            .map(|n| n.wrapping_mul(214_748) + 77)
            .collect();
        for bit in 0..32 {
            for step in 0..16_u32 {
                let at = (1_u32 << bit) + ((step << bit) >> 4);
                lanes.extend([at - 1, at, at.saturating_add(1)]);
                lanes.extend([!(at - 1), !at]);
            }
        }
        lanes.extend([0, u32::MAX, 1 << 31, (1 << 31) - 1]);
        lanes.sort_unstable();
        lanes.dedup();
        lanes
    }

    fn worst(table: &Table, cdf: impl Fn(f64) -> f64) -> f64 {
        let mut before = f64::NEG_INFINITY;
        let mut worst: f64 = 0.0;
        for lane in lanes() {
            let value = table.at(lane);
            assert!(value >= before, "falls at lane {lane:#x}: {before} {value}");
            before = value;
            worst = worst.max((cdf(value) - unit(lane)).abs());
        }
        worst
    }

    #[test]
    fn beta_quantiles_invert_the_distribution_function() {
        for (a, b) in [
            (2.0, 5.0),
            (2.0, 4.0),
            (3.0, 4.0),
            (4.0, 3.0),
            (1.0, 1.0),
            (0.5, 0.5),
            (0.7, 9.0),
            (30.0, 2.0),
            (1000.0, 1000.0),
            (1000.0, 1.0),
            (250.0, 3.0),
            (1.0, 0.5),
        ] {
            let law = Beta::new(a, b).unwrap();
            let error = worst(&Table::beta(a, b), |x| law.cdf(x));
            assert!(error <= 1e-7, "Beta({a}, {b}): {error:e}");
        }
    }

    #[test]
    fn extreme_beta_shapes_are_right_wherever_a_float_can_tell() {
        for (a, b) in [(0.05, 2.0), (0.1, 1.0), (0.2, 0.3), (0.05, 1000.0)] {
            let law = Beta::new(a, b).unwrap();
            let table = Table::beta(a, b);
            for lane in lanes() {
                let value = table.at(lane);
                if value < 0.999_999 && value > 1e-300 {
                    let error = (law.cdf(value) - unit(lane)).abs();
                    assert!(error <= 3e-7, "Beta({a}, {b}) at {lane:#x}: {error:e}");
                }
            }
        }
    }

    #[test]
    fn odds_tables_equal_the_exponential_of_the_quantile() {
        for (a, b, slope) in [
            (2.0, 5.0, 10.0),
            (4.0, 3.0, 10.0),
            (1.0, 1.0, 10.0),
            (0.3, 0.7, 10.0),
            (1000.0, 1000.0, 10.0),
        ] {
            let (beta, odds) = (Table::beta(a, b), Table::beta_odds(a, b, slope));
            let twin = Twin::new(&beta, &odds).unwrap();
            for lane in lanes() {
                assert_eq!(twin.at(lane), (beta.at(lane), odds.at(lane)));
                let error = odds.at(lane) / libm::exp(slope * beta.at(lane)) - 1.0;
                assert!(error.abs() < 1e-7, "Beta({a}, {b}) at {lane:#x}: {error:e}");
            }
        }
    }

    #[test]
    fn tails_are_right_in_relative_terms() {
        let (law, table) = (Beta::new(2.0, 5.0).unwrap(), Table::beta(2.0, 5.0));
        let normal = Table::normal();
        for lane in [0, 1, 2, 5, 100, 70_000, 9_000_000] {
            let u = unit(lane);
            assert!((law.cdf(table.at(lane)) / u - 1.0).abs() < 1e-6, "{lane}");
            assert!((law.sf(table.at(!lane)) / u - 1.0).abs() < 1e-6, "{lane}");
            let tail = 0.5 * libm::erfc(-normal.at(lane) / std::f64::consts::SQRT_2);
            assert!((tail / u - 1.0).abs() < 1e-6, "{lane}");
        }
    }

    #[test]
    fn normal_and_lognormal_quantiles_invert_their_distribution_functions() {
        let law = Normal::standard();
        assert!(worst(&Table::normal(), |x| law.cdf(x)) <= 1e-7);
        for (p50, p95) in [(400.0_f64, 2_000.0), (1.0, 1.5), (800.0, 8_000_000.0)] {
            let sigma = (p95 / p50).ln() / NORMAL_95;
            let law = LogNormal::new(p50.ln(), sigma).unwrap();
            let table = Table::lognormal(p50, p95);
            let error = worst(&table, |x| law.cdf(x));
            assert!(error <= 1e-7, "{p50} {p95}: {error:e}");
            let at_95 = table.at((0.95 * 4_294_967_296.0) as u32);
            assert!((at_95 / p95 - 1.0).abs() < 1e-6, "{at_95}");
        }
    }

    #[test]
    fn normal_quantiles_are_symmetric() {
        let table = Table::normal();
        for lane in lanes() {
            assert_eq!(table.at(lane), -table.at(!lane));
        }
    }

    #[test]
    fn quantiles_fall_from_the_median_outwards() {
        let mut tail = BetaTail::new(2.0, 5.0);
        let mut before = f64::INFINITY;
        for step in 0..2_000 {
            let (x, slope) = tail.node(0.5 * libm::exp2(-f64::from(step) / 64.0));
            assert!(x < before && slope > 0.0, "step {step}");
            before = x;
        }
    }

    #[test]
    fn a_mixture_gives_each_part_its_share_of_the_lane() {
        let mixture = Variate::mixture(vec![
            (0.9, Variate::Fixed(2_500.0)),
            (0.0, Variate::Fixed(-1.0)),
            (
                0.1,
                Variate::Uniform {
                    low: 10.0,
                    width: 5.0,
                },
            ),
        ]);
        let border = (0.9 * 4_294_967_296.0_f64).round() as u32;
        assert_eq!(mixture.at(0), 2_500.0);
        assert_eq!(mixture.at(border - 1), 2_500.0);
        assert!((mixture.at(border) - 10.0).abs() < 1e-6);
        assert!((mixture.at(u32::MAX) - 15.0).abs() < 1e-6);
        assert!((mixture.at(border + (u32::MAX - border) / 2) - 12.5).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn any_allowed_beta_rises_from_zero_to_one(a in SHAPE_MIN..20.0_f64, b in SHAPE_MIN..20.0_f64, lanes in prop::collection::vec(any::<u32>(), 2..50)) {
            let table = Table::beta(a, b);
            let mut lanes = lanes;
            lanes.sort_unstable();
            let values: Vec<f64> = lanes.iter().map(|lane| table.at(*lane)).collect();
            prop_assert!(values.iter().all(|value| (0.0..=1.0).contains(value)), "{:?}", values);
            prop_assert!(values.is_sorted(), "{:?}", values);
        }
    }
}

//! The widest vector instructions that the processor has, found out when the program runs.
//!
//! A build for every x86-64 processor may use what all of them have since 2003. [`widest`] compiles a
//! piece of work for newer instructions as well and picks at run time. What comes out is the same to the
//! last bit: integers are integers, and each floating-point operation is rounded as it is written (no
//! multiplication is fused with an addition).

/// Work that is worth it. Everything that [`Work::call`] calls has to be inlined into it.
pub(crate) use pulp::NullaryFnOnce as Work;

/// Does the work.
#[inline(always)]
pub(crate) fn widest<W: Work>(work: W) -> W::Output {
    pulp::Arch::new().dispatch(work)
}

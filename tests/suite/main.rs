//! The one integration binary: each module checks behaviour through the public interface.

mod intervals;
mod report;

//! How long it takes to draw traffic: the lesson's world, a batch at a time, into reused vectors.

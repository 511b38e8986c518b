//! The simulation as a program.

fn main() {}

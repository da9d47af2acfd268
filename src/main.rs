//! The entry: nothing but the commands.

fn main() {}

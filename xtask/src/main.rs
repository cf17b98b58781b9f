//! The reviewer's commands.

fn main() {}

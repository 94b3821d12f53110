//! The child that reads names, which in the product is the command itself: here it is this test program.

use surefoot_stall::who::names::{read_names, use_program};

/// Lets this test program be the child, too.
pub fn by_this_program() {
    let own = std::env::current_exe().unwrap();
    use_program(own, &["suite::names::the_child_itself", "--exact", "--ignored", "--nocapture", "--quiet"]);
}

#[test]
#[ignore = "runs in a child process, which it confines"]
fn the_child_itself() {
    read_names().unwrap_or_else(|error| panic!("{error}"));
}

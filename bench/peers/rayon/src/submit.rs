//! The suite submit: tasks spawned on the pool from outside, and in a scope from inside.

use rayon::Scope;

use crate::goal::{children, external, spawn_inside, GOAL};
use crate::Bench;

/// Runs the case, if there is one of this name.
pub fn run(b: &Bench) -> bool {
    let spawn = || b.pool.spawn(|| GOAL.add(1));
    match b.case.as_str() {
        "external-1" => external(b, 1, spawn),
        "external-4" => external(b, 4, spawn),
        "spawn-inside" => spawn_inside(b, || b.pool.scope(|s| node(s, 1))),
        _ => return false,
    }
    true
}

fn node<'s>(scope: &Scope<'s>, k: i64) {
    for child in children(k) {
        scope.spawn(move |s| node(s, child));
    }
    GOAL.add(k);
}

//! The peer "tokio" of heist's benchmark; see child.rs for how it is started.
//!
//! The runtime has as many threads as there are workers. The main thread is none of them
//! and sleeps while it waits.

mod child;
mod goal;
mod latency;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::runtime::{Builder, Runtime};

use child::{fail, Child};
use goal::{children, external, spawn_inside, GOAL};

fn main() {
    let child = Child::new("tokio");
    // Tokio starts other threads only for tasks that block, of which there are none.
    let (bind, threads) = (child.binder(), AtomicUsize::new(0));
    let runtime = Builder::new_multi_thread()
        .worker_threads(child.workers)
        .on_thread_start(move || bind(threads.fetch_add(1, Relaxed)))
        .build()
        .unwrap_or_else(|e| fail(e));
    let done = match child.suite.as_str() {
        "submit" => submit(&child, &runtime),
        "latency" => latency::run(&child, |starts, i| drop(runtime.spawn(async move { starts.task(i) }))),
        _ => false,
    };
    if !done {
        child.unknown();
    }
    child.print_peak();
}

/// The suite submit: runs the case, if there is one of this name.
fn submit(child: &Child, runtime: &Runtime) -> bool {
    let spawn = || drop(runtime.spawn(async { GOAL.add(1) }));
    match child.case.as_str() {
        "external-1" => external(child, 1, spawn),
        "external-4" => external(child, 4, spawn),
        "spawn-inside" => spawn_inside(child, || {
            runtime.spawn(async { node(1) });
            GOAL.wait();
        }),
        _ => return false,
    }
    true
}

/// What a task does in the case spawn-inside.
fn node(k: i64) {
    for child in children(k) {
        tokio::spawn(async move { node(child) });
    }
    GOAL.add(k);
}

//! The peer "rayon" of heist's benchmark; see child.rs for how it is started.

mod child;
mod deque;
mod forkjoin;
mod goal;
mod latency;
mod primitives;
mod slices;
mod submit;

use std::ops::Deref;
use std::time::Instant;

use rayon::{ThreadPool, ThreadPoolBuilder};

use child::{check, fail, Child};

fn main() {
    let bench = Bench::new();
    let done = match bench.suite.as_str() {
        "deque" => deque::run(&bench),
        "primitives" => primitives::run(&bench),
        "forkjoin" => forkjoin::run(&bench),
        "loop" | "algos" => slices::run(&bench),
        "submit" => submit::run(&bench),
        "latency" => latency::run(&bench, |starts, i| bench.pool.spawn(move || starts.task(i))),
        _ => false,
    };
    if !done {
        bench.unknown();
    }
    bench.print_peak();
}

/// What is asked for, and a pool of as many threads. The main thread is none of them.
pub struct Bench {
    child: Child,
    pub pool: ThreadPool,
}

impl Deref for Bench {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl Bench {
    fn new() -> Bench {
        let child = Child::new("rayon");
        // A thread that waits steals, on top of the stack it has: deep trees need room.
        let pool = ThreadPoolBuilder::new()
            .num_threads(child.workers)
            .stack_size(256 << 20)
            .start_handler(child.binder())
            .build()
            .unwrap_or_else(|e| fail(e));
        Bench { child, pool }
    }

    /// Computes in the pool.
    pub fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        self.pool.install(f)
    }

    /// Repeats a batch of calls, at least so often, and prints the median time of a
    /// call in microseconds. What comes before a batch is not timed.
    pub fn calls(&self, least: usize, batch: usize, mut before: impl FnMut(), mut call: impl FnMut()) {
        let mut calls = || (0..batch).for_each(|_| call());
        for _ in 0..least / 2 {
            calls();
        }
        let began = Instant::now();
        let mut took = Vec::new();
        while took.len() < least || began.elapsed() < self.time {
            before();
            let start = Instant::now();
            calls();
            took.push(start.elapsed());
        }
        took.sort();
        self.print("us", took[took.len() / 2].as_secs_f64() * 1e6 / batch as f64);
    }
}

/// The n-th number of splitmix64 with seed 1, from 0.
pub fn random(n: usize) -> u64 {
    let x = (n as u64 + 1).wrapping_mul(0x9e3779b97f4a7c15).wrapping_add(1);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d049bb133111eb);
    x ^ x >> 31
}

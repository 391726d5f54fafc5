//! The peer "rayon" of heist's benchmark. It is started as
//!
//!     rayon-peer -suite S -case C -workers N -time 50ms
//!
//! and prints one line of JSON per metric of the case. What the cases are is defined
//! in the benchmark's package suites; a wrong answer is a line on standard error and
//! exit status 1.

mod forkjoin;
mod slices;

use std::fmt::{Debug, Display};
use std::process::exit;
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

fn main() {
    let bench = Bench::new();
    let done = match bench.suite.as_str() {
        "forkjoin" => forkjoin::run(&bench),
        "loop" | "algos" => slices::run(&bench),
        _ => false,
    };
    if !done {
        fail(format!("there is no case {}/{}", bench.suite, bench.case));
    }
}

pub fn fail(what: impl Display) -> ! {
    eprintln!("{what}");
    exit(1)
}

/// Stops the program if an answer is wrong.
pub fn check<T: PartialEq + Debug>(what: &str, got: T, want: T) {
    if got != want {
        fail(format!("gave {got:?} for {what}, expected {want:?}"));
    }
}

/// What the command line asks for, and a pool of as many threads. The main thread
/// is none of them.
pub struct Bench {
    suite: String,
    pub case: String,
    workers: usize,
    time: Duration,
    pub pool: ThreadPool,
}

impl Bench {
    fn new() -> Bench {
        let mut suite = String::new();
        let mut case = String::new();
        let mut workers = 1;
        let mut time = Duration::from_millis(50);
        let words: Vec<String> = std::env::args().skip(1).collect();
        for pair in words.chunks(2) {
            let value = pair.get(1).unwrap_or_else(|| fail(format!("{} has no value", pair[0])));
            match pair[0].as_str() {
                "-suite" => suite = value.clone(),
                "-case" => case = value.clone(),
                "-workers" => workers = value.parse().unwrap_or_else(|e| fail(e)),
                "-time" => time = duration(value).unwrap_or_else(|| fail(format!("-time is {value}"))),
                name => fail(format!("there is no flag {name}")),
            }
        }
        // A thread that waits steals, on top of the stack it has: deep trees need room.
        let pool = ThreadPoolBuilder::new()
            .num_threads(workers)
            .stack_size(256 << 20)
            .build()
            .unwrap_or_else(|e| fail(e));
        Bench { suite, case, workers, time, pool }
    }

    /// Computes in the pool.
    pub fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        self.pool.install(f)
    }

    /// Repeats a lap, which returns the time that counts, and prints the mean per
    /// operation. The first lap is not counted if it has data to warm up.
    pub fn laps(&self, metric: &str, unit: Duration, ops: usize, warm: bool, mut lap: impl FnMut() -> Duration) {
        if warm {
            lap();
        }
        let mut took = Duration::ZERO;
        let mut count = 0;
        while count == 0 || took < self.time {
            took += lap();
            count += 1;
        }
        self.print(metric, took.as_secs_f64() / unit.as_secs_f64() / (ops * count) as f64);
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

    pub fn print(&self, metric: &str, value: f64) {
        println!(
            "{{\"suite\":\"{}\",\"case\":\"{}\",\"impl\":\"rayon\",\"workers\":{},\"metric\":\"{}\",\
             \"value\":{value},\"min\":{value},\"max\":{value},\"runs\":1,\"better\":\"lower\",\"peer\":true}}",
            self.suite, self.case, self.workers, metric
        );
    }
}

/// Reads a duration as Go writes it, such as 1m2.5s or 50ms.
fn duration(text: &str) -> Option<Duration> {
    let mut sum = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        sum += number
            * match &rest[..letters] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    Some(Duration::from_secs_f64(sum))
}

/// The n-th number of splitmix64 with seed 1, from 0.
pub fn random(n: usize) -> u64 {
    let x = (n as u64 + 1).wrapping_mul(0x9e3779b97f4a7c15).wrapping_add(1);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d049bb133111eb);
    x ^ x >> 31
}

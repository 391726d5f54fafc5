//! The suite latency: how long a task waits, from when it was due until it runs.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::child::{check, Child};
use crate::goal::GOAL;

/// When tasks are due, and whether the submitter spins until then or sleeps.
#[derive(Clone, Copy)]
struct Arrivals {
    period: Duration,
    hot: bool,
}

const WORK: Duration = Duration::from_micros(1);
const WARM: usize = 20;
const LEAST: usize = 200;

/// Runs the case, if there is one of this name. Submit hands over a task that calls
/// Starts::task with the number.
pub fn run(child: &Child, submit: impl Fn(&'static Starts, usize)) -> bool {
    let arrivals = match child.case.as_str() {
        "start-asleep" => Arrivals { period: Duration::from_millis(1), hot: false },
        "start-hot" => Arrivals { period: Duration::from_micros(20), hot: true },
        _ => return false,
    };
    let n = LEAST.max((child.time.as_secs_f64() / arrivals.period.as_secs_f64()) as usize);
    let starts: &Starts = Box::leak(Box::new(Starts::new(WARM + n)));
    drive(starts, arrivals, 0, WARM, &submit);
    let mut waits = drive(starts, arrivals, WARM, WARM + n, &submit);
    waits.sort();
    for (metric, share) in [("p50-us", 0.5), ("p99-us", 0.99), ("p999-us", 0.999)] {
        let rank = (share * n as f64).ceil() as usize;
        child.print(metric, waits[rank.max(1) - 1].as_secs_f64() * 1e6);
    }
    true
}

/// When the tasks started.
pub struct Starts {
    began: Instant,
    rounds: usize,
    answer: u64,
    tasks: Vec<Start>,
}

#[derive(Default)]
struct Start {
    started: AtomicU64, // nanoseconds since began
    right: AtomicU32,   // how often it ran, with the right answer
}

impl Starts {
    fn new(n: usize) -> Starts {
        let rounds = rounds_in(WORK);
        let tasks = (0..n).map(|_| Start::default()).collect();
        Starts { began: Instant::now(), rounds, answer: busy(rounds), tasks }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// What is handed over.
    pub fn task(&self, i: usize) {
        let now = self.now();
        let start = &self.tasks[i];
        if busy(black_box(self.rounds)) == self.answer && start.right.fetch_add(1, SeqCst) == 0 {
            start.started.store(now.as_nanos() as u64, SeqCst);
        }
        GOAL.add(1);
    }
}

/// The submitter: it hands over the tasks from lo to hi-1 when they are due, and only
/// then waits for them. Returns how long each waited.
fn drive(s: &'static Starts, a: Arrivals, lo: usize, hi: usize, submit: impl Fn(&'static Starts, usize)) -> Vec<Duration> {
    GOAL.set((hi - lo) as i64);
    let start = s.now();
    let mut woke = start;
    let mut due = Vec::with_capacity(hi - lo);
    for i in lo..hi {
        let at = start + (i - lo) as u32 * a.period;
        let now = s.now();
        if now < at {
            if a.hot {
                while s.now() < at {}
            } else {
                sleep(at - now);
                woke = s.now();
            }
        }
        // What was due while the submitter slept could not be handed over before.
        due.push(at.max(woke));
        submit(s, i);
    }
    GOAL.wait();
    let tasks = &s.tasks[lo..hi];
    let once = tasks.iter().filter(|t| t.right.load(SeqCst) == 1).count();
    check("the number of tasks done once", once, hi - lo);
    GOAL.check("the number of tasks done");
    let waited = |(t, due): (&Start, Duration)| Duration::from_nanos(t.started.load(SeqCst)).saturating_sub(due);
    tasks.iter().zip(due).map(waited).collect()
}

/// How many rounds busy does in this time. Of several tries the fastest counts: the
/// others were disturbed.
fn rounds_in(length: Duration) -> usize {
    const ROUNDS: usize = 200_000;
    let took = || {
        let start = Instant::now();
        black_box(busy(black_box(ROUNDS)));
        start.elapsed()
    };
    let fastest = (0..5).map(|_| took()).min().unwrap();
    (ROUNDS as f64 * length.as_secs_f64() / fastest.as_secs_f64()) as usize
}

/// Computes.
fn busy(rounds: usize) -> u64 {
    let mut x = 1;
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

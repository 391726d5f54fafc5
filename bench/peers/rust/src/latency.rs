//! The suite latency: how long a task waits, from when it was due until it runs.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::child::{check, fail, Child};
use crate::goal::GOAL;

/// When tasks are due, how long they take, how many are due at a time, and whether the submitter spins until then
/// or sleeps.
#[derive(Clone, Copy)]
struct Arrivals {
    period: Duration,
    work: Duration,
    burst: usize,
    hot: bool,
}

impl Arrivals {
    fn of(case: &str) -> Option<Arrivals> {
        let (period, work, burst, hot) = match case {
            "start-asleep" => (1000, 1, 1, false),
            "start-hot" => (20, 1, 1, true),
            "gap-200us" => (200, 5, 1, false),
            "gap-1ms" => (1000, 5, 1, false),
            "gap-5ms" => (5000, 5, 1, false),
            "burst-5" => (1000, 5, 5, false),
            "burst-10" => (1000, 5, 10, false),
            _ => return None,
        };
        Some(Arrivals { period: Duration::from_micros(period), work: Duration::from_micros(work), burst, hot })
    }
}

const WARM: usize = 20;
const LEAST: usize = 200;

/// Runs the case, if there is one of this name. Submit hands over a task that calls
/// Starts::task with the number.
pub fn run(child: &Child, submit: impl Fn(&'static Starts, usize)) -> bool {
    let Some(arrivals) = Arrivals::of(&child.case) else { return false };
    let n = LEAST.max((child.time.as_secs_f64() / arrivals.period.as_secs_f64()) as usize * arrivals.burst);
    let starts: &Starts = Box::leak(Box::new(Starts::new(WARM + n, arrivals.work)));
    drive(starts, arrivals, 0, WARM, &submit);
    let before = cpu_time();
    let mut waits = drive(starts, arrivals, WARM, WARM + n, &submit);
    let used = cpu_time() - before;
    waits.sort();
    for (metric, share) in [("p50-us", 0.5), ("p99-us", 0.99), ("p999-us", 0.999)] {
        let rank = (share * n as f64).ceil() as usize;
        child.print(metric, waits[rank.max(1) - 1].as_secs_f64() * 1e6);
    }
    child.print("cpu-us", used.as_secs_f64() * 1e6 / n as f64);
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
    fn new(n: usize, work: Duration) -> Starts {
        let rounds = rounds_in(work);
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
        let at = start + ((i - lo) / a.burst) as u32 * a.period;
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

/// What all threads of the process have used so far, and the kernel for them.
fn cpu_time() -> Duration {
    #[repr(C)]
    struct Timespec(i64, i64);
    extern "C" {
        fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    }
    const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
    let mut t = Timespec(0, 0);
    if unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut t) } != 0 {
        fail("the process's CPU time cannot be read");
    }
    Duration::new(t.0 as u64, t.1 as u32)
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

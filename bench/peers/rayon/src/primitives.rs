//! The suite primitives: the steps of forks, steals and wake-ups.

use std::cell::Cell;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::sync::Parker;
use rayon::join;

use crate::{check, fail, Bench};

const NS: Duration = Duration::from_nanos(1);
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the case, if there is one of this name.
pub fn run(b: &Bench) -> bool {
    match (b.case.as_str(), b.peer.as_str()) {
        ("fork", _) => ladders(b, "ns/fork", |down, _, _| down),
        ("join", _) => ladders(b, "ns/join", |_, up, _| up),
        ("fork-join", _) => ladders(b, "ns/fork", |down, up, plain| (down + up).saturating_sub(plain)),
        ("claim", _) => claim(b),
        ("start", _) => start(b),
        ("wake", "rayon") => {
            let (woke, ups) = up_counter();
            let woke = Arc::new(Mutex::new(woke));
            wake(b, &ups, || {
                let woke = woke.clone();
                b.pool.spawn(move || woke.lock().unwrap()());
            });
        }
        ("wake", "crossbeam") => {
            let (woke, ups) = up_counter();
            let parker = Parker::new();
            let unparker = parker.unparker().clone();
            thread::spawn(move || loop {
                parker.park();
                woke();
            });
            wake(b, &ups, || unparker.unpark());
        }
        _ => return false,
    }
    true
}

const RUNGS: usize = 128;
const LADDERS: usize = 200;

thread_local!(static FOOT: Cell<Option<Instant>> = const { Cell::new(None) });

/// The foot of a ladder.
fn foot() -> usize {
    FOOT.with(|foot| foot.set(Some(Instant::now())));
    0
}

#[inline(never)]
fn leaf() -> usize {
    black_box(1)
}

fn climb(n: usize) -> usize {
    if n == 0 {
        return foot();
    }
    let (x, y) = join(|| climb(n - 1), leaf);
    x + y
}

#[inline(never)]
fn plain(n: usize) -> usize {
    if n == 0 {
        return foot();
    }
    let x = plain(black_box(n - 1));
    x + leaf()
}

/// The ways down and up.
fn ways(call: fn(usize) -> usize) -> (Duration, Duration) {
    let start = Instant::now();
    let leaves = call(RUNGS);
    let end = Instant::now();
    check("the leaves of a ladder", leaves, RUNGS);
    let foot = FOOT.with(Cell::get).unwrap();
    (foot - start, end - foot)
}

fn ladders(b: &Bench, metric: &str, part: fn(Duration, Duration, Duration) -> Duration) {
    b.laps(metric, NS, LADDERS * RUNGS, true, || {
        b.install(|| {
            let (mut down, mut up, mut calls) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
            for _ in 0..LADDERS {
                let (forks, joins) = ways(climb);
                let (there, back) = ways(plain);
                down += forks;
                up += joins;
                calls += there + back;
            }
            part(down, up, calls)
        })
    });
}

/// The leaves that a thief takes one after another.
struct Spree {
    began: Instant,
    taken: AtomicUsize,
    first: AtomicU64, // since began
    last: AtomicU64,
    over: AtomicBool,
}

impl Spree {
    fn leaf(&self) -> usize {
        let now = || self.began.elapsed().as_nanos() as u64;
        match self.taken.fetch_add(1, SeqCst) + 1 {
            1 => self.first.store(now(), SeqCst),
            RUNGS => {
                self.last.store(now(), SeqCst);
                self.over.store(true, SeqCst);
            }
            _ => (),
        }
        1
    }

    fn climb(&self, n: usize) -> usize {
        if n == 0 {
            spin_until(&self.over);
            return 0;
        }
        let (x, y) = join(|| self.climb(n - 1), || self.leaf());
        x + y
    }
}

fn spin_until(done: &AtomicBool) {
    let start = Instant::now();
    while !done.load(SeqCst) {
        if start.elapsed() > PATIENCE {
            fail("nobody took the forks");
        }
        spin_loop();
    }
}

fn claim(b: &Bench) {
    b.laps("ns/steal", NS, RUNGS - 1, true, || {
        let s = Spree {
            began: Instant::now(),
            taken: AtomicUsize::new(0),
            first: AtomicU64::new(0),
            last: AtomicU64::new(0),
            over: AtomicBool::new(false),
        };
        let leaves = b.install(|| s.climb(RUNGS));
        check("the leaves of a ladder", leaves, RUNGS);
        Duration::from_nanos(s.last.load(SeqCst) - s.first.load(SeqCst))
    });
}

const BETWEEN: Duration = Duration::from_micros(5);

fn start(b: &Bench) {
    const WARM: usize = 20;
    const LEAST: usize = 200;
    let mut took = b.install(|| {
        let began = Instant::now();
        let mut took = Vec::new();
        while took.len() < WARM + LEAST || began.elapsed() < b.time {
            let pause = Instant::now();
            while pause.elapsed() < BETWEEN {}
            let landed = AtomicBool::new(false);
            let start = Instant::now();
            let (_, started) = join(
                || spin_until(&landed),
                || {
                    let now = Instant::now();
                    landed.store(true, SeqCst);
                    now
                },
            );
            took.push(started - start);
        }
        took.split_off(WARM)
    });
    percentiles(b, &mut took);
}

fn percentiles(b: &Bench, took: &mut [Duration]) {
    took.sort();
    for (metric, share) in [("p50-us", 0.5), ("p99-us", 0.99)] {
        let rank = (share * took.len() as f64).ceil() as usize;
        b.print(metric, took[rank.max(1) - 1].as_secs_f64() * 1e6);
    }
}

/// What who was woken calls, and where it says when that was.
fn up_counter() -> (impl Fn() + Send, mpsc::Receiver<Instant>) {
    let (woke, ups) = mpsc::channel();
    (move || woke.send(Instant::now()).unwrap(), ups)
}

fn wake(b: &Bench, ups: &mpsc::Receiver<Instant>, call: impl Fn()) {
    const ASLEEP: Duration = Duration::from_millis(2);
    const WARM: usize = 5;
    let n = 50.max((b.time.as_secs_f64() / ASLEEP.as_secs_f64()) as usize);
    let (mut took, mut calls) = (Vec::new(), Vec::new());
    for i in 0..WARM + n {
        thread::sleep(ASLEEP);
        let before = Instant::now();
        call();
        let after = Instant::now();
        let woke = ups.recv_timeout(PATIENCE).unwrap_or_else(|_| fail("who was woken did not run"));
        if i >= WARM {
            took.push(woke.saturating_duration_since(before));
            calls.push(after - before);
        }
    }
    percentiles(b, &mut took);
    calls.sort();
    b.print("call-us", calls[n / 2].as_secs_f64() * 1e6);
}

//! What tasks work towards: each adds its share to a sum. And with it the suite submit.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::child::{check, Child};

/// How many tasks are submitted before they are waited for.
pub const TASKS: i64 = 1_000_000;

/// How long to wait for tasks that should be long done.
const PATIENCE: Duration = Duration::from_secs(30);

#[repr(align(128))]
struct Line<T>(T);

/// A sum, on a cache line of its own.
pub struct Goal {
    sum: Line<AtomicI64>,
    want: Line<AtomicI64>,
    met: Mutex<bool>,
    changed: Condvar,
}

/// The only one: a task needs nothing to find it.
pub static GOAL: Goal = Goal {
    sum: Line(AtomicI64::new(0)),
    want: Line(AtomicI64::new(0)),
    met: Mutex::new(false),
    changed: Condvar::new(),
};

impl Goal {
    /// Begins a lap.
    pub fn set(&self, want: i64) {
        self.sum.0.store(0, SeqCst);
        self.want.0.store(want, SeqCst);
        *self.met.lock().unwrap() = false;
    }

    /// What a task does. It reads want first: as soon as it has added, the next lap may
    /// begin.
    pub fn add(&self, n: i64) {
        let want = self.want.0.load(SeqCst);
        if self.sum.0.fetch_add(n, SeqCst) + n == want {
            *self.met.lock().unwrap() = true;
            self.changed.notify_one();
        }
    }

    /// Returns when the sum is what it should be, or has not become so in a time in which
    /// all tasks should be long done.
    pub fn wait(&self) {
        let met = self.met.lock().unwrap();
        drop(self.changed.wait_timeout_while(met, PATIENCE, |met| !*met).unwrap());
    }

    pub fn check(&self, what: &str) {
        check(what, self.sum.0.load(SeqCst), self.want.0.load(SeqCst));
    }
}

/// The cases external-1 and external-4: so many threads divide the tasks evenly. Each
/// calls submit for each of its tasks, which add 1 to the goal.
pub fn external(child: &Child, submitters: i64, submit: impl Fn() + Sync) {
    laps(child, TASKS, "the number of tasks done", || {
        let share = || (0..TASKS / submitters).for_each(|_| submit());
        thread::scope(|s| {
            for _ in 1..submitters {
                s.spawn(share);
            }
            share();
        });
        GOAL.wait();
    });
}

/// The case spawn-inside: task k spawns the tasks 2k and 2k+1, so far as there are such,
/// and adds k. Run returns when all are done.
pub fn spawn_inside(child: &Child, run: impl Fn()) {
    laps(child, TASKS * (TASKS + 1) / 2, "the sum of the tasks' numbers", run);
}

/// The tasks that task k spawns.
pub fn children(k: i64) -> impl Iterator<Item = i64> {
    (2 * k..2 * k + 2).filter(|&child| child <= TASKS)
}

fn laps(child: &Child, want: i64, what: &str, run: impl Fn()) {
    child.laps("ns/task", Duration::from_nanos(1), TASKS as usize, true, || {
        GOAL.set(want);
        let start = Instant::now();
        run();
        let took = start.elapsed();
        GOAL.check(what);
        took
    });
}

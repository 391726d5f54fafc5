//! The suite deque: crossbeam's.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Stealer, Worker};

use crate::{check, Bench};

const NS: Duration = Duration::from_nanos(1);
const BURST: usize = 64;

/// Runs the case, if there is one of this name. Items are their numbers, from 1.
pub fn run(b: &Bench) -> bool {
    match b.case.as_str() {
        "push-pop" => push_pop(b),
        "steal" => steal(b),
        "steal-contended" => steal_contended(b),
        _ => return false,
    }
    true
}

fn push_pop(b: &Bench) {
    const BURSTS: usize = 1000;
    let deque = Worker::new_lifo();
    b.laps("ns/op", NS, BURSTS * BURST, true, || {
        let start = Instant::now();
        for _ in 0..BURSTS {
            for i in 1..=BURST {
                deque.push(i);
            }
            for i in (1..=BURST).rev() {
                check("the number of the item taken", deque.pop(), Some(i));
            }
        }
        start.elapsed()
    });
}

fn steal(b: &Bench) {
    const DEPTH: usize = 2048;
    let deque = Worker::new_lifo();
    let thief = deque.stealer();
    b.laps("ns/steal", NS, DEPTH, true, || {
        for i in 1..=DEPTH {
            deque.push(i);
        }
        let start = Instant::now();
        for i in 1..=DEPTH {
            check("the number of the item taken", thief.steal(), Steal::Success(i));
        }
        start.elapsed()
    });
}

/// The number of items that somebody took, and the sum of their numbers.
#[derive(Default)]
struct Loot {
    count: usize,
    sum: usize,
}

impl Loot {
    fn add(&mut self, item: usize) {
        self.count += 1;
        self.sum += item;
    }
}

fn steal_contended(b: &Bench) {
    const ITEMS: usize = 100_000;
    b.laps("ns/item", NS, ITEMS, true, || {
        let deque = Worker::new_lifo();
        let all_pushed = AtomicBool::new(false);
        let mut own = Loot::default();
        let mut took = Duration::ZERO;
        thread::scope(|s| {
            let thieves: Vec<_> = (1..b.workers)
                .map(|_| {
                    let stealer = deque.stealer();
                    let all_pushed = &all_pushed;
                    s.spawn(move || thieve(&stealer, all_pushed))
                })
                .collect();
            let start = Instant::now();
            for i in 1..=ITEMS {
                deque.push(i);
                if i % BURST == 0 {
                    (0..BURST / 2).for_each(|_| deque.pop().into_iter().for_each(|item| own.add(item)));
                }
            }
            while let Some(item) = deque.pop() {
                own.add(item);
            }
            all_pushed.store(true, SeqCst);
            for thief in thieves {
                let loot = thief.join().unwrap();
                own.count += loot.count;
                own.sum += loot.sum;
            }
            took = start.elapsed();
        });
        check("the number of items taken", own.count, ITEMS);
        check("the sum of the items taken", own.sum, ITEMS * (ITEMS + 1) / 2);
        took
    });
}

/// Steals until everything has been pushed and the deque is empty.
fn thieve(deque: &Stealer<usize>, all_pushed: &AtomicBool) -> Loot {
    let mut loot = Loot::default();
    loop {
        let over = all_pushed.load(SeqCst);
        match deque.steal() {
            Steal::Success(item) => loot.add(item),
            Steal::Empty if over => return loot,
            Steal::Empty => spin_loop(),
            Steal::Retry => (),
        }
    }
}

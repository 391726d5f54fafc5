//! The part of a peer that does not depend on its library: it is started as
//!
//!     ...-peer -suite S -case C -workers N -time 50ms
//!
//! and perhaps -impl with the name of another peer that it plays, and prints one line of
//! JSON per metric of the case, and one of its peak of memory. What the cases are is defined in the benchmark's package
//! suites; a wrong answer is a line on standard error and exit status 1.

use std::fmt::{Debug, Display};
use std::process::exit;
use std::time::Duration;

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

/// What the command line asks for.
pub struct Child {
    pub peer: String,
    pub suite: String,
    pub case: String,
    pub workers: usize,
    pub time: Duration,
}

impl Child {
    pub fn new(peer: &str) -> Child {
        let mut child =
            Child { peer: peer.into(), suite: String::new(), case: String::new(), workers: 1, time: Duration::from_millis(50) };
        let words: Vec<String> = std::env::args().skip(1).collect();
        for pair in words.chunks(2) {
            let value = pair.get(1).unwrap_or_else(|| fail(format!("{} has no value", pair[0])));
            match pair[0].as_str() {
                "-impl" => child.peer = value.clone(),
                "-suite" => child.suite = value.clone(),
                "-case" => child.case = value.clone(),
                "-workers" => child.workers = value.parse().unwrap_or_else(|e| fail(e)),
                "-time" => child.time = duration(value).unwrap_or_else(|| fail(format!("-time is {value}"))),
                name => fail(format!("there is no flag {name}")),
            }
        }
        child
    }

    /// What thread i of the pool calls first: it binds the thread to the i-th of the CPUs that the process may use, if the
    /// peer is one of bound threads.
    pub fn binder(&self) -> impl Fn(usize) + Send + Sync + 'static {
        let pinned = self.peer.ends_with("-pinned");
        move |i| {
            if pinned {
                bind(i)
            }
        }
    }

    /// Ends the program that does not have the case.
    pub fn unknown(&self) -> ! {
        fail(format!("there is no case {}/{}", self.suite, self.case))
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

    /// Prints the most memory that the process had in RAM, where the system tells.
    pub fn print_peak(&self) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        if let Some(kib) = kib {
            self.print("peak-MB", kib * 1024.0 / 1e6);
        }
    }

    pub fn print(&self, metric: &str, value: f64) {
        println!(
            "{{\"suite\":\"{}\",\"case\":\"{}\",\"impl\":\"{}\",\"workers\":{},\"metric\":\"{}\",\
             \"value\":{value},\"min\":{value},\"max\":{value},\"runs\":1,\"better\":\"lower\",\"peer\":true}}",
            self.suite, self.case, self.peer, self.workers, metric
        );
    }
}

#[cfg(not(target_os = "linux"))]
fn bind(_: usize) {
    fail("threads are bound on Linux only")
}

#[cfg(target_os = "linux")]
fn bind(i: usize) {
    const CPUS: usize = 1024;
    const SIZE: usize = CPUS / 8;
    extern "C" {
        fn sched_getaffinity(thread: i32, size: usize, mask: *mut u64) -> i32;
        fn sched_setaffinity(thread: i32, size: usize, mask: *const u64) -> i32;
    }
    let mut mask = [0u64; CPUS / 64];
    if unsafe { sched_getaffinity(0, SIZE, mask.as_mut_ptr()) } != 0 {
        fail("sched_getaffinity failed");
    }
    let cpus: Vec<usize> = (0..CPUS).filter(|c| mask[c / 64] >> (c % 64) & 1 == 1).collect();
    let cpu = cpus[i % cpus.len()];
    mask.fill(0);
    mask[cpu / 64] = 1 << (cpu % 64);
    if unsafe { sched_setaffinity(0, SIZE, mask.as_ptr()) } != 0 {
        fail(format!("a thread cannot be bound to CPU {cpu}"));
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

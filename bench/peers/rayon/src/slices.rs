//! The suites loop and algos: rayon's parallel iterators.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use crate::{check, fail, random, Bench};

/// Runs the case, if there is one of this name.
pub fn run(b: &Bench) -> bool {
    match b.case.as_str() {
        "outside-1024-asleep" => affine(b, 1024, 41, 1, Duration::from_millis(5)),
        "outside-1024-hot" => affine(b, 1024, 101, 64, Duration::ZERO),
        "large" => affine(b, 1_000_000, 21, 1, Duration::ZERO),
        "triangular" => triangular(b),
        "nbody" => nbody(b),
        "sort-1m" => sort(b),
        "sort-stable-1m" => sort_pairs(b, true, |v| v.par_sort_by(|x, y| x.key.cmp(&y.key))),
        "sortfunc-1m" => sort_pairs(b, false, |v| v.par_sort_unstable_by(|x, y| x.key.cmp(&y.key))),
        "filter" => filter(b),
        "reduce" => reduce(b),
        "map" => map(b),
        _ => return b.case.strip_prefix("sort-").is_some_and(|kind| sorts(b, kind)),
    }
    true
}

/// y[i] = 3 x[i] + 1, called by the main thread, which sleeps before each batch of
/// calls if there is a pause.
fn affine(b: &Bench, n: usize, least: usize, batch: usize, pause: Duration) {
    let x: Vec<u64> = (0..n).map(random).collect();
    let mut y = vec![0; n];
    b.calls(
        least,
        batch,
        || {
            if !pause.is_zero() {
                sleep(pause)
            }
        },
        || b.install(|| y.par_iter_mut().zip(&x).for_each(|(y, x)| *y = x.wrapping_mul(3).wrapping_add(1))),
    );
    for i in 0..n {
        check("an item of the loop", y[i], x[i].wrapping_mul(3).wrapping_add(1));
    }
}

const TRIANGLE: usize = 4096;

fn triangular(b: &Bench) {
    let item = |i: usize| {
        let mut x = i as u64 + 1;
        for _ in 0..i * 8 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        x
    };
    let mut out = vec![0; TRIANGLE];
    b.laps("ms", Duration::from_millis(1), 1, false, || {
        let start = Instant::now();
        b.install(|| out.par_iter_mut().enumerate().for_each(|(i, out)| *out = item(i)));
        start.elapsed()
    });
    for i in (0..TRIANGLE).step_by(61) {
        check("an item of the loop", out[i], item(i));
    }
}

const BODIES: usize = 128;
const STEPS: usize = 200;
type Vector = [f64; 3];

/// A step of the simulation for one body, as in nbody.go.
fn attract(from: &[Vector], here: usize, to: &mut Vector, speed: &mut Vector) {
    let here = from[here];
    let mut pull = [0.0; 3];
    for body in from {
        let (x, y, z) = (body[0] - here[0], body[1] - here[1], body[2] - here[2]);
        let square: f64 = x * x + y * y + z * z + 1e-3;
        let force = 1.0 / (square * square.sqrt());
        pull[0] += x * force;
        pull[1] += y * force;
        pull[2] += z * force;
    }
    for d in 0..3 {
        speed[d] += pull[d] * 1e-6;
        to[d] = here[d] + speed[d] * 1e-3;
    }
}

/// A parallel region for each step, from the main thread.
fn nbody(b: &Bench) {
    let begin: Vec<Vector> = (0..BODIES)
        .map(|i| [0, 1, 2].map(|d| (random(3 * i + d) >> 11) as f64 / (1u64 << 53) as f64))
        .collect();
    let simulate = |step: &dyn Fn(&[Vector], &mut [Vector], &mut [Vector])| {
        let (mut from, mut to, mut speed) = (begin.clone(), begin.clone(), vec![[0.0; 3]; BODIES]);
        let start = Instant::now();
        for _ in 0..STEPS {
            step(&from, &mut to, &mut speed);
            std::mem::swap(&mut from, &mut to);
        }
        (start.elapsed(), from)
    };
    let (_, want) = simulate(&|from, to, speed| {
        for (i, (to, speed)) in to.iter_mut().zip(speed).enumerate() {
            attract(from, i, to, speed)
        }
    });
    b.laps("us", Duration::from_micros(1), STEPS, false, || {
        let (took, got) = simulate(&|from, to, speed| {
            b.install(|| {
                to.par_iter_mut().zip(speed).enumerate().for_each(|(i, (to, speed))| attract(from, i, to, speed))
            })
        });
        if got != want {
            fail("a body is elsewhere");
        }
        took
    });
}

const N: usize = 1 << 20;

/// Prints the time per element of a call, given what must be made ready before and
/// is checked after it.
fn each(b: &Bench, mut lap: impl FnMut() -> Duration) {
    b.laps("ns/elem", Duration::from_nanos(1), N, true, &mut lap);
}

fn integers() -> Vec<i64> {
    (0..N).map(|i| random(i) as i64).collect()
}

fn sort(b: &Bench) {
    let input = integers();
    let mut want = input.clone();
    want.sort_unstable();
    let mut v = input.clone();
    each(b, || {
        v.copy_from_slice(&input);
        let start = Instant::now();
        b.install(|| v.par_sort_unstable());
        let took = start.elapsed();
        if v != want {
            fail("the elements are out of order");
        }
        took
    });
}

#[derive(Clone, Copy)]
struct Pair {
    key: u32,
    payload: u32,
}

fn sort_pairs(b: &Bench, stable: bool, sort: impl Fn(&mut Vec<Pair>) + Sync) {
    let input: Vec<Pair> = (0..N).map(|i| Pair { key: random(i) as u32, payload: i as u32 }).collect();
    let mut v = input.clone();
    each(b, || {
        v.copy_from_slice(&input);
        let start = Instant::now();
        b.install(|| sort(&mut v));
        let took = start.elapsed();
        let mut seen = vec![false; N];
        for (i, pair) in v.iter().enumerate() {
            let from = pair.payload as usize;
            let in_order = i == 0
                || v[i - 1].key < pair.key
                || v[i - 1].key == pair.key && !(stable && v[i - 1].payload > pair.payload);
            if !in_order || seen[from] || input[from].key != pair.key {
                fail("the elements are out of order");
            }
            seen[from] = true;
        }
        took
    });
}

/// The sorts of fewer elements; see sorts.go.
const FEWER: usize = 1 << 18;

fn sorts(b: &Bench, kind: &str) -> bool {
    match kind {
        "float64" => {
            let input: Vec<f64> = (0..FEWER).map(|i| (random(i) >> 11) as f64 / (1u64 << 53) as f64 - 0.5).collect();
            let mut want = input.clone();
            want.sort_by(f64::total_cmp);
            sort_each(b, &input, |v| v.par_sort_unstable_by(f64::total_cmp), |v| v == want);
            return true;
        }
        "string" => {
            let input: Vec<String> = (0..FEWER).map(|i| random(i).to_string()).collect();
            let mut want = input.clone();
            want.sort();
            sort_each(b, &input, |v| v.par_sort_unstable(), |v| v == want);
            return true;
        }
        _ => (),
    }
    let (element, input) = ["int64-", "pair-stable-", "pair-"]
        .iter()
        .find_map(|element| Some((*element, kind.strip_prefix(element)?)))
        .unwrap_or_default();
    let Some(key) = key_of(input) else { return false };
    let keys: Vec<i64> = (0..FEWER).map(key).collect();
    let mut want = keys.clone();
    want.sort();
    if element == "int64-" {
        sort_each(b, &keys, |v| v.par_sort_unstable(), |v| v == want);
        return true;
    }
    let pairs: Vec<(i64, i64)> = (0..).zip(&keys).map(|(i, key)| (*key, i)).collect();
    let all_there = |v: &[(i64, i64)]| {
        let mut seen = vec![false; FEWER];
        v.iter().zip(&want).all(|(pair, key)| {
            let from = pair.1 as usize;
            pair.0 == *key && keys[from] == *key && !std::mem::replace(&mut seen[from], true)
        })
    };
    if element == "pair-" {
        sort_each(b, &pairs, |v| v.par_sort_unstable_by_key(|pair| pair.0), all_there);
    } else {
        // Stable is by both.
        let in_order = |v: &[(i64, i64)]| v.windows(2).all(|w| w[0] < w[1]);
        sort_each(b, &pairs, |v| v.par_sort_by_key(|pair| pair.0), |v| in_order(v) && all_there(v));
    }
    true
}

/// The keys of an input, by their index.
fn key_of(input: &str) -> Option<fn(usize) -> i64> {
    const K: usize = FEWER / 2;
    Some(match input {
        "random" => |i| random(i) as i64,
        "sorted" => |i| i as i64,
        "reversed" => |i| (FEWER - i) as i64,
        "few" => |i| (random(i) % 16) as i64,
        "organ-pipe" => |i| i.min(FEWER - i) as i64,
        "killer" => |i| match i {
            K.. => 2 * (i - K + 1) as i64,
            _ if i % 2 == 1 => (K + i) as i64,
            _ => i as i64 + 1,
        },
        _ => return None,
    })
}

fn sort_each<T: Clone + Send>(b: &Bench, input: &[T], sort: impl Fn(&mut [T]) + Sync, right: impl Fn(&[T]) -> bool) {
    let mut v = input.to_vec();
    b.laps("ns/elem", Duration::from_nanos(1), input.len(), true, || {
        v.clone_from_slice(input);
        let start = Instant::now();
        b.install(|| sort(&mut v));
        let took = start.elapsed();
        if !right(&v) {
            fail("the elements are out of order");
        }
        took
    });
}

fn filter(b: &Bench) {
    let input = integers();
    let want: Vec<i64> = input.iter().copied().filter(|x| x % 2 == 0).collect();
    each(b, || {
        let start = Instant::now();
        let got: Vec<i64> = b.install(|| input.par_iter().copied().filter(|x| x % 2 == 0).collect());
        let took = start.elapsed();
        if got != want {
            fail("kept other elements than the even ones");
        }
        took
    });
}

fn reduce(b: &Bench) {
    let input = integers();
    let want = input.iter().fold(0, |sum: i64, x| sum.wrapping_add(*x));
    each(b, || {
        let start = Instant::now();
        let got = b.install(|| input.par_iter().copied().reduce(|| 0, i64::wrapping_add));
        let took = start.elapsed();
        check("the sum", got, want);
        took
    });
}

fn map(b: &Bench) {
    let f = |x: f64| x * x + 1.0;
    let input: Vec<f64> = (0..N).map(|i| (random(i) >> 11) as f64 / (1u64 << 53) as f64).collect();
    let mut out = vec![0.0; N];
    each(b, || {
        let start = Instant::now();
        b.install(|| out.par_iter_mut().zip(&input).for_each(|(y, x)| *y = f(*x)));
        start.elapsed()
    });
    for i in 0..N {
        // A fused multiplication and addition rounds once instead of twice.
        if (out[i] - f(input[i])).abs() > 1e-15 {
            fail(format!("gave {} for an element, expected {}", out[i], f(input[i])));
        }
    }
}

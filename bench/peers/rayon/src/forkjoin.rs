//! The suite forkjoin: every fork is a rayon::join.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rayon::join;
use sha1::compress;
use sha1::digest::generic_array::GenericArray;

use crate::{check, fail, random, Bench};

const NS: Duration = Duration::from_nanos(1);
const MS: Duration = Duration::from_millis(1);

/// Runs the case, if there is one of this name.
pub fn run(b: &Bench) -> bool {
    // Threads start and fault in their stacks before the time counts.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(20) {
        check("fib", b.install(|| fib(20)), 6765);
    }
    match b.case.as_str() {
        "fib35" => adding(b, "fib", "ns/fork", NS, 14_930_351, 9_227_465, || fib(35)),
        "nqueens12" => adding(b, "the solutions for the queens", "ms", MS, 1, 14_200, || queens(Board::empty(12))),
        "uts-t1" => count(b, &Tree { seed: 19, b: 4, depth: 10, q: 0.0, m: 0, log_q: 0.8f64.ln() }, 4_130_071),
        "uts-t3" => count(b, &Tree { seed: 42, b: 2000, depth: 0, q: 0.124875, m: 8, log_q: 0.0 }, 4_112_897),
        "skynet" if b.peer == "rayon-scope" => {
            adding(b, "the sum of the leaves", "ns/leaf", NS, 1_000_000, 499_999_500_000, || skynet_scope(1_000_000))
        }
        "skynet" if b.peer == "rayon-scope-pair" => {
            adding(b, "the sum of the leaves", "ns/leaf", NS, 100_000, 4_999_950_000, || {
                skynet_pair(Siblings { first: 0, size: 100_000, n: 1 })
            })
        }
        "skynet" => adding(b, "the sum of the leaves", "ns/leaf", NS, 1_000_000, 499_999_500_000, || {
            skynet(Siblings { first: 0, size: 1_000_000, n: 1 })
        }),
        "mergesort" => mergesort_case(b),
        "matmul" => matmul_case(b),
        _ => return false,
    }
    true
}

/// A case whose answer is a number.
fn adding(b: &Bench, what: &str, metric: &str, unit: Duration, ops: usize, want: u64, compute: impl Fn() -> u64 + Sync) {
    b.laps(metric, unit, ops, false, || {
        let start = Instant::now();
        let got = b.install(&compute);
        let took = start.elapsed();
        check(what, got, want);
        took
    });
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (x, y) = join(|| fib(n - 1), || fib(n - 2));
    x + y
}

#[derive(Clone, Copy)]
struct Board {
    free: u32,  // columns without a queen
    left: u32,  // columns of the next row that a diagonal attacks
    right: u32, // the same, the other diagonal
    todo: u32,  // candidates of the next row that are to be tried
}

impl Board {
    fn empty(n: u32) -> Board {
        let all = (1 << n) - 1;
        Board { free: all, left: 0, right: 0, todo: all }
    }

    fn place(self, column: u32) -> Board {
        let free = self.free ^ column;
        let left = (self.left | column) << 1;
        let right = (self.right | column) >> 1;
        Board { free, left, right, todo: free & !(left | right) }
    }

    fn halve(self) -> (Board, Board) {
        let mut upper = self;
        for _ in 0..self.todo.count_ones() / 2 {
            upper.todo &= upper.todo - 1;
        }
        (Board { todo: self.todo ^ upper.todo, ..self }, upper)
    }
}

fn queens(mut b: Board) -> u64 {
    while b.todo & b.todo.wrapping_sub(1) == 0 {
        if b.free == 0 {
            return 1;
        }
        if b.todo == 0 {
            return 0;
        }
        b = b.place(b.todo);
    }
    let (lower, upper) = b.halve();
    let (x, y) = join(|| queens(lower), || queens(upper));
    x + y
}

/// The definition of a tree: binomial if m is not 0, and else geometric.
struct Tree {
    seed: u32,
    b: u32,
    depth: u32,
    q: f64,
    m: u32,
    log_q: f64, // log(1 - 1 / (1 + b)), if it is geometric
}

type Sha = [u8; 20];

/// A node, and which of its children are to be counted.
#[derive(Clone, Copy)]
struct Family {
    parent: Sha,
    depth: u32,
    lo: u32,
    hi: u32,
}

impl Tree {
    fn root(&self) -> Family {
        self.family(sha(&[0; 16], self.seed), 0)
    }

    fn child(&self, f: &Family) -> Family {
        self.family(sha(&f.parent, f.lo), f.depth + 1)
    }

    fn family(&self, parent: Sha, depth: u32) -> Family {
        let last = u32::from_be_bytes([parent[16], parent[17], parent[18], parent[19]]);
        let u = f64::from(last & 0x7fff_ffff) / f64::from(1u32 << 31);
        let children = if self.m == 0 {
            if depth >= self.depth {
                0
            } else {
                ((1.0 - u).ln() / self.log_q).floor().min(100.0) as u32
            }
        } else if depth == 0 {
            self.b
        } else if u < self.q {
            self.m
        } else {
            0
        };
        Family { parent, depth, lo: 0, hi: children }
    }
}

/// SHA-1 of a message and an ordinal. They fit into one block, so the crate's buffer is
/// left out.
fn sha(message: &[u8], ordinal: u32) -> Sha {
    let n = message.len();
    let mut block = [0; 64];
    block[..n].copy_from_slice(message);
    block[n..n + 4].copy_from_slice(&ordinal.to_be_bytes());
    block[n + 4] = 0x80;
    block[63] = 8 * (n as u8 + 4);
    let mut state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
    compress(&mut state, &[GenericArray::from(block)]);
    let mut digest = [0; 20];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

fn count(b: &Bench, tree: &Tree, want: usize) {
    adding(b, "the nodes of the tree", "ns/node", NS, want, want as u64, || 1 + nodes(tree, tree.root()));
}

fn nodes(tree: &Tree, f: Family) -> u64 {
    match f.hi - f.lo {
        0 => 0,
        1 => 1 + nodes(tree, tree.child(&f)),
        n => {
            let middle = f.lo + n / 2;
            let (x, y) = join(|| nodes(tree, Family { hi: middle, ..f }), || nodes(tree, Family { lo: middle, ..f }));
            x + y
        }
    }
}

/// So many nodes of the same parent, one after the other.
struct Siblings {
    first: u64, // ordinal of the first leaf below them
    size: u64,  // leaves below each
    n: u64,
}

fn skynet(mut s: Siblings) -> u64 {
    if s.n == 1 {
        if s.size == 1 {
            return s.first;
        }
        s = Siblings { size: s.size / 10, n: 10, ..s };
    }
    let lower = s.n / 2;
    let (x, y) = join(
        || skynet(Siblings { n: lower, ..s }),
        || skynet(Siblings { first: s.first + lower * s.size, n: s.n - lower, ..s }),
    );
    x + y
}

/// A sum of one thread, on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Sum(AtomicU64);

/// Every node is spawned in one scope, and each thread adds up.
fn skynet_scope(size: u64) -> u64 {
    let sums: Vec<Sum> = (0..rayon::current_num_threads()).map(|_| Sum::default()).collect();
    rayon::scope(|s| visit(s, &sums, Siblings { first: 0, size, n: 1 }));
    sums.iter().map(|sum| sum.0.load(Relaxed)).sum()
}

fn visit<'s>(scope: &rayon::Scope<'s>, sums: &'s [Sum], one: Siblings) {
    if one.size == 1 {
        let sum = &sums[rayon::current_thread_index().unwrap()].0;
        sum.store(sum.load(Relaxed) + one.first, Relaxed); // nobody else writes it
        return;
    }
    let size = one.size / 10;
    for i in 0..10 {
        scope.spawn(move |s| visit(s, sums, Siblings { first: one.first + i * size, size, n: 1 }));
    }
}

/// The halves are two spawns in a scope of their own.
fn skynet_pair(mut s: Siblings) -> u64 {
    if s.n == 1 {
        if s.size == 1 {
            return s.first;
        }
        s = Siblings { size: s.size / 10, n: 10, ..s };
    }
    let lower = s.n / 2;
    let (mut x, mut y) = (0, 0);
    rayon::scope(|scope| {
        scope.spawn(|_| x = skynet_pair(Siblings { n: lower, ..s }));
        scope.spawn(|_| y = skynet_pair(Siblings { first: s.first + lower * s.size, n: s.n - lower, ..s }));
    });
    x + y
}

const SORT_GRAIN: usize = 2048;
const MERGE_GRAIN: usize = 8192;
const INSERTION_BELOW: usize = 24;

fn mergesort_case(b: &Bench) {
    let input: Vec<i64> = (0..1 << 22).map(|i| random(i) as i64).collect();
    let mut want = input.clone();
    want.sort_unstable();
    let mut from = input.clone();
    let mut other = input.clone();
    b.laps("ns/elem", NS, input.len(), true, || {
        from.copy_from_slice(&input);
        let start = Instant::now();
        b.install(|| mergesort(&mut from, &mut other, false));
        let took = start.elapsed();
        if from != want {
            fail("the elements are out of order");
        }
        took
    });
}

/// Sorts what is in from; the result goes to other if away is true.
fn mergesort(from: &mut [i64], other: &mut [i64], away: bool) {
    if from.len() < INSERTION_BELOW {
        insertion_sort(from);
        if away {
            other.copy_from_slice(from);
        }
        return;
    }
    let fork = from.len() > SORT_GRAIN;
    let m = from.len() / 2;
    {
        let (from_lower, from_upper) = from.split_at_mut(m);
        let (other_lower, other_upper) = other.split_at_mut(m);
        if fork {
            join(|| mergesort(from_lower, other_lower, !away), || mergesort(from_upper, other_upper, !away));
        } else {
            mergesort(from_lower, other_lower, !away);
            mergesort(from_upper, other_upper, !away);
        }
    }
    let (source, target) = if away { (from, other) } else { (other, from) };
    if fork {
        merge(&source[..m], &source[m..], target);
    } else {
        merge_loop(&source[..m], &source[m..], target);
    }
}

fn merge(x: &[i64], y: &[i64], dst: &mut [i64]) {
    if dst.len() <= MERGE_GRAIN {
        return merge_loop(x, y, dst);
    }
    let (x, y) = if x.len() < y.len() { (y, x) } else { (x, y) };
    let i = x.len() / 2;
    let j = y.partition_point(|v| *v < x[i]);
    let (lower, upper) = dst.split_at_mut(i + j);
    join(|| merge(&x[..i], &y[..j], lower), || merge(&x[i..], &y[j..], upper));
}

fn merge_loop(x: &[i64], y: &[i64], dst: &mut [i64]) {
    let (mut i, mut j, mut k) = (0, 0, 0);
    while i < x.len() && j < y.len() {
        let (a, b) = (x[i], y[j]);
        let second = usize::from(b < a);
        dst[k] = a.min(b);
        i += 1 - second;
        j += second;
        k += 1;
    }
    let rest = x.len() - i;
    dst[k..k + rest].copy_from_slice(&x[i..]);
    dst[k + rest..].copy_from_slice(&y[j..]);
}

fn insertion_sort(a: &mut [i64]) {
    for i in 1..a.len() {
        let v = a[i];
        let mut j = i;
        while j > 0 && a[j - 1] > v {
            a[j] = a[j - 1];
            j -= 1;
        }
        a[j] = v;
    }
}

const SIDE: usize = 512;
const BLOCK: usize = 64;

/// Two matrices and a third for their product, of which threads write disjoint blocks.
struct Product {
    a: Vec<f64>,
    b: Vec<f64>,
    c: *mut f64,
}

unsafe impl Sync for Product {}

fn matmul_case(b: &Bench) {
    let real = |i: usize| (random(i) >> 11) as f64 / (1u64 << 53) as f64;
    let mut c = vec![0.0; SIDE * SIDE];
    let p = Product {
        a: (0..SIDE * SIDE).map(real).collect(),
        b: (SIDE * SIDE..2 * SIDE * SIDE).map(real).collect(),
        c: c.as_mut_ptr(),
    };
    let row = |i: usize| (1 + i % 7) as f64;
    let column = |j: usize| (1 + j % 5) as f64;
    let want: f64 = (0..SIDE)
        .map(|k| {
            let of_a: f64 = (0..SIDE).map(|i| row(i) * p.a[i * SIDE + k]).sum();
            let of_b: f64 = (0..SIDE).map(|j| p.b[k * SIDE + j] * column(j)).sum();
            of_a * of_b
        })
        .sum();
    b.laps("ms", MS, 1, true, || {
        let start = Instant::now();
        b.install(|| matmul(&p, 0, 0, SIDE, SIDE));
        let took = start.elapsed();
        // SAFETY: nobody else reads or writes it now.
        let got: f64 = (0..SIDE * SIDE).map(|i| unsafe { *p.c.add(i) } * row(i / SIDE) * column(i % SIDE)).sum();
        if (got - want).abs() > 1e-9 * want {
            fail(format!("gave {got} for the checksum of the product, expected {want}"));
        }
        took
    });
}

fn matmul(p: &Product, row: usize, column: usize, rows: usize, columns: usize) {
    if rows.max(columns) <= BLOCK {
        return block(p, row, column, rows, columns);
    }
    if rows >= columns {
        let half = rows / 2;
        join(|| matmul(p, row, column, half, columns), || matmul(p, row + half, column, rows - half, columns));
    } else {
        let half = columns / 2;
        join(|| matmul(p, row, column, rows, half), || matmul(p, row, column + half, rows, columns - half));
    }
}

fn block(p: &Product, row: usize, column: usize, rows: usize, columns: usize) {
    // SAFETY: this part of the row is in no other block.
    let part = |i: usize| unsafe { std::slice::from_raw_parts_mut(p.c.add(i * SIDE + column), columns) };
    for i in row..row + rows {
        part(i).fill(0.0);
    }
    for from in (0..SIDE).step_by(BLOCK) {
        for i in row..row + rows {
            let c = part(i);
            for k in from..from + BLOCK {
                let a = p.a[i * SIDE + k];
                for (c, b) in c.iter_mut().zip(&p.b[k * SIDE + column..][..columns]) {
                    *c += a * b;
                }
            }
        }
    }
}

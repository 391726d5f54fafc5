// The suite forkjoin.
#pragma once

#include "bench.hpp"

#define OPENSSL_SUPPRESS_DEPRECATED // the interface to a single block is the old one
#include <openssl/sha.h>

#include <tbb/task_group.h>

#include <cmath>

namespace forkjoin {

// A task for one half, the caller for the other. tbb::parallel_invoke is within a
// tenth of it, sometimes faster and sometimes slower; a group with a task for each
// of several branches takes twice as long.
template <typename F, typename G>
void fork(F &&f, G &&g) {
	tbb::task_group half;
	half.run(f);
	g();
	half.wait();
}

// A case whose answer is a number.
template <typename Compute>
void adding(const Bench &b, const char *what, const char *metric, Seconds unit, std::size_t ops, std::uint64_t want,
            Compute &&compute) {
	b.laps(metric, unit, ops, false, [&] {
		std::uint64_t got = 0;
		const Seconds took = timed([&] { got = compute(); });
		check(what, got, want);
		return took;
	});
}

inline std::uint64_t fib(unsigned n) {
	if (n < 2)
		return n;
	std::uint64_t x, y;
	fork([&, n] { x = fib(n - 1); }, [&, n] { y = fib(n - 2); });
	return x + y;
}

struct Board {
	std::uint32_t free;        // columns without a queen
	std::uint32_t left, right; // columns of the next row that a diagonal attacks
	std::uint32_t todo;        // candidates of the next row that are to be tried

	Board place(std::uint32_t column) const {
		Board b{free ^ column, (left | column) << 1, (right | column) >> 1, 0};
		b.todo = b.free & ~(b.left | b.right);
		return b;
	}
};

inline std::uint64_t queens(Board b) {
	while ((b.todo & (b.todo - 1)) == 0) {
		if (b.free == 0)
			return 1;
		if (b.todo == 0)
			return 0;
		b = b.place(b.todo);
	}
	Board lower = b, upper = b;
	for (int half = __builtin_popcount(b.todo) / 2; half > 0; half--)
		upper.todo &= upper.todo - 1;
	lower.todo ^= upper.todo;
	std::uint64_t x, y;
	fork([&x, lower] { x = queens(lower); }, [&y, upper] { y = queens(upper); });
	return x + y;
}

using Sha = unsigned char[SHA_DIGEST_LENGTH];

// A node, and which of its children are to be counted.
struct Family {
	Sha parent;
	std::uint32_t depth, lo, hi;
};

inline void put(unsigned char *to, std::uint32_t n) {
	n = __builtin_bswap32(n);
	std::memcpy(to, &n, 4);
}

// The definition of a tree: binomial if m is not 0, and else geometric.
struct Tree {
	std::uint32_t seed, b, depth;
	double q;
	std::uint32_t m;
	double log_q = std::log(1 - 1 / (1 + static_cast<double>(b)));

	Family root() const {
		const unsigned char zeros[16] = {};
		return family(zeros, sizeof zeros, seed, 0);
	}

	Family child(const Family &f) const { return family(f.parent, sizeof f.parent, f.lo, f.depth + 1); }

private:
	// The message fits into one block, so the library's buffer is left out.
	Family family(const unsigned char *origin, std::size_t length, std::uint32_t ordinal, std::uint32_t at) const {
		unsigned char block[SHA_CBLOCK] = {};
		std::memcpy(block, origin, length);
		put(block + length, ordinal);
		block[length + 4] = 0x80;
		put(block + SHA_CBLOCK - 4, static_cast<std::uint32_t>(8 * (length + 4)));
		SHA_CTX sha;
		SHA1_Init(&sha);
		SHA1_Transform(&sha, block);
		Family f;
		put(f.parent, sha.h0);
		put(f.parent + 4, sha.h1);
		put(f.parent + 8, sha.h2);
		put(f.parent + 12, sha.h3);
		put(f.parent + 16, sha.h4);
		f.depth = at;
		f.lo = 0;
		f.hi = children(f);
		return f;
	}

	std::uint32_t children(const Family &f) const {
		std::uint32_t last;
		std::memcpy(&last, f.parent + 16, 4);
		const double u = (__builtin_bswap32(last) & 0x7fffffff) / 2147483648.0;
		if (m == 0) {
			if (f.depth >= depth)
				return 0;
			return static_cast<std::uint32_t>(std::min(100.0, std::floor(std::log(1 - u) / log_q)));
		}
		if (f.depth == 0)
			return b;
		return u < q ? m : 0;
	}
};

inline std::uint64_t nodes(const Tree &tree, const Family &f) {
	switch (f.hi - f.lo) {
	case 0:
		return 0;
	case 1:
		return 1 + nodes(tree, tree.child(f));
	}
	Family lower = f, upper = f;
	lower.hi = upper.lo = f.lo + (f.hi - f.lo) / 2;
	std::uint64_t x, y;
	fork([&] { x = nodes(tree, lower); }, [&] { y = nodes(tree, upper); });
	return x + y;
}

inline void count(const Bench &b, const Tree &tree, std::size_t want) {
	adding(b, "the nodes of the tree", "ns/node", ns, want, want, [&] { return 1 + nodes(tree, tree.root()); });
}

// So many nodes of the same parent, one after the other.
struct Siblings {
	std::uint64_t first; // ordinal of the first leaf below them
	std::uint64_t size;  // leaves below each
	std::uint64_t n;
};

inline std::uint64_t skynet(Siblings s) {
	if (s.n == 1) {
		if (s.size == 1)
			return s.first;
		s = {s.first, s.size / 10, 10};
	}
	const std::uint64_t half = s.n / 2;
	const Siblings lower{s.first, s.size, half}, upper{s.first + half * s.size, s.size, s.n - half};
	std::uint64_t x, y;
	fork([&] { x = skynet(lower); }, [&] { y = skynet(upper); });
	return x + y;
}

constexpr std::size_t sort_grain = 2048, merge_grain = 8192, insertion_below = 24;

inline void insertion_sort(std::int64_t *a, std::size_t n) {
	for (std::size_t i = 1; i < n; i++) {
		const std::int64_t v = a[i];
		std::size_t j = i;
		for (; j > 0 && a[j - 1] > v; j--)
			a[j] = a[j - 1];
		a[j] = v;
	}
}

inline void merge_loop(const std::int64_t *x, std::size_t nx, const std::int64_t *y, std::size_t ny, std::int64_t *dst) {
	std::size_t i = 0, j = 0, k = 0;
	while (i < nx && j < ny) {
		const std::int64_t a = x[i], b = y[j];
		const std::size_t second = b < a;
		dst[k] = std::min(a, b);
		i += 1 - second;
		j += second;
		k++;
	}
	std::copy(y + j, y + ny, std::copy(x + i, x + nx, dst + k));
}

inline void merge(const std::int64_t *x, std::size_t nx, const std::int64_t *y, std::size_t ny, std::int64_t *dst) {
	if (nx + ny <= merge_grain)
		return merge_loop(x, nx, y, ny, dst);
	if (nx < ny) {
		std::swap(x, y);
		std::swap(nx, ny);
	}
	const std::size_t i = nx / 2;
	const auto j = static_cast<std::size_t>(std::lower_bound(y, y + ny, x[i]) - y);
	fork([=] { merge(x, i, y, j, dst); }, [=] { merge(x + i, nx - i, y + j, ny - j, dst + i + j); });
}

// Sorts what is in from; the result goes to other if away is true.
inline void mergesort(std::int64_t *from, std::int64_t *other, std::size_t n, bool away) {
	if (n < insertion_below) {
		insertion_sort(from, n);
		if (away)
			std::copy(from, from + n, other);
		return;
	}
	const std::size_t m = n / 2;
	const std::int64_t *source = away ? from : other;
	std::int64_t *target = away ? other : from;
	if (n <= sort_grain) {
		mergesort(from, other, m, !away);
		mergesort(from + m, other + m, n - m, !away);
		merge_loop(source, m, source + m, n - m, target);
		return;
	}
	fork([=] { mergesort(from, other, m, !away); }, [=] { mergesort(from + m, other + m, n - m, !away); });
	merge(source, m, source + m, n - m, target);
}

inline void mergesort_case(const Bench &b) {
	std::vector<std::int64_t> input(std::size_t{1} << 22);
	for (std::size_t i = 0; i < input.size(); i++)
		input[i] = static_cast<std::int64_t>(random_number(i));
	auto want = input, from = input, other = input;
	std::sort(want.begin(), want.end());
	b.laps("ns/elem", ns, input.size(), true, [&] {
		from = input;
		const Seconds took = timed([&] { mergesort(from.data(), other.data(), from.size(), false); });
		if (from != want)
			fail("the elements are out of order");
		return took;
	});
}

constexpr std::size_t side = 512, block_side = 64;

// Two matrices and a third for their product.
struct Product {
	std::vector<double> a, b, c;

	Product() : a(side * side), b(side * side), c(side * side) {
		for (std::size_t i = 0; i < side * side; i++) {
			a[i] = random_fraction(i);
			b[i] = random_fraction(side * side + i);
		}
	}

	void block(std::size_t row, std::size_t column, std::size_t rows, std::size_t columns) {
		for (std::size_t i = row; i < row + rows; i++)
			std::fill_n(&c[i * side + column], columns, 0.0);
		for (std::size_t from = 0; from < side; from += block_side) {
			for (std::size_t i = row; i < row + rows; i++) {
				double *__restrict to = &c[i * side + column];
				for (std::size_t k = from; k < from + block_side; k++) {
					const double factor = a[i * side + k];
					const double *line = &b[k * side + column];
					for (std::size_t j = 0; j < columns; j++)
						to[j] += factor * line[j];
				}
			}
		}
	}

	void multiply(std::size_t row, std::size_t column, std::size_t rows, std::size_t columns) {
		if (std::max(rows, columns) <= block_side)
			return block(row, column, rows, columns);
		if (rows >= columns) {
			const std::size_t half = rows / 2;
			fork([=] { multiply(row, column, half, columns); }, [=] { multiply(row + half, column, rows - half, columns); });
		} else {
			const std::size_t half = columns / 2;
			fork([=] { multiply(row, column, rows, half); }, [=] { multiply(row, column + half, rows, columns - half); });
		}
	}
};

inline void matmul_case(const Bench &b) {
	const auto row = [](std::size_t i) { return static_cast<double>(1 + i % 7); };
	const auto column = [](std::size_t j) { return static_cast<double>(1 + j % 5); };
	Product p;
	double want = 0;
	for (std::size_t k = 0; k < side; k++) {
		double of_a = 0, of_b = 0;
		for (std::size_t i = 0; i < side; i++) {
			of_a += row(i) * p.a[i * side + k];
			of_b += p.b[k * side + i] * column(i);
		}
		want += of_a * of_b;
	}
	b.laps("ms", ms, 1, true, [&] {
		const Seconds took = timed([&] { p.multiply(0, 0, side, side); });
		double got = 0;
		for (std::size_t i = 0; i < side * side; i++)
			got += p.c[i] * row(i / side) * column(i % side);
		if (!(std::abs(got - want) <= 1e-9 * want))
			check("the checksum of the product", got, want);
		return took;
	});
}

// Runs the case, if there is one of this name.
inline bool run(const Bench &b) {
	// Threads start and fault in their stacks before the time counts.
	for (Seconds warm{0}; warm < 20 * ms;)
		warm += timed([] { check<std::uint64_t>("fib", fib(20), 6765); });
	if (b.name == "fib35")
		adding(b, "fib", "ns/fork", ns, 14930351, 9227465, [] { return fib(35); });
	else if (b.name == "nqueens12")
		adding(b, "the solutions for the queens", "ms", ms, 1, 14200, [] { return queens({0xfff, 0, 0, 0xfff}); });
	else if (b.name == "uts-t1")
		count(b, {19, 4, 10, 0, 0}, 4130071);
	else if (b.name == "uts-t3")
		count(b, {42, 2000, 0, 0.124875, 8}, 4112897);
	else if (b.name == "skynet")
		adding(b, "the sum of the leaves", "ns/leaf", ns, 1000000, 499999500000, [] { return skynet({0, 1000000, 1}); });
	else if (b.name == "mergesort")
		mergesort_case(b);
	else if (b.name == "matmul")
		matmul_case(b);
	else
		return false;
	return true;
}

} // namespace forkjoin

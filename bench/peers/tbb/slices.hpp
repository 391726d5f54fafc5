// The suites loop and algos: TBB's parallel algorithms, with their defaults.
#pragma once

#include "bench.hpp"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>
#include <tbb/parallel_scan.h>
#include <tbb/parallel_sort.h>

#include <cmath>
#include <thread>

namespace slices {

using Range = tbb::blocked_range<std::size_t>;

// y[i] = 3 x[i] + 1, called by the main thread, which sleeps before each batch of calls
// if there is a pause.
inline void affine(const Bench &b, std::size_t n, std::size_t least, std::size_t batch, Seconds pause) {
	std::vector<std::uint64_t> x(n), y(n);
	for (std::size_t i = 0; i < n; i++)
		x[i] = random_number(i);
	b.calls(
	    least, batch,
	    [&] {
		    if (pause.count() > 0)
			    std::this_thread::sleep_for(pause);
	    },
	    [&] {
		    tbb::parallel_for(Range(0, n), [&](const Range &r) {
			    for (std::size_t i = r.begin(); i < r.end(); i++)
				    y[i] = x[i] * 3 + 1;
		    });
	    });
	for (std::size_t i = 0; i < n; i++)
		check("an item of the loop", y[i], x[i] * 3 + 1);
}

inline std::uint64_t triangular_item(std::size_t i) {
	std::uint64_t x = i + 1;
	for (std::size_t k = 0; k < i * 8; k++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

inline void triangular(const Bench &b) {
	constexpr std::size_t items = 4096;
	std::vector<std::uint64_t> out(items);
	b.laps("ms", ms, 1, false, [&] {
		return timed([&] {
			tbb::parallel_for(Range(0, items), [&](const Range &r) {
				for (std::size_t i = r.begin(); i < r.end(); i++)
					out[i] = triangular_item(i);
			});
		});
	});
	for (std::size_t i = 0; i < items; i += 61)
		check("an item of the loop", out[i], triangular_item(i));
}

constexpr std::size_t elements = std::size_t{1} << 20;

// Prints the time per element that a lap returns.
template <typename Lap>
void each(const Bench &b, Lap &&lap) {
	b.laps("ns/elem", ns, elements, true, lap);
}

// The input of the suite algos.
inline std::vector<std::int64_t> integers() {
	std::vector<std::int64_t> v(elements);
	for (std::size_t i = 0; i < elements; i++)
		v[i] = static_cast<std::int64_t>(random_number(i));
	return v;
}

inline std::int64_t wrapping_sum(std::int64_t x, std::int64_t y) {
	return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
}

inline void sort(const Bench &b) {
	const auto input = integers();
	auto want = input, v = input;
	std::sort(want.begin(), want.end());
	each(b, [&] {
		v = input;
		const Seconds took = timed([&] { tbb::parallel_sort(v.begin(), v.end()); });
		if (v != want)
			fail("the elements are out of order");
		return took;
	});
}

inline void sort_func(const Bench &b) {
	struct Pair {
		std::uint32_t key, payload;
	};
	std::vector<Pair> input(elements);
	for (std::size_t i = 0; i < elements; i++)
		input[i] = {static_cast<std::uint32_t>(random_number(i)), static_cast<std::uint32_t>(i)};
	auto v = input;
	each(b, [&] {
		v = input;
		const Seconds took = timed([&] {
			tbb::parallel_sort(v.begin(), v.end(), [](const Pair &x, const Pair &y) { return x.key < y.key; });
		});
		std::vector<bool> seen(elements);
		for (std::size_t i = 0; i < elements; i++) {
			const auto from = v[i].payload;
			if ((i > 0 && v[i - 1].key > v[i].key) || seen[from] || input[from].key != v[i].key)
				fail("the elements are out of order");
			seen[from] = true;
		}
		return took;
	});
}

inline void scan(const Bench &b) {
	const auto input = integers();
	std::vector<std::int64_t> out(elements);
	each(b, [&] {
		const Seconds took = timed([&] {
			tbb::parallel_scan(
			    Range(0, elements), std::int64_t{0},
			    [&](const Range &r, std::int64_t sum, bool last) {
				    for (std::size_t i = r.begin(); i < r.end(); i++) {
					    sum = wrapping_sum(sum, input[i]);
					    if (last)
						    out[i] = sum;
				    }
				    return sum;
			    },
			    wrapping_sum);
		});
		std::int64_t sum = 0;
		for (std::size_t i = 0; i < elements; i++) {
			sum = wrapping_sum(sum, input[i]);
			check("a prefix sum", out[i], sum);
		}
		return took;
	});
}

inline void reduce(const Bench &b) {
	const auto input = integers();
	std::int64_t want = 0;
	for (const auto x : input)
		want = wrapping_sum(want, x);
	each(b, [&] {
		std::int64_t got = 0;
		const Seconds took = timed([&] {
			got = tbb::parallel_reduce(
			    Range(0, elements), std::int64_t{0},
			    [&](const Range &r, std::int64_t sum) {
				    for (std::size_t i = r.begin(); i < r.end(); i++)
					    sum = wrapping_sum(sum, input[i]);
				    return sum;
			    },
			    wrapping_sum);
		});
		check("the sum", got, want);
		return took;
	});
}

inline void map(const Bench &b) {
	const auto f = [](double x) { return x * x + 1; };
	std::vector<double> input(elements), out(elements);
	for (std::size_t i = 0; i < elements; i++)
		input[i] = random_fraction(i);
	each(b, [&] {
		return timed([&] {
			tbb::parallel_for(Range(0, elements), [&](const Range &r) {
				for (std::size_t i = r.begin(); i < r.end(); i++)
					out[i] = f(input[i]);
			});
		});
	});
	for (std::size_t i = 0; i < elements; i++) {
		// A fused multiplication and addition rounds once instead of twice.
		if (std::abs(out[i] - f(input[i])) > 1e-15)
			check("an element", out[i], f(input[i]));
	}
}

// Runs the case, if there is one of this name.
inline bool run(const Bench &b) {
	if (b.name == "outside-1024-asleep")
		affine(b, 1024, 41, 1, 5 * ms);
	else if (b.name == "outside-1024-hot")
		affine(b, 1024, 101, 64, Seconds{0});
	else if (b.name == "large")
		affine(b, 1000000, 21, 1, Seconds{0});
	else if (b.name == "triangular")
		triangular(b);
	else if (b.name == "sort-1m")
		sort(b);
	else if (b.name == "sortfunc-1m")
		sort_func(b);
	else if (b.name == "scan")
		scan(b);
	else if (b.name == "reduce")
		reduce(b);
	else if (b.name == "map")
		map(b);
	else
		return false;
	return true;
}

} // namespace slices

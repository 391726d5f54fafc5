// What every case needs: the command line, time and output.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

[[noreturn]] inline void fail(const std::string &what) {
	std::fprintf(stderr, "%s\n", what.c_str());
	std::exit(1);
}

// Stops the program if an answer is wrong.
template <typename T>
void check(const char *what, T got, T want) {
	if (got == want)
		return;
	std::ostringstream says;
	says << "gave " << got << " for " << what << ", expected " << want;
	fail(says.str());
}

using Seconds = std::chrono::duration<double>;

// The time that f takes.
template <typename F>
Seconds timed(F &&f) {
	const auto start = std::chrono::steady_clock::now();
	f();
	return std::chrono::steady_clock::now() - start;
}

constexpr Seconds ns{1e-9}, us{1e-6}, ms{1e-3};

// Bench is what the command line asks for.
struct Bench {
	std::string suite, name; // of the case
	std::size_t workers = 1;
	Seconds time{0.05};

	Bench(int argc, char **argv) {
		for (int i = 1; i < argc; i += 2) {
			const std::string flag = argv[i];
			if (i + 1 == argc)
				fail(flag + " has no value");
			const std::string value = argv[i + 1];
			if (flag == "-suite")
				suite = value;
			else if (flag == "-case")
				name = value;
			else if (flag == "-workers")
				workers = std::strtoul(value.c_str(), nullptr, 10);
			else if (flag == "-time")
				time = duration(value);
			else
				fail("there is no flag " + flag);
		}
		if (workers < 1)
			fail("-workers must be at least 1");
	}

	// Repeats a lap, which returns the time that counts, and prints the mean per
	// operation. The first lap is not counted if it has data to warm up.
	template <typename Lap>
	void laps(const char *metric, Seconds unit, std::size_t ops, bool warm, Lap &&lap) const {
		if (warm)
			lap();
		Seconds took{0};
		std::size_t count = 0;
		do {
			took += lap();
			count++;
		} while (took < time);
		print(metric, took / unit / static_cast<double>(ops * count));
	}

	// Repeats a batch of calls, at least so often, and prints the median time of a call
	// in microseconds. What comes before a batch is not timed.
	template <typename Before, typename Call>
	void calls(std::size_t least, std::size_t batch, Before &&before, Call &&call) const {
		const auto calls = [&] {
			for (std::size_t i = 0; i < batch; i++)
				call();
		};
		for (std::size_t i = 0; i < least / 2; i++)
			calls();
		const auto began = std::chrono::steady_clock::now();
		std::vector<Seconds> took;
		while (took.size() < least || std::chrono::steady_clock::now() - began < time) {
			before();
			took.push_back(timed(calls));
		}
		std::sort(took.begin(), took.end());
		print("us", took[took.size() / 2] / us / static_cast<double>(batch));
	}

	// Prints the most memory that the process had in RAM, where the system tells.
	void print_peak() const {
		std::ifstream status("/proc/self/status");
		for (std::string line; std::getline(status, line);) {
			double kib;
			if (std::sscanf(line.c_str(), "VmHWM: %lf kB", &kib) == 1)
				print("peak-MB", kib * 1024 / 1e6);
		}
	}

	void print(const char *metric, double value) const {
		std::printf("{\"suite\":\"%s\",\"case\":\"%s\",\"impl\":\"tbb\",\"workers\":%zu,\"metric\":\"%s\","
		            "\"value\":%.9g,\"min\":%.9g,\"max\":%.9g,\"runs\":1,\"better\":\"lower\",\"peer\":true}\n",
		            suite.c_str(), name.c_str(), workers, metric, value, value, value);
	}

private:
	// Reads a duration as Go writes it, such as 1m2.5s or 50ms.
	static Seconds duration(const std::string &text) {
		Seconds sum{0};
		const char *rest = text.c_str();
		while (*rest != 0) {
			char *unit;
			const double number = std::strtod(rest, &unit);
			const std::size_t letters = std::strcspn(unit, ".0123456789");
			sum += number * unit_of(std::string(unit, letters), text);
			rest = unit + letters;
		}
		return sum;
	}

	static Seconds unit_of(const std::string &unit, const std::string &text) {
		if (unit == "h")
			return Seconds{3600};
		if (unit == "m")
			return Seconds{60};
		if (unit == "s")
			return Seconds{1};
		if (unit == "ms")
			return ms;
		if (unit == "us" || unit == "µs")
			return us;
		if (unit == "ns")
			return ns;
		fail("-time is " + text);
	}
};

// The n-th number of splitmix64 with seed 1, from 0.
inline std::uint64_t random_number(std::size_t n) {
	std::uint64_t x = 1 + (n + 1) * 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

// The same as a fraction of 1.
inline double random_fraction(std::size_t n) {
	return static_cast<double>(random_number(n) >> 11) / static_cast<double>(std::uint64_t{1} << 53);
}

// The peer "tbb" of heist's benchmark. It is started as
//
//     tbb-peer -suite S -case C -workers N -time 50ms
//
// and prints one line of JSON per metric of the case. What the cases are is defined
// in the benchmark's package suites; a wrong answer is a line on standard error and
// exit status 1.

#include "bench.hpp"
#include "forkjoin.hpp"
#include "graph.hpp"
#include "slices.hpp"

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <pthread.h>

// What a thread needs of a stack: one that waits steals, on top of what it has, and
// the trees are deep.
constexpr std::size_t stack_size = std::size_t{256} << 20;

void *run(void *argument) {
	const Bench &bench = *static_cast<const Bench *>(argument);
	// The arena that threads have by default is no larger than the CPUs that the
	// process may use; this one has a place for every worker, the caller among them.
	tbb::task_arena arena(static_cast<int>(bench.workers));
	bool done = false;
	arena.execute([&] {
		if (bench.suite == "forkjoin")
			done = forkjoin::run(bench);
		else if (bench.suite == "loop" || bench.suite == "algos")
			done = slices::run(bench);
		else if (bench.suite == "graph")
			done = graphs::run(bench);
	});
	if (!done)
		fail("there is no case " + bench.suite + "/" + bench.name);
	return nullptr;
}

int main(int argc, char **argv) {
	Bench bench(argc, argv);
	const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, bench.workers);
	const tbb::global_control stack(tbb::global_control::thread_stack_size, stack_size);
	pthread_attr_t attributes;
	pthread_t caller;
	pthread_attr_init(&attributes);
	if (pthread_attr_setstacksize(&attributes, stack_size) != 0 ||
	    pthread_create(&caller, &attributes, run, &bench) != 0)
		fail("there is no thread with a large stack");
	pthread_join(caller, nullptr);
	bench.print_peak();
}

// The suite graph: oneTBB's flow graph of continue nodes.
#pragma once

#include "bench.hpp"

#include <tbb/flow_graph.h>

#include <deque>
#include <memory>

namespace graphs {

// For each node those before it, which have smaller numbers.
using Dependencies = std::vector<std::vector<std::size_t>>;

inline Dependencies shape(const std::string &name) {
	const bool wavefront = name == "wavefront";
	const std::size_t side = 512;
	Dependencies before(wavefront ? side * side : 100'000);
	for (std::size_t i = 0; i < before.size(); i++) {
		if (name == "chain" && i > 0)
			before[i] = {i - 1};
		if (name == "fan" && i > 0 && i + 1 < before.size()) {
			before[i] = {0};
			before.back().push_back(i);
		}
		if (name == "random")
			for (std::size_t k = 0; k < std::min<std::size_t>(i, 4); k++)
				before[i].push_back(random_number(4 * i + k) % i);
		if (wavefront && i % side > 0)
			before[i].push_back(i - 1);
		if (wavefront && i >= side)
			before[i].push_back(i - side);
	}
	return before;
}

// What the nodes compute: one more than the greatest depth before them.
struct Nodes {
	Dependencies before;
	std::vector<std::int32_t> depth;

	explicit Nodes(const std::string &name) : before(shape(name)), depth(before.size()) {}

	void visit(std::size_t i) {
		std::int32_t deepest = 0;
		for (const std::size_t b : before[i])
			deepest = std::max(deepest, depth[b]);
		depth[i] = deepest + 1;
	}
};

struct Graph {
	using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

	tbb::flow::graph graph;
	std::deque<Node> made;
	std::vector<Node *> first;

	explicit Graph(Nodes &nodes) {
		for (std::size_t i = 0; i < nodes.before.size(); i++) {
			made.emplace_back(graph, [&nodes, i](const tbb::flow::continue_msg &m) {
				nodes.visit(i);
				return m;
			});
			for (const std::size_t b : nodes.before[i])
				tbb::flow::make_edge(made[b], made[i]);
			if (nodes.before[i].empty())
				first.push_back(&made[i]);
		}
	}

	void run() {
		for (Node *n : first)
			n->try_put(tbb::flow::continue_msg());
		graph.wait_for_all();
	}
};

inline bool run(const Bench &b) {
	if (b.name != "chain" && b.name != "fan" && b.name != "random" && b.name != "wavefront")
		return false;
	Nodes nodes(b.name);
	const std::size_t n = nodes.before.size();
	for (std::size_t i = 0; i < n; i++)
		nodes.visit(i);
	const auto want = nodes.depth;

	std::unique_ptr<Graph> graph;
	Bench half = b;
	half.time /= 2;
	half.laps("build-ns/node", ns, n, false, [&] {
		graph.reset();
		return timed([&] { graph = std::make_unique<Graph>(nodes); });
	});
	b.laps("ns/node", ns, n, true, [&] {
		std::fill(nodes.depth.begin(), nodes.depth.end(), 0);
		const Seconds took = timed([&] { graph->run(); });
		check("the depths", nodes.depth == want, true);
		return took;
	});
	return true;
}

} // namespace graphs

#!/bin/sh
# Builds the program, and links to it with the names of the benchmarks, into build/.
set -e
cd "$(dirname "$0")"
mkdir -p build
go build -o build/runtime-benchmarks .
for name in skynet nqueens fib matmul; do
	ln -sf runtime-benchmarks "build/$name"
done

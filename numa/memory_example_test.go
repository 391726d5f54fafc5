package numa_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/numa"
)

// A table that threads of all nodes look things up in takes its pages from each node in
// turn. A program decides what to do where the system has no such policy.
func ExampleMap() {
	interleaved := func(bytes int) (*numa.Mapping, error) {
		nodes, err := numa.AllowedNodes()
		if err != nil {
			return nil, err
		}
		return numa.Map(bytes, numa.Interleave(nodes...))
	}

	var table []byte
	m, err := interleaved(1 << 20)
	switch {
	case errors.Is(err, numa.ErrMemoryPolicy): // another system, or a sandbox
		table = make([]byte, 1<<20)
	case err != nil:
		log.Fatal(err)
	default:
		defer m.Close()
		table = m.Bytes()
	}
	fmt.Println(len(table), "bytes")
	// Output: 1048576 bytes
}

// A slice of which each node has a part, for threads that work on their own node's.
func ExampleNewSlice() {
	nodes, err := numa.AllowedNodes()
	if errors.Is(err, numa.ErrMemoryPolicy) {
		nodes = []int{0} // NewSlice says the same
	} else if err != nil {
		log.Fatal(err)
	}
	samples, err := numa.NewSlice[float64](1_000_000, numa.Blocks(nodes...))
	if errors.Is(err, numa.ErrMemoryPolicy) {
		fmt.Println("all samples have a part")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer samples.Close()

	n := 0
	for i := range nodes {
		n += len(samples.Part(i, len(nodes))) // for the threads of nodes[i]
	}
	if n == len(samples.Elements()) {
		fmt.Println("all samples have a part")
	}
	// Output: all samples have a part
}

func ExampleSlice() {
	type account struct {
		id      uint64
		balance int64
		name    [16]byte // not a string, which is a Go pointer
	}
	accounts, err := numa.NewSlice[account](1000, numa.Policy{})
	if errors.Is(err, numa.ErrMemoryPolicy) {
		fmt.Println("gopher has 5")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer accounts.Close()

	a := &accounts.Elements()[7]
	a.id, a.balance = 7, 5
	copy(a.name[:], "gopher")
	fmt.Printf("%.6s has %d\n", a.name, a.balance)

	type named struct{ Name string }
	_, err = numa.NewSlice[named](1000, numa.Policy{})
	if err == nil {
		log.Fatal("the collector would free the name")
	}
	// Output: gopher has 5
}

// Each thread touches the part that it will work on, which places it without a policy.
func ExampleMapping_TouchOn() {
	cpus, err := heist.Allowed()
	if err != nil {
		log.Fatal(err)
	}
	m, err := numa.Map(1<<20, numa.Policy{})
	if errors.Is(err, numa.ErrMemoryPolicy) {
		fmt.Println("touched")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	if err := m.TouchOn(cpus...); err != nil {
		log.Fatal(err)
	}
	fmt.Println("touched")
	// Output: touched
}

func ExampleMapping_Move() {
	nodes, err := numa.AllowedNodes()
	if errors.Is(err, numa.ErrMemoryPolicy) {
		fmt.Println("42")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	s, err := numa.NewSlice[int](1000, numa.Bind(nodes[0]))
	if errors.Is(err, numa.ErrMemoryPolicy) {
		fmt.Println("42")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	s.Elements()[999] = 42
	if err := s.Move(numa.Bind(nodes[len(nodes)-1])); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Elements()[999])
	// Output: 42
}

func ExamplePageNodes() {
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = 1
	}
	nodes, err := numa.PageNodes(data)
	if err != nil && !errors.Is(err, numa.ErrMemoryPolicy) {
		log.Fatal(err)
	}
	pages := make(map[int]int)
	for _, node := range nodes {
		pages[node]++
	}
	for node, n := range pages {
		fmt.Printf("node %d: %d pages\n", node, n)
	}
}

func ExamplePolicy() {
	fmt.Println(numa.Bind(0, 2), numa.Prefer(1), numa.Interleave(3, 1), numa.Blocks(0, 1, 0, 1), numa.Local())

	_, err := numa.Map(1<<20, numa.Bind())
	fmt.Println(err)
	// Output:
	// Bind(0, 2) Prefer(1) Interleave(1, 3) Blocks(0, 1, 0, 1) Local()
	// numa: cannot map with Bind(): it names no node; give at least one, see AllowedNodes
}

func ExampleAllowedNodes() {
	nodes, err := numa.AllowedNodes()
	if errors.Is(err, numa.ErrMemoryPolicy) {
		fmt.Println("memory lies where it lies:", err)
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("memory can be taken from the nodes", nodes)
}

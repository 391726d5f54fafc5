package numa_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/seed53057037/heist/numa"
)

func Example() {
	machine, err := numa.Read()
	if err != nil {
		log.Print("part of the topology is a guess: ", err)
	}
	fmt.Print(machine)
}

func ExampleRead() {
	machine, err := numa.Read()
	if err != nil {
		log.Print("part of the topology is a guess: ", err)
	}
	for _, core := range machine.Cores {
		fmt.Println("one core has the CPUs", core)
	}
	fmt.Println("this process may use the CPUs", machine.Allowed)
}

func ExampleReadRoot() {
	server, err := numa.ReadRoot("testdata/2n4c")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(server)
	// Output:
	// CPUs 0-7: 2 nodes, 2 packages, 2 L3 caches, 4 cores
	// node 0: CPUs 0-1,4-5, 16.0 GiB, distances 10 21
	// node 1: CPUs 2-3,6-7, 16.0 GiB, distances 21 10
}

func ExampleTopology() {
	server, err := numa.ReadRoot("testdata/2n4c")
	if err != nil {
		log.Fatal(err)
	}
	for _, cpu := range server.CPUs[:4] {
		fmt.Println("CPU", cpu.ID, "shares a core with", server.Cores[cpu.Core], "and a cache with", server.L3[cpu.L3])
	}
	// Output:
	// CPU 0 shares a core with 0,4 and a cache with 0-1,4-5
	// CPU 1 shares a core with 1,5 and a cache with 0-1,4-5
	// CPU 2 shares a core with 2,6 and a cache with 2-3,6-7
	// CPU 3 shares a core with 3,7 and a cache with 2-3,6-7
}

func ExampleTopology_String() {
	for _, machine := range []string{"testdata/2d4c", "testdata/6c-biglittle"} {
		topology, err := numa.ReadRoot(machine)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(topology)
	}
	// Output:
	// CPUs 0-7: 1 node, 1 package, 2 dies, 2 L3 caches, 4 cores
	// node 0: CPUs 0-7, 32.0 GiB, distances 10
	// CPUs 0-5 (little 0-3): 1 node, 1 package, 1 L3 cache, 2 clusters, 3 L2 caches, 6 cores
	// node 0: CPUs 0-5, 8.0 GiB, distances 10
}

func ExampleTopology_MarshalJSON() {
	server, err := numa.ReadRoot("testdata/2n4c")
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.Marshal(server)
	if err != nil {
		log.Fatal(err)
	}
	var copied numa.Topology
	if err := json.Unmarshal(text, &copied); err != nil {
		log.Fatal(err)
	}
	fmt.Println(copied.NodeOf(6), copied.Cores)
	// Output: 1 [0,4 1,5 2,6 3,7]
}

func ExampleTopology_UnmarshalJSON() {
	var machine numa.Topology
	err := json.Unmarshal([]byte(`{
		"complete": "0-1", "online": "0-1", "allowed": "0-1",
		"nodes": [{"id": 0, "cpus": "0-1", "memory_bytes": 1073741824}],
		"groups": {"cores": ["0-1", "1"]},
		"cpus": [{"id": 0}, {"id": 1}]
	}`), &machine)
	fmt.Println(err)
	// Output: numa: topology: groups.cores[1]: has the CPU 1, which is not online or is in another group already
}

func ExampleCPU() {
	phone, err := numa.ReadRoot("testdata/6c-biglittle")
	if err != nil {
		log.Fatal(err)
	}
	for _, cpu := range phone.CPUs {
		fmt.Printf("CPU %d shares its L2 with %v and gets %.0f%% done\n", cpu.ID, phone.L2[cpu.L2], float64(cpu.Capacity)/10.24)
	}
	// Output:
	// CPU 0 shares its L2 with 0-3 and gets 44% done
	// CPU 1 shares its L2 with 0-3 and gets 44% done
	// CPU 2 shares its L2 with 0-3 and gets 44% done
	// CPU 3 shares its L2 with 0-3 and gets 44% done
	// CPU 4 shares its L2 with 4 and gets 100% done
	// CPU 5 shares its L2 with 5 and gets 100% done
}

func ExampleTopology_Distance() {
	server, err := numa.ReadRoot("testdata/2n4c")
	if err != nil {
		log.Fatal(err)
	}
	here, there := server.NodeOf(0), server.NodeOf(7)
	fmt.Println(server.Distance(here, here), server.Distance(here, there))
	// Output: 10 21
}

func ExampleTopology_NodeOf() {
	server, err := numa.ReadRoot("testdata/2n4c")
	if err != nil {
		log.Fatal(err)
	}
	node := server.Nodes[server.NodeOf(6)]
	fmt.Println("node", node.ID, "has", node.MemoryBytes>>30, "GiB next to the CPUs", node.CPUs)
	fmt.Println(server.NodeOf(99))
	// Output:
	// node 1 has 16 GiB next to the CPUs 2-3,6-7
	// -1
}

func ExampleParseSet() {
	set, err := numa.ParseSet("8,0-3\n")
	fmt.Println(set, set.Len(), set.Contains(2), err)

	_, err = numa.ParseSet("0-3,7-5")
	fmt.Println(err)
	// Output:
	// 0-3,8 5 true <nil>
	// numa: CPU list "0-3,7-5": range 7-5 runs backwards
}

func ExampleSet_UnmarshalText() {
	var options struct{ CPUs numa.Set }
	err := json.Unmarshal([]byte(`{"CPUs": "8,0-3"}`), &options)
	fmt.Println(options.CPUs.Len(), options.CPUs, err)
	// Output: 5 0-3,8 <nil>
}

func ExampleSet_MarshalText() {
	text, err := json.Marshal([]numa.Set{{0, 1, 2, 3, 8}, {5}})
	fmt.Println(string(text), err)
	// Output: ["0-3,8","5"] <nil>
}

func ExampleSet() {
	set := numa.Set{0, 1, 2, 3, 8}
	for _, cpu := range set {
		fmt.Print(cpu, " ")
	}
	fmt.Println("are written", set)
	// Output: 0 1 2 3 8 are written 0-3,8
}

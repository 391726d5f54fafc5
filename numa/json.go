package numa

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// document is the form of a topology in JSON. The sets remain text until it is
// known how large they may be: "0-65535" is short, and there may be many such sets.
type document struct {
	Complete string              `json:"complete"`
	Online   string              `json:"online"`
	Allowed  string              `json:"allowed"`
	Nodes    []documentNode      `json:"nodes"`
	Groups   map[string][]string `json:"groups"` // by the name of their kind
	CPUs     []documentCPU       `json:"cpus"`
}

type documentNode struct {
	ID          int    `json:"id"`
	CPUs        string `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes"`
	Distances   []int  `json:"distances,omitempty"`
}

// documentCPU is a CPU with the JSON names of its fields.
type documentCPU struct {
	ID       int `json:"id"`
	Node     int `json:"node"`
	Package  int `json:"package"`
	Die      int `json:"die"`
	Cluster  int `json:"cluster"`
	Core     int `json:"core"`
	L2       int `json:"l2"`
	L3       int `json:"l3"`
	SMT      int `json:"smt"`
	Capacity int `json:"capacity"`
}

// MarshalJSON writes the topology as an object, in a stable form:
//
//	{
//	  "complete": "0-3", "online": "0-3", "allowed": "0-3",
//	  "nodes": [
//	    {"id": 0, "cpus": "0-1", "memory_bytes": 8589934592, "distances": [10, 21]},
//	    {"id": 1, "cpus": "2-3", "memory_bytes": 8589934592, "distances": [21, 10]}
//	  ],
//	  "groups": {
//	    "packages": ["0-1", "2-3"],
//	    "cores": ["0", "1", "2", "3"]
//	  },
//	  "cpus": [
//	    {"id": 0, "node": 0, "package": 0, "die": -1, "cluster": -1, "core": 0,
//	     "l2": -1, "l3": -1, "smt": 0, "capacity": 1024},
//	    ...
//	  ]
//	}
//
// The fields are those of [Topology], [Node] and [CPU], and sets are in the
// kernel's list format. A CPU's node, package and so on are indices in those lists,
// not ids, and -1 if no such list has it. The kinds of groups are packages, dies, clusters, cores, l2
// and l3; empty kinds are left out, as are unknown distances. Later versions may
// add fields.
//
// It fails, and says why, if UnmarshalJSON would refuse the topology, which never
// happens to a topology that was read.
func (t Topology) MarshalJSON() ([]byte, error) {
	doc := document{
		Complete: t.Complete.String(),
		Online:   t.Online.String(),
		Allowed:  t.Allowed.String(),
		Groups:   make(map[string][]string),
	}
	for _, n := range t.Nodes {
		doc.Nodes = append(doc.Nodes, documentNode{n.ID, n.CPUs.String(), n.MemoryBytes, n.Distances})
	}
	for _, k := range kinds {
		for _, set := range *k.groups(&t) {
			doc.Groups[k.name] = append(doc.Groups[k.name], set.String())
		}
	}
	for _, cpu := range t.CPUs {
		doc.CPUs = append(doc.CPUs, documentCPU(cpu))
	}
	if _, err := doc.topology(); err != nil {
		return nil, fmt.Errorf("numa: topology: %w", err)
	}
	return json.Marshal(doc)
}

// UnmarshalJSON reads what MarshalJSON writes. It ignores fields that it does not
// know. After an error the topology is unchanged.
//
// The error names the first field that makes no sense, as in nodes[1].cpus. That is
// a set that ParseSet refuses, nodes or groups out of order, groups of one kind
// that share a CPU or have one that is not online, a number of distances other than
// that of the nodes, or a CPU whose fields are not what the groups say. So a
// topology from JSON has all properties of one that was read. Time and memory are
// in proportion to the length of the JSON, and to a few sets of 1<<16 CPUs.
func (t *Topology) UnmarshalJSON(text []byte) error {
	var doc document
	err := json.Unmarshal(text, &doc)
	var read *Topology
	if err == nil {
		read, err = doc.topology()
	}
	if err != nil {
		return fmt.Errorf("numa: topology: %w", err)
	}
	*t = *read
	return nil
}

// topology returns the topology that the document describes, or says what is
// wrong with it.
func (d *document) topology() (*Topology, error) {
	online, err := namedSet("online", d.Online)
	if err != nil {
		return nil, err
	}
	// A large set can be short as text, but its CPUs are listed one by one: this
	// bounds their number.
	if len(online) != len(d.CPUs) {
		return nil, fmt.Errorf("cpus: %d for the %d CPUs that are online", len(d.CPUs), len(online))
	}
	t := oneNode(online)
	for _, step := range []func(*Topology) error{d.sets, d.groups, d.nodes, d.cpus} {
		if err := step(t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// sets fills in the sets that depend on the online CPUs.
func (d *document) sets(t *Topology) (err error) {
	if t.Complete, err = namedSet("complete", d.Complete); err != nil {
		return err
	}
	if missing := t.Online.minus(t.Complete); len(missing) > 0 {
		return fmt.Errorf("complete: lacks the CPUs %.64s, which are online", missing)
	}
	if t.Allowed, err = namedSet("allowed", d.Allowed); err != nil {
		return err
	}
	if offline := t.Allowed.minus(t.Online); len(offline) > 0 {
		return fmt.Errorf("allowed: has the CPUs %.64s, which are not online", offline)
	}
	return nil
}

func (d *document) groups(t *Topology) error {
	for _, k := range kinds {
		free := t.free()
		var groups []Set
		for i, list := range d.Groups[k.name] {
			name := fmt.Sprintf("groups.%s[%d]", k.name, i)
			group, err := namedSet(name, list)
			if err == nil {
				err = free.take(name, group)
			}
			if err == nil && i > 0 && groups[i-1][0] > group[0] {
				err = fmt.Errorf("%s: has the CPU %d, which is before those of the last group", name, group[0])
			}
			if err != nil {
				return err
			}
			groups = append(groups, group)
		}
		t.place(k, groups)
	}
	t.rankThreads()
	return nil
}

func (d *document) nodes(t *Topology) error {
	free := t.free()
	var nodes []Node
	some := false
	for i, n := range d.Nodes {
		name := fmt.Sprintf("nodes[%d]", i)
		cpus, err := parseList(n.CPUs)
		if err != nil {
			return fmt.Errorf("%s.cpus: %w", name, err)
		}
		if err := free.take(name+".cpus", cpus); err != nil {
			return err
		}
		switch {
		case n.ID < 0 || n.ID >= maxCPUs || i > 0 && n.ID <= nodes[i-1].ID:
			return fmt.Errorf("%s.id: %d is out of order, or no node's number", name, n.ID)
		case n.MemoryBytes < 0:
			return fmt.Errorf("%s.memory_bytes: %d is less than none", name, n.MemoryBytes)
		case len(n.Distances) > 0 && len(n.Distances) != len(d.Nodes):
			return fmt.Errorf("%s.distances: %d for %d nodes", name, len(n.Distances), len(d.Nodes))
		}
		for j, distance := range n.Distances {
			if distance < 1 || distance > maxDistance {
				return fmt.Errorf("%s.distances[%d]: %d is not between 1 and %d", name, j, distance, maxDistance)
			}
		}
		node := Node{ID: n.ID, CPUs: cpus, MemoryBytes: n.MemoryBytes}
		if len(n.Distances) > 0 {
			node.Distances = n.Distances
		}
		nodes = append(nodes, node)
		some = some || len(cpus) > 0
	}
	if !some {
		return errors.New("nodes: none has a CPU")
	}
	t.placeNodes(nodes)
	return nil
}

// cpus compares the CPUs with the rest of the document, and fills in their
// capacities, which the rest does not have.
func (d *document) cpus(t *Topology) error {
	for i, row := range d.CPUs {
		if row.Capacity < 0 || row.Capacity > maxCapacity {
			return fmt.Errorf("cpus[%d].capacity: %d is not between 0 and %d", i, row.Capacity, maxCapacity)
		}
		cpu := &t.CPUs[i]
		cpu.Capacity = row.Capacity
		if row == documentCPU(*cpu) {
			continue
		}
		got, want := reflect.ValueOf(row), reflect.ValueOf(*cpu)
		for f := range got.NumField() {
			if got.Field(f).Int() != want.Field(f).Int() {
				return fmt.Errorf("cpus[%d].%s: is %v, but has to be %v by the other fields",
					i, got.Type().Field(f).Tag.Get("json"), got.Field(f), want.Field(f))
			}
		}
	}
	return nil
}

// namedSet reads a set that must not be empty.
func namedSet(name, list string) (Set, error) {
	set, err := parseList(list)
	if err == nil && len(set) == 0 {
		err = errors.New("no CPUs")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return set, nil
}

// free says, by CPU number, which CPUs may still go into a group.
type free []bool

func (t *Topology) free() free {
	f := make(free, t.Online[len(t.Online)-1]+1)
	for _, cpu := range t.Online {
		f[cpu] = true
	}
	return f
}

// take takes the CPUs of the group called name.
func (f free) take(name string, cpus Set) error {
	for _, cpu := range cpus {
		if cpu >= len(f) || !f[cpu] {
			return fmt.Errorf("%s: has the CPU %d, which is not online or is in another group already", name, cpu)
		}
		f[cpu] = false
	}
	return nil
}

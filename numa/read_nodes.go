package numa

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
)

// nodes fills in the nodes. Without usable node folders t keeps its one node,
// which gets all the memory.
func (r *reader) nodes(t *Topology) {
	ids := r.numbered(nodeDir, "node")
	if online, _ := r.set(nodeDir, anyCPU, onlineFiles); len(online) > 0 {
		if missing := online.minus(ids); len(missing) > 0 {
			r.fail(nodeDir, fmt.Errorf("online nodes %.64s have no folder", missing))
		}
		ids = ids.and(online)
	}

	var nodes []Node
	cpus := r.partition(t)
	for _, id := range ids {
		dir := fmt.Sprintf("%s/node%d", nodeDir, id)
		node := Node{ID: id}
		if set, name := r.set(dir, anyCPU, nodeFiles); name != "" {
			node.CPUs = cpus.add(set, name)
		} else {
			r.fail(dir, errors.New("no usable cpulist or cpumap"))
		}
		node.MemoryBytes = r.memory(dir + "/meminfo")
		node.Distances = r.distances(dir+"/distance", len(ids))
		nodes = append(nodes, node)
	}
	if len(cpus.groups) == 0 {
		if len(nodes) > 0 {
			r.fail(nodeDir, errors.New("no node has a CPU that is online"))
		}
		t.Nodes[0].MemoryBytes = r.memory("proc/meminfo")
		return
	}

	if homeless := t.placeNodes(nodes); len(homeless) > 0 {
		r.fail(nodeDir, fmt.Errorf("CPUs %.64s are in no node", homeless))
	}
}

// memory returns the MemTotal of a meminfo file in bytes, or 0 if there is
// none.
func (r *reader) memory(name string) int64 {
	text, ok := r.text(name)
	if !ok {
		return 0
	}
	_, total, _ := strings.Cut(text, "MemTotal:")
	total, _, _ = strings.Cut(total, "\n")
	kB, found := strings.CutSuffix(strings.TrimSpace(total), " kB")
	n, err := strconv.ParseInt(kB, 10, 64)
	if !found || err != nil || n < 0 || n > math.MaxInt64/1024 {
		r.fail(name, fmt.Errorf("MemTotal %.32q is no number of kB", total))
		return 0
	}
	return n * 1024
}

// distances returns the distances of a node to all n nodes, or nil if they are
// not known. A node alone needs no file.
func (r *reader) distances(name string, n int) []int {
	before := len(r.errs)
	text, ok := r.text(name)
	if !ok {
		if n > 1 && len(r.errs) == before {
			r.fail(name, fmt.Errorf("%w; the other nodes count as %d away", fs.ErrNotExist, remoteDistance))
		}
		return nil
	}
	fields := strings.Fields(text)
	if len(fields) != n {
		r.fail(name, fmt.Errorf("%d distances for %d nodes", len(fields), n))
		return nil
	}
	distances := make([]int, n)
	for i, field := range fields {
		d, err := strconv.ParseUint(field, 10, 16)
		if err != nil || d == 0 {
			r.fail(name, fmt.Errorf("%.32q is no distance", field))
			return nil
		}
		distances[i] = int(d)
	}
	return distances
}

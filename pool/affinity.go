package pool

import (
	"sync"
	"sync/atomic"
)

// # Loops on several nodes
//
// On a machine with several nodes, where a range is processed decides which node its data are near,
// so the range should be processed there again the next time. A loop that is long enough is
// therefore first divided into **pieces**, each with a node as its **home**, and only then is each
// piece divided by halves, as in any loop (loop.go). A node's workers take the pieces whose home is
// their node. The worker that called the loop helps with the pieces of its own node, and then takes
// pieces of other nodes that no worker has begun. So a busy node does not hold up the loop (Acar,
// Blelloch and Blumofe call such hints mailboxes; TBB has them as affinity partitioner). Pieces are children of a scope,
// and workers take those however many guests compute. So where no place is free for a loop without an
// [Affinity], it is not divided among nodes: as many compute as the pool has workers.
//
// Without an [Affinity] there is one piece for each worker, and its home is the worker's node.
// With an Affinity, pieces are smaller, and the node that really processed a piece becomes its
// home for the next time. Either way the borders follow from the length of the loop alone.

// Affinity remembers on which nodes the parts of a loop were processed, so that the same
// loop, over data of the same length, processes them there again, where caches and memory
// may hold them: TBB's affinity partitioner, for nodes. Create one, with new, for each loop
// that runs again and again; several goroutines may use it. On a pool with one node it
// changes nothing.
type Affinity struct {
	mu    sync.Mutex
	n     int   // items that the loop had
	homes []int // by piece; index into Pool.nodes
	pool  *Pool
}

// Granularity returns how the next loop is to be divided.
func (a *Affinity) Granularity() Granularity { return Granularity{affinity: a} }

const (
	// Pieces of a loop with an affinity, for each worker and in all: enough that a node
	// that was late the last time gets a little less.
	piecesPerWorker, mostPieces = 4, 1024
	// worthNodes is how many chunks a loop must have for each node to be divided among
	// the nodes: a wake-up on another node costs as much as one or two chunks.
	worthNodes = 8
)

// nodeChunks is a loop that is divided among nodes.
type nodeChunks struct {
	span
	homes []int           // by piece
	ran   []atomic.Int32  // by piece: 1 + the node that runs it; the worker that claims it writes
	next  [][]int         // by node: the pieces whose home it is; constant
	taken []atomic.Uint32 // by node: how many of these were claimed
}

// at returns the range of piece i, less the items that have run already. If the loop is done from its end, then each piece of it is, and these were the
// last ones.
func (ps *nodeChunks) at(i int) span {
	s := ps.span
	done, n, k := s.lo, s.hi, len(ps.homes)
	s.hi = border(n, i+1, k)
	s.lo = min(max(done, border(n, i, k)), s.hi)
	if s.mirror != 0 {
		s.mirror = s.lo + s.hi - done
	}
	return s
}

// border returns where the i-th of k parts of n items begins.
func border(n, i, k int) int { return n/k*i + n%k*i/k }

// claim takes a piece whose home is the node and that no worker has claimed, or returns -1.
func (ps *nodeChunks) claim(node int) int {
	mine := ps.next[node]
	if int(ps.taken[node].Load()) >= len(mine) {
		return -1
	}
	if i := int(ps.taken[node].Add(1)) - 1; i < len(mine) {
		return mine[i]
	}
	return -1
}

// runAt runs pieces whose home is the node, until all are claimed.
func (ps *nodeChunks) runAt(w *Worker, node int) {
	for i := ps.claim(node); i >= 0 && !ps.over(w); i = ps.claim(node) {
		if w.hasPlace() {
			w.stay()
		}
		ps.ran[i].Store(int32(w.core.Node()) + 1)
		s := ps.at(i)
		s.run(w)
	}
}

// runNear runs pieces whose home is the worker's node, and then those of other nodes, the
// nearest first.
func (ps *nodeChunks) runNear(w *Worker) {
	for _, node := range w.pool.nodes[w.core.Node()].nearby {
		ps.runAt(w, node)
	}
}

// worthPieces says whether a loop is to be divided among nodes: it is long enough, and has an affinity or a place that is free for it.
func (s *span) worthPieces(p *Pool, a *Affinity) bool {
	if len(p.nodes) == 1 || (s.hi-s.lo)/max(s.pace.Chunk(), s.grain) < worthNodes*len(p.nodes) {
		return false
	}
	state := p.core.Sleep.Load()
	return a != nil || state.Sleepers()+state.Searching() > 0
}

// runOnNodes runs the span in pieces.
func (s span) runOnNodes(w *Worker, a *Affinity) {
	p := w.pool
	ps := &nodeChunks{span: s, homes: a.home(p, s.hi, s.grain)}
	ps.ran = make([]atomic.Int32, len(ps.homes))
	ps.next = make([][]int, len(p.nodes))
	ps.taken = make([]atomic.Uint32, len(p.nodes))
	for i, home := range ps.homes {
		ps.next[home] = append(ps.next[home], i)
	}
	w.Scope(func(scope *Scope) {
		for _, node := range p.nodes[w.core.Node()].nearby[1:] {
			for range min(len(ps.next[node]), p.nodes[node].workers) {
				scope.goOn(node, func(w *Worker) { ps.runAt(w, node) })
			}
			if len(ps.next[node]) == 0 { // or the node would never get a piece again
				scope.goOn(node, ps.runNear)
			}
		}
		ps.runNear(w)
	})
	a.note(p, ps)
}

// home returns the homes of the pieces of a loop over n items.
func (a *Affinity) home(p *Pool, n, grain int) []int {
	if a == nil {
		return p.shares(min(p.first, n/max(grain, 1)))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == n && a.pool == p {
		return a.homes
	}
	return p.shares(min(piecesPerWorker*p.first, mostPieces, n))
}

// note remembers where the pieces ran.
func (a *Affinity) note(p *Pool, ps *nodeChunks) {
	if a == nil || ps.stop.Load() {
		return
	}
	homes := make([]int, len(ps.homes))
	for i := range homes {
		homes[i] = int(ps.ran[i].Load()) - 1
		if homes[i] < 0 { // the loop was cancelled before the piece ran
			homes[i] = ps.homes[i]
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pool, a.n, a.homes = p, ps.hi, homes
}

// shares divides k pieces among the nodes, in order. Each node gets pieces in proportion to its
// workers.
func (p *Pool) shares(k int) []int {
	homes := make([]int, 0, k)
	workers := 0
	for node := range p.nodes {
		workers += p.nodes[node].workers
		for len(homes) < k*workers/p.first {
			homes = append(homes, node)
		}
	}
	return homes
}

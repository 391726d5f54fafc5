package numa

import (
	"os"

	"github.com/seed53057037/heist"
)

// Read reads the topology of this machine as [ReadRoot] does, with the same
// errors. Allowed is what [heist.Allowed] says: the CPUs that the process may use
// now.
//
// It takes 0.4 ms with 2 CPUs and 12 ms with 256: read once and keep the result.
// The result does not change when CPUs go online or offline later. On systems
// other than Linux Read returns one node with runtime.NumCPU CPUs, and no error.
func Read() (*Topology, error) {
	return read(os.DirFS("/"), "/", func() (Set, error) { return heist.Allowed() })
}

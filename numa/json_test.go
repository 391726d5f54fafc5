package numa

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireRoundTrip checks that a topology is the same after JSON, and the JSON
// after a topology.
func requireRoundTrip(t testing.TB, want *Topology) {
	t.Helper()
	text, err := json.Marshal(want)
	require.NoError(t, err)
	var got Topology
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, *want, got)
	again, err := json.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
}

func TestTopologyIsTheSameAfterJSON(t *testing.T) {
	fixtures, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, fixture := range fixtures {
		root := filepath.Join("testdata", fixture.Name())
		if _, err := os.Stat(filepath.Join(root, "sys")); err != nil {
			continue // an input that fuzzing found
		}
		got, err := ReadRoot(root)
		require.NoError(t, err, root)
		requireUsable(t, got)
		requireRoundTrip(t, got)
	}
	for _, f := range []files{smt(), chiplets(), bigLittle(), smt().with(files{"cpu/online": "1-2\n"})} {
		requireRoundTrip(t, readSound(t, f))
	}
	requireRoundTrip(t, oneNode(Set{3}))
	here, _ := Read()
	requireRoundTrip(t, here)
}

// Programs rely on this form.
func TestJSONOfATopologyStays(t *testing.T) {
	got, err := read(bigLittle().with(files{
		"cpu/present":       "0-3,5\n",
		"cpu/online":        "3,5\n",
		"/proc/meminfo":     "MemTotal: 1024 kB\n",
		"/proc/self/cpuset": "/a\n",
		"/proc/mounts":      "none /dev/cpuset cpuset rw 0 0\n",
		"/dev/cpuset/cpus":  "5\n",
	}).inMemory(), "", nil)
	require.NoError(t, err)
	text, err := json.MarshalIndent(got, "", "\t")
	require.NoError(t, err)
	require.Equal(t, `{
	"complete": "0-3,5",
	"online": "3,5",
	"allowed": "5",
	"nodes": [
		{
			"id": 0,
			"cpus": "3,5",
			"memory_bytes": 1048576
		}
	],
	"groups": {
		"clusters": [
			"3",
			"5"
		],
		"cores": [
			"3",
			"5"
		],
		"l2": [
			"3",
			"5"
		],
		"packages": [
			"3,5"
		]
	},
	"cpus": [
		{
			"id": 3,
			"node": 0,
			"package": 0,
			"die": -1,
			"cluster": 0,
			"core": 0,
			"l2": 0,
			"l3": -1,
			"smt": 0,
			"capacity": 446
		},
		{
			"id": 5,
			"node": 0,
			"package": 0,
			"die": -1,
			"cluster": 1,
			"core": 1,
			"l2": 1,
			"l3": -1,
			"smt": 0,
			"capacity": 1024
		}
	]
}`, string(text))
}

func TestJSONThatMakesNoSenseIsNamed(t *testing.T) {
	sound, err := json.Marshal(readSound(t, smt()))
	require.NoError(t, err)
	for _, c := range []struct{ old, new, want string }{
		{`"online":"0-7"`, `"online":"0-6"`, "cpus: 8 for the 7 CPUs that are online"},
		{`"online":"0-7"`, `"online":""`, "online: no CPUs"},
		{`"online":"0-7"`, `"on":"0-7"`, "online: no CPUs"},
		{`"online":"0-7"`, `"online":"7-0"`, `online: CPU list "7-0": range 7-0 runs backwards`},
		{`"online":"0-7"`, `"online":"0-99999999"`, "online: CPU list"},
		{`"online":"0-7"`, `"online":"0-65535"`, "cpus: 8 for the 65536 CPUs that are online"},
		{`"online":"0-7"`, `"online":7`, "number into Go struct field"},
		{`"complete":"0-7"`, `"complete":"1-9"`, "complete: lacks the CPUs 0, which are online"},
		{`"complete":"0-7"`, `"complete":"x"`, "complete: CPU list"},
		{`"allowed":"0-7"`, `"allowed":""`, "allowed: no CPUs"},
		{`"allowed":"0-7"`, `"allowed":"0-9"`, "allowed: has the CPUs 8-9, which are not online"},
		{`"cores":["0,4"`, `"cores":["0,1"`, "groups.cores[1]: has the CPU 1, which is not online or is in another group already"},
		{`"cores":["0,4"`, `"cores":["0,8"`, "groups.cores[0]: has the CPU 8, which is not online or"},
		{`"cores":["0,4","1,5"`, `"cores":["1,5","0,4"`, "groups.cores[1]: has the CPU 0, which is before those of the last group"},
		{`"cores":["0,4"`, `"cores":["","0,4"`, "groups.cores[0]: no CPUs"},
		{`"cores":["0,4"`, `"cores":["0,4-"`, "groups.cores[0]: CPU list"},
		{`"cores":["0,4"`, `"cores":["0"`, "cpus[4].core: is 0, but has to be -1 by the other fields"},
		{`"l3":["0-1,4-5"`, `"l3":["0-1,4-6"`, "groups.l3[1]: has the CPU 6"},
		{`"l3":["0-1,4-5",`, `"l4":["0-1,4-5",`, "cpus[0].l3: is 0, but has to be -1 by the other fields"},
		{`"core":3,`, `"core":4,`, "cpus[3].core: is 4, but has to be 3 by the other fields"},
		{`"core":3,`, `"core":-2,`, "cpus[3].core: is -2, but has to be 3"},
		{`"core":3,`, `"core":1e30,`, "number 1e30 into Go struct field"},
		{`"id":5,`, `"id":6,`, "cpus[5].id: is 6, but has to be 5"},
		{`"smt":1,`, `"smt":2,`, "cpus[4].smt: is 2, but has to be 1"},
		{`"capacity":0`, `"capacity":-1`, "cpus[0].capacity: -1 is not between 0 and 65536"},
		{`"cpus":[{"id":0`, `"cpus":[{"id":1},{"id":0`, "cpus: 9 for the 8 CPUs that are online"},
		{`{"id":0,"cpus":"0-1,4-5"`, `{"id":0,"cpus":"0-2,4-5"`, "nodes[1].cpus: has the CPU 2, which is not online or is in another group already"},
		{`{"id":0,"cpus":"0-1,4-5"`, `{"id":0,"cpus":"0-1,4-5x"`, "nodes[0].cpus: CPU list"},
		{`{"id":0,"cpus":"0-1,4-5"`, `{"id":0,"cpus":""`, "cpus[0].node: is 0, but has to be -1"},
		{`{"id":1,"cpus"`, `{"id":0,"cpus"`, "nodes[1].id: 0 is out of order"},
		{`{"id":1,"cpus"`, `{"id":65536,"cpus"`, "nodes[1].id: 65536 is out of order, or no node's number"},
		{`{"id":0,"cpus"`, `{"id":-1,"cpus"`, "nodes[0].id: -1 is out of order, or no node's number"},
		{`"memory_bytes":1048576`, `"memory_bytes":-1`, "nodes[0].memory_bytes: -1 is less than none"},
		{`"distances":[21,10]`, `"distances":[21]`, "nodes[1].distances: 1 for 2 nodes"},
		{`"distances":[21,10]`, `"distances":[21,0]`, "nodes[1].distances[1]: 0 is not between 1 and 65535"},
		{`"distances":[21,10]`, `"distances":[65536,10]`, "nodes[1].distances[0]: 65536 is not between 1 and 65535"},
		{`"nodes":[`, `"nodes":[],"other":[`, "nodes: none has a CPU"},
		{`{"complete"`, `{complete"`, "invalid character"},
		{string(sound), `null`, "online: no CPUs"},
		{string(sound), `[]`, "cannot unmarshal array"},
		{string(sound), `{}`, "online: no CPUs"},
	} {
		require.Contains(t, string(sound), c.old)
		text := strings.Replace(string(sound), c.old, c.new, 1)
		before := *oneNode(Set{3})
		got := before
		err := json.Unmarshal([]byte(text), &got)
		require.ErrorContains(t, err, c.want, "%s for %s", c.new, c.old)
		require.Equal(t, before, got, "after an error it is as before")
	}
}

func TestUnknownFieldsInJSONAreLeftAlone(t *testing.T) {
	want := readSound(t, smt())
	text, err := json.Marshal(want)
	require.NoError(t, err)
	var got Topology
	require.NoError(t, json.Unmarshal([]byte(strings.Replace(string(text), `{"complete"`, `{"host":"a","complete"`, 1)), &got))
	require.Equal(t, *want, got)
}

func TestNoDistancesInJSONAreUnknownOnes(t *testing.T) {
	text, err := json.Marshal(oneNode(Set{3}))
	require.NoError(t, err)
	var got Topology
	require.NoError(t, json.Unmarshal([]byte(strings.Replace(string(text), `"memory_bytes":0`, `"memory_bytes":0,"distances":[]`, 1)), &got))
	require.Equal(t, *oneNode(Set{3}), got)
	require.Equal(t, 10, got.Distance(0, 0))
}

func TestTopologyThatMakesNoSenseIsNotWritten(t *testing.T) {
	_, err := json.Marshal(&Topology{})
	require.ErrorContains(t, err, "numa: topology: online: no CPUs")
	broken := oneNode(Set{3})
	broken.CPUs[0].L3 = 5
	_, err = json.Marshal(broken)
	require.ErrorContains(t, err, "cpus[0].l3: is 5, but has to be -1")
}

// A few bytes ask for a large set, and there are thousands of them.
func TestJSONTakesNoMoreMemoryThanItIsLong(t *testing.T) {
	many := strings.Repeat(`"0-65535",`, 5000) + `"1"`
	for _, text := range []string{
		fmt.Sprintf(`{"online":"0-65535","complete":"0-65535","allowed":"0-65535","groups":{"l3":[%s]}}`, many),
		fmt.Sprintf(`{"online":"0","complete":"0-65535","allowed":"0","groups":{"l3":[%s]},"cpus":[{}]}`, many),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var got Topology
		err := json.Unmarshal([]byte(text), &got)
		runtime.ReadMemStats(&after)
		require.Error(t, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20<<20))
	}
}

func TestSetsAreListsInJSON(t *testing.T) {
	text, err := json.Marshal(map[string]Set{"a": {0, 1, 2, 8}, "b": nil})
	require.NoError(t, err)
	require.Equal(t, `{"a":"0-2,8","b":""}`, string(text))
	var got map[string]Set
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, map[string]Set{"a": {0, 1, 2, 8}, "b": nil}, got)

	set := Set{4}
	require.ErrorContains(t, set.UnmarshalText([]byte("3-1")), "range 3-1 runs backwards")
	require.Equal(t, Set{4}, set)

	for _, broken := range []Set{{1, 0}, {1, 1}, {-1}, {maxCPUs}} {
		_, err := broken.MarshalText()
		require.ErrorContains(t, err, "a Set holds ascending numbers from 0 to 65535", "%v", []int(broken))
	}
}

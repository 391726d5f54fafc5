package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's first program is the example of package pool, which is compiled and run. This test
// compares the two.
func TestTheReadmesProgramIsTheExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("../pool/example_tree_test.go")
	require.NoError(t, err)

	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(readme)
	require.NotNil(t, program, "the README has no program")

	want := strings.NewReplacer("package pool_test", "package main", "func Example()", "func main()").Replace(string(example))
	want = regexp.MustCompile(`(?s)\t// Output:.*\}`).ReplaceAllString(want, "}")
	require.Equal(t, want, string(program[1]))
}

package rewrite

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// explored runs a test of package example, which is rewritten, and returns its output.
func explored(t *testing.T, test string, environment ...string) (output string, passes bool) {
	run := exec.Command("go", "run", "../goexplore", "../internal/example", "--", "-count=1", "-v", "-run", "^"+test+"$", "../internal/example")
	run.Env = append(os.Environ(), environment...)
	text, err := run.CombinedOutput()
	require.Contains(t, string(text), "=== RUN   "+test)
	return string(text), err == nil
}

func TestRewrittenPackageIsExplored(t *testing.T) {
	for _, test := range []string{"TestExploreStack", "TestExploreMailbox", "TestExploreLater"} {
		output, passes := explored(t, test)
		require.True(t, passes, output)
	}
	output, passes := explored(t, "TestExploreBrokenMailbox")
	require.False(t, passes, output)
	require.Contains(t, output, "deadlock")
}

// The trace has the original's lines, and the schedule that a failure prints fails again.
func TestFailureShowsTheOriginalAndIsReplayed(t *testing.T) {
	output, passes := explored(t, "TestExploreBrokenStack")
	require.False(t, passes, output)
	require.Regexp(t, `stack\.go:28 .*\| s\.head\.Store\(n\)`, output)
	schedule := regexp.MustCompile(`EXPLORE_REPLAY="([^"]*)"`).FindStringSubmatch(output)
	require.NotNil(t, schedule, output)
	again, passes := explored(t, "TestExploreBrokenStack", "EXPLORE_REPLAY="+schedule[1])
	require.False(t, passes, again)
	require.Contains(t, again, "were popped so often")
}

// write makes a package of one file.
func write(t *testing.T, text string) (dir string) {
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte(text), 0o666))
	return dir
}

// rewritten returns what becomes of a file.
func rewritten(t *testing.T, c Config, text string) string {
	c.Dir = write(t, text)
	replace, err := Package(c, t.TempDir())
	require.NoError(t, err)
	changed, err := os.ReadFile(replace[filepath.Join(c.Dir, "a.go")])
	require.NoError(t, err)
	return string(changed)
}

func TestFileWithNothingToRewriteIsLeftOut(t *testing.T) {
	replace, err := Package(Config{Dir: write(t, "package a\n\nfunc f() {}\n")}, t.TempDir())
	require.NoError(t, err)
	require.Empty(t, replace)
}

func TestConfigurationIsFollowed(t *testing.T) {
	out := rewritten(t, Config{
		Bodies:    map[string]string{"pause": "explore.Yield()", "Q.now": "return 0"},
		Constants: map[string]string{"size": "2"},
		Release:   []string{"Q.push q.tail.Store(t + 1)"},
		Plain:     []string{"a.go:item"},
	}, `package a

import "sync/atomic"

const size = 256

type Q[T any] struct {
	tail atomic.Int64
	item T
}

func pause(n int) { println(n) }

func (q *Q[T]) now() int { return 1 }

func (q *Q[T]) push(item T) {
	t := q.tail.Load()
	q.item = item
	q.tail.Store(t + 1)
	q.tail.Store(t)
	_ = q.item
	_ = &q.item
}
`)
	for _, want := range []string{
		`package a; import explore "github.com/seed53057037/heist/verify/explore"`,
		`import "github.com/seed53057037/heist/verify/explore/atomic"`,
		`const size = 2` + "\n",
		`func pause(n int) { if explore.Active() { explore.Yield(); return }; println(n) }`,
		`func (q *Q[T]) now() int { if explore.Active() { return 0 }; return 1 }`,
		`(*explore.Write(&q.item)) = item`,
		`q.tail.StoreRelease(t + 1)`,
		`q.tail.Store(t)` + "\n",
		`_ = (*explore.Read(&q.item))`,
		`_ = &q.item` + "\n",
	} {
		require.Contains(t, out, want)
	}
}

func TestGoStatementsEvaluateTheirArgumentsAtOnce(t *testing.T) {
	out := rewritten(t, Config{}, `package a

func f(x, y int, z []int) {
	go f(x, 1, nil)
	go func() {
		println(x)
	}()
	go panic(x)
	println(y)
}
`)
	require.Equal(t, `package a; import explore "github.com/seed53057037/heist/verify/explore"

func f(x, y int, z []int) {
	{ explored, explored0 := f, x; explore.Go("f", func() { explored(explored0, 1, nil) }) }
	explore.Go("", func() {
		println(x)
	})
	explore.Go("", func() { panic(x) })
	println(y)
}
`, out)
}

// Otherwise a configuration could stop fitting the code unnoticed.
func TestConfigurationThatFitsNothingIsRefused(t *testing.T) {
	for _, c := range []Config{
		{Bodies: map[string]string{"g": ""}}, {Constants: map[string]string{"g": "1"}}, {Release: []string{"f x.Store"}}, {Plain: []string{"a.go:g"}},
	} {
		c.Dir = write(t, "package a\n\nfunc f() {}\n")
		_, err := Package(c, t.TempDir())
		require.ErrorContains(t, err, "has no")
	}
}

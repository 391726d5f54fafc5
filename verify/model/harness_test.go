package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests check the checker: a harness that accepts anything shows nothing.

// header makes a model of a few lines complete.
const header = "// stands for: layout.go: newSlots\n"

// counters is right as it is: two processes count to 2 in steps that are atomic.
const counters = header + `
// configuration (small): one: -DN=2
// mutant MUTANT_SPLIT: reads and writes in two steps
// mutant MUTANT_COMMENT: nothing
byte n, done;
active [N] proctype P() {
	byte seen;
#ifdef MUTANT_SPLIT
	seen = n; n = seen + 1;
#else
	n++;
#endif
#ifdef MUTANT_COMMENT
	/* changes nothing */
#endif
	done++;
	if
	:: done == N -> assert(n == N)
	:: else
	fi
}
`

func parsed(t *testing.T, text string) *model {
	needSpin(t)
	m, err := parseModel("tiny.pml", text)
	require.NoError(t, err)
	return m
}

func verifyFirst(t *testing.T, m *model) (verified, error) {
	v, err := m.generate(t.Context(), t.TempDir(), m.configurations[0])
	require.NoError(t, err)
	o, err := v.verify(t.Context())
	return verified{v, o}, err
}

func TestARightModelIsAccepted(t *testing.T) {
	t.Parallel()
	v, err := verifyFirst(t, parsed(t, counters))
	require.NoError(t, err)
	require.Positive(t, v.states)
	require.Empty(t, neverReached([]verified{v}))
}

func TestAWrongModelIsRefused(t *testing.T) {
	t.Parallel()
	wrong := map[string]string{
		"assertion violated": "active proctype P() { assert(1 == 2) }",
		"invalid end state":  "active proctype P() { false }",
	}
	for violation, body := range wrong {
		_, err := verifyFirst(t, parsed(t, header+"// configuration (small): one:\n"+body))
		require.ErrorContains(t, err, violation)
	}
	_, err := verifyFirst(t, parsed(t, header+"// configuration (small): one: ; pan: -a\n"+
		"byte n; active proctype P() { do :: n = 1 - n od }\nltl { <>[] (n == 1) }"))
	require.ErrorContains(t, err, "acceptance cycle")
}

func TestAViolationComesWithTheStepsThatLedToIt(t *testing.T) {
	t.Parallel()
	_, err := verifyFirst(t, parsed(t, header+"// configuration (small): one:\nbyte n; active proctype P() { n = 7; assert(n == 0) }"))
	require.ErrorContains(t, err, "[n = 7]")
}

func TestAnIncompleteSearchIsAnError(t *testing.T) {
	t.Parallel()
	endless := "byte n; active proctype P() { do :: n < 200 -> n++ :: else -> break od }"
	for name, flags := range map[string]string{
		"depth":      "-m20",
		"one bit":    "-DBITSTATE",
		"memory":     "-DMEMLIM=1 -w10",
		"vector":     "-DVECTORSZ=8",
		"wrong flag": "-DP0=0",
	} {
		_, err := verifyFirst(t, parsed(t, header+"// configuration (small): one: ; pan: "+flags+"\n"+endless))
		require.Error(t, err, name)
	}
}

func TestAnAssertionThatIsNeverReachedIsFound(t *testing.T) {
	t.Parallel()
	v, err := verifyFirst(t, parsed(t, header+"// configuration (small): one:\nbyte n; active proctype P() {\n"+
		"\tif\n\t:: n > 0 -> assert(n == 1)\n\t:: n > 1 -> assert(false)\n\t:: else\n\tfi }"))
	require.NoError(t, err)
	require.Equal(t, []string{"line 5: assert((n==1))"}, neverReached([]verified{v}))
}

func TestAMutantThatNobodyNoticesIsAnError(t *testing.T) {
	t.Parallel()
	m := parsed(t, counters)
	v, err := verifyFirst(t, m)
	require.NoError(t, err)

	by, err := m.catch(t.Context(), m.mutants[0], []verified{v}, t.TempDir)
	require.NoError(t, err)
	require.Equal(t, "one", by)

	_, err = m.catch(t.Context(), m.mutants[1], []verified{v}, t.TempDir)
	require.ErrorContains(t, err, "no configuration notices MUTANT_COMMENT")
}

func TestAMutantThatDoesNotCompileIsNotCaught(t *testing.T) {
	t.Parallel()
	m := parsed(t, strings.Replace(counters, "seen = n;", "seen == = n;", 1))
	v, err := verifyFirst(t, m)
	require.NoError(t, err)
	_, err = m.catch(t.Context(), m.mutants[0], []verified{v}, t.TempDir)
	require.ErrorContains(t, err, "spin")
}

func TestAModelMustSayWhatItIs(t *testing.T) {
	for want, text := range map[string]string{
		"no configuration":         header,
		"which code it stands for": "// configuration (small): one: -DN=1\n",
		"what MUTANT_X spoils":     header + "// configuration (small): one:\n#ifdef MUTANT_X\n#endif\n",
		"does not have it":         header + "// configuration (small): one:\n// mutant MUTANT_X: much\n",
		"\"two\", which is no":     header + "// configuration (small): one:\n// mutant MUTANT_X, in two: much\n#ifdef MUTANT_X\n#endif\n",
		"cannot be read":           header + "// configuration (small): one:\n// mutant X: much\n",
		"not a scale":              header + "// configuration (huge): one:\n",
	} {
		_, err := parseModel("tiny.pml", text)
		require.ErrorContains(t, err, want)
	}
}

const goBefore = `package p

const (
	one = 1
	two = 2
)

// R is a type.
type R[T any] struct {
	x, y T // of two
}

// f is a function.
func (r *R[T]) f(x int) int {
	// Twice.
	y := x + x // not three times

	return y
}
`

const asmBefore = `// Comment.
#define A R1
#define twice \
	ADD A, A, A // doubled

// func f()
TEXT ·f(SB), 4, $0
	twice
	RET

TEXT ·g(SB), 4, $0
	RET
`

func TestOnlyAChangeOfCodeChangesTheSum(t *testing.T) {
	for _, c := range []struct {
		name, file, symbol, before string
		old, new                   string
		same                       bool
	}{
		{"a comment", "a.go", "R.f", goBefore, "// Twice.\n", "", true},
		{"a comment more", "a.go", "R.f", goBefore, "\ty := x", "\t// First.\n\n\ty := x", true},
		{"a comment behind", "a.go", "R.f", goBefore, " // not three times", "", true},
		{"code", "a.go", "R.f", goBefore, "x + x", "x * x", false},
		{"a type", "a.go", "R", goBefore, "x, y", "x, z", false},
		{"a type's comment", "a.go", "R", goBefore, " // of two", "", true},
		{"a constant", "a.go", "two", goBefore, "= 2", "= 3", false},
		{"another constant", "a.go", "two", goBefore, "= 1", "= 4", true},
		{"a comment", "a.s", "f", asmBefore, " // doubled", "", true},
		{"another function", "a.s", "f", asmBefore, "TEXT ·g(SB), 4, $0", "TEXT ·h(SB), 4, $8", true},
		{"an instruction", "a.s", "f", asmBefore, "\ttwice\n", "\ttwice\n\ttwice\n", false},
		{"a macro", "a.s", "f", asmBefore, "ADD A", "SUB A", false},
		{"a register", "a.s", "f", asmBefore, "A R1", "A R2", false},
	} {
		after := strings.Replace(c.before, c.old, c.new, 1)
		require.NotEqual(t, c.before, after)
		m := &model{standsFor: []piece{{c.file, c.symbol}}}
		var found []map[piece]string
		for _, text := range []string{c.before, after} {
			root := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(root, c.file), []byte(text), 0o600))
			all, err := sums(root, []*model{m})
			require.NoError(t, err)
			found = append(found, all)
		}
		require.Equal(t, c.same, len(changes([]*model{m}, found[0], found[1])) == 0, "%s in %s", c.name, c.file)
	}
}

func TestCodeThatDoesNotExistIsAnError(t *testing.T) {
	for _, f := range []piece{{"deque.go", "deque.pus"}, {"deque_amd64.s", "asmPo"}, {"no.go", "f"}} {
		_, err := f.source("../..")
		require.Error(t, err, f)
	}
}

func TestASumThatNobodyUsesIsFound(t *testing.T) {
	f := piece{"deque.go", "deque.gone"}
	require.NotEmpty(t, changes(nil, nil, map[piece]string{f: "0"}))

	path := filepath.Join(t.TempDir(), "code.sum")
	require.NoError(t, writeSums(path, map[piece]string{f: "0123"}))
	all, err := readSums(path)
	require.NoError(t, err)
	require.Equal(t, map[piece]string{f: "0123"}, all)
}

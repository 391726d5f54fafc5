package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// events is what go test prints of a package, one event a line, without the braces.
func events(lines ...string) io.Reader {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "{%q:%q,%s}\n", "Package", module+"/soak", strings.ReplaceAll(line, "'", `"`))
	}
	return strings.NewReader(b.String())
}

func claimed(test, amount string) []string {
	lines := []string{
		fmt.Sprintf("'Action':'attr','Test':'%s','Key':'claim','Value':'it holds'", test),
		fmt.Sprintf("'Action':'attr','Test':'%s','Key':'how','Value':'by trying'", test),
	}
	if amount != "" {
		lines = append(lines, fmt.Sprintf("'Action':'attr','Test':'%s','Key':'amount','Value':'%s'", test, amount))
	}
	return lines
}

func TestARowSaysWhatCameOfItsClaim(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		want   row
		bad    int
	}{
		"shown": {
			append(claimed("TestA", "3 items"), "'Action':'pass','Test':'TestA','Elapsed':1.5"),
			row{folder: "soak", claim: "it holds", how: "by trying", amount: "3 items", result: shown, elapsed: 1500 * time.Millisecond}, 0,
		},
		"refuted": {
			append(claimed("TestA", ""), "'Action':'fail','Test':'TestA/sub'", "'Action':'fail','Test':'TestA'", "'Action':'fail'"),
			row{folder: "soak", claim: "it holds", how: "by trying", result: failed}, 1,
		},
		"without an amount": {
			append(claimed("TestA", ""), "'Action':'pass','Test':'TestA'"),
			row{folder: "soak", claim: "it holds", how: "by trying", result: failed, reason: "the test does not say how much it checked"}, 1,
		},
		"not checked here": {
			append(claimed("TestA", ""), `'Action':'output','Test':'TestA','Output':'    a_test.go:7: there is no spin\n'`,
				`'Action':'output','Test':'TestA','Output':'--- SKIP: TestA (0.00s)\n'`, "'Action':'skip','Test':'TestA'"),
			row{folder: "soak", claim: "it holds", how: "by trying", result: notChecked, reason: "there is no spin"}, 0,
		},
		"killed": {
			claimed("TestA", ""),
			row{folder: "soak", claim: "it holds", how: "by trying", result: unfinished}, 1,
		},
		"a test without a claim fails": {
			[]string{"'Action':'fail','Test':'TestB'", "'Action':'fail'"},
			row{folder: "soak", claim: "TestB", result: failed}, 1,
		},
		"the folder fails outside its tests": {
			[]string{"'Action':'fail'"},
			row{folder: "soak", claim: "the tests of the folder", result: failed}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := read(events(c.events...), io.Discard)
			require.NoError(t, err)
			require.Equal(t, []row{c.want}, rows)
			require.Equal(t, c.bad, failures(rows))
		})
	}
}

func TestTestsWithoutAClaimThatPassHaveNoRow(t *testing.T) {
	rows, err := read(events("'Action':'pass','Test':'TestB'", "'Action':'pass'"), io.Discard)
	require.NoError(t, err)
	require.Empty(t, rows)
}

func TestWhatIsNoEventIsAnError(t *testing.T) {
	_, err := read(strings.NewReader("panic: what?\n"), io.Discard)
	require.ErrorContains(t, err, `"panic: what?"`)
}

func TestAFolderThatDoesNotExistIsAnError(t *testing.T) {
	var progress strings.Builder
	require.Error(t, run([]string{"nowhere"}, io.Discard, &progress))
	require.Contains(t, progress.String(), "nowhere")
}

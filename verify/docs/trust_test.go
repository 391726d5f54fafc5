package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// claimsInTheCode returns the claims that tests of verify make in string literals, and the text of all its sources.
func claimsInTheCode(t *testing.T) (claims []string, sources string) {
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "verify"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".pml" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all.Write(text)
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 3 {
				return true
			}
			that, ok := call.Fun.(*ast.SelectorExpr)
			literal, isLiteral := call.Args[1].(*ast.BasicLit)
			if ok && isLiteral && that.Sel.Name == "That" {
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				claims = append(claims, text)
			}
			return true
		})
		return nil
	}))
	return claims, all.String()
}

var trustRow = regexp.MustCompile(`(?m)^\| [\w/]+ \| (.*?) \| .* \| (ok|FAILED|not checked.*|did not end) \| [\d.]* \|$`)

// The table in docs/trust.md is what `go run ./verify -markdown` printed. A claim that was added or dropped since then is
// missed here, though not how much was checked.
func TestTrustHasTheClaimsOfVerify(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/trust.md"))
	require.NoError(t, err)
	claims, sources := claimsInTheCode(t)
	require.Greater(t, len(claims), 60)
	table := map[string]string{}
	for _, row := range trustRow.FindAllStringSubmatch(string(text), -1) {
		table[strings.ReplaceAll(row[1], `\|`, "|")] = row[2]
	}
	for _, claim := range claims {
		assert.True(t, table[claim] != "", "docs/trust.md lacks %q; take what go run ./verify -markdown prints", claim)
	}
	for claim, result := range table {
		assert.True(t, strings.Contains(sources, claim), "docs/trust.md has %q, which no test claims", claim)
		assert.NotContains(t, []string{"FAILED", "did not end"}, result, claim)
	}
}

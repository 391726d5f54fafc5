// Package docs checks the repository's documents: links lead somewhere, Go code compiles, and what is generated is as
// its generator left it.
package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// documents are all Markdown files of the repository, by their paths from its root.
func documents(t *testing.T) map[string]string {
	texts := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "target") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		texts[name] = string(text)
		return err
	}))
	require.Contains(t, texts, "README.md")
	return texts
}

var (
	fence   = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)(?: "[^"]*")?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the fragments that GitHub gives to the headings of a document.
func anchors(text string) []string {
	var all []string
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return all
}

// brokenLinks are the relative links of a document that lead to no file, or to no heading of it.
func brokenLinks(name string, texts map[string]string) []string {
	var broken []string
	for _, l := range link.FindAllStringSubmatch(fence.ReplaceAllString(texts[name], ""), -1) {
		if strings.Contains(l[1], "://") {
			continue
		}
		file, fragment, _ := strings.Cut(l[1], "#")
		target := name
		if file != "" {
			target = filepath.Join(filepath.Dir(name), file)
		}
		_, known := texts[target]
		if !known {
			_, err := os.Stat(filepath.Join(root, target))
			known = err == nil
		}
		if !known || fragment != "" && !slices.Contains(anchors(texts[target]), fragment) {
			broken = append(broken, l[1])
		}
	}
	return broken
}

func TestLinksLeadSomewhere(t *testing.T) {
	texts := documents(t)
	for name := range texts {
		assert.Empty(t, brokenLinks(name, texts), name)
	}
	texts["planted.md"] = "# A b, c\n[ok](#a-b-c) [no](#d) [none](nothing.md) [far](README.md#nowhere)"
	assert.Equal(t, []string{"#d", "nothing.md", "README.md#nowhere"}, brokenLinks("planted.md", texts))
}

func TestTheReadmeIsOnePage(t *testing.T) {
	assert.LessOrEqual(t, len(documents(t)["README.md"]), 8<<10, "bytes")
	assert.Less(t, strings.Count(strings.Split(documents(t)["README.md"], "```go")[0], "\n"), 30, "lines before the first program")
}

// packages are what Go code in the documents may use without an import clause.
var packages = []string{
	"context", "errors", "fmt", "maps", "net/http", "os", "path/filepath", "runtime", "slices", "strconv", "strings", "sync", "sync/atomic", "testing", "time",
	"github.com/seed53057037/heist", "github.com/seed53057037/heist/numa", "github.com/seed53057037/heist/par",
	"github.com/seed53057037/heist/keyed", "github.com/seed53057037/heist/graph", "github.com/seed53057037/heist/limit", "github.com/seed53057037/heist/pipeline", "github.com/seed53057037/heist/progress",
	"github.com/seed53057037/heist/pool", "github.com/seed53057037/heist/pool/poolhttp/debug",
	"github.com/seed53057037/heist/jetstream", "github.com/nats-io/nats.go", "github.com/nats-io/nats.go/jetstream",
	"github.com/seed53057037/heist/verify/explore",
	"golang.org/x/sync/errgroup", "github.com/sourcegraph/conc/iter", "github.com/alitto/pond/v2", "github.com/panjf2000/ants/v2",
}

// called are the names of packages in the documents, where they are not the last parts of their paths.
var called = map[string]string{"github.com/nats-io/nats.go": "nats", "github.com/nats-io/nats.go/jetstream": "natsjs"}

// imports gives the compiler's export data of these packages and of what they need.
func imports(t *testing.T, fset *token.FileSet) types.Importer {
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export"}, packages...)...)
	list.Dir = filepath.Join(root, "examples") // which requires them all
	list.Stderr = os.Stderr
	out, err := list.Output()
	require.NoError(t, err)
	files := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct{ ImportPath, Export string }
		require.NoError(t, d.Decode(&p))
		files[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(files[path])
	})
}

// program makes a file of a block: a whole file, declarations, or statements of a function that has p, w and ctx.
// The declarations that came before in the same document are known too.
func program(block, before string) string {
	if strings.HasPrefix(block, "package ") {
		return block
	}
	var b strings.Builder
	b.WriteString("package document\n")
	for _, p := range packages {
		name := filepath.Base(p)
		if name == "v2" {
			name = filepath.Base(filepath.Dir(p))
		}
		if called[p] != "" {
			name = called[p]
		}
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(block + before) {
			fmt.Fprintf(&b, "import %s %q\n", name, p)
		}
	}
	b.WriteString(before)
	if declares(block) {
		return b.String() + block
	}
	return b.String() + "func _(ctx context.Context, p *pool.Pool, w *pool.Worker) error {\n{" + block + "}\nreturn nil\n}\n"
}

// declares tells whether a block stands on its own at the top level.
func declares(block string) bool {
	return regexp.MustCompile(`^(import|func|var|type|const)\b`).MatchString(block)
}

// errorsIn type-checks a file. Variables that an excerpt does not use are no errors.
func errorsIn(fset *token.FileSet, imports types.Importer, source string) error {
	file, err := parser.ParseFile(fset, "block.go", source, 0)
	if err != nil {
		return err
	}
	var all []error
	check := types.Config{Importer: imports, Error: func(err error) {
		if e, ok := err.(types.Error); ok && e.Soft {
			return
		}
		all = append(all, err)
	}}
	check.Check("document", fset, []*ast.File{file}, nil)
	return errors.Join(all...)
}

func TestGoCodeInTheDocumentsCompiles(t *testing.T) {
	fset := token.NewFileSet()
	known := imports(t, fset)
	blocks := 0
	for name, text := range documents(t) {
		before := ""
		for _, block := range fence.FindAllStringSubmatch(text, -1) {
			if block[1] != "go" {
				continue
			}
			blocks++
			// A context and pool are always in use, so that the imports of the frame are.
			assert.NoError(t, errorsIn(fset, known, program(block[2], before+"var _ context.Context; var _ *pool.Pool\n")), "%s:\n%s", name, block[2])
			if declares(block[2]) {
				before += block[2]
			}
		}
	}
	assert.Greater(t, blocks, 20)
	assert.Error(t, errorsIn(fset, known, program("p.Nothing()\n", "var _ context.Context; var _ *pool.Pool\n")), "a planted error")
}

// Package rewrite makes an overlay (go help build) of a Go package, in which the package uses the explorer's atomics, locks
// and goroutines. Lines keep their numbers.
package rewrite

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// explorer is the import path of package explore.
const explorer = "github.com/seed53057037/heist/verify/explore"

// Config says what is rewritten, and what the explorer cannot know by itself. Functions are named NAME or TYPE.NAME. A name that
// does not occur is an error, so that the configuration follows the code.
type Config struct {
	// Dir is the package's directory.
	Dir string
	// Tags are build tags, such as purego.
	Tags []string
	// Sources are files to read in the place of others, by their names in Dir.
	Sources map[string]string `json:"-"`
	// Bodies are statements that run at the beginning of functions while a program is explored. If the function has no
	// results it then returns. So a pause becomes explore.Yield(), and a clock return 0.
	Bodies map[string]string
	// Constants are other values for constants, such as smaller sizes.
	Constants map[string]string
	// Release are stores that have no fence: FUNCTION CALL, where CALL is how the text of the call begins, such as
	// "queue.push q.tail.Store". They may be delayed, see explore.Options.StoreBuffers.
	Release []string
	// Plain are fields that more than one goroutine uses without atomics, FILE:FIELD. Accesses to them are points, and
	// checked for races.
	Plain []string
	// DropTests leaves out the package's tests.
	DropTests bool
	// Add are files to add to the package, by their names in Dir. They are not rewritten.
	Add map[string]string
}

// Package rewrites a package into the directory out, and returns the overlay: a map from the originals to the new files.
func Package(c Config, out string) (map[string]string, error) {
	context := build.Default
	context.BuildTags = c.Tags
	context.CgoEnabled = false
	pkg, err := context.ImportDir(c.Dir, 0)
	if err != nil {
		return nil, err
	}
	replace := map[string]string{}
	tests := slices.Concat(pkg.TestGoFiles, pkg.XTestGoFiles)
	files := pkg.GoFiles
	if c.DropTests {
		for _, name := range tests {
			replace[filepath.Join(c.Dir, name)] = "" // it does not exist
		}
	} else {
		files = slices.Concat(files, tests)
	}
	u := &used{map[string]bool{}}
	for _, name := range files {
		source := filepath.Join(c.Dir, name)
		if s, ok := c.Sources[name]; ok {
			source = s
		}
		text, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		changed, err := c.file(name, text, u)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(changed, text) && source == filepath.Join(c.Dir, name) {
			continue
		}
		to := filepath.Join(out, name)
		if err := os.WriteFile(to, changed, 0o666); err != nil {
			return nil, err
		}
		replace[filepath.Join(c.Dir, name)] = to
	}
	for name, from := range c.Add {
		replace[filepath.Join(c.Dir, name)] = from
	}
	return replace, u.check(c)
}

// used are the parts of a configuration that had an effect.
type used struct{ names map[string]bool }

func (u *used) check(c Config) error {
	for _, name := range slices.Concat(keys(c.Bodies), keys(c.Constants), c.Release, c.Plain) {
		if !u.names[name] {
			return fmt.Errorf("rewrite: %s has no %q", c.Dir, name)
		}
	}
	return nil
}

func keys(m map[string]string) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// edit replaces the text from one offset to another.
type edit struct {
	from, to int
	text     string
}

// file is a file that is rewritten.
type file struct {
	Config
	*used
	name     string
	text     []byte
	set      *token.FileSet
	edits    []edit
	explorer bool // package explore is needed
	keeps    []string
	function string // the one that is looked at
}

func (c Config) file(name string, text []byte, u *used) ([]byte, error) {
	f := &file{Config: c, used: u, name: name, text: text, set: token.NewFileSet()}
	tree, err := parser.ParseFile(f.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, spec := range tree.Imports {
		switch spec.Path.Value {
		case `"sync/atomic"`:
			f.replace(spec.Path, `"`+explorer+`/atomic"`)
		case `"sync"`:
			f.replace(spec.Path, `"`+explorer+`/sync"`)
		}
	}
	for _, d := range tree.Decls {
		f.function = ""
		if d, ok := d.(*ast.FuncDecl); ok {
			f.function = nameOf(d)
			f.body(d)
		}
		f.walk(d)
	}
	if f.explorer {
		f.insert(tree.Name.End(), "; import explore \""+explorer+"\"")
	}
	out := f.apply()
	for _, keep := range f.keeps { // otherwise an import may not be used any more
		out = append(out, "\nvar _ = "+keep+"\n"...)
	}
	return out, nil
}

// nameOf returns NAME or TYPE.NAME.
func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
			continue
		case *ast.IndexExpr:
			t = x.X
			continue
		case *ast.IndexListExpr:
			t = x.X
			continue
		case *ast.Ident:
			return x.Name + "." + d.Name.Name
		}
		return d.Name.Name
	}
}

func (f *file) offset(p token.Pos) int { return f.set.Position(p).Offset }

func (f *file) source(n ast.Node) string {
	return string(f.text[f.offset(n.Pos()):f.offset(n.End())])
}

func (f *file) replace(n ast.Node, text string) {
	f.edits = append(f.edits, edit{f.offset(n.Pos()), f.offset(n.End()), text})
}

func (f *file) insert(p token.Pos, text string) {
	f.edits = append(f.edits, edit{f.offset(p), f.offset(p), text})
}

func (f *file) apply() []byte {
	slices.SortStableFunc(f.edits, func(a, b edit) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, e := range f.edits {
		out = append(append(out, f.text[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, f.text[at:]...)
}

func (f *file) body(d *ast.FuncDecl) {
	body, ok := f.Bodies[f.function]
	if !ok || d.Body == nil {
		return
	}
	f.names[f.function], f.explorer = true, true
	if d.Type.Results == nil {
		body += "; return"
	}
	f.insert(d.Body.Lbrace+1, " if explore.Active() { "+body+" };")
}

func (f *file) walk(root ast.Node) {
	written := map[ast.Expr]bool{}
	taken := map[ast.Expr]bool{} // whose address is taken
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			return f.goes(n)
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if v, ok := f.Constants[name.Name]; ok && i < len(n.Values) && f.function == "" {
					f.names[name.Name] = true
					f.replace(n.Values[i], v)
					return false
				}
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				written[left] = true
			}
		case *ast.IncDecStmt:
			written[n.X] = true
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				taken[n.X] = true
			}
		case *ast.CallExpr:
			f.releases(n)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "runtime" && n.Sel.Name == "Gosched" {
				f.explorer = true
				f.keeps = append(f.keeps, "runtime.Gosched")
				f.replace(n, "explore.Yield")
				return false
			}
			if key := f.name + ":" + n.Sel.Name; slices.Contains(f.Plain, key) && !taken[n] && !hasCall(n.X) {
				f.names[key], f.explorer = true, true
				access := "(*explore.Read(&"
				if written[n] {
					access = "(*explore.Write(&"
				}
				f.insert(n.Pos(), access)
				f.insert(n.End(), "))")
			}
		}
		return true
	})
}

// goes makes a go statement a call of explore.Go. The function and its arguments are evaluated at once. It says whether
// to look for more inside.
func (f *file) goes(n *ast.GoStmt) bool {
	f.explorer = true
	if _, ok := n.Call.Fun.(*ast.FuncLit); ok && len(n.Call.Args) == 0 {
		f.edits = append(f.edits,
			edit{f.offset(n.Go), f.offset(n.Call.Pos()), `explore.Go("", `},
			edit{f.offset(n.Call.Lparen), f.offset(n.Call.End()), ")"})
		return true
	}
	if id, ok := n.Call.Fun.(*ast.Ident); ok && (id.Name == "panic" || id.Name == "close") {
		f.insert(n.Go, `explore.Go("", func() { `)
		f.edits = append(f.edits, edit{f.offset(n.Go), f.offset(n.Call.Pos()), ""})
		f.insert(n.End(), " })")
		return true
	}
	names, values, args := []string{"explored"}, []string{f.source(n.Call.Fun)}, []string(nil)
	for i, a := range n.Call.Args {
		id, _ := a.(*ast.Ident)
		if _, literal := a.(*ast.BasicLit); literal || id != nil && id.Name == "nil" { // without a type of its own
			args = append(args, f.source(a))
			continue
		}
		name := fmt.Sprintf("explored%d", i)
		names, values, args = append(names, name), append(values, f.source(a)), append(args, name)
	}
	dots := ""
	if n.Call.Ellipsis.IsValid() {
		dots = "..."
	}
	name := ""
	if _, ok := n.Call.Fun.(*ast.FuncLit); !ok {
		name = f.source(n.Call.Fun)
	}
	text := fmt.Sprintf("{ %s := %s; explore.Go(%q, func() { explored(%s) }) }",
		strings.Join(names, ", "), strings.Join(values, ", "), name, strings.Join(args, ", ")+dots)
	f.replace(n, text+strings.Repeat("\n", max(strings.Count(f.source(n), "\n")-strings.Count(text, "\n"), 0)))
	return false
}

// hasCall says whether an expression contains a call, so that its fields may have no address.
func hasCall(x ast.Expr) (found bool) {
	ast.Inspect(x, func(n ast.Node) bool {
		_, call := n.(*ast.CallExpr)
		found = found || call
		return !found
	})
	return found
}

// releases marks a store that has no fence.
func (f *file) releases(n *ast.CallExpr) {
	fun, ok := n.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(fun.Sel.Name, "Store") {
		return
	}
	for _, key := range f.Release {
		function, call, _ := strings.Cut(key, " ")
		if function == f.function && strings.HasPrefix(f.source(n), call) {
			f.names[key] = true
			f.insert(fun.Sel.End(), "Release")
		}
	}
}

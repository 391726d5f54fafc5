package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goPackage is a package as `go list` describes it. GoFiles are the files built on this
// machine, without test files.
type goPackage struct {
	Dir, ImportPath string
	Module          *struct {
		Dir  string
		Main bool
	}
	GoFiles, TestGoFiles, XTestGoFiles []string

	exports map[string]string                // the compiled package of each import path, of all that this one imports
	files   []*file                          // see read
	called  map[types.Object][]*ast.FuncDecl // see callers
}

// load returns the packages that match patterns of the go command.
func load(ctx context.Context, dir string, patterns []string) ([]*goPackage, error) {
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,ImportPath,Module,GoFiles,TestGoFiles,XTestGoFiles", "--"}, patterns...)...)
	list.Dir = dir
	var complaints bytes.Buffer
	list.Stderr = &complaints
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, strings.Join(strings.Fields(complaints.String()), " "))
	}
	var packages []*goPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		p := new(goPackage)
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		switch {
		case p.Module == nil || !p.Module.Main:
			return nil, fmt.Errorf("%s is in no module of this work tree", p.ImportPath)
		case len(p.TestGoFiles)+len(p.XTestGoFiles) == 0:
			return nil, fmt.Errorf("%s has no tests that could catch a mutant", p.ImportPath)
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("no package matches %s", strings.Join(patterns, ", "))
	}
	list = exec.CommandContext(ctx, "go", append([]string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "--"}, patterns...)...)
	list.Dir = dir
	if output, err = list.Output(); err != nil {
		return nil, fmt.Errorf("go list -export: %w", err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(output)) {
		path, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = name
	}
	for _, p := range packages {
		p.exports = exports
	}
	return packages, nil
}

// read parses the files, and finds the types of what is in them.
func (p *goPackage) read() error {
	files := token.NewFileSet()
	var all []*ast.File
	for _, name := range p.GoFiles {
		f, err := readFile(p, files, filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		p.files = append(p.files, f)
		all = append(all, f.syntax)
	}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	config := types.Config{Importer: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(p.exports[path]) })}
	if _, err := config.Check(p.ImportPath, files, all, info); err != nil {
		return fmt.Errorf("the types of %s: %w", p.ImportPath, err)
	}
	for _, f := range p.files {
		f.types = info
	}
	return nil
}

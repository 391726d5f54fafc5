package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// # The code that a model stands for
//
// A model is worth nothing once its code has changed. So code.sum holds a hash of each
// piece of code that a model stands for, taken when the two were last compared.

// piece names a declaration in heist. In a Go file that is a function, a type, a constant
// or a variable by its name, or a method by its receiver's type and its name; in an
// assembly file a function by its TEXT symbol.
type piece struct{ file, symbol string }

func (f piece) String() string { return f.file + " " + f.symbol }

// source returns the text without comments; for assembly with all macros of the file.
func (f piece) source(root string) (string, error) {
	path := filepath.Join(root, f.file)
	find := goDeclaration
	if filepath.Ext(path) == ".s" {
		find = asmFunction
	}
	text, err := find(path, f.symbol)
	if err == nil && text == "" {
		err = fmt.Errorf("%s does not declare %s", f.file, f.symbol)
	}
	return text, err
}

func goDeclaration(path, symbol string) (string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	for _, d := range file.Decls {
		if node := declared(d, symbol); node != nil {
			var text strings.Builder
			err := printer.Fprint(&text, files, node)
			return words(text.String()), err
		}
	}
	return "", nil
}

// declared returns the part of a declaration that declares the symbol, or nil.
func declared(d ast.Decl, symbol string) ast.Node {
	if fn, ok := d.(*ast.FuncDecl); ok && goSymbol(fn) == symbol {
		return fn
	}
	group, ok := d.(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, spec := range group.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.Name == symbol {
				return s
			}
		case *ast.ValueSpec:
			if slices.ContainsFunc(s.Names, func(n *ast.Ident) bool { return n.Name == symbol }) {
				return s
			}
		}
	}
	return nil
}

func goSymbol(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	for t := fn.Recv.List[0].Type; ; {
		switch receiver := t.(type) {
		case *ast.StarExpr:
			t = receiver.X
		case *ast.IndexExpr:
			t = receiver.X
		case *ast.IndexListExpr:
			t = receiver.X
		case *ast.Ident:
			return receiver.Name + "." + fn.Name.Name
		default:
			return ""
		}
	}
}

var (
	asmComment = regexp.MustCompile(`(?m)\s*//.*$`)
	asmText    = regexp.MustCompile(`^TEXT\s+·(\w+)`)
)

func asmFunction(path, symbol string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	lines := asmComment.ReplaceAllString(string(text), "")
	lines = strings.ReplaceAll(lines, "\\\n", " ") // a macro is one line
	var macros, body strings.Builder
	inside := false
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, "#define") {
			macros.WriteString(line)
			continue
		}
		if name := asmText.FindStringSubmatch(line); name != nil {
			inside = name[1] == symbol
		}
		if inside {
			body.WriteString(line)
		}
	}
	if body.Len() == 0 {
		return "", nil
	}
	return words(macros.String() + body.String()), nil
}

// words makes texts equal that differ only in blanks and line ends, as they do after a
// comment between the lines was removed.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// sums returns the hashes of the pieces that the models stand for.
func sums(root string, models []*model) (map[piece]string, error) {
	all := map[piece]string{}
	for _, m := range models {
		for _, f := range m.standsFor {
			text, err := f.source(root)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.file, err)
			}
			h := sha256.Sum256([]byte(text))
			all[f] = hex.EncodeToString(h[:8])
		}
	}
	return all, nil
}

// readSums reads lines of a hash, a file and a symbol.
func readSums(path string) (map[piece]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := map[piece]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			return nil, fmt.Errorf("%s: cannot read %q", path, line)
		}
		all[piece{words[1], words[2]}] = words[0]
	}
	return all, nil
}

func writeSums(path string, all map[piece]string) error {
	var text strings.Builder
	for _, f := range slices.SortedFunc(maps.Keys(all), func(a, b piece) int { return strings.Compare(a.String(), b.String()) }) {
		fmt.Fprintln(&text, all[f], f)
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// changes returns a line for each model and piece that has changed since the two were
// compared.
func changes(models []*model, is, was map[piece]string) []string {
	var all []string
	for _, m := range models {
		for _, f := range m.standsFor {
			if is[f] != was[f] {
				all = append(all, fmt.Sprintf("%s stands for %s of %s, which has changed", m.file, f.symbol, f.file))
			}
		}
	}
	for f := range was {
		if _, used := is[f]; !used {
			all = append(all, fmt.Sprintf("no model stands for %s of %s any more", f.symbol, f.file))
		}
	}
	return all
}

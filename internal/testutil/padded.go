package testutil

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed53057037/heist/internal/pad"
	"github.com/stretchr/testify/require"
)

// Padded checks that the types have padding at both ends, and that they are all types of the package in the current
// directory that contain padding. The names of parts are of types that are only fields of others.
func Padded(t *testing.T, types []reflect.Type, parts ...string) {
	names := make(map[string]bool)
	for _, part := range parts {
		names[part] = true
	}
	for _, of := range types {
		name, _, _ := strings.Cut(of.Name(), "[")
		names[name] = true
		first, last := used(of)
		require.GreaterOrEqual(t, first, uintptr(pad.Size), "%v begins with padding", of)
		require.GreaterOrEqual(t, of.Size()-last, uintptr(pad.Size), "%v ends with padding", of)
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	padded := make(map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok && slices.ContainsFunc(s.Fields.List, isPadding) {
					padded[spec.Name.Name] = true
				}
			}
			return true
		})
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(padded)), slices.Collect(maps.Keys(names)), "types with padding")
}

func isPadding(f *ast.Field) bool {
	s, ok := f.Type.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "pad" && s.Sel.Name == "Line"
}

// used returns where the first field that is no padding begins, and where the last one ends.
func used(of reflect.Type) (first, last uintptr) {
	first = of.Size()
	for i := range of.NumField() {
		f := of.Field(i)
		switch {
		case f.Type == reflect.TypeFor[pad.Line](), f.Type.Size() == 0:
		case f.Type.Kind() == reflect.Struct:
			a, b := used(f.Type)
			first, last = min(first, f.Offset+a), max(last, f.Offset+b)
		default:
			first, last = min(first, f.Offset), max(last, f.Offset+f.Type.Size())
		}
	}
	return first, last
}

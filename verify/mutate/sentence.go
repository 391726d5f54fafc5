package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/types"
)

// sentences returns the first sentences of the docs that a mutant may make untrue, a line for each: of its function, and of the next exported one
// that calls it, perhaps through others, if it is not exported itself.
func (m mutant) sentences() (lines string) {
	p := m.file.pkg
	decl := m.file.around(m.at)
	if decl == nil {
		return ""
	}
	add := func(d *ast.FuncDecl) {
		if text := new(doc.Package).Synopsis(d.Doc.Text()); text != "" {
			lines += fmt.Sprintf("  %s: %s\n", d.Name.Name, text)
		}
	}
	add(decl)
	seen := map[*ast.FuncDecl]bool{decl: true}
	for next := []*ast.FuncDecl{decl}; len(next) > 0; next = next[1:] {
		if exported(next[0]) {
			if next[0] != decl {
				add(next[0])
			}
			break
		}
		for _, caller := range p.callers()[m.file.types.Defs[next[0].Name]] {
			if !seen[caller] {
				seen[caller] = true
				next = append(next, caller)
			}
		}
	}
	return lines
}

// exported says whether users can call a function.
func exported(d *ast.FuncDecl) bool {
	if !d.Name.IsExported() || d.Recv == nil {
		return d.Name.IsExported()
	}
	of := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && of == "" {
			of = id.Name
		}
		return true
	})
	return ast.IsExported(of)
}

// callers returns the functions that name each function of the package.
func (p *goPackage) callers() map[types.Object][]*ast.FuncDecl {
	if p.called != nil {
		return p.called
	}
	p.called = map[types.Object][]*ast.FuncDecl{}
	for _, f := range p.files {
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if called, ok := f.types.Uses[id].(*types.Func); ok {
						p.called[called.Origin()] = append(p.called[called.Origin()], fn)
					}
				}
				return true
			})
		}
	}
	return p.called
}

package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// The mistakes of a tired maintainer need types: a variable of the right type that is the wrong one, half of a condition,
// an option that is not passed on, a slice that two now share.

// tired returns the changes of a node itself, without those of the nodes inside.
func (f *file) tired(n ast.Node) (all []change) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.LAND || n.Op == token.LOR {
			for _, half := range []ast.Expr{n.X, n.Y} {
				all = append(all, f.replace(n.Pos(), n.End(), f.source(half.Pos(), half.End()), fmt.Sprintf("%s to %s", f.brief(n), f.brief(half))))
			}
		}
	case *ast.CallExpr:
		all = append(f.swapped(n), f.lessGiven(n)...)
		if part, what := f.shared(n); part != nil {
			all = append(all, f.replace(n.Pos(), n.End(), f.source(part.Pos(), part.End()), what))
		}
		all = append(all, f.contextErr(n)...)
	case *ast.SliceExpr:
		if n.Slice3 {
			all = append(all, f.replace(n.High.End(), n.Max.End(), "", f.brief(n)+" without its bound"))
		}
	case *ast.SelectorExpr:
		if other := f.sibling(n); other != "" {
			all = append(all, f.replace(n.Sel.Pos(), n.Sel.End(), other, fmt.Sprintf("%s to %s", f.brief(n), other)))
		}
	case *ast.FuncDecl:
		all = f.otherParameters(n)
	case *ast.CompositeLit:
		for i, e := range n.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok && f.isField(pair.Key) {
				all = append(all, f.without(n.Elts, i, f.brief(pair)+" left out"))
			}
		}
	case *ast.AssignStmt:
		if n.Tok == token.ASSIGN && len(n.Lhs) == len(n.Rhs) && len(n.Lhs) > 1 {
			for i, x := range n.Lhs {
				if isLocal(x) && isNotZero(n.Rhs[i]) {
					continue
				}
				one := f.replaced(n, f.without(n.Lhs, i, ""), f.without(n.Rhs, i, ""))
				all = append(all, f.replace(n.Pos(), n.End(), one, fmt.Sprintf("%s without %s", f.brief(n), f.brief(x))))
			}
		}
		if _, field := n.Lhs[0].(*ast.SelectorExpr); field && n.Tok == token.ADD_ASSIGN {
			all = append(all, f.twice(n))
		}
	case *ast.DeferStmt:
		all = append(all, f.replace(n.Pos(), n.Call.Pos(), "", f.brief(n)+" at once"))
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok && name(call.Fun) == "Add" {
			all = append(all, f.twice(n))
		}
	}
	return all
}

// lostCause has an error that no longer wraps its cause, or the cause of a context.
func (f *file) lostCause(n ast.Node) (all []change) {
	if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 {
		if format, ok := call.Args[0].(*ast.BasicLit); ok && strings.Contains(format.Value, "%w") {
			text := strings.Replace(format.Value, "%w", "%v", 1)
			all = append(all, f.replace(format.Pos(), format.End(), text, f.brief(format)+" without its cause"))
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			all = append(all, f.contextErr(call)...)
		}
		return true
	})
	return all
}

// contextErr has the error of a context in place of its cause.
func (f *file) contextErr(call *ast.CallExpr) []change {
	if f.called(call) != "context.Cause" {
		return nil
	}
	of := call.Args[0]
	return []change{f.replace(call.Pos(), call.End(), f.source(of.Pos(), of.End())+".Err()", f.brief(call)+" to Err")}
}

func (f *file) twice(s ast.Stmt) change {
	text := f.source(s.Pos(), s.End())
	return f.replace(s.End(), s.End(), "; "+strings.Join(strings.Fields(text), " "), f.brief(s)+" twice")
}

// swapped has two arguments of one type in the other order.
func (f *file) swapped(call *ast.CallExpr) (all []change) {
	if called := f.called(call); called == "min" || called == "max" {
		return nil
	}
	for i := range call.Args {
		for _, b := range call.Args[i+1:] {
			a := call.Args[i]
			first, second := f.source(a.Pos(), a.End()), f.source(b.Pos(), b.End())
			if first == second || !f.oneType(a, b) || strings.Contains(first+second, "\n") || call.Ellipsis.IsValid() && b == call.Args[len(call.Args)-1] {
				continue
			}
			text := second + f.source(a.End(), b.Pos()) + first
			all = append(all, f.replace(a.Pos(), b.End(), text, fmt.Sprintf("%s with %s and %s swapped", f.brief(call.Fun), f.brief(a), f.brief(b))))
		}
	}
	return all
}

// lessGiven has an argument less where a function takes any number, such as an option that is not passed on.
func (f *file) lessGiven(call *ast.CallExpr) (all []change) {
	if call.Ellipsis.IsValid() {
		last := len(call.Args) - 1
		if f.called(call) == "append" && last > 0 {
			return []change{f.replace(call.Args[0].End(), call.Args[last].End()+3, "", f.brief(call)+" without what is appended")}
		}
		c := f.without(call.Args, last, fmt.Sprintf("%s... not passed to %s", f.brief(call.Args[last]), f.brief(call.Fun)))
		c.to += len("...")
		return []change{c}
	}
	signature, ok := f.typeOf(call.Fun).(*types.Signature)
	if !ok || !signature.Variadic() || strings.HasPrefix(f.called(call), "fmt.") {
		return nil
	}
	for i := signature.Params().Len() - 1; i < len(call.Args); i++ {
		all = append(all, f.without(call.Args, i, fmt.Sprintf("%s not passed to %s", f.brief(call.Args[i]), f.brief(call.Fun))))
	}
	return all
}

// shared returns what a call copies, if that is all that it does.
func (f *file) shared(call *ast.CallExpr) (of ast.Expr, what string) {
	switch f.called(call) {
	case "slices.Clone", "slices.Clip", "maps.Clone", "bytes.Clone":
		return call.Args[0], f.brief(call) + " not copied"
	}
	return nil, ""
}

// sibling returns the next field of the same struct that has the same type.
func (f *file) sibling(x *ast.SelectorExpr) string {
	selection := f.types.Selections[x]
	if selection == nil || selection.Kind() != types.FieldVal || len(selection.Index()) != 1 {
		return ""
	}
	of := types.Unalias(selection.Recv())
	if p, ok := of.Underlying().(*types.Pointer); ok {
		of = p.Elem()
	}
	s, ok := of.Underlying().(*types.Struct)
	if !ok {
		return ""
	}
	at := selection.Index()[0]
	for i := 1; i < s.NumFields(); i++ {
		other := s.Field((at + i) % s.NumFields())
		if other.Name() != "_" && types.Identical(other.Type(), selection.Type()) && (other.Exported() || other.Pkg() == selection.Obj().Pkg()) {
			return other.Name()
		}
	}
	return ""
}

// otherParameters has another parameter of the same type where one is used.
func (f *file) otherParameters(fn *ast.FuncDecl) (all []change) {
	if fn.Body == nil {
		return nil
	}
	var parameters []types.Object
	for _, field := range fn.Type.Params.List {
		for _, id := range field.Names {
			if o := f.types.Defs[id]; o != nil && id.Name != "_" {
				parameters = append(parameters, o)
			}
		}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if n == nil || onlyText(n) {
			return false
		}
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		at := slices.Index(parameters, f.types.Uses[id])
		if at < 0 {
			return true
		}
		for i := 1; i < len(parameters); i++ {
			if other := parameters[(at+i)%len(parameters)]; types.Identical(other.Type(), parameters[at].Type()) {
				all = append(all, f.replace(id.Pos(), id.End(), other.Name(), fmt.Sprintf("%s to %s", id.Name, other.Name())))
				break
			}
		}
		return true
	})
	return all
}

// without leaves out one of a list with commas.
func (f *file) without(list []ast.Expr, i int, what string) change {
	from, to := list[i].Pos(), list[i].End()
	switch {
	case i+1 < len(list):
		to = list[i+1].Pos()
	case i > 0 && f.newlines(list[i-1].End(), from) == "":
		from = list[i-1].End()
		if f.newlines(from, to) != "" && f.text[f.tokens.Offset(to)] != ',' {
			return f.replace(from, to, ","+f.newlines(from, to), what) // a line that ends with an element ends the list
		}
	case f.text[f.tokens.Offset(to)] == ',': // the comma before stays
		to++
	}
	return f.replace(from, to, f.newlines(from, to), what)
}

// replaced returns a node's text with changes inside, which are given in their order.
func (f *file) replaced(n ast.Node, changes ...change) string {
	var b strings.Builder
	at := f.tokens.Offset(n.Pos())
	for _, c := range changes {
		b.Write(f.text[at:c.from])
		b.WriteString(c.text)
		at = c.to
	}
	b.Write(f.text[at:f.tokens.Offset(n.End())])
	return b.String()
}

func (f *file) typeOf(x ast.Expr) types.Type {
	t := f.types.TypeOf(x)
	if t == nil {
		return nil
	}
	return t.Underlying()
}

func (f *file) oneType(a, b ast.Expr) bool {
	s, t := f.types.TypeOf(a), f.types.TypeOf(b)
	return s != nil && t != nil && types.Identical(s, t)
}

// called returns the name of a function, with its package unless that is this one, or an empty string for a method or a value.
func (f *file) called(call *ast.CallExpr) string {
	fun := call.Fun
	if x, ok := fun.(*ast.IndexExpr); ok {
		fun = x.X
	}
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if from, ok := fun.X.(*ast.Ident); ok {
			if p, ok := f.types.Uses[from].(*types.PkgName); ok {
				return p.Imported().Name() + "." + fun.Sel.Name
			}
		}
	}
	return ""
}

func (f *file) isField(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	if !ok {
		return false
	}
	v, ok := f.types.Uses[id].(*types.Var)
	return ok && v.IsField()
}

// isLocal says whether an expression is a plain variable.
func isLocal(x ast.Expr) bool {
	_, ok := ast.Unparen(x).(*ast.Ident)
	return ok
}

// isNotZero says whether an expression is not written as a zero value.
func isNotZero(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name != "nil" && x.Name != "false"
	case *ast.BasicLit:
		return x.Value != "0" && x.Value != `""`
	case *ast.CompositeLit:
		return len(x.Elts) > 0
	}
	return true
}

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// file is a file to mutate.
type file struct {
	pkg    *goPackage
	path   string // absolute
	label  string // the path from the module's root, with slashes
	text   []byte
	syntax *ast.File
	tokens *token.File
	types  *types.Info // of the package
}

func readFile(p *goPackage, files *token.FileSet, path string) (*file, error) {
	label, err := filepath.Rel(p.Module.Dir, path)
	if err != nil {
		return nil, err
	}
	f := &file{pkg: p, path: path, label: filepath.ToSlash(label)}
	if f.text, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	f.syntax, err = parser.ParseFile(files, path, f.text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f.tokens = files.File(f.syntax.FileStart)
	return f, nil
}

// change is a mutant of a file before it has a name.
type change struct {
	from, to int // offsets
	text     string
	what     string
}

// mutants returns all mutants of the file, in the order of their lines.
func (f *file) mutants() []mutant {
	if ast.IsGenerated(f.syntax) {
		return nil
	}
	var changes []change
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if onlyText(n) {
			changes = append(changes, f.lostCause(n)...)
			return false
		}
		changes = append(changes, f.changes(n)...)
		changes = append(changes, f.tired(n)...)
		return true
	})
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.from, b.from) })
	all := make([]mutant, len(changes))
	times := map[string]int{}
	name := func(where any, what string) string {
		// A colon and a blank separate a name from the reason in survivors.txt.
		name := fmt.Sprintf("%s:%v: %s", f.label, where, strings.ReplaceAll(what, ": ", ":"))
		if times[name]++; times[name] > 1 { // the same change again in a line, or function
			name = fmt.Sprintf("%s (%d)", name, times[name])
		}
		return name
	}
	for i, c := range changes {
		at := f.tokens.Pos(c.from)
		all[i] = mutant{name(f.tokens.Line(at), c.what), name(f.function(at), c.what), f, c.from, c.to, c.text, at}
	}
	return all
}

// around returns the function around a position, or nil.
func (f *file) around(at token.Pos) *ast.FuncDecl {
	for _, d := range f.syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Pos() <= at && at < fn.End() {
			return fn
		}
	}
	return nil
}

// function returns the name of the function around a position, without its receiver, or an empty string.
func (f *file) function(at token.Pos) string {
	if fn := f.around(at); fn != nil {
		return fn.Name.Name
	}
	return ""
}

// onlyText says whether the node only makes text for people: the methods String and Error, and
// the arguments of errors and panics.
func onlyText(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Recv != nil && (n.Name.Name == "String" || n.Name.Name == "Error")
	case *ast.CallExpr:
		switch called := n.Fun.(type) {
		case *ast.Ident:
			return called.Name == "panic"
		case *ast.SelectorExpr:
			from, ok := called.X.(*ast.Ident)
			return ok && (from.Name == "fmt" && called.Sel.Name == "Errorf" || from.Name == "errors" && called.Sel.Name == "New")
		}
	}
	return false
}

// instead maps an operator to its replacement. The negated conditions of ifs are mutants of
// their own, so < need not become >= here.
var instead = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS,
	token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.INC: token.DEC, token.DEC: token.INC,
}

// changes returns the changes of a node itself, without those of the nodes inside.
func (f *file) changes(n ast.Node) (all []change) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if to, ok := instead[n.Op]; ok {
			what := fmt.Sprintf("%s %s %s to %s", f.brief(n.X), n.Op, f.brief(n.Y), to)
			all = append(all, f.operator(n.OpPos, n.Op, to, what))
		}
		if (n.Op == token.ADD || n.Op == token.SUB) && isOne(n.Y) {
			what := fmt.Sprintf("%s to %s", f.brief(n), f.brief(n.X))
			all = append(all, f.replace(n.X.End(), n.End(), "", what))
		}
	case *ast.BasicLit:
		value, ok := new(big.Int).SetString(n.Value, 0)
		if n.Kind != token.INT || !ok {
			break
		}
		next := value.Add(value, big.NewInt(1)).String()
		if strings.HasPrefix(n.Value, "0x") {
			next = fmt.Sprintf("%#x", value)
		}
		all = append(all, f.replace(n.Pos(), n.End(), next, n.Value+" to "+next))
	case *ast.IncDecStmt:
		to := instead[n.Tok]
		x := f.brief(n.X)
		all = append(all, f.operator(n.TokPos, n.Tok, to, fmt.Sprintf("%s%s to %s%s", x, n.Tok, x, to)))
	case *ast.IfStmt:
		// For a comparison with == or != the other operator is the negation.
		if c, ok := n.Cond.(*ast.BinaryExpr); !ok || c.Op != token.EQL && c.Op != token.NEQ {
			negated := "!(" + f.source(n.Cond.Pos(), n.Cond.End()) + ")"
			all = append(all, f.replace(n.Cond.Pos(), n.Cond.End(), negated, fmt.Sprintf("if %s negated", f.brief(n.Cond))))
		}
		// If the body is a single droppable statement, that statement's own mutant drops it.
		if checksError(n.Cond) && len(n.Body.List) > 0 && !(len(n.Body.List) == 1 && droppable(n.Body.List[0])) {
			text := "{" + f.newlines(n.Body.Pos(), n.Body.End()) + "}"
			all = append(all, f.replace(n.Body.Pos(), n.Body.End(), text, fmt.Sprintf("if %s without its body", f.brief(n.Cond))))
		}
	case ast.Stmt:
		if droppable(n) {
			all = append(all, f.replace(n.Pos(), n.End(), f.newlines(n.Pos(), n.End()), f.brief(n)+" dropped"))
		}
	}
	return all
}

// droppable says whether there is a mutant without the statement: a call, a defer, an
// assignment to fields, elements or what a pointer points to, a variable that is set back to a zero value.
func droppable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		_, call := ast.Unparen(s.X).(*ast.CallExpr)
		return call
	case *ast.DeferStmt:
		return true
	case *ast.AssignStmt:
		return !slices.ContainsFunc(s.Lhs, isLocal) || s.Tok == token.ASSIGN && !slices.ContainsFunc(s.Rhs, isNotZero)
	}
	return false
}

var errorName = regexp.MustCompile(`(?i)err(or)?s?\d*$`)

// checksError says whether a condition compares an error with nil. An error is recognised by its name.
func checksError(condition ast.Expr) (checks bool) {
	ast.Inspect(condition, func(n ast.Node) bool {
		if c, ok := n.(*ast.BinaryExpr); ok && c.Op == token.NEQ && name(c.Y) == "nil" && errorName.MatchString(name(c.X)) {
			checks = true
		}
		return !checks
	})
	return checks
}

// name returns the name of a variable or a field, or an empty string for other expressions.
func name(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

func isOne(x ast.Expr) bool {
	literal, ok := x.(*ast.BasicLit)
	return ok && literal.Value == "1"
}

func (f *file) replace(from, to token.Pos, text, what string) change {
	return change{f.tokens.Offset(from), f.tokens.Offset(to), text, what}
}

func (f *file) operator(at token.Pos, was, is token.Token, what string) change {
	return f.replace(at, at+token.Pos(len(was.String())), is.String(), what)
}

func (f *file) source(from, to token.Pos) string {
	return string(f.text[f.tokens.Offset(from):f.tokens.Offset(to)])
}

// newlines returns the line ends in a part of the file. They stay when the rest goes, so
// that later lines keep their numbers.
func (f *file) newlines(from, to token.Pos) string {
	return strings.Repeat("\n", strings.Count(f.source(from, to), "\n"))
}

// brief returns a node's text for a name: its first line, which is shortened if it is
// long.
func (f *file) brief(n ast.Node) string {
	const most = 60
	line, _, more := strings.Cut(f.source(n.Pos(), n.End()), "\n")
	brief := []rune(strings.Join(strings.Fields(line), " "))
	if len(brief) > most {
		brief, more = brief[:most], true
	}
	if more {
		return string(brief) + "..."
	}
	return string(brief)
}

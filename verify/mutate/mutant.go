package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// mutant is a file with a part replaced.
type mutant struct {
	name     string // file:line: change
	steady   string // file:function: change, which stays when lines move
	file     *file
	from, to int // the offsets of the part
	text     string
	at       token.Pos // of from
}

// mutants returns all mutants of the packages.
func mutants(packages []*goPackage) (all []mutant, err error) {
	for _, p := range packages {
		if err := p.read(); err != nil {
			return nil, err
		}
		for _, f := range p.files {
			all = append(all, f.mutants()...)
		}
	}
	return all, nil
}

// draw returns the mutants whose names match only, or all if it is empty, in the random order
// of a seed. The order comes from the hash of the name, so a change of the code has little
// influence on the sample.
func draw(all []mutant, seed uint64, only string) []mutant {
	type ranked struct {
		mutant
		rank [sha256.Size]byte
	}
	var order []ranked
	wanted := glob(cmp.Or(only, "*"))
	for _, m := range all {
		if wanted.MatchString(m.name) {
			order = append(order, ranked{m, sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, m.name))})
		}
	}
	slices.SortFunc(order, func(a, b ranked) int { return bytes.Compare(a.rank[:], b.rank[:]) })
	drawn := make([]mutant, len(order))
	for i, r := range order {
		drawn[i] = r.mutant
	}
	return drawn
}

// source returns the whole mutated file.
func (m mutant) source() []byte {
	return slices.Concat(m.file.text[:m.from], []byte(m.text), m.file.text[m.to:])
}

// diff returns the changed lines before and after.
func (m mutant) diff() string {
	was, is := m.file.text, m.source()
	begin := bytes.LastIndexByte(was[:m.from], '\n') + 1
	end := len(was)
	if i := bytes.IndexByte(was[m.to:], '\n'); i >= 0 {
		end = m.to + i
	}
	return signed("-", was[begin:end]) + signed("+", is[begin:end+len(is)-len(was)])
}

// signed returns the lines that are not empty, each after a sign. Of many lines, as a call with
// a function literal may have, it returns the first ones.
func signed(sign string, lines []byte) string {
	const most = 6
	var b strings.Builder
	n := 0
	for line := range strings.Lines(string(lines)) {
		line = strings.TrimRight(line, " \t\n")
		if line == "" {
			continue
		}
		if n++; n > most {
			b.WriteString(sign + "\t...\n")
			break
		}
		b.WriteString(sign + line + "\n")
	}
	return b.String()
}

package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// survivorsText explains mutants that no test can catch.
//
//go:embed survivors.txt
var survivorsText string

// explanation says why mutants with matching names survive.
type explanation struct {
	pattern string
	names   *regexp.Regexp
	reason  string
}

func readExplanations(text string) (all []explanation, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(line, ": ", 3)
		if len(parts) < 3 {
			return nil, fmt.Errorf("survivors.txt:%d: %q is not FILE:WHERE: CHANGE: REASON", n, line)
		}
		pattern := parts[0] + ": " + parts[1]
		all = append(all, explanation{pattern, glob(pattern), parts[2]})
	}
	return all, nil
}

// fits says whether the explanation covers a mutant with these names.
func (e explanation) fits(names ...string) bool {
	return slices.ContainsFunc(names, e.names.MatchString)
}

// explain returns the reason why a mutant with these names may survive, or an empty string.
func explain(all []explanation, names ...string) string {
	for _, e := range all {
		if e.fits(names...) {
			return e.reason
		}
	}
	return ""
}

// glob returns a pattern in which only * is special, and stands for any text. Path.Match would
// not do, as names contain brackets.
func glob(pattern string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
}

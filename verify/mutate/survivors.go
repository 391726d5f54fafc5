package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

// survivorsText explains mutants that no test can catch.
//
//go:embed survivors.txt
var survivorsText string

// explanation says why mutants with some names survive.
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
			return nil, fmt.Errorf("survivors.txt:%d: %q is not FILE:LINE: CHANGE: REASON", n, line)
		}
		pattern := parts[0] + ": " + parts[1]
		all = append(all, explanation{pattern, glob(pattern), parts[2]})
	}
	return all, nil
}

// explain returns the reason why a mutant may survive, or nothing.
func explain(all []explanation, name string) string {
	for _, e := range all {
		if e.names.MatchString(name) {
			return e.reason
		}
	}
	return ""
}

// glob returns a pattern in which only * is special, and stands for anything. Names contain
// brackets, so that path.Match is of no use.
func glob(pattern string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
}

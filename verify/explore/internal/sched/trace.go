package sched

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"
)

// tracer writes down what a replayed execution does.
type tracer struct {
	lines   []line
	names   map[unsafe.Pointer]string
	sources map[string][]string
}

type line struct {
	who, where, source, what, object string
}

func newTracer() *tracer {
	return &tracer{names: map[unsafe.Pointer]string{}, sources: map[string][]string{}}
}

// Name gives an object its name in traces.
func Name(p unsafe.Pointer, name string) {
	if x := active.Load(); x != nil && x.tracer != nil {
		x.tracer.names[p] = name
	}
}

func (x *execution) note(what string, object unsafe.Pointer) {
	if x.tracer != nil && !x.aborting {
		x.noteOf(x.current, what, object)
	}
}

func (x *execution) noteOf(g *goroutine, what string, object unsafe.Pointer) {
	t := x.tracer
	name := ""
	if object != nil {
		name = t.name(object)
	}
	where, source := t.caller()
	t.lines = append(t.lines, line{g.name, where, source, what, name})
}

func (t *tracer) name(object unsafe.Pointer) string {
	name, ok := t.names[object]
	if !ok {
		name = fmt.Sprintf("#%d", len(t.names))
		t.names[object] = name
	}
	return name
}

// own is the path of the explorer's packages, without the last one.
const own = "/verify/explore"

// caller finds the line of the explored program that is executed.
func (t *tracer) caller() (where, source string) {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !isOwn(f.Function) && f.File != "" && !strings.HasPrefix(f.Function, "runtime.") && !strings.HasPrefix(f.Function, "iter.") {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line), t.line(f.File, f.Line)
		}
		if !more {
			return "", ""
		}
	}
}

func isOwn(function string) bool {
	_, rest, found := strings.Cut(function, own)
	if !found {
		return false
	}
	for _, of := range []string{".", "/atomic.", "/sync.", "/internal/sched."} {
		if strings.HasPrefix(rest, of) {
			return true
		}
	}
	return false
}

func (t *tracer) line(file string, number int) string {
	lines, ok := t.sources[file]
	if !ok {
		text, err := os.ReadFile(file)
		if err == nil {
			lines = strings.Split(string(text), "\n")
		}
		t.sources[file] = lines
	}
	if number > len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[number-1])
}

// show formats a value of a word. Pointers are numbered, so that a replay's trace is the same.
func (x *execution) show(v any) string {
	switch v := v.(type) {
	case unsafe.Pointer:
		if v == nil {
			return "nil"
		}
		return "&" + x.tracer.name(v)
	case uint64:
		if v > 1<<32 {
			return fmt.Sprintf("%#x", v)
		}
	case int64:
		if v > 1<<40 || v < -1<<40 {
			return fmt.Sprintf("%#x", uint64(v))
		}
	}
	return fmt.Sprint(v)
}

// shownLines is how many lines of a trace are printed.
const shownLines = 200

func (t *tracer) String() string {
	var b strings.Builder
	lines := t.lines
	if skipped := len(lines) - shownLines; skipped > 0 {
		fmt.Fprintf(&b, "(%d lines before)\n", skipped)
		lines = lines[skipped:]
	}
	widths := [4]int{}
	for _, l := range lines {
		for i, s := range []string{l.who, l.where, l.object, l.what} {
			widths[i] = max(widths[i], len(s))
		}
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "%-*s  %-*s  %-*s  %-*s  | %s\n", widths[0], l.who, widths[1], l.where, widths[2], l.object, widths[3], l.what, l.source)
	}
	return b.String()
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
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
	return packages, nil
}

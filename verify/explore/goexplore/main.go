// Command goexplore runs go test with packages rewritten for package explore.
//
//	go run github.com/seed53057037/heist/verify/explore/goexplore [-config FILE] DIR... -- [GO TEST ARGUMENTS]
//
// Each DIR is the directory of a package. Its code and its tests then use the explorer's atomics, locks and goroutines. The
// arguments after -- are those of go test, with the packages to test:
//
//	goexplore ./queue -- -run Explore ./queue
//
// The build has the tag explore, for test files with programs for the explorer, which do nothing without the rewriting.
//
// The configuration is JSON: an object with a rewrite.Config, without its Dir, for each DIR.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed53057037/heist/verify/explore/rewrite"
)

func main() {
	err := run(os.Args[1:])
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		os.Exit(failed.ExitCode()) // go test has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "goexplore:", err)
		os.Exit(2)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("goexplore", flag.ContinueOnError)
	file := flags.String("config", "", "a file with the `configuration` of the rewriting")
	before, test := args, []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		before, test = args[:i], args[i+1:]
	}
	if err := flags.Parse(before); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("which packages? See go doc goexplore")
	}
	configs := map[string]rewrite.Config{}
	if *file != "" {
		text, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &configs); err != nil {
			return fmt.Errorf("%s: %w", *file, err)
		}
	}
	out, err := os.MkdirTemp("", "goexplore")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	replace, tags := map[string]string{}, []string{"explore"}
	for i, dir := range flags.Args() {
		c := configs[dir]
		if c.Dir, err = filepath.Abs(dir); err != nil {
			return err
		}
		tags = append(tags, c.Tags...)
		c.Tags = append(c.Tags, "explore")
		to := filepath.Join(out, strconv.Itoa(i))
		if err := os.Mkdir(to, 0o777); err != nil {
			return err
		}
		files, err := rewrite.Package(c, to)
		if err != nil {
			return err
		}
		maps.Copy(replace, files)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := filepath.Join(out, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o666); err != nil {
		return err
	}
	goTest := exec.Command("go", append([]string{"test", "-vet=off", "-overlay", overlay, "-tags", strings.Join(tags, ",")}, test...)...)
	goTest.Stdout, goTest.Stderr = os.Stdout, os.Stderr
	return goTest.Run()
}

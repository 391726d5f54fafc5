// Package peers holds the schedulers of other languages that heist is compared
// with, as programs that the benchmark compiles when it first needs them.
//
// Each directory here is a program that speaks the protocol of [runner.Child]; rust holds what the Rust programs
// share. A program does a case as the users of its library would write it, on the same input and with the same
// cut-offs as heist, and checks its answer. Package suites defines the cases; the install script beside this
// file installs the toolchains.
package peers

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/klauspost/cpuid/v2"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
)

//go:embed rust/.cargo/config.toml rust/src/*.rs
//go:embed rayon/Cargo.toml rayon/src/*.rs
//go:embed tokio/Cargo.toml tokio/src/*.rs
//go:embed tbb/*.cpp tbb/*.hpp
//go:embed forkjoinpool/*.java
var sources embed.FS

// InTests is the environment variable that makes tests, where [runner.Env.Tiny] is set,
// compile and run the programs. Without it they do not: the compilers take longer than
// all else together.
const InTests = "HEIST_PEERS"

// Rayon is Rust's rayon: a pool of as many threads as there are workers, and a
// caller outside of it that sleeps meanwhile.
func Rayon(metrics []contract.Metric) runner.Impl { return RayonBy("rayon", metrics) }

// RayonBy is another of rayon's ways to do a case: rayon-scope spawns in a scope, the threads of rayon-pinned are bound to a CPU each.
func RayonBy(name string, metrics []contract.Metric) runner.Impl { return child(name, rayon, metrics) }

// Crossbeam is Rust's crossbeam, which rayon is built on: its deque, and its parker.
func Crossbeam(metrics []contract.Metric) runner.Impl { return child("crossbeam", rayon, metrics) }

// Tokio is Rust's tokio: a runtime of as many threads as there are workers, and a
// caller outside of it that sleeps meanwhile.
func Tokio(metrics []contract.Metric) runner.Impl { return TokioBy(tokio.name, metrics) }

// TokioBy is another of Tokio's ways to do a case: the threads of tokio-pinned are bound to a CPU each.
func TokioBy(name string, metrics []contract.Metric) runner.Impl { return child(name, tokio, metrics) }

// TBB is oneAPI Threading Building Blocks, in C++. The caller is one of the threads.
func TBB(metrics []contract.Metric) runner.Impl { return child(tbb.name, tbb, metrics) }

// ForkJoinPool is the JDK's ForkJoinPool: as many threads as there are workers, and a
// caller that sleeps meanwhile.
func ForkJoinPool(metrics []contract.Metric) runner.Impl {
	return child(forkJoinPool.name, forkJoinPool, metrics)
}

// child is a peer that runs in a program. If the peer's name is not the program's, it is passed as -impl.
func child(name string, p *program, metrics []contract.Metric) runner.Impl {
	return runner.Child(name, metrics, func(env runner.Env) ([]string, error) {
		if env.Tiny && os.Getenv(InTests) == "" {
			return nil, runner.Missing{Reason: "tests run it only if " + InTests + " is set"}
		}
		if strings.HasSuffix(name, "-pinned") && runtime.GOOS != "linux" {
			return nil, runner.Missing{Reason: "it binds its threads on Linux only"}
		}
		dir, err := p.ready()
		if err != nil {
			return nil, err
		}
		argv := p.start(dir, env.Workers)
		if name != p.name {
			argv = append(argv, "-impl", name)
		}
		return argv, nil
	})
}

// program is the program of a peer.
type program struct {
	name  string     // of the peer, and of the directory of its sources
	base  string     // another directory of sources, which come first; or empty
	tools []string   // commands that it needs
	build [][]string // commands that compile it, in a directory with the sources

	// start returns the command line that starts it, given that directory.
	start func(dir string, workers int) []string

	once sync.Once
	dir  string
	err  error
}

// executable starts the file with this name, without flags.
func executable(name string) func(dir string, workers int) []string {
	return func(dir string, _ int) []string { return []string{filepath.Join(dir, filepath.FromSlash(name))} }
}

var rayon, tokio = inRust("rayon"), inRust("tokio")

func inRust(name string) *program {
	return &program{
		name:  name,
		base:  "rust",
		tools: []string{"cargo", "rustc"},
		build: [][]string{{"cargo", "build", "--release", "--offline", "--quiet", "--target-dir", "target"}},
		start: executable("target/release/" + name + "-peer"),
	}
}

var tbb = &program{
	name:  "tbb",
	tools: []string{"g++"},
	build: [][]string{{"g++", "-std=c++17", "-O3", "-march=native", "-DNDEBUG", "-Wall", "-Wextra",
		"main.cpp", "-o", "tbb-peer", "-ltbb", "-lcrypto"}},
	start: executable("tbb-peer"),
}

var forkJoinPool = &program{
	name:  "forkjoinpool",
	tools: []string{"java", "javac"},
	build: [][]string{{"javac", "-Xlint:all", "-Werror", "-d", ".", "Main.java"}},
	start: func(dir string, workers int) []string {
		// The collector for throughput: tasks are garbage as soon as they are joined.
		// The young generation holds a fair number of them, and all of it is soon
		// touched; with six times as much the first 1.3 s were page faults. The stack is
		// for the deepest tree.
		young := max(128, 64*workers)
		return []string{"java", "-XX:+UseParallelGC", fmt.Sprintf("-Xmn%dm", young), fmt.Sprintf("-Xms%dm", young+512),
			fmt.Sprintf("-Xmx%dm", young+512), "-Xss64m", "-cp", dir, "Main"}
	},
}

// ready compiles the program, unless that was done before, and returns its
// directory.
func (p *program) ready() (dir string, err error) {
	p.once.Do(func() { p.dir, p.err = p.prepare() })
	return p.dir, p.err
}

func (p *program) prepare() (dir string, err error) {
	for _, tool := range p.tools {
		if _, err := exec.LookPath(tool); err != nil {
			return "", p.missing(tool + " is not installed")
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", p.missing("there is no directory to compile in: " + err.Error())
	}
	key, err := p.key()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "heist-bench", p.name+"-"+key)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, p.compile(dir)
}

// key is a hash of all that the program depends on: its sources, the commands, the
// compilers, and the CPU, all of whose instructions it may use.
func (p *program) key() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, p.build, cpuid.CPU.FeatureSet())
	for _, tool := range p.tools {
		if version, err := exec.Command(tool, "--version").Output(); err == nil {
			sum.Write(version)
		}
	}
	err := p.eachSource(func(name string, text []byte) error {
		fmt.Fprintln(sum, name, len(text))
		sum.Write(text)
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}

// eachSource calls f with each file. Its name is relative to the directory of the sources.
func (p *program) eachSource(f func(name string, text []byte) error) error {
	for _, dir := range []string{p.base, p.name} {
		if dir == "" {
			continue
		}
		err := fs.WalkDir(sources, dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := sources.ReadFile(path)
			if err != nil {
				return err
			}
			return f(strings.TrimPrefix(path, dir+"/"), text)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// compile makes dir in one step, as another command may be making it at the same time.
func (p *program) compile(dir string) error {
	fmt.Fprintf(os.Stderr, "bench: compiling %s, this once\n", p.name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), p.name+"-building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	err = p.eachSource(func(name string, text []byte) error {
		path := filepath.Join(work, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, text, 0o644)
	})
	if err != nil {
		return err
	}
	for _, words := range p.build {
		command := exec.Command(words[0], words[1:]...)
		command.Dir = work
		if out, err := command.CombinedOutput(); err != nil {
			return p.missing(fmt.Sprintf("%s failed: %s", words[0], firstError(out, err)))
		}
	}
	if err := os.Rename(work, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// firstError returns the line of a compiler's output that has the error.
func firstError(out []byte, err error) string {
	for line := range bytes.Lines(out) {
		if bytes.Contains(line, []byte("error")) {
			return string(bytes.TrimSpace(line))
		}
	}
	return err.Error()
}

func (p *program) missing(why string) error {
	return runner.Missing{Reason: why + "; bench/peers/install installs what it needs"}
}

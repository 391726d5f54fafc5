package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/cavaliergopher/cpio"

	"github.com/seed53057037/heist/verify/guest"
)

// pack builds init and the tests in dir and writes the initramfs: both of them, the tests'
// data and the plan.
func (o *options) pack(ctx context.Context, m guest.Machine, dir, initramfs string) error {
	root := newTree()
	if err := build(ctx, m, filepath.Join(dir, "init"), "build", "./verify/guest/init"); err != nil {
		return err
	}
	if err := root.copy("init", filepath.Join(dir, "init")); err != nil {
		return err
	}
	plan := guest.Plan{Fixture: o.fixtures}
	if !o.fixtures {
		for _, name := range o.packages {
			suite, err := o.packSuite(ctx, m, dir, root, name)
			if err != nil {
				return err
			}
			plan.Suites = append(plan.Suites, suite)
		}
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	root.add(guest.PlanFile, text, 0o644)

	// Not compressed: unpacking in the guest would take longer than reading it here.
	file, err := os.Create(initramfs)
	if err != nil {
		return err
	}
	return errors.Join(root.write(file), file.Close())
}

// packSuite builds the tests of a package and adds them and their testdata to the tree.
func (o *options) packSuite(ctx context.Context, m guest.Machine, dir string, root *tree, name string) (guest.Suite, error) {
	machine, err := json.Marshal(m)
	if err != nil {
		return guest.Suite{}, err
	}
	binary := strings.ReplaceAll(path.Join("heist", name), "/", "-") + ".test"
	suite := guest.Suite{
		Name:   name,
		Binary: "/tests/" + binary,
		Dir:    path.Join("/project", name),
		Args:   o.flags,
		Env:    []string{guest.Variable + "=" + string(machine), "HEIST_STRESS=" + o.stress},
	}
	built := filepath.Join(dir, binary)
	if err := build(ctx, m, built, "test", "-c", name); err != nil {
		return suite, err
	}
	program, err := os.ReadFile(built)
	if err != nil {
		return suite, fmt.Errorf("package %s has no tests: %w", name, err)
	}
	if m.Arch == "aarch64" {
		if err := orderStores(program); err != nil {
			return suite, fmt.Errorf("%s: %w", binary, err)
		}
	}
	root.mkdir(suite.Dir[1:])
	root.add(suite.Binary[1:], program, 0o755)
	data := filepath.Join(name, "testdata")
	return suite, filepath.WalkDir(data, func(file string, entry fs.DirEntry, err error) error {
		if file == data && errors.Is(err, fs.ErrNotExist) || err == nil && entry.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		return root.copy(path.Join("project", filepath.ToSlash(file)), file)
	})
}

// build runs the go command for the guest, with -o output.
func build(ctx context.Context, m guest.Machine, output, command string, args ...string) error {
	args = append([]string{command, "-ldflags=-s -w", "-o", output}, args...)
	c := exec.CommandContext(ctx, "go", args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+m.GOARCH())
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// tree is the content of the initramfs. Paths are relative to its root.
type tree struct {
	entries []entry
	dirs    map[string]bool
}

type entry struct {
	header  cpio.Header
	content []byte
}

func newTree() *tree { return &tree{dirs: map[string]bool{".": true}} }

// mkdir adds a folder and its parents, unless they are there.
func (t *tree) mkdir(dir string) {
	if t.dirs[dir] {
		return
	}
	t.mkdir(path.Dir(dir))
	t.dirs[dir] = true
	t.entries = append(t.entries, entry{header: cpio.Header{Name: dir, Mode: cpio.TypeDir | 0o755, Links: 2}})
}

// add adds a file and its folders.
func (t *tree) add(name string, content []byte, permissions cpio.FileMode) {
	t.mkdir(path.Dir(name))
	t.entries = append(t.entries, entry{
		header:  cpio.Header{Name: name, Mode: cpio.TypeReg | permissions, Size: int64(len(content)), Links: 1},
		content: content,
	})
}

// copy adds a file of the host.
func (t *tree) copy(name, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	t.add(name, content, cpio.FileMode(info.Mode().Perm()))
	return nil
}

// write writes the tree as the kernel reads it.
func (t *tree) write(to io.Writer) error {
	w := cpio.NewWriter(to)
	for _, e := range t.entries {
		if err := w.WriteHeader(&e.header); err != nil {
			return fmt.Errorf("%s: %w", e.header.Name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return fmt.Errorf("%s: %w", e.header.Name, err)
		}
	}
	return w.Close()
}

// unpack replaces a folder by the content of a fixture's archive.
func unpack(archive []byte, dir string) error {
	if len(archive) == 0 {
		return errors.New("the guest sent no fixture")
	}
	files, err := untar(archive)
	if err != nil {
		return fmt.Errorf("the guest's fixture: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for name, content := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, content, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("== %d files in %s\n", len(files), dir)
	return nil
}

// untar returns the files of an archive.
func untar(archive []byte) (map[string][]byte, error) {
	uncompressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for r := tar.NewReader(uncompressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if !filepath.IsLocal(header.Name) {
			return nil, fmt.Errorf("the file %q is outside of its folder", header.Name)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}

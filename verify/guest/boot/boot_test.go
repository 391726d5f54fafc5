package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cavaliergopher/cpio"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/verify/guest"
)

func named(t *testing.T, name string) guest.Machine {
	t.Helper()
	m, err := guest.Named(name)
	require.NoError(t, err)
	return m
}

func TestArgumentsMayBeLeftOut(t *testing.T) {
	o, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, []guest.Machine{named(t, "x86_64"), named(t, "aarch64")}, o.machines)
	require.Equal(t, []string{".", "./numa", "./pool", "./verify/guest/inside"}, o.packages)
	require.Contains(t, o.flags, "-test.short")
}

func TestArgumentsOfTheTestsFollowTheDashes(t *testing.T) {
	o, err := parse([]string{"-packages", "./pool,./numa", "aarch64", "--", "-test.run", "Steal"})
	require.NoError(t, err)
	require.Equal(t, []guest.Machine{named(t, "aarch64")}, o.machines)
	require.Equal(t, []string{"./pool", "./numa"}, o.packages)
	require.Subset(t, o.flags, []string{"-test.run", "Steal"})
	require.NotContains(t, o.flags, "-test.short")
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"vax"}, `no machine "vax"`},
		{[]string{"-packages", ", "}, "-packages names no package"},
		{[]string{"-timeout", "0s"}, "-timeout"},
	} {
		_, err := parse(c.args)
		require.ErrorContains(t, err, c.says)
	}
}

func TestQemuIsToldAboutEveryNode(t *testing.T) {
	args := strings.Join(arguments(named(t, "x86_64-smt"), "/kernels/vmlinuz", "/tmp/initramfs", "quiet"), " ")
	for _, part := range []string{
		"-kernel /kernels/vmlinuz -initrd /tmp/initramfs",
		"-smp 8,sockets=4,cores=1,threads=2",
		"-m 2048M",
		"-object memory-backend-ram,id=memory3,size=512M -numa node,nodeid=3,memdev=memory3,cpus=6-7",
		"-numa dist,src=0,dst=3,val=28",
		"-numa dist,src=3,dst=0,val=28",
		"console=ttyS0",
	} {
		require.Contains(t, args, part)
	}
	require.Contains(t, strings.Join(arguments(named(t, "aarch64"), "", "", "quiet"), " "), "console=ttyAMA0")
}

func TestArchiveHasAFoldersParentsBeforeIt(t *testing.T) {
	root := newTree()
	root.add("project/numa/testdata/file", []byte("content"), 0o644)
	root.add("project/numa/testdata/empty", nil, 0o644)
	root.mkdir("project/pool")
	root.add("init", []byte("program"), 0o755)
	var archive bytes.Buffer
	require.NoError(t, root.write(&archive))

	type file struct {
		name    string
		mode    cpio.FileMode
		content string
	}
	var got []file
	for r := cpio.NewReader(&archive); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		got = append(got, file{header.Name, header.Mode, string(content)})
	}
	require.Equal(t, []file{
		{"project", cpio.TypeDir | 0o755, ""},
		{"project/numa", cpio.TypeDir | 0o755, ""},
		{"project/numa/testdata", cpio.TypeDir | 0o755, ""},
		{"project/numa/testdata/file", cpio.TypeReg | 0o644, "content"},
		{"project/numa/testdata/empty", cpio.TypeReg | 0o644, ""},
		{"project/pool", cpio.TypeDir | 0o755, ""},
		{"init", cpio.TypeReg | 0o755, "program"},
	}, got)
}

// follow has a follower read a console.
func follow(t *testing.T, lines ...string) (f *follower, printed string, err error) {
	t.Helper()
	var out bytes.Buffer
	f = &follower{machine: named(t, "x86_64"), out: &out, booted: func() {}}
	err = f.follow(strings.NewReader(strings.Join(lines, "\r\n")))
	return f, out.String(), err
}

var (
	booted = guest.Event{Booted: &guest.Booted{Kernel: "6.1", Seconds: 4}}.String()
	begun  = guest.Event{Begun: "./pool"}.String()
	passed = guest.Event{Ended: &guest.Ended{Name: "./pool", Seconds: 2}}.String()
	failed = guest.Event{Ended: &guest.Ended{Name: "./pool", Seconds: 2, Error: "exit status 1"}}.String()
	done   = guest.Event{Done: true}.String()
)

func TestMachineThatFollowedItsPlanIsInOrder(t *testing.T) {
	f, printed, err := follow(t, booted, begun, "PASS", passed, done, "[ 14.8] reboot: Power down")
	require.NoError(t, err)
	require.NoError(t, f.verdict())
	require.Equal(t, `== x86_64: booted Linux 6.1 (4.0 s)
== x86_64: ./pool
PASS
== x86_64: passed ./pool (2.0 s)
[ 14.8] reboot: Power down
`, printed)
}

func TestNothingBadInTheGuestIsOverlooked(t *testing.T) {
	for _, c := range []struct {
		says  string
		lines []string
	}{
		{"the tests of ./pool failed", []string{booted, begun, failed, done}},
		{"the tests of ./pool failed", []string{booted, begun, failed, begun, passed, done}},
		{"stopped during the tests of ./pool", []string{booted, begun, "Kernel panic - not syncing"}},
		{"stopped before its tests were over", []string{booted, begun, passed}},
		{"stopped before its tests were over", nil},
		{"init: no plan", []string{booted, guest.Event{Failed: "no plan"}.String()}},
	} {
		f, _, err := follow(t, c.lines...)
		require.NoError(t, err)
		require.ErrorContains(t, f.verdict(), c.says)
	}
	_, printed, err := follow(t, booted, begun, passed[:len(passed)-4])
	require.ErrorContains(t, err, "is broken")
	require.Contains(t, printed, passed[:len(passed)-4], "the line is shown as it came")
}

// Its qemu is a script: the first machine says nothing, the second one boots and is done.
func TestAMachineThatDoesNotBootIsStartedOnceMore(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	script := "#!/bin/sh\ncd " + dir + "\n[ -e first ] || { touch first; exec sleep 60; }\n" +
		"echo \"$*\" >arguments\necho '" + booted + "'\necho '" + guest.Event{Done: true}.String() + "'\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte(script), 0o755))

	o := options{timeout: 10 * time.Second}
	_, err := o.boot(t.Context(), named(t, "x86_64"), "")
	require.NoError(t, err)
	arguments, err := os.ReadFile(filepath.Join(dir, "arguments"))
	require.NoError(t, err, "no second machine was started")
	require.Contains(t, string(arguments), "ignore_loglevel")
}

// pack makes a fixture as init does.
func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	archive := tar.NewWriter(compressed)
	for name, content := range files {
		require.NoError(t, archive.WriteHeader(&tar.Header{Name: name, Size: int64(len(content))}))
		_, err := archive.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, compressed.Close())
	return b.Bytes()
}

func TestFixtureReplacesTheOneBefore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guest")
	require.NoError(t, unpack(packed(t, map[string]string{"sys/old": "1\n"}), dir))
	require.NoError(t, unpack(packed(t, map[string]string{"sys/devices/new": "0-7\n"}), dir))
	content, err := os.ReadFile(filepath.Join(dir, "sys/devices/new"))
	require.NoError(t, err)
	require.Equal(t, "0-7\n", string(content))
	require.NoFileExists(t, filepath.Join(dir, "sys/old"))
}

func TestFixtureThatCannotBeTakenChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guest")
	require.NoError(t, unpack(packed(t, map[string]string{"old": ""}), dir))
	require.ErrorContains(t, unpack(nil, dir), "sent no fixture")
	require.ErrorContains(t, unpack(packed(t, map[string]string{"../escaped": ""}), dir), "outside")
	require.FileExists(t, filepath.Join(dir, "old"))
	require.NoFileExists(t, filepath.Join(dir, "..", "escaped"))
}

// What the assembler makes of STLR and SWPAL, in the three sizes that Go uses.
func TestStoreReleaseBecomesASwapThatForgetsWhatWasThere(t *testing.T) {
	for _, c := range []struct{ store, swap uint32 }{
		{0xc89ffc41, 0xf8e1805f}, // STLR  X1, [X2]   SWPAL  X1, XZR, [X2]
		{0x889ffff2, 0xb8f283ff}, // STLR  W18, [SP]  SWPAL  W18, WZR, [SP]
		{0x089ffc7f, 0x38ff807f}, // STLRB WZR, [X3]  SWPALB WZR, WZR, [X3]
	} {
		got, is := swapFor(c.store)
		require.True(t, is)
		require.Equal(t, c.swap, got, "%x and not %x", c.swap, got)
	}
	for _, other := range []uint32{
		0xc8dffc41, // LDAR  X1, [X2]
		0xc800fc41, // STLXR W0, X1, [X2]
		0xf9000041, // STR   X1, [X2]
		0xf8e1805f, // SWPAL X1, XZR, [X2]
	} {
		_, is := swapFor(other)
		require.False(t, is, "%x", other)
	}
}

func TestProgramsForArm64LoseTheirStoreReleases(t *testing.T) {
	file := filepath.Join(t.TempDir(), "init")
	require.NoError(t, build(t.Context(), named(t, "aarch64"), file, "build", "../init"))
	program, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotZero(t, storeReleases(t, program))
	size := len(program)
	require.NoError(t, orderStores(program))
	require.Zero(t, storeReleases(t, program))
	require.Len(t, program, size)

	require.NoError(t, build(t.Context(), named(t, "x86_64"), file, "build", "../init"))
	program, err = os.ReadFile(file)
	require.NoError(t, err)
	require.ErrorContains(t, orderStores(program), "EM_X86_64")
	require.Error(t, orderStores([]byte("#!/bin/sh")))
}

func storeReleases(t *testing.T, program []byte) (n int) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(program))
	require.NoError(t, err)
	code, err := file.Section(".text").Data()
	require.NoError(t, err)
	for ; len(code) >= 4; code = code[4:] {
		if word := binary.LittleEndian.Uint32(code); word&0x3ffffc00 == 0x089ffc00 {
			n++
		}
	}
	return n
}

// TestGuests boots both machines, which needs qemu, kernels and more minutes than go test
// gives it unless told: HEIST_GUESTS=1 go test -timeout 1h.
func TestGuests(t *testing.T) {
	if os.Getenv("HEIST_GUESTS") != "1" {
		t.Skip("HEIST_GUESTS is not 1")
	}
	c := exec.CommandContext(t.Context(), "../run")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	require.NoError(t, c.Run())
}

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed53057037/heist/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// blurFile runs the program and returns the bytes that it wrote.
func blurFile(t *testing.T, out string, args ...string) []byte {
	if err := run(t.Context(), append(args, "-out", out), io.Discard); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return written
}

// smallPicture returns the path of a picture that is quickly blurred.
func smallPicture(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "in.png")
	if err := write(path, testPicture(160, 120), png.Encode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSerialAndParallelAreTheSame(t *testing.T) {
	dir, in := t.TempDir(), smallPicture(t)
	for _, radius := range []int{0, 9, 200} {
		for _, name := range []string{"a.png", "b.jpg"} {
			flag := "-radius=" + strconv.Itoa(radius)
			parallel := blurFile(t, filepath.Join(dir, "parallel"+name), "-in", in, flag)
			serial := blurFile(t, filepath.Join(dir, "serial"+name), "-in", in, flag, "-serial")
			if !bytes.Equal(parallel, serial) {
				t.Errorf("%s %s: the two files differ", name, flag)
			}
			again := filepath.Join(dir, "again.png")
			blurFile(t, again, "-in", filepath.Join(dir, "parallel"+name), "-radius=0")
			if picture, err := read(again); err != nil || picture.Rect.Dx() != 160 || picture.Rect.Dy() != 120 {
				t.Errorf("%s %s: what was written cannot be read again: %v", name, flag, err)
			}
		}
	}
}

// mean is the plain way to one pixel: rows, and then the column of these.
func mean(picture *image.RGBA, x, y, radius, channel int) byte {
	n, down := 2*radius+1, 0
	for dy := -radius; dy <= radius; dy++ {
		across := 0
		for dx := -radius; dx <= radius; dx++ {
			at := min(max(x+dx, 0), picture.Rect.Dx()-1)
			across += int(row(picture, y+dy)[4*at+channel])
		}
		down += (across + n/2) / n
	}
	return byte((down + n/2) / n)
}

func TestBlur(t *testing.T) {
	p, err := pool.New(pool.WithWorkers(4))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, size := range []image.Point{{1, 1}, {1, 50}, {50, 1}, {83, 61}} {
		picture := testPicture(size.X, size.Y)
		for _, radius := range []int{0, 1, 7, 60} {
			got, err := blur(p, picture, radius)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(got.Pix); i += 37 {
				if want := mean(picture, i/4%size.X, i/4/size.X, radius, i%4); got.Pix[i] != want {
					t.Fatalf("%v, radius %d, byte %d: got %d, want %d", size, radius, i, got.Pix[i], want)
				}
			}
		}
	}
}

func TestAlphaIsKept(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 20, 20))
	clear := color.RGBA{10, 20, 30, 40}
	for i := range 400 {
		picture.SetRGBA(i%20, i/20, clear)
	}
	got, err := blur(pool.Serial(), picture, 3)
	if err != nil || got.RGBAAt(9, 9) != clear {
		t.Errorf("a picture of one colour became %v, %v", got.RGBAAt(9, 9), err)
	}
}

func TestEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, flag := range []string{"-serial=true", "-serial=false"} {
		out := filepath.Join(t.TempDir(), "a.png")
		if err := run(ctx, []string{flag, "-out", out}, io.Discard); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v, want that of the context", flag, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: there is a file all the same", flag)
		}
	}
}

// hugePNG is a header that promises more pixels than there is memory for.
func hugePNG() []byte {
	header := append([]byte("IHDR"), binary.BigEndian.AppendUint64(nil, 60000<<32|60000)...)
	header = append(header, 8, 2, 0, 0, 0)
	file := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), header...)
	return binary.BigEndian.AppendUint32(file, crc32.ChecksumIEEE(header))
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	good := blurFile(t, filepath.Join(dir, "good.png"), "-in", smallPicture(t))
	for name, content := range map[string][]byte{"text": []byte("text"), "huge": hugePNG(), "half": good[:len(good)/2], "empty": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out.png")
	for want, args := range map[string][]string{
		"-out is missing":             nil,
		"must end in .png":            {"-out", "a.gif"},
		"want 0 to 1000":              {"-out", out, "-radius", "-1"},
		"none":                        {"-out", out, "-in", filepath.Join(dir, "none")},
		"must be a PNG or JPEG file":  {"-out", out, "-in", filepath.Join(dir, "text")},
		"the file is damaged":         {"-out", out, "-in", filepath.Join(dir, "half")},
		"unknown format":              {"-out", out, "-in", filepath.Join(dir, "empty")},
		"has 60000 by 60000 pixels":   {"-out", out, "-in", filepath.Join(dir, "huge")},
		filepath.Join("nowhere", "a"): {"-out", filepath.Join(dir, "nowhere", "a.png")},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", args, err, want)
		}
	}
}

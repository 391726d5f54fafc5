// Blur shows loops over the rows of a picture: a box blur, in parallel or, with -serial, in the caller alone.
// The code is the same for both, as the place where it computes is a parameter.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed53057037/heist/examples/internal/cli"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

const (
	maxRadius = 1000
	maxPixels = 100_000_000
)

func main() { cli.Main(run) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("blur", flag.ContinueOnError)
	in := flags.String("in", "", "read this PNG or JPEG `file`; without it there is a test picture")
	out := flags.String("out", "", "write this `file`, whose name ends in .png, .jpg or .jpeg")
	radius := flags.Int("radius", 8, "each pixel becomes the mean of those up to `n` away, 0 to 1000")
	serial := flags.Bool("serial", false, "compute in one goroutine")
	if err := cli.Parse(flags, "", args, stdout); err != nil {
		return err
	}
	encode := encoders[strings.ToLower(filepath.Ext(*out))]
	switch {
	case *out == "":
		return cli.Usagef("-out is missing; name a file to write")
	case encode == nil:
		return cli.Usagef("-out is %q; its name must end in .png, .jpg or .jpeg", *out)
	case *radius < 0 || *radius > maxRadius:
		return cli.Usagef("-radius is %d, want 0 to %d", *radius, maxRadius)
	}
	place := pool.Serial()
	if !*serial {
		p, err := pool.New()
		if err != nil {
			return err
		}
		defer p.Close()
		place = p
	}

	picture, err := read(*in)
	if err != nil {
		return err
	}
	blurred, err := blur(place.With(ctx), picture, *radius)
	if err != nil {
		return err
	}
	if err := write(*out, blurred, encode); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "wrote %s, %d by %d pixels\n", *out, blurred.Rect.Dx(), blurred.Rect.Dy())
	return err
}

// blur returns the picture with each pixel the mean of the square around it. Beyond the edge the pixels repeat it.
func blur(at pool.Place, picture *image.RGBA, radius int) (*image.RGBA, error) {
	across, out := image.NewRGBA(picture.Rect), image.NewRGBA(picture.Rect)
	width, height := picture.Rect.Dx(), picture.Rect.Dy()
	err := par.For(at, height, func(y int) {
		blurRow(row(across, y), row(picture, y), radius)
	})
	if err != nil {
		return nil, err
	}
	// Down a column the sums carry over from row to row. Each range sets them up anew, so the loop makes ranges long.
	err = pool.ForRange(at, height, func(lo, hi int) {
		sums := make([]int, 4*width)
		for y := lo - radius; y <= lo+radius; y++ {
			add(sums, row(across, y), 1)
		}
		for y := lo; y < hi; y++ {
			divide(row(out, y), sums, 2*radius+1)
			add(sums, row(across, y-radius), -1)
			add(sums, row(across, y+radius+1), 1)
		}
	})
	return out, err
}

// row returns the bytes of a row, or of the nearest row if y is outside of the picture.
func row(picture *image.RGBA, y int) []byte {
	y = min(max(y, 0), picture.Rect.Dy()-1)
	return picture.Pix[y*picture.Stride:][:4*picture.Rect.Dx()]
}

func blurRow(out, in []byte, radius int) {
	pixel := func(x int) []byte { return in[min(max(4*x, 0), len(in)-4):][:4] }
	var sums [4]int
	for x := -radius; x <= radius; x++ {
		add(sums[:], pixel(x), 1)
	}
	for x := range len(in) / 4 {
		divide(out[4*x:4*x+4], sums[:], 2*radius+1)
		add(sums[:], pixel(x-radius), -1)
		add(sums[:], pixel(x+radius+1), 1)
	}
}

func add(sums []int, bytes []byte, factor int) {
	for i, b := range bytes {
		sums[i] += factor * int(b)
	}
}

func divide(out []byte, sums []int, by int) {
	for i, sum := range sums {
		out[i] = byte((sum + by/2) / by)
	}
}

var encoders = map[string]func(io.Writer, image.Image) error{
	".png":  png.Encode,
	".jpg":  encodeJPEG,
	".jpeg": encodeJPEG,
}

func encodeJPEG(w io.Writer, picture image.Image) error {
	return jpeg.Encode(w, picture, &jpeg.Options{Quality: 90})
}

func read(path string) (*image.RGBA, error) {
	if path == "" {
		return testPicture(640, 480), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("-in: %w", err)
	}
	defer file.Close()
	// The header may claim any size, so check it before allocating.
	header, _, err := image.DecodeConfig(bufio.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w; -in must be a PNG or JPEG file", path, err)
	}
	if header.Width < 1 || header.Height < 1 || header.Width > maxPixels/header.Height {
		return nil, fmt.Errorf("%s has %d by %d pixels; choose a picture of 1 to %d", path, header.Width, header.Height, maxPixels)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("-in: %w; it must be a file", err)
	}
	picture, _, err := image.Decode(bufio.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w; the file is damaged", path, err)
	}
	copied := image.NewRGBA(image.Rect(0, 0, header.Width, header.Height))
	draw.Draw(copied, copied.Rect, picture, picture.Bounds().Min, draw.Src)
	return copied, nil
}

func write(path string, picture image.Image, encode func(io.Writer, image.Image) error) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	if err := errors.Join(encode(file, picture), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// testPicture has rings, whose edges show what a blur does.
func testPicture(width, height int) *image.RGBA {
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			distance := math.Hypot(float64(x-width/2), float64(y-height/2))
			c := color.RGBA{R: byte(x * 255 / width), G: byte(y * 255 / height), A: 255}
			if int(distance)/20%2 == 0 {
				c.B = 255
			}
			picture.SetRGBA(x, y, c)
		}
	}
	return picture
}

// Pipeline shows a filter: it reads lines of JSON, checks and formats them in parallel, and writes them in their
// order. The first bad line ends it; the lines before it are written.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/seed53057037/heist/examples/internal/cli"
	"github.com/seed53057037/heist/pipeline"
	"github.com/seed53057037/heist/pool"
)

const (
	window  = 1024    // lines in memory
	maxLine = 4 << 20 // bytes
)

func main() { cli.Main(run) } // a signal ends a filter, even one that waits for a line

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("pipeline", flag.ContinueOnError)
	if err := cli.Parse(flags, "[FILE]", args, stdout); err != nil {
		return err
	}
	in := os.Stdin
	switch flags.NArg() {
	case 0:
	case 1:
		file, err := os.Open(flags.Arg(0))
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	default:
		return cli.Usagef("%d files were given; name one, or none for standard input", flags.NArg())
	}
	p, err := pool.New()
	if err != nil {
		return err
	}
	defer p.Close()
	return process(p.With(ctx), in, stdout)
}

// process formats the lines and writes them. Lines before an error are written.
func process(at pool.Place, in io.Reader, out io.Writer) (err error) {
	buffered := bufio.NewWriter(out)
	defer func() { err = errors.Join(err, buffered.Flush()) }()
	for text, err := range pipeline.Stage(at, lines(in), window, format) {
		if err != nil {
			return err
		}
		if _, err := buffered.Write(text); err != nil {
			return nil // Flush returns it again
		}
	}
	return nil
}

type line struct {
	number int
	text   []byte
}

// lines returns the lines of in, and the reader's error.
func lines(in io.Reader) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		scanner := bufio.NewScanner(in)
		scanner.Buffer(nil, maxLine)
		number := 1
		for ; scanner.Scan(); number++ {
			if !yield(line{number, bytes.Clone(scanner.Bytes())}, nil) {
				return
			}
		}
		err := scanner.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("it has more than %d bytes; split it", maxLine)
		}
		if err != nil {
			yield(line{}, fmt.Errorf("line %d: %w", number, err))
		}
	}
}

// format returns a line's JSON with sorted keys and without spaces.
func format(_ context.Context, l line) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(l.text))
	decoder.UseNumber() // numbers stay as they are
	var value any
	if err := decoder.Decode(&value); err == io.EOF {
		return nil, fmt.Errorf("line %d is empty; each line must be a JSON value", l.number)
	} else if err != nil {
		return nil, fmt.Errorf("line %d is no JSON: %w", l.number, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("line %d has more than one JSON value; put each on its own line", l.number)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value) // it ends with a newline
	return out.Bytes(), err
}

// Package child runs parts of a benchmark in processes of their own: each implementation of a case, so that none finds
// what another has left or has linked, and the servers that some of them need.
package child

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Process is a child that writes a line when it is ready and one for each line that it reads. It ends when its standard
// input does, so it does not outlive this process.
type Process struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// Start starts the program of a command.
func Start(command *exec.Cmd) (*Process, error) {
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	return &Process{command, in, bufio.NewReader(out)}, nil
}

// Read reads a line of JSON from the child. After an error the child is of no more use.
func (p *Process) Read(v any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		p.Stop()
		return fmt.Errorf("ended early (%v), perhaps something above says why: %w", p.command.ProcessState, err)
	}
	return json.Unmarshal(line, v)
}

// Ask has the child write the next line, and reads it.
func (p *Process) Ask(v any) error {
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return err
	}
	return p.Read(v)
}

// patience is how long a child may take to end.
const patience = 30 * time.Second

// Stop ends the child and waits for that.
func (p *Process) Stop() {
	p.in.Close()
	kill := time.AfterFunc(patience, func() { _ = p.command.Process.Kill() })
	_ = p.command.Wait() // what it did wrong, it has said
	kill.Stop()
}

// Answer is the child's side: it writes answer() as a line of JSON, first and then for each line that it reads, until
// there are no more.
func Answer(answer func() any) error {
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		if err := out.Encode(answer()); err != nil {
			return err
		}
		if !in.Scan() {
			return in.Err()
		}
	}
}

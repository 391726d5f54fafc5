package suites

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// startChild starts this program again as the server of what. It returns the first line that the child prints, which says
// where the server is. The child ends when stop is called or this process ends.
func startChild(what string, environment ...string) (where string, stop func(), err error) {
	if _, asked := os.LookupEnv(serveThis); asked {
		// A server would start another server, and so on.
		return "", nil, errors.New("this program does not call ServeIfAsked")
	}
	program, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	command := exec.Command(program)
	command.Env = append(append(os.Environ(), serveThis+"="+what), environment...)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		stdin.Close()
		kill := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
		_ = command.Wait()
		kill.Stop()
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("the server of %s does not say where it is, perhaps something above says why: %w", what, err)
	}
	return strings.TrimSpace(line), stop, nil
}

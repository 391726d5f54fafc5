// Jobs runs the implementations that take jobs from a NATS server.
package main

import (
	"github.com/seed53057037/heist/bench/internal/child"
	"github.com/seed53057037/heist/bench/internal/jobs"
	"github.com/seed53057037/heist/bench/internal/runner"
)

func main() { child.Main([]runner.Suite{jobs.Suite()}) }

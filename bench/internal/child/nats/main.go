// Nats is the server of the suite jobs.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed53057037/heist/bench/internal/child"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: the server of jobs: %v\n", err)
		os.Exit(1)
	}
}

// serve is the life of the server.
func serve() error {
	store, err := os.MkdirTemp("", "heist-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(store)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: store, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(30 * time.Second) {
		return errors.New("it does not start")
	}
	return child.Answer(func() any { return s.ClientURL() })
}

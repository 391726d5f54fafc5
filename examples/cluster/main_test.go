package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed53057037/heist/pool"
)

func TestMain(m *testing.M) {
	if os.Getenv(executableVariable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAllJobsHaveResults(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), []string{"-jobs", "1100", "-workers", "2"}, &out); err != nil {
		t.Fatal(err, out.String())
	}
	for _, pattern := range []string{`1100 jobs, 2 worker processes: \d+ \d+`, `(?i)│ all +│ +1100 │`, `jobs a second; dead letters: 0`} {
		if !regexp.MustCompile(pattern).MatchString(out.String()) {
			t.Errorf("no %s in\n%s", pattern, out.String())
		}
	}
}

// killer kills the first process whose number it is told.
type killer struct {
	bytes.Buffer
	once sync.Once
}

func (k *killer) Write(b []byte) (int, error) {
	n, err := k.Buffer.Write(b)
	if pid := regexp.MustCompile(`processes: (\d+)`).FindSubmatch(k.Bytes()); pid != nil {
		k.once.Do(func() {
			number, _ := strconv.Atoi(string(pid[1]))
			time.AfterFunc(50*time.Millisecond, func() {
				if p, err := os.FindProcess(number); err == nil {
					_ = p.Kill()
				}
			})
		})
	}
	return n, err
}

func TestAKilledWorkerLosesNothing(t *testing.T) {
	var out killer
	if err := run(context.Background(), []string{"-jobs", "3000", "-ack-wait", "500ms"}, &out); err != nil {
		t.Fatal(err, out.String())
	}
	for _, pattern := range []string{`, killed`, `dead letters: 0`} {
		if !regexp.MustCompile(pattern).MatchString(out.String()) {
			t.Errorf("no %s in\n%s", pattern, out.String())
		}
	}
}

func TestPrimes(t *testing.T) {
	for limit, want := range map[string]string{"0": "0", "3": "1", "100": "25", "10000": "1229"} {
		if got, err := primes(pool.Serial(), []byte(limit)); string(got) != want || err != nil {
			t.Errorf("%s: %s, %v", limit, got, err)
		}
	}
	if _, err := primes(pool.Serial(), []byte("x")); err == nil {
		t.Error("x is no number")
	}
}

func TestWrongUse(t *testing.T) {
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"-jobs", "0"}, "-jobs is 0"},
		{[]string{"-workers", "-1"}, "-workers is -1"},
		{[]string{"-worker"}, "-worker needs -url"},
		{[]string{"-worker", "-url", "nats://127.0.0.1:1"}, "starts itself"},
		{[]string{"-url", "nats://127.0.0.1:1"}, "check -url"},
		{[]string{"-url", "x", "-store", "y"}, "-store is for the own server"},
		{[]string{"more"}, "unexpected argument"},
	} {
		err := run(context.Background(), test.args, new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v: %v", test.args, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(ctx, []string{"-jobs", "10"}, new(bytes.Buffer)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

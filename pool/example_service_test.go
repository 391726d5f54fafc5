package pool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// service computes for one client at a time, and tells others to come again.
type service struct{ pool *pool.Pool }

func (s service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.FormValue("n"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// The request's context ends the loop when the client has gone.
	sum, err := par.ReduceRange(s.pool.With(r.Context()).Try(), n, func(lo, hi int) (sum int) {
		for i := lo; i < hi; i++ {
			sum += i
		}
		return sum
	}, func(a, b int) int { return a + b })
	switch {
	case errors.Is(err, pool.ErrFull):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	case err != nil: // the client has gone, or the service ends
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		fmt.Fprint(w, sum)
	}
}

// An HTTP service that computes. It answers 429 while enough requests are in progress, stops
// computing for a client that has gone, and ends in order.
func Example_service() {
	p, err := pool.New(pool.WithCallers(1))
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(service{p})
	get := func() string {
		response, err := http.Get(server.URL + "?n=1000")
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return fmt.Sprintf("%d %s", response.StatusCode, body)
	}
	fmt.Println(get())
	_ = p.Run(func(*pool.Worker) { // the caller that the pool admits
		answer := make(chan string, 1)
		go func() { answer <- get() }()
		for len(answer) == 0 { // it computes: one that waits would let another one in
			runtime.Gosched()
		}
		fmt.Print(<-answer)
	})
	server.Close()                                // no new requests; those in progress are answered
	fmt.Println(p.Shutdown(context.Background())) // then the pool runs what they have queued
	// Output:
	// 200 499500
	// 429 too many requests
	// <nil>
}

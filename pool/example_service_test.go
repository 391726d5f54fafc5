package pool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// service computes for its clients, for at most two of them at a time. Others are told to come again.
type service struct{ pool *pool.Pool }

func (s service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.FormValue("n"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// The request's context ends the loop when the client has gone.
	sum, err := par.ReduceRange(s.pool.With(r.Context()).Try(), n, 0, func(sum, lo, hi int) int {
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

// An HTTP service that computes: it answers 429 when enough requests are in work, stops when a client goes, and ends in order.
func Example_service() {
	p, err := pool.New(pool.WithCallers(2))
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
	_ = p.Run(func(*pool.Worker) { // two callers are inside
		other := make(chan string)
		go func() { _ = p.Run(func(*pool.Worker) { other <- get() }) }()
		fmt.Print(<-other)
	})
	server.Close()                                // no new requests, and those in work are answered
	fmt.Println(p.Shutdown(context.Background())) // then what they have queued
	// Output:
	// 200 499500
	// 429 too many requests
	// <nil>
}

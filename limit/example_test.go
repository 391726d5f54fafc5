package limit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seed53057037/heist/limit"
)

// A service takes in eight calls at a time, lets sixteen wait for at most 100 ms, and tells the others to come back later.
func ExampleLimiter() {
	calls := limit.New(8).Waiting(16).Patience(100 * time.Millisecond)
	handler := func(w http.ResponseWriter, r *http.Request) {
		err := calls.Do(r.Context(), 1, func() error {
			_, err := fmt.Fprint(w, "done")
			return err
		})
		if errors.Is(err, limit.ErrFull) || errors.Is(err, limit.ErrLate) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		}
	}
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 200 done
}

// Files of a gigabyte at most are in memory at a time. A large one waits for its room, and small ones do not overtake it.
func ExampleLimiter_Acquire() {
	megabytes := limit.New(1024)
	if err := megabytes.Acquire(context.Background(), 300); err != nil {
		fmt.Println(err)
		return
	}
	defer megabytes.Release(300)
	fmt.Println(megabytes.Stats().Used, "MB")
	// Output: 300 MB
}

package keyed_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/seed53057037/heist/keyed"
	"github.com/seed53057037/heist/pool"
)

// Events of an account are handled in their order, those of different accounts in parallel. The accounts need no lock.
func ExampleQueue() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	balances := map[string]*int{"ada": new(int), "bob": new(int)}
	events := []struct {
		account string
		amount  int
	}{{"ada", 5}, {"bob", 7}, {"ada", -3}, {"ada", 10}}

	q := keyed.New[string](p)
	for _, e := range events {
		err := q.Go(e.account, func(*pool.Worker) { *balances[e.account] += e.amount })
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := q.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(*balances["ada"], *balances["bob"])
	// Output: 12 7
}

// Tenants share the workers, those who pay get twice as much while others wait. Each may have 100 requests that wait.
func ExampleQueue_Weigh() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	type tenant struct {
		name string
		pays bool
	}
	q := keyed.New[tenant](p)
	q.AtMost(math.MaxInt) // a tenant's requests need no order
	q.Bound(100)
	q.Weigh(func(t tenant) float64 {
		if t.pays {
			return 2
		}
		return 1
	})
	refused := 0
	for range 50 {
		if err := q.Go(tenant{"ada", true}, func(*pool.Worker) { /* serve a request */ }); err != nil {
			refused++ // pool.ErrFull: answer 429
		}
	}
	fmt.Println(refused, q.Wait(context.Background()))
	// Output: 0 <nil>
}

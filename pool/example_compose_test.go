package pool_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed53057037/heist/pool"
)

// A task needs the results of two others, which have different types. It begins when both are done; until then it
// occupies no worker.
func ExampleAfter() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	ctx := context.Background()

	user := pool.Async(p, func(*pool.Worker) (string, error) { return "ada", nil })
	orders := pool.Async(p, func(*pool.Worker) ([]int, error) { return []int{3, 4}, nil })
	page := pool.Async(p, func(*pool.Worker) (string, error) {
		name, err := user.Wait(ctx) // at once, as orders.Wait
		if err != nil {
			return "", err
		}
		list, err := orders.Wait(ctx)
		return fmt.Sprint(name, list), err
	}, pool.After(user, orders))

	fmt.Println(page.Wait(ctx))
	// Output: ada[3 4] <nil>
}

// Steps of a request, one after the other. An error passes the steps that follow.
func ExampleThen() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	read := func(text string, err error) *pool.Future[string] {
		return pool.Async(p, func(*pool.Worker) (string, error) { return text, err })
	}
	count := func(_ *pool.Worker, text string) (int, error) { return len(text), nil }
	fmt.Println(pool.Then(read("heist", nil), count).Wait(context.Background()))
	fmt.Println(pool.Then(read("", errors.New("no such file")), count).Wait(context.Background()))
	// Output:
	// 5 <nil>
	// 0 no such file
}

func ExampleAll() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	var parts []*pool.Future[int]
	for i := range 4 {
		parts = append(parts, pool.Async(p, func(*pool.Worker) (int, error) { return i * i, nil }))
	}
	sum := pool.Then(pool.All(parts...), func(_ *pool.Worker, squares []int) (sum int, err error) {
		for _, s := range squares {
			sum += s
		}
		return sum, nil
	})
	fmt.Println(sum.Wait(context.Background()))
	// Output: 14 <nil>
}

// The nearer replica does not answer.
func ExampleAny() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	near := pool.Async(p, func(*pool.Worker) (string, error) { return "", errors.New("near: refused") })
	far := pool.Async(p, func(*pool.Worker) (string, error) { return "far: 42", nil })
	fmt.Println(pool.Any(near, far).Wait(context.Background()))
	// Output: far: 42 <nil>
}

// A goroutine outside of the pool waits for a result and for something else.
func ExampleFuture_Done() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	answer := pool.Async(p, func(*pool.Worker) (int, error) { return 42, nil })
	select {
	case <-answer.Done():
		fmt.Println(answer.Wait(context.Background()))
	case <-time.After(time.Minute):
		fmt.Println("no answer")
	}
	// Output: 42 <nil>
}

package progress_test

import (
	"fmt"
	"log"
	"time"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/progress"
)

// A loop adds the length of each range.
func ExampleMeter() {
	const n = 1_000_000
	m := progress.New(n)
	stop := m.Every(time.Second, func(s progress.State) { log.Print(s) })
	err := pool.ForRange(pool.Default(), n, func(lo, hi int) {
		// ...
		m.Add(hi - lo)
	})
	stop()
	s := m.State()
	fmt.Println(s.Done, "of", s.Total, err)
	// Output: 1000000 of 1000000 <nil>
}

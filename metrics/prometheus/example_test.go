package prometheus_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	heistprom "github.com/seed53057037/heist/metrics/prometheus"
	"github.com/seed53057037/heist/pool"
)

func ExampleNewCollector() {
	p, err := pool.New(pool.WithName("thumbs"), pool.WithTimings())
	if err != nil {
		panic(err)
	}
	defer p.Close()
	c, err := heistprom.NewCollector(p)
	if err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c) // and promhttp serves it
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	fmt.Println(families[0].GetName())
	// Output: heist_pool_callers_inside
}

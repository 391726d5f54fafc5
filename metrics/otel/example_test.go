package otel_test

import (
	"context"
	"fmt"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	heistotel "github.com/seed53057037/heist/metrics/otel"
	"github.com/seed53057037/heist/pool"
)

func ExampleRegister() {
	p, err := pool.New(pool.WithName("thumbs"))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	reader := sdk.NewManualReader() // a service has one that exports
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	registration, err := heistotel.Register(provider.Meter("example.com/service"), p)
	if err != nil {
		panic(err)
	}
	defer registration.Unregister()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		panic(err)
	}
	fmt.Println(data.ScopeMetrics[0].Metrics[0].Name)
	// Output: heist.pool.tasks.submitted
}

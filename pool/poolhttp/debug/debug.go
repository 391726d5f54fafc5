// Package debug has two side effects when it is imported, as net/http/pprof and expvar have. The default mux of net/http
// shows the page of the process's pools at /debug/heist/; package poolhttp says what it shows and who should see it. And
// /debug/vars has the variable heist: the statistics and the load of each pool, by the pool's name.
//
//	import _ "github.com/seed53057037/heist/pool/poolhttp/debug"
package debug

import (
	"expvar"
	"fmt"
	"net/http"

	"github.com/seed53057037/heist/internal/census"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
	"github.com/seed53057037/heist/pool/poolhttp"
)

func init() {
	http.Handle("/debug/heist/", poolhttp.Handler())
	expvar.Publish("heist", expvar.Func(func() any { return variables() }))
}

// variable is what expvar shows of a pool. Durations are in nanoseconds.
type variable struct {
	ID    uint64
	Load  inspect.Load
	Stats inspect.Stats
}

// variables returns the variables by the pools' names. A pool without a name, or with that of an older pool, has the name
// "pool" and its number.
func variables() map[string]variable {
	all := make(map[string]variable)
	for _, p := range census.Pools[*pool.Pool]() {
		if p.InBubble {
			continue
		}
		name := p.Pool.Config().Name
		if _, taken := all[name]; name == "" || taken {
			name = fmt.Sprintf("pool %d", p.ID)
		}
		all[name] = variable{p.ID, p.Pool.Load(), p.Pool.Stats()}
	}
	return all
}

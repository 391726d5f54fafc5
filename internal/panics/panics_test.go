package panics_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/panics"
)

// ends runs f in a goroutine of its own and returns the value of the panic by which f ended, nil for none.
func ends(f func()) (v any) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		returned := false
		defer func() {
			if !returned {
				v = panics.Recovered(recover())
			}
		}()
		f()
		returned = true
	}()
	<-over
	return v
}

// TestAPanicIsToldFromGoexit whatever its value is, and also if one begins while the other runs deferred calls.
func TestAPanicIsToldFromGoexit(t *testing.T) {
	for _, setting := range []string{"panicnil=0", "panicnil=1"} {
		t.Run(setting, func(t *testing.T) {
			t.Setenv("GODEBUG", setting)
			require.Nil(t, ends(func() {}))
			require.Nil(t, ends(runtime.Goexit))
			require.Equal(t, 7, ends(func() { panic(7) }))
			require.IsType(t, new(runtime.PanicNilError), ends(func() { panic(nil) }))
			require.IsType(t, new(runtime.PanicNilError), ends(func() {
				defer panic(nil)
				runtime.Goexit()
			}))
			require.Nil(t, ends(func() {
				defer runtime.Goexit()
				panic(nil)
			}))
		})
	}
}

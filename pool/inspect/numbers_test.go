package inspect

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNumbersAreAllFields, each by its own name, and with a sentence.
func TestNumbersAreAllFields(t *testing.T) {
	var s Stats
	want := map[string]int64{}
	set := func(v reflect.Value) {
		for i := range v.NumField() {
			field, f, n := v.Type().Field(i), v.Field(i), int64(100+len(want))
			switch {
			case f.Kind() == reflect.Uint64:
				f.SetUint(uint64(n))
			case f.CanInt():
				f.SetInt(n)
			default:
				continue
			}
			want[field.Name] = n
		}
	}
	s.Workers = make([]WorkerStats, 1)
	set(reflect.ValueOf(&s.Workers[0]).Elem())
	set(reflect.ValueOf(&s).Elem())
	want["Tasks"] += want["Beside"]
	got, named := map[string]int64{}, map[string]bool{}
	for _, n := range Numbers() {
		got[n.Field] = n.Of(&s)
		require.Regexp(t, `^[A-Z].*\.$`, n.About, n.Field)
		require.False(t, named[n.Name+n.Unit], n.Name)
		named[n.Name+n.Unit] = true
	}
	require.Equal(t, want, got)
}

func TestShortTimesHaveThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 1750908: "1.75ms", 99950: "100µs", -1234567: "-1.23ms", 90*time.Second + 500*time.Millisecond: "1m30.5s", 59960 * time.Millisecond: "1m0s",
	} {
		require.Equal(t, want, Short(d).String(), int64(d))
	}
}

package load

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
)

// A ledger that is content with everything proves nothing.
func TestTheLedgerRefusesWhatIsNotExactlyOnce(t *testing.T) {
	for name, enter := range map[string]func(*ledger){
		"lost":    func(l *ledger) { l.enter(newItem(0)) },
		"twice":   func(l *ledger) { l.enter(newItem(0)); l.enter(newItem(1)); l.enter(newItem(1)) },
		"nil":     func(l *ledger) { l.enter(newItem(0)); l.enter(newItem(1)); l.enter(nil) },
		"freed":   func(l *ledger) { l.enter(newItem(0)); l.enter(newItem(1)); l.enter(&item{1, 0}) },
		"foreign": func(l *ledger) { l.enter(newItem(0)); l.enter(newItem(1)); l.enter(newItem(2)) },
	} {
		l := newLedger(2)
		enter(l)
		require.Error(t, l.balance(), name)
	}
	l := newLedger(2)
	l.enter(newItem(1))
	l.enter(newItem(0))
	require.NoError(t, l.balance())
}

func TestOnceUsesEverything(t *testing.T) {
	c, err := Once(pool.WithWorkers(2))
	require.NoError(t, err)
	require.EqualValues(t, 4*perQueue, c.Items)
	require.NotZero(t, c.Forks)
	require.EqualValues(t, 400+8+8*16, c.Tasks)
}

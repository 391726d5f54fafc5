package kernel

import (
	"testing"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/verify/explore"
)

// Programs that are too large for a search.
func TestLargerProgramsAtRandom(t *testing.T) {
	o := explore.Options{Executions: explore.None, Random: 3000, Changes: 4, Races: true}
	buffers := o
	buffers.StoreBuffers = true
	explores(t, o, dequeProgram{config: heist.DequeConfig{Capacity: 2}, push: 5, pop: 3, pushAgain: 5, thieves: 3, steals: 3}.run)
	explores(t, buffers, dequeProgram{config: heist.DequeConfig{Capacity: 2}, push: 5, pop: 3, pushAgain: 5, thieves: 3, steals: 3}.run)
	explores(t, o, ringProgram{capacity: 4, push: 8, pops: 2, again: 6, thieves: 2, steals: 3, secondThief: true, overflow: true}.run)
	explores(t, o, injectorProgram{producers: 3, pushes: 4, consumers: 2, pulls: 5, pull: 2}.run)
	explores(t, buffers, injectorProgram{producers: 2, pushes: 5, batch: true, consumers: 2, pulls: 4, pull: 3, closes: true}.run)
}

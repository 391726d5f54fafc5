package interleave

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/explore/rewrite"
	"github.com/seed53057037/heist/verify/mutants"
)

func root(t *testing.T) string {
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// passes runs programs that have to pass, and returns the number of interleavings.
func passes(t *testing.T, p program, tests string) int {
	binary, err := p.build(root(t), t.TempDir(), nil)
	require.NoError(t, err)
	o, err := p.run(binary, tests)
	require.NoError(t, err)
	require.Empty(t, o.failed, o.output)
	return o.interleavings
}

func TestQueuesHoldInAllInterleavings(t *testing.T) {
	claim.That(t, "the queues' own code loses no item, gives none twice, and keeps its orders",
		"an explorer runs small programs over it in all interleavings, or in all with few preemptions, also with amd64's store buffers, and larger ones at random")
	tests := ".*"
	if testutil.Short() {
		tests = "TestItemsOf.*"
	}
	claim.Amount(t, "%s interleavings", claim.Count(passes(t, kernel, tests)))
}

func TestForksAndScopesHoldInAllInterleavings(t *testing.T) {
	claim.That(t, "the code of forks and scopes runs each fork and child once, before its join or scope ends",
		"an explorer runs small programs over it in all interleavings, or in all with few preemptions, and checks that accesses to frames are ordered")
	if testutil.Short() {
		t.Skip("package pool must be built")
	}
	claim.Amount(t, "%s interleavings", claim.Count(passes(t, forks, ".*")))
}

func TestTheProtocolOfSleepHoldsInAllInterleavings(t *testing.T) {
	claim.That(t, "no place sleeps over a task, mail, a child, or the fork of a guest that waits, who comes back gets its place, a wait that is noticed leaves no place with two workers, and all this while the size changes, the pool pauses and ends",
		"an explorer runs the protocol's own code (internal/core, internal/policy) under a small host, in all interleavings with few preemptions, and larger programs at random")
	tests := ".*"
	if testutil.Short() {
		tests = "TestNoPlaceSleepsOver.*"
	}
	claim.Amount(t, "%s interleavings", claim.Count(passes(t, protocol, tests)))
}

// found are the mutants that programs find, and which.
var found = []struct {
	mutant  string
	program program
	tests   string
}{
	{"ring-pop-without-a-cas", kernel, "TestItemsOfARingAreTakenOnce"},
	{"ring-push-publishes-before-the-slot", kernel, "TestItemsOfARingAreTakenOnce"},
	{"ring-push-trusts-an-old-head", kernel, "TestItemsOfARingAreTakenOnce"},
	{"ring-spill-without-a-cas", kernel, "TestFullRingSpillsOnce"},
	{"ring-steal-reads-slots-after-its-cas", kernel, "TestItemsOfARingAreTakenOnce"},
	{"ring-steal-shows-items-before-they-are-there", kernel, "TestHalfOfARingIsStolenOnce"},
	{"ring-steal-takes-more-than-fits", kernel, "TestThiefWithAFullRingTakesOne"},
	{"ring-steal-takes-more-than-half", kernel, "TestItemsOfARingAreTakenOnce"},
	{"ring-steal-without-a-cas", kernel, "TestItemsOfARingAreTakenOnce"},
	{"injector-close-does-not-seal", kernel, "TestClosedInjectorLosesNoItemThatItAccepted"},
	{"injector-leaves-without-a-word", kernel, "TestSlotsThatAreUsedAgainGiveEachItemOnce"},
	{"injector-links-before-it-seals", kernel, "TestFullSegmentIsSealedBeforeTheNextIsUsed"},
	{"injector-pull-without-a-cas", kernel, "TestItemsOfAnInjectorAreTakenOnceAndInOrder"},
	{"injector-push-without-a-cas", kernel, "TestItemsOfAnInjectorAreTakenOnceAndInOrder"},
	{"injector-slot-is-free-before-it-was-read", kernel, "TestFullSegmentIsSealedBeforeTheNextIsUsed"},
	{"injector-slot-is-ready-before-its-item", kernel, "TestItemsOfAnInjectorAreTakenOnceAndInOrder"},
	{"portable-pop-looks-at-top-first", kernel, "TestItemsOfADequeAreTakenOnce"},
	{"portable-pop-takes-the-last-without-a-cas", kernel, "TestLastItemOfADequeIsTakenOnce"},
	{"portable-push-keeps-the-array-from-before-growth", kernel, "TestSlotOfADequeIsReadBeforeItIsUsedAgain"},
	{"portable-push-publishes-before-the-slot", kernel, "TestLastItemOfADequeIsTakenOnce"},
	{"portable-steal-reads-the-slot-after-its-cas", kernel, "TestLastItemOfADequeIsTakenOnce"},
	{"portable-steal-without-a-cas", kernel, "TestLastItemOfADequeIsTakenOnce"},
	{"deque-goes-past-its-limit", kernel, "TestDequeKeepsItsLimit"},
	{"deque-growth-forgets-the-oldest", kernel, "TestSlotOfADequeIsReadBeforeItIsUsedAgain"},
	{"deque-growth-publishes-before-it-copies", kernel, "TestSlotOfADequeIsReadBeforeItIsUsedAgain"},
	{"deque-room-is-guessed", kernel, "TestSlotOfADequeIsReadBeforeItIsUsedAgain"},
	{"fork-is-claimed-without-a-cas", forks, "TestForksRunOnce"},
	{"fork-is-published-before-it-is-written", forks, "TestForksRunOnce"},
	{"fork-is-published-below-the-fast-path", forks, "TestForksOnTheFastPathArePublishedByTheirOwner"},
	{"fork-is-taken-back-without-a-cas", forks, "TestForksRunOnce"},
	{"fork-result-comes-after-its-latch", forks, "TestForksRunOnce"},
	{"fork-trim-clears-what-thieves-work-in", forks, "TestForksRunOnce"},
	{"pool-sleeps-without-a-look", protocol, "TestNoPlaceSleepsOverATask"},
	{"pool-looks-before-it-announces", protocol, "TestNoPlaceSleepsOverATask"},
	{"pool-task-wakes-nobody", protocol, "TestNoPlaceSleepsOverATask"},
	{"pool-woken-is-no-searcher", protocol, "TestNoPlaceSleepsOverATask"},
	{"pool-last-searcher-says-nothing", protocol, "TestTheLastSearcherWakesAnotherForWhatIsLeft"},
	{"pool-lends-to-nobody", protocol, "TestATaskMayWaitForTheNextOneInOnePlace"},
	{"pool-comes-back-without-the-list", protocol, "TestWhoComesBackGetsItsPlace"},
	{"pool-hands-back-in-another-wait", protocol, "TestAStandInHandsThePlaceBack"},
	{"pool-place-sleeps-over-its-mail", protocol, "TestNoPlaceSleepsOverItsMail"},
	{"pool-resume-forwards-nothing", protocol, "TestResumeWakesPlacesForTheirMail"},
	{"pool-leaving-guest-forgets-who-waits", protocol, "TestTheForkOfAGuestThatWaitsIsStolen"},
	{"pool-place-sleeps-over-its-order-to-close", protocol, "TestAPlaceThatIsTooManyCloses"},
	{"pool-place-closes-though-it-is-needed", protocol, "TestALentPlaceMayCloseAndOpen"},
	{"pool-who-waits-rests", protocol, "TestThePoolEndsAfterAllWaits"},
	{"pool-idle-list-stays-open", protocol, "TestThePoolEndsAfterAllWaits"},
	{"pool-hot-place-sleeps", protocol, "TestAHotPoolIsWatched"},
	{"pool-relies-on-searchers-that-stand-still", protocol, "TestASearcherThatDoesNotAnswerIsNotReliedOn"},
	{"pool-worker-relies-on-searchers-that-stand-still", protocol, "TestAWorkerWakesAnotherIfNoSearcherAnswers"},
	{"pool-wakes-its-own-node-alone", protocol, "TestNoPlaceSleepsOverTasksOfAnotherNode"},
	{"pool-beside-worker-stays-a-guest", protocol, "TestAWorkerThatBeginsBesideThePlacesIsOneOfThem"},
	{"pool-begins-beside-a-pause", protocol, "TestNothingBeginsInAPausedPool"},
	{"pool-lend-hides-what-is-shown", protocol, "TestAChildOfAWorkerThatWaitsIsStolen"},
	{"roster-look-goes-astray", protocol, "TestALookAtARosterSeesAllWhoStay"},
	{"notice-leaves-the-worker-its-place", protocol, "TestAWaitThatIsNoticedHoldsNothingUp"},
	{"notice-looks-before-the-worker-can-see", protocol, "TestAWaitMayEndAsItIsSeen"},
	{"notice-has-two-stand-ins", protocol, "TestAWaitThatTwoSeeHasOneStandIn"},
	{"notice-ends-the-wait-unseen", protocol, "TestTheMonitorMaySeeTheEndOfAWait"},
	{"notice-holds-a-pause-up", protocol, "TestAPauseGoesOnWhenAWaitThatIsNoticedIsOver"},
	{"notice-looks-once", forks, "TestTheMonitorLooksAfterAllThatComes"},
	{"policy-announce-hides-a-searcher", protocol, "TestTwoPlacesDoNotSleepOverTasks"},
	{"policy-everybody-cleared-the-bit", protocol, "TestTwoPlacesDoNotSleepOverTasks"},
	{"policy-everybody-is-last", protocol, "TestTheLastSearcherWakesAnotherForWhatIsLeft"},
	{"scope-adds-strays-to-the-deque", forks, "TestInnerScopeLeavesTheChildrenOfTheOuterAlone"},
	{"scope-stolen-child-ends-before-its-own", forks, "TestStolenChildEndsAfterTheChildrenThatItHasAdded"},
	{"scope-takes-back-what-is-below-it", forks, "TestInnerScopeLeavesTheChildrenOfTheOuterAlone"},
	{"scope-thief-takes-the-innermost-branch", forks, "TestStolenChildOfAnInnerScopeIsTheInnerScopes"},
}

const inPool = "the loop of a worker of package pool, and its alarms, are not explored: the programs have a loop of their own"

// unseen are the mutants that no program can find, by patterns of their names.
var unseen = map[string]string{
	"amd64-*":                           "assembly is not rewritten; TestFenceOfPopIsNeeded stands for amd64-pop-without-a-fence",
	"arm64-*":                           "assembly is not rewritten, and the explorer has amd64's order of memory",
	"push-keeps-*":                      "it is in the builds with assembly; portable-push-keeps-the-array-from-before-growth is the same",
	"deque-sweep-*":                     "it keeps garbage alive, which no interleaving shows",
	"futex-*":                           "the system's futex is not rewritten",
	"unpin-*":                           "threads and their CPUs are not explored",
	"policy-search-skips-the-last-look": "the programs have a search of their own",
	"future-*":                          "futures and delays need the whole of package pool",
	"call-*":                            "no order: the watch is missing whatever comes first",
	"keyed-*":                           "no order: nothing comes for what waits",
	"graph-*":                           "no order: the second run finds what the first one left",

	"pool-closed-place-keeps-its-mail":      "no order: the place's mail is package pool's",
	"pool-gives-back-before-what-is-queued": "no order: two tasks pass a place to each other for ever",
	"pool-wakes-without-a-word":             "the futex is not rewritten, so the parker is the explorer's",
	"pool-done-fork-wakes-nobody":           inPool,
	"pool-kept-slots-stay-kept":             inPool,
	"pool-kept-work-goes-with-the-place":    "the explorer's host keeps nothing for a holder; a test of internal/core finds it",
	"pool-waits-with-what-it-kept":          "the explorer's host keeps nothing for a holder; a test of internal/core finds it",
	"pool-lifo-slot-is-taken-without-a-cas": inPool,
	"pool-nobody-looks-into-slots":          inPool,
	"pool-first-of-few-runs-alone":          inPool,
	"pool-place-too-many-sleeps":            inPool,
	"pool-sleeper-asks-for-nothing":         inPool,
	"pool-thief-asks-for-nothing":           inPool,
	"pool-waiting-guest-is-never-spare":     inPool,
	"pool-waker-keeps-its-p":                inPool,
	"pool-who-waits-hides-its-forks":        inPool,
	"pool-who-woke-searches":                inPool,
	"notice-robs-workers-that-compute":      "the status of goroutines is package pool's",
}

// quick are mutants of each kind that CI has time for.
var quick = []string{
	"ring-pop-without-a-cas", "injector-links-before-it-seals", "portable-steal-reads-the-slot-after-its-cas",
	"fork-is-taken-back-without-a-cas", "scope-takes-back-what-is-below-it", "pool-leaving-guest-forgets-who-waits",
}

func TestEveryMutantIsFoundOrThereIsAReason(t *testing.T) {
	patches, err := filepath.Glob("../mutants/*.patch")
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	for _, patch := range patches {
		name := strings.TrimSuffix(filepath.Base(patch), ".patch")
		var by []string
		for _, f := range found {
			if f.mutant == name {
				by = append(by, f.tests)
			}
		}
		for pattern := range unseen {
			if ok, err := path.Match(pattern, name); ok || err != nil {
				by = append(by, pattern)
			}
		}
		require.Len(t, by, 1, "of the mutant %s", name)
	}
}

func TestExplorerFindsMutants(t *testing.T) {
	claim.That(t, "an explorer finds each mutant of the order of operations in queues, forks, scopes and sleep",
		"patches that take away a compare-and-swap or an order, and the programs that pass without them")
	if testutil.Short() {
		t.Skip("mutants must be built")
	}
	mutantsFound, most := 0, 0
	for _, f := range found {
		if !claim.Full() && !slices.Contains(quick, f.mutant) {
			continue
		}
		t.Run(f.mutant, func(t *testing.T) {
			patch, err := filepath.Abs(filepath.Join("../mutants", f.mutant+".patch"))
			require.NoError(t, err)
			dir := t.TempDir()
			changed, err := mutants.Apply(patch, root(t), dir)
			require.NoError(t, err)
			binary, err := f.program.build(root(t), dir, changed)
			require.NoError(t, err)
			o, err := f.program.run(binary, f.tests)
			require.NoError(t, err)
			require.NotEmpty(t, o.failed, "%s does not find the mutant in %d interleavings", f.tests, o.interleavings)
			t.Log(o.how)
			mutantsFound, most = mutantsFound+1, max(most, o.at)
		})
	}
	claim.Amount(t, "%d mutants, in at most %s interleavings of a program", mutantsFound, claim.Count(most))
}

// In assembly, pop's store of bottom is followed by a fence.
func TestFenceOfPopIsNeeded(t *testing.T) {
	claim.That(t, "a deque's pop needs its fence on amd64", "an explorer with store buffers runs the pop with a plain store of bottom, and finds an item that is taken twice")
	config := kernelConfig()
	config.Release = append(config.Release, "deque.portablePop d.bottom.Store(b)")
	unfenced := program{name: "unfenced", pkg: kernel.pkg, rewrites: []rewrite.Config{config}}
	binary, err := unfenced.build(root(t), t.TempDir(), nil)
	require.NoError(t, err)
	o, err := unfenced.run(binary, "TestDequeWithStoreBuffersLosesNothing")
	require.NoError(t, err)
	require.NotEmpty(t, o.failed, o.output)
	require.Contains(t, o.output, "store-release 1, delayed")
	t.Log(o.how)
	o, err = unfenced.run(binary, "TestItemsOfADequeAreTakenOnce") // without buffers
	require.NoError(t, err)
	require.Empty(t, o.failed, o.output)
	claim.Amount(t, "%s interleavings without store buffers, in which it is not seen", claim.Count(o.interleavings))
}

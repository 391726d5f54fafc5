package runner

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"

	"github.com/seed53057037/heist/bench/internal/contract"
)

// PeakMB is the metric of the most memory that a process had in RAM during a run, in millions of bytes. It is never the
// first metric of a case, and absent where the system does not tell it.
//
// For Go it is the high-water mark of the resident set from the start of the run to its end. That is the whole process:
// its program, Go's runtime and the suites that it has linked, some 12 MB in all, the input of the case, what the run
// adds, and what earlier runs of the implementation have freed and Go has not given back yet: to give it back before each run would
// have the run pay for new memory, which took 1.3 times as long in submit/external-1. For a [Child] it is
// the high-water mark from the start of the program, which the program prints. The system's rusage is no substitute: the
// program's begins with the high-water mark of the process that has started it.
const PeakMB = "peak-MB"

// WithPeak returns the cases with the metric [PeakMB], which is the last.
func WithPeak(cases ...Case) []Case {
	for i, c := range cases {
		cases[i].Metrics = append(slices.Clip(c.Metrics), contract.Metric{Name: PeakMB, Better: contract.Lower})
	}
	return cases
}

// peak says whether the case has the metric [PeakMB].
func (c Case) peak() bool {
	return len(c.Metrics) > 0 && c.Metrics[len(c.Metrics)-1].Name == PeakMB
}

// withPeak returns the sample of a case that has the metric [PeakMB] with its value. Other metrics that the sample lacks
// become NaN.
func (s Sample) withPeak(metrics int) Sample {
	if s.Peak > 0 {
		for len(s.Values) < metrics-1 {
			s.Values = append(s.Values, math.NaN())
		}
		s.Values = append(s.Values, s.Peak)
	}
	return s
}

// peakOf does a run and returns its sample with the peak of this process.
func peakOf(run Run) (Sample, error) {
	runtime.GC()
	reset := resetPeak()
	s, err := run()
	if reset {
		s.Peak = peakSoFar()
	}
	return s, err
}

// resetPeak sets the high-water mark to what the process has in RAM now, and says whether it could. The kernel takes a 5
// for that; see proc_pid_clear_refs(5).
func resetPeak() bool {
	f, err := os.OpenFile("/proc/self/clear_refs", os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.WriteString("5")
	return err == nil
}

// peakSoFar returns the high-water mark, or 0 if the system does not tell.
func peakSoFar() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := bytes.Cut(status, []byte("\nVmHWM:"))
	var kib float64
	_, _ = fmt.Sscanf(string(rest), "%f kB", &kib) // 0 if it is not there
	return kib * 1024 / 1e6
}

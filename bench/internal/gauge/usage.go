package gauge

import "time"

// Usage is a process's use of the machine.
type Usage struct {
	CPU     time.Duration // its own, and the kernel's for it
	Wakeups int64         // voluntary context switches, each of which ended in a wake-up
}

// Since returns what has been used since before.
func (u Usage) Since(before Usage) Usage {
	return Usage{u.CPU - before.CPU, u.Wakeups - before.Wakeups}
}

// CPUMicros returns the last value of a sample with the metric cpu-us: the CPU time that the process has used since
// before, in microseconds for each of ops operations. It is empty where the system does not tell.
func CPUMicros(before Usage, ops int) []float64 {
	after, err := UsageSoFar()
	if err != nil {
		return nil
	}
	return after.Since(before).PerOp(ops)
}

// PerOp returns the CPU time in microseconds for each of ops operations, never zero, which is below the system's
// resolution.
func (u Usage) PerOp(ops int) []float64 {
	return []float64{float64(max(u.CPU, time.Microsecond)) / 1e3 / float64(ops)}
}

package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// Machine describes the machine of the figures in one line.
func Machine() string {
	return fmt.Sprintf("%s, %d CPUs, %s %s/%s, %s",
		cpuModel(), runtime.NumCPU(), kernel(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// cpuModel asks the CPU itself, which only works on x86, and then the kernel.
func cpuModel() string {
	if name := strings.TrimSpace(cpuid.CPU.BrandName); name != "" {
		return name
	}
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name", "Model", "Hardware", "cpu model":
			return strings.TrimSpace(value)
		}
	}
	return "an unnamed CPU"
}

func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown release of"
	}
	return "kernel " + strings.TrimSpace(string(release))
}

module github.com/seed53057037/heist/verify

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/cavaliergopher/cpio v1.0.1
	github.com/dustin/go-humanize v1.1.0
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	github.com/jedib0t/go-pretty/v6 v6.8.3
	github.com/seed53057037/heist v0.0.0
	github.com/sourcegraph/conc v0.3.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/exp v0.0.0-20261014143641-f0251eb4aa3e
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
	golang.org/x/tools v0.52.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	github.com/klauspost/cpuid/v2 v2.4.2 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	go.uber.org/atomic v1.7.0 // indirect
	go.uber.org/multierr v1.9.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/text v0.22.0 // indirect
	honnef.co/go/tools v0.8.2 // indirect
)

replace github.com/seed53057037/heist => ../

tool honnef.co/go/tools/cmd/staticcheck

module github.com/seed53057037/heist/verify

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/seed53057037/heist v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/klauspost/cpuid/v2 v2.4.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/seed53057037/heist => ../

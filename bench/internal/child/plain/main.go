// Plain runs the implementations that need heist, Go's own packages and nothing else.
package main

import "github.com/seed53057037/heist/bench/internal/suites"

func main() { suites.Main() }

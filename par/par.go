package par

import (
	"fmt"
)

func errNilFunc(function string) error {
	return fmt.Errorf("par: %s was given a nil function", function)
}

func errLengths(function, some string, n int, others string, m int) error {
	return fmt.Errorf("par: %s was given %d %s and %d %s; there must be as many", function, n, some, m, others)
}

// must is for calls at a worker, which fail only for bad arguments.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

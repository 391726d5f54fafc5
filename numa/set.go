package numa

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// maxCPUs bounds the numbers a set may hold. Linux is built for at most 8192
// CPUs; a list that names many more is damaged, and must not cost memory.
const maxCPUs = 1 << 16

// Set is a set of CPU numbers: ascending, without duplicates, of any size.
// Range over it to visit the CPUs. The nil Set is empty and ready to use.
//
// ParseSet keeps the order; a caller that builds a Set by hand has to keep it too.
// As text, for example in JSON, a Set is in the kernel's list format, as String
// returns it.
type Set []int

// Len returns the number of CPUs in the set.
func (s Set) Len() int { return len(s) }

// Contains reports whether cpu is in the set, by binary search.
func (s Set) Contains(cpu int) bool {
	_, found := slices.BinarySearch(s, cpu)
	return found
}

// String returns the set in the kernel's list format, "0-3,8"; the empty set
// is the empty string. ParseSet reads it back.
func (s Set) String() string {
	var b []byte
	for i := 0; i < len(s); {
		last := i
		for last+1 < len(s) && s[last+1] == s[last]+1 {
			last++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(s[i]), 10)
		if last > i {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(s[last]), 10)
		}
		i = last + 1
	}
	return string(b)
}

// MarshalText returns the set as String does. It fails if the set is not in order,
// or if it holds a number that ParseSet would refuse.
func (s Set) MarshalText() ([]byte, error) {
	for i, cpu := range s {
		if cpu < 0 || cpu >= maxCPUs || i > 0 && s[i-1] >= cpu {
			return nil, fmt.Errorf("numa: set with %d at position %d: a Set holds ascending numbers from 0 to %d", cpu, i, maxCPUs-1)
		}
	}
	return []byte(s.String()), nil
}

// UnmarshalText reads a set as ParseSet does, with the same errors. After an error
// the set is unchanged.
func (s *Set) UnmarshalText(text []byte) error {
	set, err := ParseSet(string(text))
	if err == nil {
		*s = set
	}
	return err
}

// and returns the CPUs that are in both sets.
func (s Set) and(other Set) Set { return s.filter(other, true) }

// minus returns the CPUs of s that are not in other.
func (s Set) minus(other Set) Set { return s.filter(other, false) }

// filter returns the CPUs of s that are in other, or with has false those that are
// not.
func (s Set) filter(other Set, has bool) Set {
	if len(s) == 0 {
		return nil
	}
	var kept Set
	i, _ := slices.BinarySearch(other, s[0])
	for _, cpu := range s {
		for i < len(other) && other[i] < cpu {
			i++
		}
		if (i < len(other) && other[i] == cpu) == has {
			kept = append(kept, cpu)
		}
	}
	return kept
}

// or returns the CPUs that are in either set.
func (s Set) or(other Set) Set {
	return normalize(slices.Concat(s, other))
}

// normalize sorts the numbers and drops duplicates, in place, which makes them a
// Set.
func normalize(cpus []int) Set {
	slices.Sort(cpus)
	return slices.Compact(cpus)
}

// firstCPUs returns the set 0 to n-1.
func firstCPUs(n int) Set {
	s := make(Set, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// ParseSet reads a set in the kernel's list format: numbers and ranges between
// commas, as in "0-3,8", in any order. White space around the list, such as
// the newline at the end of a sysfs file, is ignored, and an empty list is the
// empty set.
//
// The error quotes the list and says what is wrong with it: an item that is no
// number or range, a range that runs backwards, a number from 1<<16 upwards,
// or more numbers than that. No list makes it take more time or memory than a
// set of that size.
func ParseSet(s string) (Set, error) {
	set, err := parseList(s)
	if err != nil {
		return nil, fmt.Errorf("numa: %w", err)
	}
	return set, nil
}

func parseList(s string) (Set, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	var set Set
	ordered := true
	for item := range strings.SplitSeq(s, ",") {
		first, last, err := parseRange(item)
		if err == nil && len(set)+last-first >= maxCPUs {
			err = fmt.Errorf("more than %d CPUs", maxCPUs)
		}
		if err != nil {
			return nil, fmt.Errorf("CPU list %.64q: %w", s, err)
		}
		ordered = ordered && (len(set) == 0 || set[len(set)-1] < first)
		set = slices.Grow(set, last-first+1)
		for cpu := first; cpu <= last; cpu++ {
			set = append(set, cpu)
		}
	}
	if !ordered {
		set = normalize(set)
	}
	return set, nil
}

// parseRange reads one item of a list, "3" or "3-5".
func parseRange(item string) (first, last int, err error) {
	from, to, isRange := strings.Cut(item, "-")
	if first, err = parseCPU(from); err != nil {
		return 0, 0, fmt.Errorf("item %.32q: %w", item, err)
	}
	if !isRange {
		return first, first, nil
	}
	if last, err = parseCPU(to); err != nil {
		return 0, 0, fmt.Errorf("item %.32q: %w", item, err)
	}
	if last < first {
		return 0, 0, fmt.Errorf("range %s runs backwards", item)
	}
	return first, last, nil
}

var errNoNumber = errors.New("not a CPU number or range")

func parseCPU(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return 0, errNoNumber
	case err != nil || n >= maxCPUs:
		return 0, fmt.Errorf("number not below the limit of %d CPUs", maxCPUs)
	}
	return int(n), nil
}

// parseMask reads a set in the kernel's older format: a hexadecimal bit mask,
// the highest CPUs first, with a comma between words of 32 bits. Only the
// first word may have fewer than eight digits.
func parseMask(s string) (Set, error) {
	s = strings.TrimSpace(s)
	words := strings.Split(s, ",")
	if len(words) > maxCPUs/32 {
		return nil, fmt.Errorf("CPU mask %.64q: more than %d CPUs", s, maxCPUs)
	}
	var set Set
	for base := 0; len(words) > 0; base += 32 {
		word := words[len(words)-1]
		words = words[:len(words)-1]
		mask, err := strconv.ParseUint(word, 16, 32)
		if err != nil || len(word) > 8 || len(word) < 8 && len(words) > 0 {
			return nil, fmt.Errorf("CPU mask %.64q: %.32q is no word of 32 bits", s, word)
		}
		for ; mask != 0; mask &= mask - 1 {
			set = append(set, base+bits.TrailingZeros64(mask))
		}
	}
	return set, nil
}

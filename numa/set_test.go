package numa

import (
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseSetReadsTheKernelsLists(t *testing.T) {
	for list, want := range map[string]Set{
		"":              nil,
		"\n":            nil,
		"0\n":           {0},
		"0-3,8":         {0, 1, 2, 3, 8},
		"0,2-4\n":       {0, 2, 3, 4},
		"1023-1026":     {1023, 1024, 1025, 1026},
		"8,0-1":         {0, 1, 8},
		"0-2,1-3,3":     {0, 1, 2, 3},
		"5-5":           {5},
		"007":           {7},
		"65535":         {maxCPUs - 1},
		" 4 ":           {4},
		"0-1,2-3":       {0, 1, 2, 3},
		"63-64,127-128": {63, 64, 127, 128},
	} {
		got, err := ParseSet(list)
		require.NoError(t, err, "%q", list)
		require.Equal(t, want, got, "%q", list)
	}
}

func TestParseSetSaysWhatIsWrong(t *testing.T) {
	for list, want := range map[string]string{
		"x":                    `item "x": not a CPU number or range`,
		"-1":                   `item "-1": not a CPU number or range`,
		"1-":                   `item "1-": not a CPU number or range`,
		"-":                    `item "-": not a CPU number or range`,
		"1--2":                 `item "1--2": not a CPU number or range`,
		"1-2-3":                `item "1-2-3": not a CPU number or range`,
		"+1":                   `item "+1": not a CPU number or range`,
		"0x1":                  `item "0x1": not a CPU number or range`,
		"1,":                   `item "": not a CPU number or range`,
		",1":                   `item "": not a CPU number or range`,
		"1, 2":                 `item " 2": not a CPU number or range`,
		"1 2":                  `item "1 2": not a CPU number or range`,
		"0-7:2/4":              `item "0-7:2/4": not a CPU number or range`,
		"all":                  `item "all": not a CPU number or range`,
		"0-3,9-5":              `range 9-5 runs backwards`,
		"65536":                `item "65536": number not below the limit of 65536 CPUs`,
		"0-4294967295":         `item "0-4294967295": number not below the limit of 65536 CPUs`,
		"99999999999999999999": `item "99999999999999999999": number not below the limit of 65536 CPUs`,
		"0-65535,0":            `more than 65536 CPUs`,
	} {
		set, err := ParseSet(list)
		require.EqualError(t, err, "numa: CPU list "+strconv.Quote(list)+": "+want)
		require.Nil(t, set)
	}
}

func TestParseSetQuotesOnlyTheStartOfALongList(t *testing.T) {
	_, err := ParseSet(strings.Repeat("1,", 100000))
	require.ErrorContains(t, err, "CPU list")
	require.Less(t, len(err.Error()), 200)
}

// Each of these lists is short and asks for a large set, or for the same large
// set a hundred times.
func TestParseSetRefusesAbsurdSizesWithoutTheMemory(t *testing.T) {
	for _, list := range []string{
		"0-18446744073709551615",
		"65536-65537",
		strings.Repeat("0-65535,", 100) + "0",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseSet(list)
		runtime.ReadMemStats(&after)
		require.Error(t, err)
		allocated := after.TotalAlloc - before.TotalAlloc
		require.Less(t, allocated, uint64(4*8*maxCPUs), "%.40q", list)
	}
}

func TestSetOfAnySizeContainsItsCPUs(t *testing.T) {
	set, err := ParseSet("0-2047,5000,60000")
	require.NoError(t, err)
	require.Equal(t, 2050, set.Len())
	for _, cpu := range []int{0, 1023, 1024, 2047, 5000, 60000} {
		require.True(t, set.Contains(cpu), cpu)
	}
	for _, cpu := range []int{-1, 2048, 4999, 5001, math.MaxInt} {
		require.False(t, set.Contains(cpu), cpu)
	}
	require.Equal(t, "0-2047,5000,60000", set.String())
	require.False(t, Set(nil).Contains(0))
	require.Empty(t, Set(nil).String())
}

func TestParseMaskReadsOldKernelsMasks(t *testing.T) {
	for mask, want := range map[string]string{
		"1":                          "0",
		"03\n":                       "0-1",
		"00000000":                   "",
		"80000001":                   "0,31",
		"00000001,00000000":          "32",
		"0000,00000000,00000033":     "0-1,4-5",
		"ffffffff,FFFFFFFF,00000000": "32-95",
	} {
		set, err := parseMask(mask)
		require.NoError(t, err, mask)
		require.Equal(t, want, set.String(), mask)
	}
	for _, mask := range []string{
		"", ",", "x", "0x1", "-1", "1,", "1,2", "1,000000002", "100000000", "1 2",
		strings.Repeat("00000000,", maxCPUs/32) + "00000001",
	} {
		_, err := parseMask(mask)
		require.ErrorContains(t, err, "CPU mask", mask)
	}
}

// TestMaskWordsHaveEightDigits, except for the first word: a digit too many or too few would shift
// all CPUs above it by four, without any sign of an error.
func TestMaskWordsHaveEightDigits(t *testing.T) {
	const digits = "012345678"
	for n := range len(digits) + 1 {
		word := digits[len(digits)-n:] // 8, 78, 678 and so on
		first, firstErr := parseMask(word + ",00000000,80000001")
		last, lastErr := parseMask("1," + word)
		middle, middleErr := parseMask("1," + word + ",00000000")
		require.Equal(t, n >= 1 && n <= 8, firstErr == nil, "%q", word)
		require.Equal(t, n == 8, lastErr == nil, "%q", word)
		require.Equal(t, n == 8, middleErr == nil, "%q", word)
		if n < 1 || n > 8 {
			require.ErrorContains(t, firstErr, strconv.Quote(word)+" is no word of 32 bits")
			require.Nil(t, first)
			continue
		}
		value, err := strconv.ParseUint(word, 16, 32)
		require.NoError(t, err)
		want := Set{0, 31}
		for bit := range 32 {
			if value>>bit&1 == 1 {
				want = append(want, 64+bit)
			}
		}
		require.Equal(t, want, first, "%q", word)
		if n < 8 {
			require.ErrorContains(t, lastErr, strconv.Quote(word)+" is no word of 32 bits")
			require.Nil(t, last)
			require.Nil(t, middle)
		}
	}
	seven, err := parseMask("1234567,00000000\n")
	require.NoError(t, err)
	require.Equal(t, "32-34,37-38,40,42,46,48-49,53,56", seven.String())

	highest, err := parseMask("80000000" + strings.Repeat(",00000000", maxCPUs/32-1))
	require.NoError(t, err)
	require.Equal(t, Set{maxCPUs - 1}, highest)
}

// TestMaskOfTheWrongWidthIsRefusedWithItsFile: the error names the file, and the list stands in for
// the mask.
func TestMaskOfTheWrongWidthIsRefusedWithItsFile(t *testing.T) {
	for _, mask := range []string{"0000000,0000033", "000000033", "1,33"} {
		got, err := read(smt().with(files{"cpu/cpu0/cache/index3/shared_cpu_map": mask + "\n"}).inMemory(), "", nil)
		requireUsable(t, got)
		require.ErrorContains(t, err, filepath.FromSlash("cpu0/cache/index3/shared_cpu_map")+": CPU mask "+strconv.Quote(mask))
		require.Equal(t, []string{"0-1,4-5", "2-3,6-7"}, lists(got.L3), mask)
	}
	got := readSound(t, smt().with(files{"cpu/cpu0/cache/index3/shared_cpu_map": "0000000,00000033\n"}))
	require.Equal(t, []string{"0-1,4-5", "2-3,6-7"}, lists(got.L3))
}

func FuzzParseSet(f *testing.F) {
	for _, seed := range []string{"", "0", "0-3,8\n", "3-1", "-1", "65536", "0-65535", "1,1,1", "9,0-10", "0-7:2/4", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		set, err := ParseSet(list)
		if err != nil {
			require.Nil(t, set)
			return
		}
		require.True(t, slices.IsSorted(set))
		require.Len(t, slices.Compact(slices.Clone(set)), len(set))
		if len(set) > 0 {
			require.GreaterOrEqual(t, set[0], 0)
			require.Less(t, set[len(set)-1], maxCPUs)
			require.True(t, set.Contains(set[len(set)/2]))
		}
		again, err := ParseSet(set.String())
		require.NoError(t, err)
		require.Equal(t, set, again)
	})
}

func FuzzParseMask(f *testing.F) {
	for _, seed := range []string{"", "1", "ffffffff,00000000", "0000,00000000,00000033", "0x3", "1,2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, mask string) {
		set, err := parseMask(mask)
		if err == nil && len(set) > 0 {
			require.True(t, slices.IsSorted(set))
			require.Less(t, set[len(set)-1], maxCPUs)
		}
	})
}

package pool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheQuotaIsTheLeastOfTheGroupsAroundTheProcess(t *testing.T) {
	for name, c := range map[string]struct {
		list  string
		files map[string]string
		want  string
	}{
		"version 2":          {"0::/a/b\n", map[string]string{"a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}, "1.5 CPUs"},
		"the nearer is less": {"0::/a/b\n", map[string]string{"a/b/cpu.max": "50000 100000\n", "a/cpu.max": "150000 100000\n"}, "0.5 CPUs"},
		"version 1": {"4:memory:/x\n2:cpu,cpuacct:/a\n0::/\n", map[string]string{
			"cpu,cpuacct/a/cpu.cfs_quota_us": "300000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
			"cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, "3 CPUs"},
		"none":         {"0::/a\n", map[string]string{"a/cpu.max": "max 100000\n"}, "none"},
		"no files":     {"0::/a\n1:name=systemd:/\n", nil, "none"},
		"broken files": {"nonsense\n0::/a\n", map[string]string{"a/cpu.max": "1e9\n"}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			list := filepath.Join(root, "list")
			require.NoError(t, os.WriteFile(list, []byte(c.list), 0o600))
			for file, text := range c.files {
				file = filepath.Join(root, file)
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			require.Equal(t, c.want, quotaIn(list, root))
		})
	}
	require.Equal(t, "not known", quotaIn("/nonexistent", "/nonexistent"))
}

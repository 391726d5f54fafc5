// Package overlay lets the go command build changed files in place of others, which stay as
// they are (go help build). Everything unchanged comes from the build cache.
package overlay

import (
	"encoding/json"
	"os"
)

// Write writes an overlay to a file. Replace maps the originals to the changed files; all
// names are absolute.
func Write(name string, replace map[string]string) error {
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o666)
}

//go:build !linux

package suites

import "time"

// An alarm wakes a goroutine at a given time.
type alarm struct{}

func newAlarm() (alarm, error) { return alarm{}, nil }

func (alarm) wait(until time.Time) error {
	time.Sleep(time.Until(until))
	return nil
}

func (alarm) close() {}

package operation

import (
	"crypto/rand"
	"fmt"
	"time"
)

// NewKey returns a new UUID of version 7.
func NewKey() string {
	var random [10]byte
	rand.Read(random[:]) // It never fails.
	random[0], random[2] = random[0]&0x0f|0x70, random[2]&0x3f|0x80
	milliseconds := fmt.Sprintf("%012x", time.Now().UnixMilli())
	return fmt.Sprintf("%s-%s-%x-%x-%x", milliseconds[:8], milliseconds[8:], random[:2], random[2:4], random[4:])
}

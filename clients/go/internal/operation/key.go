package operation

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"
)

// NewKey returns a new UUID of version 7.
func NewKey() string {
	var uuid [16]byte
	rand.Read(uuid[6:]) // It never fails.
	low := uint64(binary.BigEndian.Uint16(uuid[6:]))
	binary.BigEndian.PutUint64(uuid[:], uint64(time.Now().UnixMilli())<<16|low&0x0fff|0x7000)
	uuid[8] = uuid[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:])
}

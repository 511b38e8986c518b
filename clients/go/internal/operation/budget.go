package operation

import (
	"sync"
	"time"
)

// budget limits the further attempts of all calls together, in 10 s: to 100, and one for each 5 answered calls.
type budget struct {
	mutex   sync.Mutex
	seconds [10]int // What was added in each: 1 for an answered call, and attemptCost for a further attempt.
	last    int64
}

const attemptCost = -5

// add returns whether the budget has what a negative amount takes.
func (b *budget) add(amount int) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now, left := time.Now().Unix(), -100*attemptCost+amount
	for b.last = max(b.last, now-10); b.last < now; b.seconds[b.last%10] = 0 {
		b.last++
	}
	for _, added := range b.seconds {
		left += added
	}
	if amount > 0 || left >= 0 {
		b.seconds[b.last%10] += amount
	}
	return left >= 0
}

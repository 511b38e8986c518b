package operation

import (
	"sync"
	"time"
)

// attemptCost is what a further attempt adds to the budget. An answered call adds 1.
const attemptCost = -5

// budget limits the further attempts of all calls together, in 10 s: to 100, and one for each 5 answered calls.
type budget struct {
	mutex   sync.Mutex
	seconds [10]int // What was added in each.
	last    int64
}

// add adds to the budget, unless it has less than is taken.
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

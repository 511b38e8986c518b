// Package operation makes attempts with one key until an answer ends their operation.
package operation

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Settings are those of an interceptor. A field that is zero has its default.
type Settings struct {
	Procedures       []string         // They take keys, too, without the option: "/orders.v1.OrderService/CreateOrder".
	AttemptTimeout   time.Duration    // Limits one attempt. Defaults to 10 s.
	OperationTimeout time.Duration    // Limits all attempts of a call whose context has no deadline. Defaults to 1 min.
	MaxAttempts      int              // Limits the attempts of a call; asking for one that runs is none. Defaults to 10.
	Backoff          [2]time.Duration // A pause is a random part of a time that doubles, from 50 ms to 5 s by default.
}

// UnresolvedError is the error of a call whose outcome is unknown. Its cause is the error of the last attempt. Calling again with its key is
// safe; with another, it may happen twice.
type UnresolvedError struct {
	Key      string
	Attempts int
	Cause    error
}

func (e *UnresolvedError) Unwrap() error { return e.Cause }

func (e *UnresolvedError) Error() string {
	return "the outcome of the operation with the key " + e.Key + " is unknown: " + e.Cause.Error()
}

// Client makes the attempts of operations, which share a budget.
type Client struct {
	settings Settings
	budget   budget
	warned   sync.Map
}

// NewClient returns a client with these settings.
func NewClient(s Settings) *Client {
	s.AttemptTimeout = cmp.Or(s.AttemptTimeout, 10*time.Second)
	s.OperationTimeout = cmp.Or(s.OperationTimeout, time.Minute)
	s.MaxAttempts = cmp.Or(s.MaxAttempts, 10)
	s.Backoff = cmp.Or(s.Backoff, [2]time.Duration{50 * time.Millisecond, 5 * time.Second})
	return &Client{settings: s}
}

// Run makes attempts until the answer of one is that of the operation, and returns that one's error, or an UnresolvedError.
func (c *Client) Run(ctx context.Context, procedure, key string, attempt func(context.Context) Answer) error {
	if ctx.Err() != nil {
		return attempt(ctx).Err // The library sends nothing.
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(c.settings.OperationTimeout)
	}
	longest, arrival := c.settings.Backoff[0], time.Time{} // An attempt that was given up may arrive until then.
	for attempts, isOnly := 1, true; ; isOnly = false {
		sent := time.Now()
		limited, cancel := context.WithTimeout(ctx, min(c.settings.AttemptTimeout, time.Until(deadline)))
		answer := attempt(limited)
		word, _ := answer.word()
		isLate := limited.Err() != nil
		cancel()
		if answer.IsRepeated {
			isOnly, arrival = false, time.Now().Add(c.settings.AttemptTimeout)
		}
		answer.IsLost = answer.IsLost || isLate
		left := time.Duration(0)
		if sent.Before(arrival) { // What has arrived since may have waited for this attempt.
			left = max(1, time.Until(arrival))
		}
		verdict, delay := answer.verdict(isOnly, left)
		if verdict != retry && verdict != running {
			c.budget.add(1)
		}
		if answer.Err == nil && len(answer.Metadata("idempotency-status")) == 0 {
			c.warn(procedure, "a success has no idempotency-status: does its server have the layer? Without it, each attempt of a call runs")
		}
		if verdict == ended {
			return answer.Err
		}
		if !answer.IsUnsent && word == "" {
			arrival = time.Now().Add(c.settings.AttemptTimeout)
		}
		pause := time.Duration(rand.Float64() * float64(longest)) // Clients that fail at one time do not come back at one time.
		longest = min(2*longest, c.settings.Backoff[1])
		if delay > 0 {
			pause = delay + min(pause, delay/10)
		}
		if verdict == running {
			pause = max(pause, c.settings.Backoff[0])
		}
		hasTime := ctx.Err() == nil && time.Until(deadline) > pause+10*time.Millisecond // Less is too little for an attempt.
		if !hasTime || verdict != running && (verdict != retry || attempts >= c.settings.MaxAttempts || !isLate && !c.budget.add(attemptCost)) {
			return &UnresolvedError{key, attempts, answer.Err}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return &UnresolvedError{key, attempts, answer.Err}
		}
		if verdict == retry {
			attempts++
		}
	}
}

package operation

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
)

// Answer is the answer of one attempt.
type Answer struct {
	Err             error // Nil for a success.
	Code            codes.Code
	Details         []*anypb.Any
	Metadata        func(name string) []string
	IsOwn           bool // The server has sent this status. A library makes one of a proxy's page, too.
	IsLost          bool // The connection was lost, or ended without a status.
	IsUnsent        bool // Nothing was sent.
	IsRepeated      bool // The library has sent the attempt more than once: an answer may be lost.
	reason, outcome string
	delay           time.Duration
}

// read reads the layer's words: a reason, or whether an error is recorded ("kept"), or not ("freed"); and the delay.
func (a *Answer) read() {
	a.delay = noDelay
	for _, detail := range a.Details {
		switch message, _ := detail.UnmarshalNew(); it := message.(type) {
		case *errdetails.ErrorInfo:
			if it.Domain == "tonic-idempotency" {
				a.reason = strings.TrimPrefix(it.Reason, "IDEMPOTENCY_")
			}
		case *errdetails.RetryInfo:
			if it.RetryDelay != nil && it.RetryDelay.Seconds >= 0 && it.RetryDelay.Nanos >= 0 {
				a.delay = min(it.RetryDelay.AsDuration(), time.Hour)
			}
		}
	}
	if values := a.Metadata("idempotency-outcome"); len(values) > 0 && (values[0] == "kept" || values[0] == "freed") {
		a.outcome = values[0]
	}
}

func (a *Answer) isOfLayer() bool { return a.reason != "" || a.outcome != "" }

// verdict judges the answer, and returns the delay that it asks for. Another attempt may arrive within a time, and run if the key is free.
func (a *Answer) verdict(isOnly bool, arrival time.Duration) (verdict, time.Duration) {
	if a.Err == nil {
		return ended, noDelay
	} else if a.IsLost && !a.isOfLayer() {
		return retry, noDelay
	}
	verdict, delay := ofCodes[a.Code], a.delay
	if refusal, ok := ofReasons[a.reason]; ok {
		verdict = refusal
	} else if a.outcome == "kept" {
		verdict = ended
	} else if a.Code == codes.ResourceExhausted && delay != noDelay {
		verdict = retry
	} else if a.outcome == "freed" && verdict != retry {
		verdict = freed
	} else if !a.IsOwn {
		isOnly = false
	}
	if verdict == freed && arrival > 0 {
		verdict, delay = retry, arrival
	} else if verdict == freed || verdict == final && isOnly {
		verdict = ended
	}
	if pushback := a.Metadata("grpc-retry-pushback-ms"); len(pushback) > 0 && (verdict == retry || verdict == running) {
		milliseconds, err := strconv.ParseUint(strings.TrimSpace(pushback[0]), 10, 64)
		if err != nil {
			return unknown, noDelay
		}
		delay = time.Duration(min(milliseconds, 3_600_000)) * time.Millisecond
	}
	return verdict, delay
}

// verdict is the meaning of an answer for its operation.
type verdict int

const (
	unknown verdict = iota // The outcome is unknown, and an immediate retry does not help.
	ended                  // It is the answer of the operation.
	final                  // The same if there are no other attempts; else unknown.
	freed                  // It has ended, and the key is free for an attempt that arrives later.
	retry                  // The same call may succeed later.
	running                // A call with the key runs. Asking for it is no attempt.
)

const noDelay time.Duration = -1

var ofReasons = map[string]verdict{
	"CONFLICT": retry, "HANDLER_TIMEOUT": retry, "OVERLOADED": retry, "REQUEST_TIMEOUT": retry, "SHUTTING_DOWN": retry, "STORE_UNAVAILABLE": retry,
	"IN_PROGRESS": running, "KEY_REUSED": ended, "RESPONSE_NOT_STORED": ended, "NOT_COMMITTED": freed, "OUTCOME_UNKNOWN": unknown,
	"CALLER_INVALID": final, "KEY_EXPIRED": final, "KEY_INVALID": final, "KEY_REQUIRED": final, "KEY_UNSUPPORTED": final, "NO_SCOPE": final,
	"NO_USER": final, "REQUEST_MALFORMED": final, "REQUEST_TOO_LARGE": final, "STORE_FAILED": final, "TOO_MANY_RECORDS": final,
}

// ofCodes has the verdicts on errors of which the layer says nothing. The others are unknown.
var ofCodes = map[codes.Code]verdict{
	codes.Canceled: retry, codes.DeadlineExceeded: retry, codes.Unavailable: retry, codes.AlreadyExists: final, codes.DataLoss: final,
	codes.FailedPrecondition: final, codes.InvalidArgument: final, codes.NotFound: final, codes.OutOfRange: final,
	codes.PermissionDenied: final, codes.Unauthenticated: final, codes.Unimplemented: final,
}

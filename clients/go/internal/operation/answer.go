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
	Err        error // Nil for a success.
	Code       codes.Code
	Details    []*anypb.Any
	Metadata   func(name string) []string
	IsOwn      bool // The server has sent this status. A library makes one of a proxy's page, too.
	IsLost     bool // The connection was lost, or ended without a status.
	IsUnsent   bool // Nothing was sent.
	IsRepeated bool // The library has sent the attempt more than once: an answer may be lost.
}

// word is the layer's: a reason; or "kept" if the error is recorded, and "freed" if it is not. The delay is 0 if the details ask for none.
func (a *Answer) word() (word string, delay time.Duration) {
	if values := a.Metadata("idempotency-outcome"); len(values) > 0 && (values[0] == "kept" || values[0] == "freed") {
		word = values[0]
	}
	for _, detail := range a.Details {
		switch message, _ := detail.UnmarshalNew(); it := message.(type) {
		case *errdetails.ErrorInfo:
			if it.Domain == "tonic-idempotency" {
				word = strings.TrimPrefix(it.Reason, "IDEMPOTENCY_")
			}
		case *errdetails.RetryInfo:
			if it.RetryDelay != nil && it.RetryDelay.Seconds >= 0 && it.RetryDelay.Nanos >= 0 {
				delay = min(max(it.RetryDelay.AsDuration(), 1), time.Hour)
			}
		}
	}
	return word, delay
}

// verdict judges the answer, and returns the delay that it asks for. Another attempt may arrive within a time, and run if the key is free.
func (a *Answer) verdict(isOnly bool, arrival time.Duration) (verdict, time.Duration) {
	word, delay := a.word()
	verdict, known := ofWords[word]
	byCode := ofCodes[a.Code]
	if a.Code == codes.ResourceExhausted && delay > 0 {
		byCode = retry
	}
	if !known || word == "freed" && byCode == retry {
		verdict, isOnly = byCode, isOnly && a.IsOwn
	}
	switch {
	case a.Err == nil:
		return ended, 0
	case a.IsLost && word == "":
		return retry, 0
	}
	if pushback := a.Metadata("grpc-retry-pushback-ms"); len(pushback) > 0 && (verdict == retry || verdict == running) {
		milliseconds, err := strconv.ParseUint(strings.TrimSpace(pushback[0]), 10, 64)
		if err != nil {
			return unknown, 0
		}
		delay = max(1, time.Duration(min(milliseconds, 3_600_000))*time.Millisecond)
	}
	switch {
	case verdict == freed && arrival > 0:
		return retry, arrival
	case verdict == freed, verdict == final && isOnly:
		return ended, 0
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

var ofWords = map[string]verdict{
	"kept": ended, "freed": freed, "IN_PROGRESS": running, "KEY_REUSED": ended, "RESPONSE_NOT_STORED": ended, "NOT_COMMITTED": freed,
	"CONFLICT": retry, "HANDLER_TIMEOUT": retry, "OVERLOADED": retry, "REQUEST_TIMEOUT": retry, "SHUTTING_DOWN": retry, "STORE_UNAVAILABLE": retry,
	"CALLER_INVALID": final, "KEY_EXPIRED": final, "KEY_INVALID": final, "KEY_REQUIRED": final, "KEY_UNSUPPORTED": final, "NO_SCOPE": final,
	"NO_USER": final, "REQUEST_MALFORMED": final, "REQUEST_TOO_LARGE": final, "STORE_FAILED": final, "TOO_MANY_RECORDS": final,
	"OUTCOME_UNKNOWN": unknown,
}

// ofCodes has the verdicts on errors without a word. The others are unknown.
var ofCodes = map[codes.Code]verdict{
	codes.Canceled: retry, codes.DeadlineExceeded: retry, codes.Unavailable: retry, codes.AlreadyExists: final, codes.DataLoss: final,
	codes.FailedPrecondition: final, codes.InvalidArgument: final, codes.NotFound: final, codes.OutOfRange: final,
	codes.PermissionDenied: final, codes.Unauthenticated: final, codes.Unimplemented: final,
}

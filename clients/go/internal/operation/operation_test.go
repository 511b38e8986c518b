package operation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

const procedure = "/orders.v1.OrderService/CreateOrder"

var errAnswer = errors.New("an answer")

// answered returns an error of a server with this metadata, as pairs.
func answered(code codes.Code, metadata ...string) Answer {
	return Answer{Err: errAnswer, Code: code, IsOwn: true, Metadata: func(name string) (values []string) {
		for i := 0; i < len(metadata); i += 2 {
			if metadata[i] == name {
				values = append(values, metadata[i+1])
			}
		}
		return values
	}}
}

// detailed returns an error with these details.
func detailed(code codes.Code, messages ...proto.Message) Answer {
	answer := answered(code)
	for _, message := range messages {
		detail, err := anypb.New(message)
		if err != nil {
			panic(err)
		}
		answer.Details = append(answer.Details, detail)
	}
	return answer
}

func retryInfo(delay time.Duration) proto.Message {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}
}

func reason(reason string) proto.Message {
	return &errdetails.ErrorInfo{Domain: "tonic-idempotency", Reason: reason}
}

var success = Answer{Metadata: func(string) []string { return []string{"completed"} }}

// run runs an operation whose attempts have these answers, the last of them again and again. It returns the pauses before the attempts.
func run(client *Client, answers ...Answer) (pauses []time.Duration, err error) {
	last, made := time.Now(), 0
	err = client.Run(context.Background(), procedure, "key", func(context.Context) Answer {
		pauses = append(pauses, time.Since(last))
		last = time.Now()
		made++
		return answers[min(made, len(answers))-1]
	})
	return pauses[1:], err
}

func TestPausesAreRandomAndGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := NewClient(Settings{OperationTimeout: time.Hour})
		var sums [9]time.Duration
		for range 10 {
			pauses, err := run(client, answered(codes.Unavailable))
			var unresolved *UnresolvedError
			if !errors.As(err, &unresolved) || unresolved.Attempts != 10 || unresolved.Key != "key" || unresolved.Cause != errAnswer {
				t.Fatal(err)
			}
			for i, pause := range pauses {
				if longest := min(50*time.Millisecond<<i, 5*time.Second); pause > longest {
					t.Errorf("pause %d is %v", i, pause)
				}
				sums[i] += pause
			}
		}
		if sums[0] == 0 || sums[8] < 8*sums[0] || sums[8]%time.Millisecond == 0 {
			t.Errorf("the pauses do not grow: %v", sums)
		}
	})
}

func TestADelayOfTheServerIsObeyed(t *testing.T) {
	for name, test := range map[string]struct {
		answer Answer
		least  time.Duration
	}{
		"RetryInfo":                 {detailed(codes.Unavailable, retryInfo(30*time.Second)), 30 * time.Second},
		"RetryInfo of a reason":     {detailed(codes.Aborted, retryInfo(30*time.Second), reason("IDEMPOTENCY_CONFLICT")), 30 * time.Second},
		"RetryInfo of a running":    {detailed(codes.Aborted, reason("IDEMPOTENCY_IN_PROGRESS"), retryInfo(30*time.Second)), 30 * time.Second},
		"RetryInfo of many hours":   {detailed(codes.Unavailable, retryInfo(48*time.Hour)), time.Hour},
		"RetryInfo of a century":    {detailed(codes.Unavailable, &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: 1 << 60}}), time.Hour},
		"pushback":                  {answered(codes.Unavailable, "grpc-retry-pushback-ms", " 30000 "), 30 * time.Second},
		"pushback of many hours":    {answered(codes.Unavailable, "grpc-retry-pushback-ms", "18446744073709551615"), time.Hour},
		"running, and no delay":     {detailed(codes.Aborted, reason("IDEMPOTENCY_IN_PROGRESS"), retryInfo(0)), 50 * time.Millisecond},
		"RetryInfo that is invalid": {detailed(codes.Unavailable, &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: -30}}), 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			pauses, err := run(NewClient(Settings{OperationTimeout: 3 * time.Hour}), test.answer, success)
			if err != nil || len(pauses) != 1 {
				t.Fatal(name, pauses, err)
			}
			if most := test.least + min(test.least/10, 50*time.Millisecond); test.least > 0 && (pauses[0] < test.least || pauses[0] > most) {
				t.Errorf("%s: a pause of %v", name, pauses[0])
			}
			if test.least == 0 && pauses[0] > 50*time.Millisecond {
				t.Errorf("%s: a pause of %v", name, pauses[0])
			}
		})
	}
}

func TestADelayWithoutTimeForItIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := run(NewClient(Settings{}), answered(codes.Unavailable, "grpc-retry-pushback-ms", "60000"))
		if !errors.As(err, new(*UnresolvedError)) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestAFreeKeyIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := answered(codes.InvalidArgument, "idempotency-outcome", "freed")
		// The lost attempt may arrive for 10 s. When it is over, the second error ends the operation.
		pauses, err := run(NewClient(Settings{}), answered(codes.Unavailable), freed)
		if err != errAnswer || len(pauses) != 2 || pauses[0]+pauses[1] < 10*time.Second || pauses[1] < 9*time.Second {
			t.Errorf("%v after %v", err, pauses)
		}
		// There is nothing to wait for if the layer has answered, or nothing was sent.
		unsent := answered(codes.Unavailable)
		unsent.IsUnsent = true
		for _, first := range []Answer{detailed(codes.Unavailable, reason("IDEMPOTENCY_OVERLOADED")), unsent} {
			if pauses, err := run(NewClient(Settings{}), first, freed); err != errAnswer || len(pauses) != 1 {
				t.Errorf("%v after %v", err, pauses)
			}
		}
	})
}

func TestAnAttemptThatAnotherMayHaveWaitedForDoesNotEndItsOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		err := NewClient(Settings{}).Run(context.Background(), procedure, "key", func(ctx context.Context) Answer {
			switch made++; made {
			case 1:
				<-ctx.Done()
				return answered(codes.DeadlineExceeded)
			case 2: // The first one has arrived meanwhile, and waits. It could not arrive any more when this one fails.
				time.Sleep(9999 * time.Millisecond)
				return answered(codes.NotFound, "idempotency-outcome", "freed")
			default:
				return success
			}
		})
		if err != nil || made != 3 {
			t.Errorf("%v after %d attempts", err, made)
		}
	})
}

func TestAnAttemptThatWasRepeatedIsNotTheOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repeated := answered(codes.NotFound)
		repeated.IsRepeated = true
		if _, err := run(NewClient(Settings{}), repeated); !errors.As(err, new(*UnresolvedError)) {
			t.Error(err)
		}
		repeated = answered(codes.NotFound, "idempotency-outcome", "freed")
		repeated.IsRepeated = true
		pauses, err := run(NewClient(Settings{}), repeated, answered(codes.NotFound, "idempotency-outcome", "freed"))
		if err != errAnswer || len(pauses) != 1 || pauses[0] < 10*time.Second {
			t.Errorf("%v after %v", err, pauses)
		}
	})
}

func TestAReplacedAttemptCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := NewClient(Settings{OperationTimeout: time.Hour, AttemptTimeout: time.Millisecond, MaxAttempts: 201})
		made := 0
		err := client.Run(context.Background(), procedure, "key", func(ctx context.Context) Answer {
			made++
			<-ctx.Done()
			answer := answered(codes.DeadlineExceeded)
			answer.IsOwn = false
			return answer
		})
		if made != 201 || !errors.As(err, new(*UnresolvedError)) {
			t.Errorf("%d attempts: %v", made, err)
		}
		for i := range 100 {
			if !client.budget.add(attemptCost) {
				t.Fatalf("the budget has only %d attempts", i)
			}
		}
	})
}

func TestTheBudgetIsThatOfTheLastSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var budget budget
		spend := func() (spent int) {
			for budget.add(attemptCost) {
				spent++
			}
			return spent
		}
		if spent := spend(); spent != 100 {
			t.Errorf("%d at first", spent)
		}
		for range 50 {
			budget.add(1)
		}
		if spent := spend(); spent != 10 {
			t.Errorf("%d for 50 answered calls", spent)
		}
		time.Sleep(9 * time.Second)
		if spent := spend(); spent != 0 {
			t.Errorf("%d after 9 s", spent)
		}
		time.Sleep(time.Second)
		if spent := spend(); spent != 100 {
			t.Errorf("%d after 10 s", spent)
		}
		time.Sleep(time.Hour)
		if spent := spend(); spent != 100 {
			t.Errorf("%d after an hour", spent)
		}
	})
}

func TestKeysAreOfVersion7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // It is midnight, at the beginning of 2000.
		seen := map[string]bool{}
		for range 1000 {
			key := NewKey()
			if key[:15] != "00dc6acf-ac00-7" || len(key) != 36 || key[18] != '-' || seen[key] || key[19] < '8' || key[19] > 'b' {
				t.Fatalf("not a new key: %s", key)
			}
			seen[key] = true
		}
	})
}

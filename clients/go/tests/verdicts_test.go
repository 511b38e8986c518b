package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
)

// row is a row of verdicts.json.
type row struct {
	Reason    string `json:"reason"`
	Code      string `json:"code"`
	Outcome   string `json:"outcome"`
	RetryInfo *bool  `json:"retry_info"`
	Pushback  string `json:"pushback"`
	Message   *bool  `json:"message"`
	NoStatus  string `json:"no_status"`
	Only      string `json:"only"`
	AfterLost string `json:"after_lost"`
}

func (r row) String() string {
	facts := r.Reason + r.Code + r.NoStatus
	for _, fact := range []string{r.Outcome, r.Pushback} {
		if fact != "" {
			facts += " " + fact
		}
	}
	if r.RetryInfo != nil {
		facts += " RetryInfo"
	}
	if r.Message != nil {
		facts += fmt.Sprint(" message ", *r.Message)
	}
	return facts
}

func readRows(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("../../verdicts.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct{ Rows []row }
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) < 80 {
		t.Fatalf("the table has only %d rows", len(table.Rows))
	}
	return table.Rows
}

// cannotOccur returns why no answer in a protocol has the facts of the row.
func (r row) cannotOccur(protocol string) string {
	switch {
	case protocol == overConnect && r.NoStatus == "incomplete":
		return "an answer of Connect has no status besides that of HTTP"
	case protocol == overConnect && r.Message != nil && !*r.Message:
		return "an answer of Connect with an empty body has a message, which is empty"
	}
	return ""
}

// cannotBeTold returns why a client takes the answer to an only attempt as one after a lost answer.
func (r row) cannotBeTold(protocol string) string {
	ofPages := map[string]bool{"PERMISSION_DENIED": true, "UNAUTHENTICATED": true, "UNIMPLEMENTED": true}
	if protocol == overConnect && ofPages[r.Code] && r.Outcome == "" {
		return "connect-go makes the same error of a page in JSON without a code, and says that it is the server's"
	}
	return ""
}

// responses returns responses that have the facts of the row in a protocol, by their names.
func (r row) responses(t *testing.T, protocol string) map[string]response {
	contentType := field{"content-type", map[string]string{overGRPC: "application/grpc", overGRPCWeb: "application/grpc-web+proto"}[protocol]}
	switch r.NoStatus {
	case "":
		return r.answers(t, protocol)
	case "broken":
		broken := map[string]response{"": lost}
		header := []field{contentType}
		if protocol == overConnect {
			header = created.over(protocol).header
		}
		broken["after the header"] = response{status: 200, header: header, end: closed}
		if protocol == overGRPC {
			broken["by a reset"] = response{end: reset}
			broken["by a reset after the header"] = response{status: 200, header: header, end: reset}
		}
		return broken
	case "incomplete":
		header := []field{contentType}
		return map[string]response{
			"without a message": {status: 200, header: header},
			"with a message":    {status: 200, header: header, body: frame(0, created.message())},
		}
	case "page":
		pages := map[string]response{}
		for _, status := range []int{200, 400, 401, 403, 404, 500} {
			pages[fmt.Sprint("HTML ", status)] = html(status)
			pages[fmt.Sprint("JSON ", status)] = page(status, "application/json", `{"message": "no Route matched"}`)
			pages[fmt.Sprint("JSON with a number ", status)] = page(status, "application/json", `{"code": 5, "message": "none"}`)
		}
		return pages
	default:
		status, err := strconv.Atoi(r.NoStatus)
		if err != nil {
			t.Fatalf("an unknown fact: %q", r.NoStatus)
		}
		return map[string]response{"HTML": html(status), "JSON": page(status, "application/json", `{"message": "none"}`)}
	}
}

func (r row) answers(t *testing.T, protocol string) map[string]response {
	// A reason may have any code: the verdict is that of the reason. NOT_FOUND would be "ended", and UNAVAILABLE "retry".
	answers := map[string]answer{}
	for _, it := range []code.Code{code.Code_NOT_FOUND, code.Code_UNAVAILABLE} {
		answers[it.String()] = answer{code: it, reason: r.Reason}
	}
	if r.Code != "" {
		number, ok := code.Code_value[r.Code]
		if !ok {
			t.Fatalf("an unknown code: %q", r.Code)
		}
		answers = map[string]answer{"": {code: code.Code(number)}}
	}
	responses := map[string]response{}
	for name, it := range answers {
		if r.Message != nil {
			it.hasNoMessage = !*r.Message
		}
		if r.Outcome != "" {
			it.metadata = append(it.metadata, field{"idempotency-outcome", r.Outcome})
		}
		if r.RetryInfo != nil {
			it.retryAfter = duration(time.Millisecond)
		}
		if r.Pushback == "never" {
			it.metadata = append(it.metadata, field{"grpc-retry-pushback-ms", "-1"})
		}
		responses[name] = it.over(protocol)
		if protocol != overConnect && it.code != 0 {
			it.isInTrailers = true
			responses[name+" in trailers"] = it.over(protocol)
		}
	}
	return responses
}

// verdictOf returns the verdict of a client on a response, after these, by its requests and its result.
func verdictOf(t *testing.T, caller caller, before []response, last response) string {
	t.Helper()
	made := len(before) + 1
	settings := quick
	settings.AttemptTimeout = time.Hour
	serve := func() *rawServer {
		return serve(t, append(append([]response(nil), before...), last, created.over(caller.protocol))...)
	}
	try := func(attempts int) (result, int) {
		settings.MaxAttempts = attempts
		server := serve()
		result := caller.dial(t, server, settings)(context.Background(), createOrder, "")
		return result, len(server.received())
	}
	result, requests := try(made + 1)
	switch {
	case requests == made && result.unresolved() == nil:
		return "ended"
	case requests == made:
		// An operation of a minute has no time to wait for an attempt that may arrive within an hour. A longer one waits.
		settings.OperationTimeout = 3 * time.Hour
		server := serve()
		if waits(t, caller.dial(t, server, settings), server, made) {
			return "ended later"
		}
		return "unknown"
	case requests != made+1 || result.err != nil:
		return fmt.Sprintf("%d requests, and %v", requests, result.err)
	}
	if _, requests := try(made); requests == made+1 {
		return "running"
	}
	return "retry"
}

// waits returns whether a call waits after these requests, and not for an answer. The stack of its goroutine tells: a busy machine may take any
// time to bring an answer.
func waits(t *testing.T, call call, server *rawServer, requests int) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan result, 1)
	go pprof.Do(ctx, pprof.Labels("test", t.Name()), func(ctx context.Context) { ended <- call(ctx, createOrder, "") })
	for looks := 0; looks < 2; {
		select {
		case <-ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
		if len(server.received()) == requests && isInRun(t.Name()) {
			looks++ // It may have been on its way out of there.
		}
	}
	return true
}

// isInRun returns whether a goroutine with this label is in the function that makes attempts, and not in one of them.
func isInRun(label string) bool {
	var profile bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&profile, 1)
	for goroutine := range strings.SplitSeq(profile.String(), "\n\n") {
		_, after, found := strings.Cut(goroutine, strconv.Quote(label)+"}\n")
		if innermost, _, _ := strings.Cut(after, "\n"); found && strings.Contains(innermost, "operation.(*Client).Run+") {
			return true
		}
	}
	return false
}

func TestEachRow(t *testing.T) {
	rows := readRows(t)
	onEach(t, func(t *testing.T, caller caller) {
		for _, row := range rows {
			if reason := row.cannotOccur(caller.protocol); reason != "" {
				t.Logf("%v: %s", row, reason)
				continue
			}
			responses := row.responses(t, caller.protocol)
			if len(responses) == 0 {
				t.Errorf("%v: no response", row)
			}
			for name, last := range responses {
				t.Run(fmt.Sprint(row, " ", name), func(t *testing.T) {
					t.Parallel()
					only := row.Only
					if row.cannotBeTold(caller.protocol) != "" {
						only = row.AfterLost
					}
					if got := verdictOf(t, caller, nil, last); got != only {
						t.Errorf("the only attempt: %s, and not %s", got, only)
					}
					if got := verdictOf(t, caller, []response{lost}, last); got != row.AfterLost {
						t.Errorf("after a lost answer: %s, and not %s", got, row.AfterLost)
					}
				})
			}
		}
	})
}

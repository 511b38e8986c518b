package tests

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// field is a header, or a trailer.
type field struct{ name, value string }

// response is what a server sends, byte for byte.
type response struct {
	// status is that of HTTP. If it is 0, nothing is sent.
	status int
	header []field
	body   []byte
	// trailer is sent after the body, over HTTP/2. If it is nil, the stream ends without one.
	trailer []field
	// end says what follows.
	end ending
}

type ending int

const (
	complete ending = iota
	// closed: the connection is closed.
	closed
	// open: nothing follows, and the connection stays.
	open
	// reset: the stream ends with RST_STREAM and the code INADEQUATE_SECURITY, over HTTP/2.
	reset
)

var (
	// lost is a response that never arrives, as the connection breaks.
	lost = response{end: closed}
	// late is a response that does not come.
	late = response{end: open}
)

// request is a request as the server got it.
type request struct {
	path   string
	header http.Header
	body   []byte
	at     time.Time
}

func (r request) key() string { return r.header.Get("idempotency-key") }

// rawServer answers the requests to it with the responses of a script. The last of them is repeated.
type rawServer struct {
	// socket is a path: many tests would use up the ports.
	socket string

	mutex    sync.Mutex
	script   []response
	requests []request
}

// The directory of the sockets, and the number of servers until now.
var (
	sockets string
	servers atomic.Int64
)

// serve starts a server that speaks HTTP/1.1 and HTTP/2 without TLS. It ends with the test.
func serve(t testing.TB, script ...response) *rawServer {
	t.Helper()
	socket := filepath.Join(sockets, strconv.FormatInt(servers.Add(1), 10))
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	server := &rawServer{socket: socket, script: script}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { connection.Close() })
			go server.connection(connection)
		}
	}()
	return server
}

// received returns the requests until now.
func (s *rawServer) received() []request {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]request(nil), s.requests...)
}

// next notes a request, and returns the response to it.
func (s *rawServer) next(request request) response {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	request.at = time.Now()
	s.requests = append(s.requests, request)
	return s.script[min(len(s.requests), len(s.script))-1]
}

func (s *rawServer) connection(connection net.Conn) {
	defer connection.Close()
	reader := bufio.NewReader(connection)
	if start, err := reader.Peek(4); err == nil && string(start) == "PRI " {
		s.http2(connection, reader)
	} else {
		s.http1(connection, reader)
	}
}

func (s *rawServer) http1(connection net.Conn, reader *bufio.Reader) {
	for {
		got, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		body, err := io.ReadAll(got.Body)
		if err != nil {
			return
		}
		response := s.next(request{path: got.URL.Path, header: got.Header, body: body})
		if response.status > 0 {
			var out bytes.Buffer
			fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\n", response.status, http.StatusText(response.status))
			length := len(response.body)
			if response.end != complete {
				length++
			}
			fmt.Fprintf(&out, "content-length: %d\r\n", length)
			for _, field := range response.header {
				fmt.Fprintf(&out, "%s: %s\r\n", field.name, field.value)
			}
			fmt.Fprintf(&out, "\r\n%s", response.body)
			connection.Write(out.Bytes())
		}
		switch response.end {
		case closed:
			return
		case open:
			io.Copy(io.Discard, reader)
			return
		}
	}
}

func (s *rawServer) http2(connection net.Conn, reader *bufio.Reader) {
	if _, err := reader.Discard(len(http2.ClientPreface)); err != nil {
		return
	}
	framer := http2.NewFramer(connection, reader)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.WriteSettings()
	requests := map[uint32]*request{}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		id, ended := frame.Header().StreamID, false
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				framer.WritePing(true, frame.Data)
			}
		case *http2.MetaHeadersFrame:
			got := &request{header: http.Header{}, path: frame.PseudoValue("path")}
			for _, field := range frame.RegularFields() {
				got.header.Add(field.Name, field.Value)
			}
			requests[id], ended = got, frame.StreamEnded()
		case *http2.DataFrame:
			if requests[id] != nil {
				requests[id].body = append(requests[id].body, frame.Data()...)
			}
			ended = frame.StreamEnded()
		}
		if ended && requests[id] != nil {
			response := s.next(*requests[id])
			delete(requests, id)
			if !response.writeTo(framer, id) {
				return
			}
		}
	}
}

// writeTo writes a response of HTTP/2, and returns whether the connection stays.
func (r response) writeTo(framer *http2.Framer, id uint32) bool {
	isLast := r.end == complete && len(r.body) == 0 && r.trailer == nil
	if r.status > 0 {
		status := field{":status", fmt.Sprint(r.status)}
		framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: encoded(append([]field{status}, r.header...)), EndHeaders: true, EndStream: isLast,
		})
		if !isLast && len(r.body) > 0 {
			framer.WriteData(id, r.end == complete && r.trailer == nil, r.body)
		}
		if r.trailer != nil {
			framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: id, BlockFragment: encoded(r.trailer), EndHeaders: true, EndStream: true,
			})
		}
	}
	if r.end == reset {
		framer.WriteRSTStream(id, http2.ErrCodeInadequateSecurity)
	}
	return r.end != closed
}

// encoded returns the block of these headers.
func encoded(fields []field) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range fields {
		encoder.WriteField(hpack.HeaderField{Name: strings.ToLower(field.name), Value: field.value})
	}
	return block.Bytes()
}

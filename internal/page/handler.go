package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// MaxWatchers is the most streams at a time. Each costs what it sends.
	MaxWatchers = 16

	retryAfter  = 10 * time.Second // for a watcher beyond MaxWatchers
	writeWithin = 10 * time.Second // if a reader takes longer for a change, its stream ends
)

// Handler serves the page of a process, below a path that ends in a slash.
type Handler struct {
	recorder *recorder
	servers  sync.Map // *http.Server -> chan struct{}, closed when it shuts down
}

// New returns a handler that looks at the process while requests come.
func New(p Process) *Handler { return &Handler{recorder: newRecorder(p)} }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "the page only shows: GET and HEAD are all that it answers", http.StatusMethodNotAllowed)
		return
	}
	file := path.Base(r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/") || r.URL.Path == "" {
		file = ""
	}
	switch file {
	case "":
		h.page(w, r)
	case "events":
		h.events(w, r)
	case "dump":
		h.dump(w, r)
	case "page.css", "page.js":
		http.ServeFileFS(w, r, static, "static/"+file)
	default:
		http.Error(w, "there is no such page; the page of the pools is at the path that the handler was registered for, with a slash at its end", http.StatusNotFound)
	}
}

// errNoPool is for a request that names a pool that does not exist.
var errNoPool = errors.New("there is no such pool; it may have ended, and numbers are not used again")

// wanted returns the pool that a request names, or the first pool if it names none, or nil if there is no pool. Under
// the recorder's mu.
func (h *Handler) wanted(r *http.Request) (*record, error) {
	name := r.URL.Query().Get("pool")
	if name == "" {
		if len(h.recorder.order) == 0 {
			return nil, nil
		}
		return h.recorder.order[0], nil
	}
	id, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("pool=%q: this should be the number of a pool", name)
	}
	if rec := h.recorder.records[id]; rec != nil {
		return rec, nil
	}
	return nil, errNoPool
}

// whole is the data of the template of the page.
type whole struct {
	Record  *record
	List    template.HTML
	Absent  string
	process Process
}

// Part returns one of the record's parts.
func (p whole) Part(name string) template.HTML {
	return template.HTML(p.Record.part(name, p.process))
}

// Strip returns the chart of the workers.
func (p whole) Strip() template.HTML { return template.HTML(p.Record.strip()) }

func (h *Handler) page(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	status := http.StatusOK
	func() {
		rec := h.recorder
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.visit()
		shown, err := h.wanted(r)
		p := whole{Record: shown, List: template.HTML(rec.list(shown)), Absent: "There is no pool in the process. This page shows one when there is.", process: rec.process}
		if err != nil {
			status, p.Absent = http.StatusNotFound, "Here "+err.Error()+"."
		}
		b.WriteString(render("page.html", p))
	}()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = b.WriteTo(w) // after an error the reader is gone
	}
}

// list returns the line of pools.
func (r *recorder) list(shown *record) string {
	type pool struct {
		ID         uint64
		Name, Busy string
		Here       bool
	}
	var pools []pool
	for _, rec := range r.order {
		p := pool{ID: rec.ID, Name: rec.config.Name, Here: rec == shown}
		if p.Name == "" {
			p.Name = fmt.Sprintf("pool %d", rec.ID)
		}
		if len(rec.columns) > 0 {
			p.Busy = short(rec.mean(0)) + "%"
		}
		pools = append(pools, p)
	}
	return render("list", pools)
}

// dump serves the dump of a pool as text, taken now.
func (h *Handler) dump(w http.ResponseWriter, r *http.Request) {
	h.recorder.mu.Lock()
	h.recorder.visit()
	rec, err := h.wanted(r)
	h.recorder.mu.Unlock()
	if err == nil && rec == nil {
		err = errors.New("there is no pool in the process")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.Method == http.MethodGet {
		_ = rec.Dump(w) // after an error the reader is gone
	}
}

// update is what has changed since the last update of a stream.
type update struct {
	Parts   map[string]string `json:"parts"`   // by the ids of elements
	Columns []string          `json:"columns"` // to append to the strip
	Keep    int               `json:"keep"`    // columns that the strip has then, at most
	Ended   bool              `json:"ended"`   // the pool has ended
	Reload  bool              `json:"reload"`  // there was no pool, and now there is
}

// watcher is the reader of a stream.
type watcher struct {
	pool   uint64 // 0 for none
	sent   map[string]string
	tick   uint64 // of the last column that was sent
	layout int    // of the rows when the strip was sent; -1 before
}

// change returns what has changed for a watcher. Under the recorder's mu.
func (r *recorder) change(w *watcher) update {
	u := update{Parts: make(map[string]string), Columns: []string{}, Keep: columns}
	rec := r.records[w.pool]
	put := func(name, html string) {
		if old, ok := w.sent[name]; !ok || old != html {
			w.sent[name] = html
			u.Parts[name] = html
		}
	}
	put("list", r.list(rec))
	if rec == nil {
		u.Ended, u.Reload = w.pool != 0, w.pool == 0 && len(r.order) > 0
		return u
	}
	for _, name := range partNames {
		put(name, rec.part(name, r.process))
	}
	if w.layout != rec.layout {
		u.Parts["strip"] = rec.strip()
		w.layout, w.tick = rec.layout, r.tick
		return u
	}
	for _, c := range rec.columns {
		if c.tick > w.tick {
			u.Columns = append(u.Columns, rec.column(c, columns-1))
		}
	}
	w.tick = r.tick
	return u
}

// events serves the stream of changes, as server-sent events.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	rec := h.recorder
	rec.mu.Lock()
	rec.visit()
	shown, err := h.wanted(r)
	full := rec.streams >= MaxWatchers
	if err == nil && !full && r.Method == http.MethodGet {
		rec.streams++
		defer func() {
			rec.mu.Lock()
			rec.streams--
			rec.visited = time.Now()
			rec.mu.Unlock()
		}()
	}
	rec.mu.Unlock()
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case full:
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		http.Error(w, fmt.Sprintf("%d watch already, which is the most", MaxWatchers), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies should pass it on as it comes
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	watcher := watcher{sent: make(map[string]string), layout: -1}
	if shown != nil {
		watcher.pool = shown.ID
	}
	control := http.NewResponseController(w)
	shutdown := h.shutdown(r.Context())
	for {
		rec.mu.Lock()
		u := rec.change(&watcher)
		next := rec.next
		rec.mu.Unlock()
		line, err := json.Marshal(u)
		if err != nil {
			return // strings and numbers can be written
		}
		if err := control.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", line); err != nil || control.Flush() != nil || u.Ended || u.Reload {
			return
		}
		select {
		case <-next:
		case <-r.Context().Done():
			return
		case <-shutdown:
			return
		}
	}
}

// shutdown returns a channel that is closed when the request's server shuts down: Shutdown waits for requests, and a
// stream has no end of its own.
func (h *Handler) shutdown(ctx context.Context) <-chan struct{} {
	server, ok := ctx.Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return nil
	}
	c, known := h.servers.LoadOrStore(server, make(chan struct{}))
	down := c.(chan struct{})
	if !known {
		server.RegisterOnShutdown(sync.OnceFunc(func() {
			h.servers.Delete(server)
			close(down)
		}))
	}
	return down
}

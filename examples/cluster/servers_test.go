package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// page is docs/cluster.md, whose configurations and permissions these tests use.
func page(t *testing.T) string {
	text, err := os.ReadFile("../../docs/cluster.md")
	require.NoError(t, err)
	return string(text)
}

// part returns what the page has between two lines, without the indentation of code.
func part(t *testing.T, page, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, from)
	require.True(t, ok, "docs/cluster.md has no %q", from)
	text, _, ok := strings.Cut(rest, to)
	require.True(t, ok, "docs/cluster.md has no %q after it", to)
	return from + regexp.MustCompile(`(?m)^ {4}`).ReplaceAllString(text, "")
}

// authority is a certificate authority of its own.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir string) *authority {
	a := &authority{t: t, dir: dir}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	return a
}

// sign writes NAME.pem and NAME-key.pem.
func (a *authority) sign(name string, c, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	if parent == nil {
		parent, by = c, key
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	require.NoError(a.t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	a.write(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	a.write(name+"-key.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
	signed, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return signed, key
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) write(name string, data []byte) {
	require.NoError(a.t, os.WriteFile(a.path(name), data, 0o600))
}

// accounts writes accounts.conf and worker.creds, as nsc does: an operator, the system's account, and one with JetStream whose user may
// do what the page says that a worker needs.
func (a *authority) accounts(publish, subscribe []string) {
	pair := func(make func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		k, err := make()
		require.NoError(a.t, err)
		public, err := k.PublicKey()
		require.NoError(a.t, err)
		return k, public
	}
	signed := func(claims jwt.Claims, by nkeys.KeyPair) string {
		text, err := claims.Encode(by)
		require.NoError(a.t, err)
		return text
	}
	operator, operatorKey := pair(nkeys.CreateOperator)
	_, systemKey := pair(nkeys.CreateAccount)
	account, accountKey := pair(nkeys.CreateAccount)
	user, userKey := pair(nkeys.CreateUser)

	jobs := jwt.NewAccountClaims(accountKey)
	jobs.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	worker := jwt.NewUserClaims(userKey)
	worker.Pub.Allow.Add(publish...)
	worker.Sub.Allow.Add(subscribe...)
	top := jwt.NewOperatorClaims(operatorKey)
	top.SystemAccount = systemKey

	a.write("accounts.conf", fmt.Appendf(nil, "operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: { %s: %s, %s: %s }\n",
		signed(top, operator), systemKey, systemKey, signed(jwt.NewAccountClaims(systemKey), operator), accountKey, signed(jobs, operator)))
	seed, err := user.Seed()
	require.NoError(a.t, err)
	creds, err := jwt.FormatUserConfig(signed(worker, account), seed)
	require.NoError(a.t, err)
	a.write("worker.creds", creds)
}

// freePorts returns ports that nobody listens at.
func freePorts(t *testing.T, n int) (ports []int) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// startCluster starts three servers with the page's configurations, on this machine: with other ports and paths.
func startCluster(t *testing.T, a *authority) (servers []*server.Server, url string) {
	text := page(t)
	configuration := part(t, text, "server_name: a", "\n`nats-server") + part(t, text, "tls {", "\n\n")
	names, ports := []string{"a", "b", "c"}, freePorts(t, 6)
	var urls []string
	for i, name := range names {
		a.sign(name, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, a.cert, a.key)
		var routes []string
		for k := range names {
			if k != i {
				routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[3+k]))
			}
		}
		changed := configuration
		for _, change := range [][2]string{
			{"server_name: a", "server_name: " + name},
			{"0.0.0.0:4222", fmt.Sprintf("127.0.0.1:%d", ports[i])},
			{"0.0.0.0:6222", fmt.Sprintf("127.0.0.1:%d", ports[3+i])},
			{"nats://b:6222, nats://c:6222", strings.Join(routes, ", ")},
			{"/var/lib/nats", t.TempDir()},
			{"100G", "1G"},
			{"/etc/nats/cert.pem", a.path(name + ".pem")},
			{"/etc/nats/key.pem", a.path(name + "-key.pem")},
			{"/etc/nats/ca.pem", a.path("ca.pem")},
		} {
			require.Contains(t, changed, change[0])
			changed = strings.Replace(changed, change[0], change[1], 1)
		}
		a.write(name+".conf", []byte(changed))
		o, err := server.ProcessConfigFile(a.path(name + ".conf"))
		require.NoError(t, err, changed)
		o.NoLog, o.NoSigs = true, true
		s, err := server.NewServer(o)
		require.NoError(t, err)
		go s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
		urls = append(urls, fmt.Sprintf("tls://127.0.0.1:%d", ports[i]))
	}
	require.True(t, testutil.Eventually(func() bool {
		for _, s := range servers {
			if s.JetStreamIsLeader() {
				return len(s.JetStreamClusterPeers()) == len(names)
			}
		}
		return false
	}), "the servers choose no leader")
	return servers, strings.Join(urls, ",")
}

// ender ends something when the workers have begun.
type ender struct {
	bytes.Buffer
	once sync.Once
	end  func()
}

func (e *ender) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("worker processes")) {
		e.once.Do(func() { time.AfterFunc(300*time.Millisecond, e.end) })
	}
	return e.Buffer.Write(b)
}

// TestThreeServersWithTLSAndCredentialsLoseOneAndNoJob follows docs/cluster.md.
func TestThreeServersWithTLSAndCredentialsLoseOneAndNoJob(t *testing.T) {
	if testing.Short() || testutil.Short() {
		t.Skip("takes a while; HEIST_VERIFY=ci runs it")
	}
	a := newAuthority(t, t.TempDir())
	allowed := part(t, page(t), "A worker needs to publish to", "\n\n")
	var publish, subscribe []string
	to, from, _ := strings.Cut(allowed, "and to subscribe to")
	subject := regexp.MustCompile("`([^`]+)`")
	for _, m := range subject.FindAllStringSubmatch(to, -1) {
		publish = append(publish, m[1])
	}
	for _, m := range subject.FindAllStringSubmatch(from, -1) {
		subscribe = append(subscribe, m[1])
	}
	publish = append(publish, "*.jobs", "*.dead") // the producer's, and the dead letters
	a.accounts(publish, subscribe)
	servers, url := startCluster(t, a)
	out := &ender{end: func() {
		for _, s := range servers {
			if s.JetStreamIsLeader() {
				s.Shutdown()
				return
			}
		}
	}}
	err := run(context.Background(), []string{"-jobs", "10000", "-replicas", "3", "-url", url, "-ca", a.path("ca.pem"), "-creds", a.path("worker.creds")}, out)
	require.NoError(t, err, out.String()) // all results are stored
	all := regexp.MustCompile(`ALL +│ +(\d+) │ +│ +\d+ │ +(\d+) │`).FindStringSubmatch(out.String())
	require.NotNil(t, all, out.String())
	// A result may be stored and the answer lost: that run of the job failed, and the next one need not come before the end.
	succeeded, err := strconv.Atoi(all[1])
	require.NoError(t, err)
	failed, err := strconv.Atoi(all[2])
	require.NoError(t, err)
	require.GreaterOrEqual(t, succeeded+failed, 10_000, out.String())
	require.Contains(t, out.String(), "dead letters: 0")
}

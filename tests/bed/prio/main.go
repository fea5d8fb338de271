// Reports through Prio3, with the client, both aggregators and the collector in one process.
//
// It reads a JSON object: vdaf (the type and its parameters), reports (vectors of numbers), and lies: reports of clients
// that prove less, a weight of as many ones as can be written in as many bits as the limit. It writes one: aggregate, n,
// refused (how many reports, by who refused them and why), bytes of a report's shares. All that proves, checks and adds
// is circl's.
package main

import (
	"crypto/rand"
	"encoding"
	"encoding/json"
	"log"
	"math/bits"
	"os"

	"github.com/cloudflare/circl/vdaf/prio3/histogram"
	"github.com/cloudflare/circl/vdaf/prio3/mhcv"
	"github.com/cloudflare/circl/vdaf/prio3/sumvec"
)

type task struct {
	Vdaf struct {
		Type         string
		Length, Bits uint
		MaxWeight    uint `json:"max_weight"`
		ChunkLength  uint `json:"chunk_length"`
	}
	Reports [][]uint64
	Lies    [][]uint64
}

type answer struct {
	Aggregate []uint64       `json:"aggregate"`
	N         uint           `json:"n"`
	Refused   map[string]int `json:"refused"`
	Bytes     map[string]int `json:"bytes"`
}

var context = []byte("ldp")

// The types of all Prio3 variants over this field are the same ones.
type prio3 interface {
	PrepInit(*mhcv.VerifyKey, *mhcv.Nonce, uint8, mhcv.PublicShare, mhcv.InputShare) (*mhcv.PrepState, *mhcv.PrepShare, error)
	PrepSharesToPrep([]mhcv.PrepShare) (*mhcv.PrepMessage, error)
	PrepNext(*mhcv.PrepState, *mhcv.PrepMessage) (*mhcv.OutShare, error)
	AggregateInit() mhcv.AggShare
	AggregateUpdate(*mhcv.AggShare, *mhcv.OutShare)
	Unshard([]mhcv.AggShare, uint) (*[]uint64, error)
}

type shard func(report []uint64, nonce *mhcv.Nonce) (mhcv.PublicShare, []mhcv.InputShare, error)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func random(size int) []byte {
	out := make([]byte, size)
	_, err := rand.Read(out)
	must(err)
	return out
}

// multihot is the type, and what its clients do.
func multihot(length, maxWeight, chunk uint) (prio3, shard) {
	v, err := mhcv.New(2, length, maxWeight, chunk, context)
	must(err)
	params := v.Params()
	return v, func(report []uint64, nonce *mhcv.Nonce) (mhcv.PublicShare, []mhcv.InputShare, error) {
		ones := make([]bool, len(report))
		for i, x := range report {
			ones[i] = x != 0
		}
		return v.Shard(ones, nonce, random(int(params.RandSize())))
	}
}

// made is the type, and what its clients do: honest ones, and those that lie.
func made(t task) (prio3, shard, shard) {
	d := t.Vdaf
	switch d.Type {
	case "Prio3MultihotCountVec":
		v, client := multihot(d.Length, d.MaxWeight, d.ChunkLength)
		_, liar := multihot(d.Length, min(1<<bits.Len(d.MaxWeight)-1, d.Length), d.ChunkLength)
		return v, client, liar
	case "Prio3SumVec":
		v, err := sumvec.New(2, d.Length, d.Bits, d.ChunkLength, context)
		must(err)
		params := v.Params()
		client := func(report []uint64, nonce *mhcv.Nonce) (mhcv.PublicShare, []mhcv.InputShare, error) {
			return v.Shard(report, nonce, random(int(params.RandSize())))
		}
		return v, client, client
	case "Prio3Histogram":
		v, err := histogram.New(2, d.Length, d.ChunkLength, context)
		must(err)
		params := v.Params()
		client := func(report []uint64, nonce *mhcv.Nonce) (mhcv.PublicShare, []mhcv.InputShare, error) {
			label := uint64(0)
			for i, x := range report {
				label += uint64(i) * x
			}
			return v.Shard(label, nonce, random(int(params.RandSize())))
		}
		return v, client, client
	}
	log.Fatalf("unknown type %q", d.Type)
	return nil, nil, nil
}

func size(x encoding.BinaryMarshaler) int {
	out, err := x.MarshalBinary()
	must(err)
	return len(out)
}

func main() {
	var t task
	must(json.NewDecoder(os.Stdin).Decode(&t))
	v, client, liar := made(t)
	key := mhcv.VerifyKey(random(32))
	sums := []mhcv.AggShare{v.AggregateInit(), v.AggregateInit()}
	out := answer{Refused: map[string]int{}, Bytes: map[string]int{}}
	for i, report := range append(t.Reports, t.Lies...) {
		nonce := mhcv.Nonce(random(16))
		if i == len(t.Reports) {
			client = liar
		}
		public, shares, err := client(report, &nonce)
		if err != nil {
			out.Refused["client: "+err.Error()]++
			continue
		}
		out.Bytes["public"] = len(public)
		out.Bytes["leader"], out.Bytes["helper"] = size(&shares[0]), size(&shares[1])
		var states [2]*mhcv.PrepState
		messages := make([]mhcv.PrepShare, 2)
		for server := range states {
			state, message, err := v.PrepInit(&key, &nonce, uint8(server), public, shares[server])
			must(err)
			states[server], messages[server] = state, *message
		}
		message, err := v.PrepSharesToPrep(messages)
		if err != nil {
			out.Refused["servers: "+err.Error()]++
			continue
		}
		for server := range states {
			share, err := v.PrepNext(states[server], message)
			must(err)
			v.AggregateUpdate(&sums[server], share)
		}
		out.N++
	}
	total, err := v.Unshard(sums, out.N)
	must(err)
	out.Aggregate = *total
	must(json.NewEncoder(os.Stdout).Encode(out))
}

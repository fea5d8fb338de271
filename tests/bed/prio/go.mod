module ldp/tests/bed/prio

go 1.25.0

require github.com/cloudflare/circl v1.6.5

require golang.org/x/crypto v0.54.0 // indirect

"""Side-by-side measurements: ours, plain numpy, the peers, the engines' own floors."""

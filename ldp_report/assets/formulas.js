// The planner's numbers, in closed form: those of `ldp_core` (mechanisms/catalog.py, plans/recommend.py,
// plans/required.py, accounting), with which a test compares them. No page is needed: node runs this file too.
"use strict";
const Planner = (() => {
  const Z = 1.9599639845400538; // normal quantile of 0.975
  const MOST = 50, LEAST = 1e-4, STEP = 1.003, PRECISION = 1e-12;

  function evenly(x) { // round half to even, as Python does
    const low = Math.floor(x), part = x - low;
    return part === 0.5 ? low + (low % 2) : Math.round(x);
  }

  const PRIMES = (() => {
    const size = 1 << 15, not = new Uint8Array(size + 1), found = [];
    for (let k = 2; k <= size; k++) {
      if (not[k]) continue;
      found.push(k);
      for (let m = k * k; m <= size; m += k) not[m] = 1;
    }
    return found;
  })();

  // ---- projective geometry: which field, which space (oracles/projective_geometry_response.py)

  function dimension(field, values) {
    let t = 2, points = field + 1, power = field;
    while (points < values) { power *= field; points += power; t += 1; }
    return t;
  }

  function bestField(values, epsilon) {
    const fine = 2 ** 20, e = Math.round(Math.exp(epsilon) * fine) / fine;
    const limit = Math.min(4 * Math.floor(e) + 8, 1 << 15);
    let best = null;
    for (const field of PRIMES) {
      if (field > limit) break;
      const t = dimension(field, values), cost = Math.floor(field ** (t + 1) / (field - 1)) * t;
      const dear = cost > 2 ** 30;
      const half = 1 + (e * Math.floor((field ** (t - 2) - 1) / (field - 1))) / field ** (t - 2);
      const key = dear ? cost : half * (e + field - 1);
      if (best === null || (dear === best.dear ? key < best.key : best.dear)) best = { field, key, dear };
    }
    return best.field;
  }

  function projective(d, epsilon) {
    const f = bestField(d, epsilon), t = dimension(f, d), less = Math.exp(-epsilon);
    const k = (f ** t - 1) / (f - 1), s = (f ** (t - 1) - 1) / (f - 1), c = (f ** (t - 2) - 1) / (f - 1);
    const p = s / (s + (k - s) * less);
    return [p, (p * c) / s + (p * less * (s - c)) / s];
  }

  // ---- (p, q), bytes, operations (mechanisms/catalog.py)

  const subset = (d, epsilon) => Math.max(evenly(d / (Math.exp(epsilon) + 1)), 1);

  function fewest(epsilon) { // of the primes below 256, the number of buckets of least variance
    const e = Math.exp(epsilon);
    let best = 2, least = Infinity;
    for (const g of PRIMES) {
      if (g > 255) break;
      const variance = (e - 1 + g) ** 2 / (g - 1);
      if (variance < least) [best, least] = [g, variance];
    }
    return best;
  }
  const hashed = (g, epsilon) => [1 / (1 + (g - 1) * Math.exp(-epsilon)), 1 / g];
  const bits = (d) => Math.ceil(d / 8), word = () => 8, one = () => 1, each = (d) => d;
  const code = (d) => (d < 2 ** 8 ? 1 : d < 2 ** 16 ? 2 : 4);

  const CHOICES = [
    { name: "randomized_response", variant: "", bytes: code, operations: one, probabilities: (d, epsilon) => {
      const less = Math.exp(-epsilon);
      return [1 / (1 + (d - 1) * less), less / (1 + (d - 1) * less)];
    } },
    { name: "unary_encoding", variant: "", bytes: bits, operations: each, probabilities: (d, epsilon) => [0.5, Math.exp(-epsilon) / (1 + Math.exp(-epsilon))] },
    { name: "unary_encoding", variant: "symmetric", bytes: bits, operations: each, probabilities: (d, epsilon) => {
      const half = Math.exp(-epsilon / 2);
      return [1 / (1 + half), half / (1 + half)];
    } },
    { name: "subset_selection", variant: "", bytes: bits, operations: each, probabilities: (d, epsilon) => {
      const k = subset(d, epsilon), p = k / (k + (d - k) * Math.exp(-epsilon));
      return [p, (k - p) / (d - 1)];
    } },
    { name: "local_hashing", variant: "", bytes: word, operations: each, probabilities: (d, epsilon) => hashed(Math.min(evenly(Math.exp(Math.min(epsilon, 20))) + 1, 1 << 15), epsilon) },
    { name: "local_hashing", variant: "fast", bytes: word, operations: one, probabilities: (d, epsilon) => hashed(fewest(epsilon), epsilon) },
    { name: "hadamard_response", variant: "", bytes: word, operations: one, probabilities: (d, epsilon) => [1 / (1 + Math.exp(-epsilon)), 0.5] },
    { name: "projective_geometry_response", variant: "", bytes: word, operations: one, probabilities: projective },
  ];
  for (const choice of CHOICES) choice.key = choice.variant ? `${choice.name}:${choice.variant}` : choice.name;
  const named = (key) => CHOICES.find((choice) => choice.key === key);

  // ---- errors: Wang, Blocki, Li, Jha, USENIX Security 2017, Theorem 2

  function perPerson([p, q], f) { // n times the variance of an estimated share
    return (f * p * (1 - p) + (1 - f) * q * (1 - q)) / (p - q) ** 2;
  }

  // The standard error of the estimated share of a value that a share f of n people has.
  function standardError(key, d, epsilon, n, f) {
    return Math.sqrt(perPerson(named(key).probabilities(d, epsilon), f) / n);
  }

  // ---- margins: ldp_core/estimates/tails.py, plans/recommend.py

  // x ln(x / mean) + mean - x, without cancellation.
  function deviance(x, mean) {
    const difference = x - mean, v = difference / (x + mean);
    if (Math.abs(v) > 0.05) return x * Math.log(x / mean) - difference;
    let series = 1 / 15;
    for (let odd = 13; odd > 1; odd -= 2) series = series * v * v + 1 / odd;
    return difference * v + 2 * x * v * v * v * series;
  }

  // The z with Pr[sum of n parts >= t] <= Pr[N > z], of a variance in all and at most `reach` each.
  function twoPointScore(t, n, variance, reach) {
    const square = reach ** 2 + variance / n, expected = Math.max(variance / square, 1e-300), count = expected + (t * reach) / square;
    if (t > n * reach) return Infinity;
    const below = Math.min(Math.max(count - 1, expected), n);
    return Math.sqrt(Math.max(2 * (deviance(below, expected) + deviance(Math.max(n - below, 1e-300), n - expected)), 0));
  }

  // The margin that 95 % of the estimates are within: of the share f of a population of which n people are a sample.
  function marginOf([p, q], n, f) {
    const variance = perPerson([p, q], f) + f * (1 - f), reach = [(1 - q) / (p - q) - f, f + q / (p - q)];
    const enough = (margin) => reach.every((r) => twoPointScore(n * margin, n, n * variance, r) >= Z);
    let high = Math.max(Z * Math.sqrt(variance / n), 1e-12);
    while (!enough(high)) high *= 2;
    let low = high / 2;
    while (high - low > 1e-12 * high) {
      const middle = (low + high) / 2;
      if (enough(middle)) high = middle; else low = middle;
    }
    return high;
  }
  const margin = (key, d, epsilon, n, f) => marginOf(named(key).probabilities(d, epsilon), n, f);

  // All mechanisms, the best first: `ldp_core.recommend(d, epsilon, n, frequency=f)`.
  function recommend(d, epsilon, n, f) {
    const left = CHOICES.map((choice) => {
      const error = standardError(choice.key, d, epsilon, n, f);
      return { key: choice.key, name: choice.name, variant: choice.variant, standardError: error, margin: margin(choice.key, d, epsilon, n, f), bytes: choice.bytes(d), operations: choice.operations(d) };
    });
    const rows = [];
    left.sort((a, b) => a.operations - b.operations || a.bytes - b.bytes || a.standardError - b.standardError);
    while (left.length) { // of those whose error is nearly the least, the one that costs the least
      const least = Math.min(...left.map((row) => row.standardError));
      const first = left.find((row) => row.standardError <= 1.01 * least);
      const best = left.find((row) => row.standardError <= 1.02 * least && 100 * row.operations < first.operations) || first;
      rows.push(best);
      left.splice(left.indexOf(best), 1);
    }
    return rows;
  }

  // The least epsilon with which 95 % of the estimates are within a margin; null: none up to 50.
  function leastEpsilon(key, wanted, n, d, f) {
    const misses = (epsilon) => {
      const [p, q] = named(key).probabilities(d, epsilon), variance = perPerson([p, q], f) + f * (1 - f);
      return ![(1 - q) / (p - q) - f, f + q / (p - q)].every((r) => twoPointScore(n * wanted, n, n * variance, r) >= Z);
    };
    if (misses(MOST)) return null;
    let below = 0, above = MOST;
    for (let k = Math.trunc(Math.log(MOST / LEAST) / Math.log(STEP)); k >= 0; k--) {
      const epsilon = MOST * STEP ** -k;
      if (!misses(epsilon)) { above = epsilon; break; }
      below = epsilon;
    }
    while (above - below > PRECISION * above) {
      const middle = (below + above) / 2;
      if (misses(middle)) below = middle; else above = middle;
    }
    return Math.min(above * (1 + PRECISION), MOST);
  }

  // Each mechanism and its least epsilon, the least first: `ldp_core.required_epsilon(None, margin, n, domain=d, frequency=f)`.
  function requiredEpsilon(margin, n, d, f) {
    return CHOICES.map((choice) => ({ key: choice.key, epsilon: leastEpsilon(choice.key, margin, n, d, f) }))
      .filter((row) => row.epsilon !== null).sort((a, b) => a.epsilon - b.epsilon);
  }

  // ---- what is spent, and what a guess gets (accounting/people.py, accounting/shuffling.py)

  // The most often that a guess is right, of one of d equally likely values: `ldp_core.best_guess`.
  function bestGuess(epsilon, d) {
    return 1 / (1 + (d - 1) * Math.exp(-epsilon));
  }

  // "Hiding Among the Clones", FOCS 2021, Theorem 3.1: `ldp_core.shuffled_epsilon(..., method="closed form")`.
  function shuffledEpsilon(epsilon, n, delta) {
    const log = Math.log(4 / delta), people = Math.min(n, 1e10), e = Math.exp(epsilon);
    if (epsilon >= 50 || e > people / (16 * log)) return epsilon;
    return Math.min(Math.log1p(Math.tanh(epsilon / 2) * (8 * Math.sqrt((e * log) / people) + (8 * e) / people)), epsilon);
  }

  // What a person spends: `ldp_core.total_epsilon(epsilon, reports=perDay, windows=days)`.
  const totalEpsilon = (epsilon, perDay, days) => epsilon * perDay * days;

  // ---- one look at what would be seen

  function random(seed) { // mulberry32: for pictures only
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  // Shares that fall as 1, 1/2, 1/3 ...; of the values that are shown the last has the smallest share that one wants to see.
  function shares(d, smallest, most) {
    const shown = Math.min(d, most);
    const weights = Array.from({ length: shown }, (_, k) => 1 / (k + 1));
    const rest = d > shown ? 1 - smallest : 1, all = weights.reduce((a, b) => a + b, 0), end = weights[shown - 1];
    const last = Math.min(smallest, (rest * end) / all);
    const unit = d > shown ? rest / all : (1 - last) / (all - end); // all values together are all people
    return weights.map((w, k) => (k === shown - 1 ? last : unit * w));
  }

  // Estimates of such shares: normal around the truth, with the variance in closed form.
  function simulate(key, d, epsilon, n, truths, seed) {
    const uniform = random(seed);
    const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
    return truths.map((truth) => {
      const estimate = truth + normal() * standardError(key, d, epsilon, n, truth);
      const half = Z * standardError(key, d, epsilon, n, Math.min(Math.max(estimate, 0), 1));
      return { truth, estimate, low: estimate - half, high: estimate + half };
    });
  }

  // ---- the whole answer

  // epsilon with few digits, rounded up, as long as that keeps the margin
  function neat(epsilon, keeps) {
    for (let digits = 3; digits < 12; digits++) {
      const unit = 10 ** (Math.floor(Math.log10(epsilon)) - digits + 1);
      const up = Number((Math.ceil(epsilon / unit) * unit).toPrecision(digits));
      if (up >= epsilon && up <= MOST && keeps(up)) return up;
    }
    return epsilon;
  }

  const DAYS = [1, 7, 30, 365];

  // Everything that the page says. input: {people, values, smallest, perDay, shuffled, epsilon}; epsilon null: look for it.
  function answer({ people, values, smallest, perDay, shuffled, epsilon }) {
    // An estimate of the smallest share stays above half of it, and one of 0 below, each but for 2.5 %.
    const needs = requiredEpsilon(smallest / 2, people, values, smallest);
    let spent = epsilon, taken = null;
    if (spent === null) {
      if (!needs.length) return { needs, epsilon: null, table: [] };
      taken = needs[0].key;
      spent = neat(needs[0].epsilon, (e) => margin(taken, values, e, people, smallest) <= smallest / 2);
    }
    const table = recommend(values, spent, people, smallest);
    const row = table.find((r) => r.key === taken) || table[0];
    const delta = 0.01 / people;
    const central = shuffled ? shuffledEpsilon(spent, people, delta) : null;
    return {
      needs, epsilon: spent, table, taken: row, delta, central,
      bytesPerDay: row.bytes * people * perDay,
      guess: { one: bestGuess(spent, values), two: bestGuess(spent, 2), before: 1 / values },
      spend: DAYS.map((days) => {
        const fresh = totalEpsilon(spent, perDay, days), reports = perDay * days;
        return { days, reports, fresh, keyed: spent, guess: bestGuess(fresh, values),
          central: shuffled ? Math.min(central * reports, fresh) : null, delta: shuffled ? Math.min(delta * reports, 1) : null };
      }),
    };
  }

  // ---- the plan, to copy

  const quoted = (text) => JSON.stringify(text);

  function written(row, values, epsilon) {
    const labels = Array.from({ length: values }, (_, k) => k);
    const variant = row.variant ? [["variant", quoted(row.variant)]] : [];
    const fields = [["mechanism", quoted(row.name)], ["epsilon", String(epsilon)], ...variant, ["domain", `[${labels.join(", ")}]`]];
    const toml = `# one record reveals this, and nothing else; put your own values into domain, as ["ios", "android", "web"]
keep = []

[columns.answer]
${fields.map(([name, value]) => `${name} = ${value}`).join("\n")}
unmatched = "error"
`;
    const polars = `import polars as pl
import ldp_polars
from ldp_core import PrivacyPlan

plan = PrivacyPlan.from_toml("plan.toml")
people = pl.read_parquet("people.parquet")  # a column "answer"
reports = people.ldp.perturb(plan)  # what leaves the device
ldp_polars.sink_parquet(reports.lazy(), "reports.parquet", plan)
found = reports.select(pl.col("answer").ldp.histogram(plan["answer"])).explode("answer").unnest("answer")
print(found.select("value", "count", "low", "high", "frequency", "n"))
`;
    const beam = `import apache_beam as beam
import ldp_beam
import pyarrow.parquet as pq
from ldp_core import PrivacyPlan

plan = PrivacyPlan.from_toml("plan.toml")
people = pq.read_table("people.parquet", columns=["answer"]).to_batches()  # or a source of ldp_beam.io
with beam.Pipeline() as p:
    reports = p | beam.Create(people) | ldp_beam.Perturb(plan)
    rows = reports | ldp_beam.Histogram("answer", plan["answer"])
    _ = rows | beam.Map(lambda r: print(r.value, round(r.count), round(r.low), round(r.high)))
`;
    const yaml = `# python -m apache_beam.yaml.main --yaml_pipeline_file=pipeline.yaml --runner=FnApiRunner
pipeline:
  type: chain
  transforms:
    - type: LdpReadParquet
      config: {path: people.parquet, columns: [answer]}
    - type: LdpPrivateHistogram
      config: {column: answer, plan: plan.toml}
    - type: MapToFields
      config:
        language: python
        fields: {value: value, count: count, low: low, high: high, n: n}
    - type: WriteToJson
      config: {path: histogram}
providers:
  - type: python
    config: {}
    transforms:
      LdpPrivateHistogram: ldp_beam.yaml.LdpPrivateHistogram
      LdpReadParquet: ldp_beam.yaml.LdpReadParquet
`;
    return { toml, polars, beam, yaml };
  }

  return { CHOICES, recommend, requiredEpsilon, standardError, bestGuess, shuffledEpsilon, totalEpsilon, shares, simulate, neat, answer, code: written };
})();
if (typeof module !== "undefined") module.exports = Planner;

// The planner's page: reads the inputs, shows the answer of formulas.js.
(() => {
  const { el, whole, percent, digits, bars, table, fixed } = LDP;
  const at = (id) => document.getElementById(id);
  const SHOWN = 10, MOST_VALUES = 10_000;
  let seed = 1, tab = "toml", last = null;

  // ---- inputs

  const LIMITS = {
    people: ["people", 1, 1e10, true], values: ["values", 2, MOST_VALUES, true], smallest: ["the smallest share, in %,", 1e-6, 50, false],
    perDay: ["reports a day", 1, 86_400, true], epsilon: ["epsilon", 0.001, 50, false],
  };

  function read() {
    const found = { shuffled: at("shuffled").checked }, wrong = [];
    for (const [id, [name, low, high, integer]] of Object.entries(LIMITS)) {
      const text = at(id).value.trim(), empty = text === "" && id === "epsilon";
      // "0,5", "1,500" and "100.000" are other numbers elsewhere: a comma or a space separates the thousands of whole
      // numbers, a point the decimals of all others, and what else there is is refused.
      const plain = integer && /^\d{1,3}([,_\s]\d{3})+$/.test(text) ? text.replace(/\D/g, "") : text;
      const x = (integer ? /^\d+(e\d+)?$/i : /^\d*\.?\d+$/).test(plain) ? Number(plain) : NaN;
      const good = empty || (x >= low && x <= high && (!integer || Number.isInteger(x)));
      at(id).setAttribute("aria-invalid", String(!good));
      if (!good) wrong.push(`${name} must be ${integer ? "a whole number" : "a number"} from ${digits(low)} to ${digits(high)}${/[.,]/.test(text) ? (integer ? ", with a comma between thousands, as 100,000" : ", with a point before the decimals, as 0.5") : ""}`);
      found[id] = empty ? null : x;
    }
    found.smallest /= 100;
    if (!wrong.length && found.smallest * found.people < 1) wrong.push(`a share of ${shareOf(found.smallest)} of ${whole(found.people)} people is not one person: more people are needed, or a larger share`);
    return { found, wrong };
  }

  // ---- the answer

  const shareOf = (x) => `${digits(100 * x, 3)} %`;
  const up = (epsilon) => digits(Planner.neat(epsilon, () => true)); // three digits that are enough
  const bytes = (n) => { const k = n < 1000 ? 0 : Math.min(Math.floor(Math.log10(n) / 3), 5); return `${digits(n / 1000 ** k, 3)} ${["bytes", "kB", "MB", "GB", "TB", "PB"][k]}`; };
  const tile = (id, name, value, small) => el("div", {}, el("dt", {}, name), el("dd", { id }, value, small ? el("small", {}, small) : null));

  function tiles(input, a) {
    at("tiles").replaceChildren(
      tile("is-epsilon", input.epsilon === null ? "epsilon needed, of a report" : "epsilon of a report", String(a.epsilon), a.taken.key),
      tile("is-error", "95 % of errors are below", shareOf(a.taken.margin), `${whole(a.taken.margin * input.people)} people`),
      tile("is-guess", "a guess is right", shareOf(a.guess.one), `${shareOf(a.guess.before)} without a report`),
      tile("is-bytes", "a day", bytes(a.bytesPerDay), `${a.taken.bytes} ${a.taken.bytes === 1 ? "byte" : "bytes"} a report`),
      ...(a.central === null ? [] : [tile("is-central", "epsilon once shuffled", digits(a.central, 4), `delta ${a.delta.toExponential(0)}`)]));
    const least = a.needs.length ? a.needs[0].epsilon : null;
    at("words").textContent = input.epsilon === null
      ? `With epsilon ${a.epsilon} a value that ${shareOf(input.smallest)} of the people have can be told apart from one that nobody has: 97.5 % of the estimates of the first are above half of that share, and 97.5 % of the estimates of the second are below.`
      : a.taken.margin <= input.smallest / 2 ? `Epsilon ${up(least)} is already enough for shares of ${shareOf(input.smallest)}.`
      : `That is too little for shares of ${shareOf(input.smallest)}: ${least === null ? "no epsilon up to 50 is enough for so few people" : `that needs epsilon ${up(least)}, or more people`}.`;
  }

  function mechanisms(input, a) {
    const needs = new Map(a.needs.map((need) => [need.key, need.epsilon]));
    const rows = a.table.map((row) => [row.key + (row.key === a.taken.key ? " (chosen)" : ""), shareOf(row.standardError), shareOf(row.margin), needs.has(row.key) ? up(needs.get(row.key)) : "over 50", whole(row.bytes), whole(row.operations)]);
    at("mechanisms").replaceChildren(table(`At epsilon ${digits(a.epsilon, 6)}, of a value with a share of ${shareOf(input.smallest)}; the best first`,
      ["mechanism", "standard error", "95 % within", "epsilon it would need", "bytes a report", "server operations"], rows));
  }

  function seen(input, a) {
    const truths = Planner.shares(input.values, input.smallest, SHOWN);
    const found = Planner.simulate(a.taken.key, input.values, a.epsilon, input.people, truths, seed);
    const rows = found.map((row, k) => ({ ...row, name: k === found.length - 1 && row.truth <= input.smallest ? `value ${k + 1}, the smallest share` : `value ${k + 1}` }));
    const held = found.filter((row) => row.low <= row.truth && row.truth <= row.high).length;
    at("seen").replaceChildren(
      el("p", { class: "quiet" }, `Simulated here: shares that fall as 1, 1/2, 1/3, and the smallest one that is worth seeing. The mark in another color is the truth; ${held} of ${found.length} intervals hold it.`),
      bars(rows, { caption: `${rows.length} of ${whole(input.values)} values, ${whole(input.people)} reports, ${a.taken.key}, epsilon ${digits(a.epsilon, 6)}`, head: "value", what: "estimate", number: percent, axis: (x) => `${digits(100 * x, 3)} %`, confidence: 0.95 }));
  }

  function guess(input, a) {
    at("guess").replaceChildren(
      el("p", {}, `Somebody who knows nothing of a person, and thinks each of ${whole(input.values)} values as likely, is right ${shareOf(a.guess.before)} of the time. With the person's report the best guess is right at most ${shareOf(a.guess.one)} of the time. Of two values: ${shareOf(a.guess.two)} in place of 50 %.`),
      el("p", { class: "quiet" }, "By Bayes' rule the best guess is the value under which the report is most likely. It is right with probability e", el("sup", {}, "ε"), " / (e", el("sup", {}, "ε"), " + d − 1) at most; k-ary randomized response attains that. The proof is with ", el("code", {}, "ldp_core.best_guess"), "."));
  }

  function spend(input, a) {
    const head = ["after", "reports", "fresh noise", "a guess is right", "keyed noise, one value"], rows = a.spend.map((s) => [`${s.days} ${s.days === 1 ? "day" : "days"}`, whole(s.reports), digits(s.fresh, 5), shareOf(s.guess), digits(s.keyed, 5)]);
    if (a.central !== null) {
      head.push("shuffled, fresh noise", "delta");
      a.spend.forEach((s, k) => rows[k].push(digits(s.central, 4), s.delta.toExponential(1)));
    }
    at("spend").replaceChildren(
      table("Epsilon of all reports of one person", head, rows),
      el("p", { class: "quiet" }, "Fresh noise: epsilons add up (sequential composition), and the column beside it says how often the best guess is right after all these reports, at most. Noise keyed by person and value: the same value gives the same report, and nothing more is spent as long as it does not change."),
      ...(a.central === null ? [] : [el("p", { class: "quiet" }, "Shuffled: nobody can tell whose report is whose, and each person sends one to each shuffle. By “Hiding Among the Clones” (Feldman, McMillan, Talwar, FOCS 2021, Theorem 3.1) for each shuffle, and epsilons and deltas add up. It holds against those who see the shuffled reports; the shuffler sees the first columns. ", el("code", {}, "ldp plan explain --delta"), " has a smaller epsilon, which is no closed formula."), ...(a.central === a.epsilon ? [el("p", { class: "quiet" }, "For so large an epsilon and so few people the theorem promises nothing more than the report itself.")] : [])]));
  }

  // ---- code

  const TABS = { toml: "TOML", polars: "Polars", beam: "Beam", yaml: "Beam YAML" };
  const FILES = { toml: "plan.toml", polars: "people.parquet and plan.toml to reports.parquet", beam: "the same in Beam", yaml: "pipeline.yaml, with plan.toml" };

  function code(input, a) {
    const texts = Planner.code(a.taken, input.values, a.epsilon);
    at("tabs").replaceChildren(...Object.entries(TABS).map(([key, name]) => el("button", {
      type: "button", role: "tab", id: `tab-${key}`, "aria-selected": String(key === tab), "aria-controls": `code-${key}`, tabindex: key === tab ? "0" : "-1", onclick: () => turn(key),
      onkeydown: (event) => {
        const keys = Object.keys(TABS), by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (by) { turn(keys[(keys.indexOf(tab) + by + keys.length) % keys.length]); at(`tab-${tab}`).focus(); }
      } }, name)));
    at("code").replaceChildren(...Object.keys(TABS).map((key) => el("div", { role: "tabpanel", id: `code-${key}`, "aria-labelledby": `tab-${key}`, class: key === tab ? "view" : "view off" },
      el("p", { class: "quiet" }, FILES[key]), el("pre", { tabindex: "0" }, texts[key]),
      el("button", { type: "button", onclick: (event) => copy(texts[key], event.target) }, "Copy"))));
  }

  function turn(key) { tab = key; code(last.input, last.a); at(`tab-${key}`).focus(); }

  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // a page of a file may not: the old way
      const area = el("textarea", { class: "sr" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  // ---- all of it

  function show() {
    const { found: input, wrong } = read();
    const a = wrong.length ? null : Planner.answer(input);
    if (a && a.epsilon === null) wrong.push(`no epsilon up to 50 shows shares of ${shareOf(input.smallest)} with ${whole(input.people)} people: more people are needed, or a larger share`);
    at("wrong").hidden = !wrong.length;
    at("wrong").textContent = wrong.length ? `${wrong.join("; ")}.` : "";
    at("answer").hidden = Boolean(wrong.length);
    if (wrong.length) return;
    last = { input, a };
    keep();
    for (const part of [tiles, mechanisms, seen, guess, spend, code]) part(input, a);
  }

  // ---- the address keeps the inputs: https://…/planner.html#people=100000&values=16

  const NAMES = [...Object.keys(LIMITS), "shuffled"];
  const DEFAULTS = Object.fromEntries(NAMES.map((id) => [id, id === "shuffled" ? "" : at(id).value]));
  const given = (id) => (id === "shuffled" ? (at(id).checked ? "1" : "") : at(id).value);

  function keep() {
    const changed = NAMES.filter((id) => given(id) !== DEFAULTS[id]).map((id) => [id, given(id)]);
    history.replaceState(null, "", `#${new URLSearchParams(changed)}`);
  }

  function restore() {
    const kept = new URLSearchParams(location.hash.slice(1));
    for (const id of NAMES) {
      const value = kept.get(id) ?? DEFAULTS[id];
      if (id === "shuffled") at(id).checked = value !== ""; else at(id).value = value;
    }
    show();
  }

  let waiting = null;
  at("inputs").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(show, 120); });
  at("inputs").addEventListener("submit", (event) => { event.preventDefault(); show(); });
  at("again").addEventListener("click", () => { seed += 1; seen(last.input, last.a); });
  addEventListener("hashchange", restore);
  restore();
})();

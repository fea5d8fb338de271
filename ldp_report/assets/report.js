// The report: estimates by column, group and window, with the arrow keys, on paper, and anew as windows close.
(() => {
  const { el, whole, percent, digits, bars, table, chart, isNumber } = LDP;
  const at = (id) => document.getElementById(id);
  const FIRST = 20, MANY = 64, LINES = 5;
  let data = JSON.parse(at("data").textContent);
  const live = data.live;
  const chosen = { column: 0, key: "", window: Infinity };
  const open = new Set(); // columns of which all values are shown
  let late = []; // views that are made when they are first seen, or printed
  let ended = false;

  const partial = (k) => (data.partial && data.partial[k] ? " (in part)" : "");
  const windowText = (k) => data.windows[k] + partial(k);
  const windowName = (group) => (group.window !== null ? windowText(group.window) : group.untimed ? "records without a time" : "all records");
  const keysOf = (column) => [...new Set(column.groups.map((group) => group.key))];
  const last = () => data.windows.length - 1;

  function now() {
    const column = data.columns[Math.min(chosen.column, data.columns.length - 1)];
    const keys = column ? keysOf(column) : [];
    const key = keys.includes(chosen.key) ? chosen.key : keys[0] ?? "";
    return { column, key, window: data.windows.length ? Math.min(chosen.window, last()) : null };
  }

  // ---- what one sees first

  function tiles() {
    const dead = (data.letters || []).filter((letter) => !letter.late), tile = (name, value, small) => el("div", {}, el("dt", {}, name), el("dd", {}, value, small ? el("small", {}, small) : null));
    at("tiles").replaceChildren(...[
      data.counted === null ? null : tile("reports counted", whole(data.counted)),
      data.windows.length ? tile("windows", whole(data.windows.length)) : null,
      data.letters && !data.total ? tile("late", whole(data.late)) : null,
      data.letters ? tile(data.total ? "messages refused" : "dead letters", whole(data.dead), dead.length ? `${dead.length} ${dead.length === 1 ? "reason" : "reasons"}` : null) : null,
      data.plan ? tile("epsilon of a record", digits(data.plan.epsilon), `${data.plan.columns.length} ${data.plan.columns.length === 1 ? "column" : "columns"}`) : null,
    ].filter(Boolean));
    at("doubts").replaceChildren(...data.doubts.map((doubt) => el("p", { class: "warning" }, doubt)));
    at("about").textContent = [data.name, data.span && `${data.span}, UTC`].filter(Boolean).join(" · ");
  }

  // ---- choices

  function select(name, label, entries, value, change) {
    const made = el("select", { id: name, onchange: (event) => change(event.target.value) }, entries.map(([v, text]) => el("option", { value: v }, text)));
    made.value = String(value);
    return el("label", {}, label, made);
  }

  function choices() {
    const { column, key, window } = now();
    const focus = document.activeElement && document.activeElement.id;
    at("ends").replaceChildren(...endsOfWindows());
    if (!column) return at("choices").replaceChildren();
    const parts = [select("column", "column", data.columns.map((c, k) => [k, c.name]), data.columns.indexOf(column), (v) => choose({ column: Number(v) }))];
    const keys = keysOf(column);
    if (keys.length > 1) parts.push(select("key", "group", keys.map((k) => [k, k]), key, (v) => choose({ key: v })));
    if (data.windows.length) {
      const step = (by, id, sign, text) => el("button", { type: "button", id, "aria-label": text, "aria-disabled": String(window + by < 0 || window + by > last()), onclick: () => move(by) }, sign);
      parts.push(el("div", { class: "window" }, step(-1, "before", "‹", "window before"),
        select("window", "window", data.windows.map((_, k) => [k, windowText(k)]), window, (v) => choose({ window: Number(v) })),
        step(1, "after", "›", "window after")));
    }
    at("choices").replaceChildren(...parts);
    if (focus && at("choices").querySelector(`[id="${CSS.escape(focus)}"]`)) at(focus).focus();
    at("keys").replaceChildren(...(data.windows.length > 1 ? [el("kbd", {}, "←"), " ", el("kbd", {}, "→"), " change the window, ", el("kbd", {}, "Home"), " ", el("kbd", {}, "End"), " go to the first and the last."] : []));
  }

  function endsOfWindows() {
    if (!data.windows.length) return [];
    const known = data.partial ? (data.partial.some(Boolean) ? "The records fill the windows that say “in part” only in part. Their counts are low for that reason." : "")
      : "The first and the last window may be filled only in part: these results do not say when the records begin and end.";
    return [`A window ends where the next one begins, and times are UTC. ${known}`];
  }

  function choose(changes) {
    Object.assign(chosen, changes);
    if (chosen.window === last()) chosen.window = Infinity; // so that it follows new ones
    choices();
    turn();
  }
  const move = (by) => choose({ window: Math.min(Math.max(now().window + by, 0), last()) });

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || !data.windows.length) return;
    if (event.target.closest && event.target.closest("select, input, textarea, [role=region]")) return;
    const to = { ArrowLeft: () => move(-1), ArrowRight: () => move(1), Home: () => choose({ window: 0 }), End: () => choose({ window: last() }) }[event.key];
    if (to) { event.preventDefault(); to(); }
  });

  // ---- estimates

  // The numbers of a column as people read them: days since 1970 as dates, places in a list as its words.
  const shown = (column, number) => (!column.unit ? number : Array.isArray(column.unit) ? (x) => column.unit[x] ?? (isNumber(x) ? "" : LDP.MISSING)
    : (x) => (isNumber(x) ? new Date(Math.round(x * 864e5)).toISOString().slice(0, column.unit === "date" ? 10 : 16).replace("T", " ") : LDP.MISSING));
  // Words that are written from right to left do not turn around the dates beside them.
  const aside = (text) => (/[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFC]/.test(text) ? `\u2068${text}\u2069` : text);
  const titled = (column, group) => `${[aside(column.name), windowName(group), aside(group.key)].filter(Boolean).join(", ")}: ${whole(group.n)} reports`;

  function histogram(column, group, all) {
    const ranked = group.rows.map(([name, estimate, low, high]) => ({ name: name === "" ? "(empty)" : name, estimate, low, high, share: group.n && isNumber(estimate) ? estimate / group.n : null }));
    const rest = ranked.length - FIRST;
    if (rest > 0) ranked.sort((a, b) => (b.estimate ?? -Infinity) - (a.estimate ?? -Infinity));
    all = all ?? open.has(column.name);
    const caption = titled(column, group) + (rest > 0 && !all ? `; the ${FIRST} most frequent of ${whole(ranked.length)} values, often too high` : "");
    const made = el("div", {}, bars(all ? ranked : ranked.slice(0, FIRST), { caption, head: "value", what: "reports", shares: true, confidence: column.confidence }));
    if (rest > 0) made.append(el("button", { type: "button", class: "link", onclick: () => {
      if (all) open.delete(column.name); else open.add(column.name);
      const other = histogram(column, group, !all);
      made.replaceWith(other);
      other.querySelector("button").focus();
    } }, all ? `Only the ${FIRST} most frequent` : `Show all ${whole(ranked.length)} values`));
    return made;
  }

  function distribution(column, group) {
    const points = group.rows.map(([[from, to], estimate, low, high]) => ({ at: from, to, estimate, low, high }));
    const rows = points.map((p) => [`${digits(p.at, 12)} to ${digits(p.to, 12)}`, percent(p.estimate), `${percent(p.low)} – ${percent(p.high)}`]);
    const [from, to] = [points[0].at, points[points.length - 1].to];
    const caption = `${titled(column, group)}, share of each bucket`;
    const picture = chart([{ name: column.name, points }], { steps: true, fromZero: true, from, to, number: percent, label: `${caption}. The table below has the numbers.`, labels: () => [from, (from + to) / 2, to].map((v) => ({ at: v, text: digits(v, 12) })) });
    const numbers = table(caption, ["from", "share", "interval"], rows.slice(0, MANY));
    const more = rows.length > MANY ? el("button", { type: "button", class: "link", onclick: (event) => { event.target.remove(); numbers.replaceWith(table(caption, ["from", "share", "interval"], rows)); } }, `Show all ${whole(rows.length)} buckets`) : null;
    return el("div", {}, el("p", { class: "quiet" }, caption), picture, el("details", {}, el("summary", {}, "The numbers"), numbers, more));
  }

  function points(column, group) { // a curve of numbers, or a line for each label
    const tick = (x) => digits(x, 12), caption = titled(column, group), head = column.shares ? "up to" : "of";
    const places = group.rows.map(([name, estimate, low, high]) => ({ name, at: Number(name), estimate, low, high }));
    const [first, end] = [places[0], places[places.length - 1]], decimals = LDP.decimals(places);
    const sharp = places.some((p) => p.low === p.high); // of no width: all that there is of the number
    const number = column.shares ? percent : shown(column, (x) => (isNumber(x) && !sharp ? tick(Number(x.toFixed(decimals))) : tick(x)));
    if (!column.shares || places.some((p) => p.name === "" || !isNumber(p.at))) return bars(places, { caption, head, what: column.what, number, axis: column.shares ? percent : shown(column, tick), dot: true, confidence: column.confidence });
    const labels = () => [first.at, (first.at + end.at) / 2, end.at].map((v) => ({ at: v, text: digits(v, 12) }));
    const picture = chart([{ name: column.name, points: places }], { fromZero: true, from: first.at, to: end.at, number: percent, label: `${caption}, share up to each value. The table below has the numbers.`, labels });
    const rows = places.map((p) => [digits(p.at, 12), percent(p.estimate), `${percent(p.low)} – ${percent(p.high)}`]);
    return el("div", {}, el("p", { class: "quiet" }, `${caption}, share up to each value`), picture, el("details", {}, el("summary", {}, "The numbers"), table(caption, [head, column.what, "interval"], rows)));
  }

  // Pairs of values: how many of those with the first have the second, as a map; all numbers in the table below it, and of
  // more columns in the table alone.
  function crossed(column, group) {
    const [first, second] = column.labels, caption = titled(column, group), name = (value) => (value === "" ? "(empty)" : value);
    const interval = column.confidence ? `${digits(100 * column.confidence, 12)} % from – to` : "from – to";
    const ends = (low, high, number) => `${number(low)} – ${number(high)}`;
    const numbers = () => table(caption, [...column.labels, "reports", interval, "rate", "rate from – to"], group.rows.map(([labels, count, low, high, rate, least, greatest]) =>
      [...labels.map(name), whole(count), ends(low, high, whole), percent(rate), isNumber(least) && isNumber(greatest) ? ends(least, greatest, percent) : "not known"]), column.labels.length);
    if (column.labels.length > 2) return el("div", {}, el("p", { class: "quiet" }, `${caption}. The rate is the share with the value of ${column.labels.at(-1)} among those with the others.`), numbers());
    const values = (k) => [...new Set(group.rows.map((row) => row[0][k]))], cells = new Map(group.rows.map((row) => [JSON.stringify(row[0]), row]));
    const known = (row) => row && row.slice(4).every(isNumber), most = LDP.ends([0.01, ...group.rows.filter(known).map((row) => row[4])])[1];
    const cell = (row) => {
      if (!known(row)) return el("td", { class: "n", title: "too few have the value" }, "?");
      const made = el("td", { class: "n", title: `rate ${ends(row[5], row[6], percent)}; ${whole(row[1])} reports, ${ends(row[2], row[3], whole)}` },
        `${LDP.fixed(100 * row[4], 1)} %`, el("small", {}, `± ${LDP.fixed(50 * (row[6] - row[5]), 1)}`));
      made.style.background = `color-mix(in srgb, var(--accent) ${(55 * Math.min(Math.max(row[4], 0), most)) / most}%, transparent)`;
      return made;
    };
    const map = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, el("table", { class: "map" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, `${first} and ${second}`), values(1).map((b) => el("th", { scope: "col", class: "n" }, name(b))))),
      el("tbody", {}, values(0).map((a) => el("tr", {}, el("th", { scope: "row" }, name(a)), values(1).map((b) => cell(cells.get(JSON.stringify([a, b])))))))));
    const about = `${caption}. Of those with each ${first}, the share with each value of ${second}, and half of its interval.`;
    return el("div", {}, el("p", { class: "quiet" }, about), map, el("details", {}, el("summary", {}, "The numbers"), numbers()));
  }

  function means(column, key, window) {
    const groups = column.groups.filter((group) => group.key === key);
    const rows = groups.map((group) => ({ name: windowName(group), estimate: group.rows[0][1], low: group.rows[0][2], high: group.rows[0][3], chosen: group.window !== null && group.window === window }));
    const n = groups.reduce((sum, group) => sum + (group.n || 0), 0);
    const places = LDP.decimals(rows), caption = `${[column.name, key].filter(Boolean).join(", ")}: ${column.what} of ${whole(n)} reports`;
    return bars(rows, { caption, head: "window", what: column.what, number: shown(column, (x) => LDP.fixed(x, places)), axis: shown(column, (x) => digits(x, 12)), dot: true, long: true, confidence: column.confidence });
  }

  function overTime(column, key, choose) {
    const groups = column.groups.filter((group) => group.key === key && group.window !== null);
    if (column.kind !== "histogram" || groups.length < 2) return null;
    const totals = new Map();
    for (const group of groups) for (const [name, estimate] of group.rows) totals.set(name, (totals.get(name) || 0) + Math.max(estimate || 0, 0));
    const top = [...totals].sort((a, b) => b[1] - a[1]).slice(0, LINES).map(([name]) => name);
    const share = (x, n) => (isNumber(x) && n ? x / n : null);
    const lines = top.map((name) => ({ name: name === "" ? "(empty)" : name, points: groups.map((group) => {
      const row = group.rows.find((r) => r[0] === name) || [];
      return { at: group.window, estimate: share(row[1], group.n), low: share(row[2], group.n), high: share(row[3], group.n) };
    }) }));
    const from = groups[0].window, to = groups[groups.length - 1].window;
    const labels = (wide) => (wide < 420 || to - from < 2 ? [from, to] : [from, Math.round((from + to) / 2), to]).map((k) => ({ at: k, text: data.windows[k].split(" to ")[0] }));
    const caption = `${column.name}: shares by window` + (totals.size > LINES ? `, the ${LINES} most frequent values` : "");
    const half = (p) => (isNumber(p.low) && isNumber(p.high) ? ` ± ${LDP.fixed(50 * (p.high - p.low), 2)}` : "");
    const [least, greatest] = LDP.ends(lines.flatMap(({ points }) => points.flatMap((p) => [p.estimate, p.low, p.high])).filter(isNumber));
    const far = least > greatest / 3; // an axis from 0 on would hide the intervals
    return el("div", {}, el("h3", {}, "Over time"), far ? el("p", { class: "quiet" }, "The axis does not start at 0.") : null,
      chart(lines, { from, to, fromZero: !far, number: (x) => `${digits(100 * x, 12)} %`, labels, choose, label: `${caption}. The table below has the numbers.` }),
      el("details", { class: "numbers" }, el("summary", {}, "The numbers"), table(`${caption}, in percent, with the margin of error`, ["window", ...lines.map((line) => line.name)],
        groups.map((group, k) => [windowName(group), ...lines.map(({ points }) => (isNumber(points[k].estimate) ? LDP.fixed(100 * points[k].estimate, 2) + half(points[k]) : LDP.MISSING))]))));
  }

  function view(column, key, group) { // a place that is filled when it is needed
    const place = el("div", { class: "view off" });
    place.about = { column, key, group };
    place.fill = () => {
      place.fill = () => {};
      if (!group) place.append(means(column, key, now().window));
      else if (group.rows.length) place.append({ distribution, points, histogram, table: crossed }[column.kind](column, group));
    };
    late.push(place);
    return place;
  }

  function build() {
    late = [];
    at("columns").replaceChildren(...data.columns.map((column) => {
      const spent = isNumber(column.epsilon) ? `, epsilon ${digits(column.epsilon)}` : "";
      const about = column.alone ? "The intervals are of the noise alone: they are about these reports, not about people of whom these are a sample."
        : "The intervals are of noise and sampling together.";
      const section = el("div", { class: "column off" }, el("h3", {}, column.name), el("p", { class: "quiet" }, `${column.mechanism ? `${column.mechanism}${spent}` : spent.slice(2)}. ${about} ${column.searches || ""}`.replace(/^\. /, "")));
      if (column.changed) section.append(el("p", {}, column.changed));
      section.about = column;
      section.overTime = el("div", {});
      for (const key of keysOf(column)) {
        if (column.kind === "mean") section.append(view(column, key, null));
        else for (const group of column.groups.filter((g) => g.key === key)) section.append(view(column, key, group));
        if (column.kind === "histogram") {
          const place = el("div", { class: "view off" });
          place.about = { column, key, trend: true };
          place.fill = () => { place.fill = () => {}; const made = overTime(column, key, (w) => choose({ window: w })); if (made) place.append(made); };
          late.push(place);
          section.append(place);
        }
      }
      if (!column.groups.length) section.append(el("p", {}, live && !ended ? (data.total ? "No report has come yet." : "No window has closed yet.") : column.kind === "histogram" ? "Nothing was found." : "No reports."));
      else section.append(el("p", { class: "nothing" }, "Nothing was estimated for this window."));
      return section;
    }));
    if (!data.columns.length) at("columns").append(el("p", {}, "There are no estimates yet."));
    turn();
  }

  function turn() {
    const { column, key, window } = now();
    const there = new Set(); // columns that have something in this window
    let shown = null;
    for (const section of at("columns").children) if (section.about) section.classList.toggle("off", section.about !== column);
    for (const place of late) {
      const { group, trend } = place.about, of = place.about.column;
      const fits = !group || group.window === null || group.window === window, on = fits && of === column && place.about.key === key;
      place.classList.toggle("off", !on);
      place.classList.toggle("elsewhere", !fits); // on paper there is this window, of all columns and groups
      if (fits && !trend && (of !== column || on)) there.add(of);
      if (on) { place.fill(); if (!trend) shown = group; }
      if (on && !group && !trend) {
        const groups = column.groups.filter((g) => g.key === key);
        place.querySelectorAll("tbody tr").forEach((row, k) => row.classList.toggle("chosen", groups[k]?.window === window && data.windows.length > 1));
      }
    }
    for (const section of at("columns").children) section.querySelector(".nothing")?.classList.toggle("elsewhere", there.has(section.about));
    if (column) at("said").textContent = [column.name, window === null ? "" : windowText(window), shown ? `${whole(shown.n)} reports` : ""].filter(Boolean).join(", ");
  }

  function fillAll() {
    for (const place of late) if (!place.classList.contains("elsewhere")) place.fill();
    for (const numbers of document.querySelectorAll("details.numbers")) numbers.open = true;
  }
  addEventListener("beforeprint", fillAll);
  matchMedia("print").addEventListener("change", (event) => { if (event.matches) fillAll(); });

  // ---- dead letters, the plan

  function letters() {
    if (!data.letters) return at("letters-body").replaceChildren(el("p", {}, "Not known for these results: they are of finished files, which do not say what was lost before."));
    if (data.total) at("letters-head").textContent = "Refused messages";
    const rows = data.letters.map((letter) => [letter.late ? "late" : "dead letter", letter.reason, letter.column || "(whole records or messages)", whole(letter.count)]);
    at("letters-body").replaceChildren(rows.length && data.total
      ? table("Nothing of a refused message is counted.", ["reason", "messages"], data.letters.map(({ reason, count }) => [reason, whole(count)]), 1)
      : rows.length ? table("A late record came after its window had closed; a dead letter could not be used.", ["kind", "reason", "column", "records"], rows, 3)
      : el("p", {}, "None."));
  }

  function plan() {
    const { plan } = data;
    if (!plan) return at("plan-body").replaceChildren(el("p", {}, "These results do not say which plan made them."));
    const rows = plan.columns.map((c) => [c.name, c.mechanism, c.values, digits(c.epsilon), c.margin]);
    const many = (k) => `${whole(k)} ${k === 1 ? "report" : "reports"}`;
    const parts = [];
    if (plan.seeded) parts.push(el("p", { class: "warning" }, "The plan has a seed: its noise can be repeated, and protects nobody."));
    if (plan.record) parts.push(el("p", {}, `${plan.record[0].toUpperCase()}${plan.record.slice(1).replace(/\s+/g, " ")}.`));
    parts.push(table("Each column of one record", ["column", "mechanism", "values", "epsilon", `margin, 95 %, of ${many(plan.n)}`], [...rows, ["one record", "", "", digits(plan.epsilon), ""]], 3));
    if (data.windows.length > 1) parts.push(el("p", { class: "quiet" }, `${whole(plan.n)} reports are a window of middle size here. Each estimate above has its own interval.`));
    if (plan.keep.length) parts.push(el("p", { class: "warning" }, `Kept as they are, without protection: ${plan.keep.join(", ")}.`));
    for (const c of plan.columns) if (c.advice) parts.push(el("p", { class: "quiet" }, `${c.name}: ${c.advice}`));
    parts.push(el("h3", {}, "What a person spends"), table("Epsilon of all reports of one person, by how many they send", ["", ...plan.reports.map(many)],
      plan.people.map(([what, ...spent]) => [what, ...spent.map((s) => (s === null ? "no bound" : digits(s)))])));
    parts.push(el("details", { class: "screen" }, el("summary", {}, "The same as ldp plan explain prints it"), el("pre", { tabindex: "0" }, plan.text)));
    at("plan-body").replaceChildren(...parts);
  }

  function all() { tiles(); choices(); build(); letters(); plan(); }
  all();

  // Draw all anew; the focus and what is unfolded stay where they were, each in its section.
  function again() {
    const seen = (section, kind) => [...section.querySelectorAll(kind)].filter((e) => e.offsetParent);
    const stops = "button, select, summary, [tabindex]", focus = document.activeElement, home = focus?.closest("section");
    const place = home ? seen(home, stops).indexOf(focus) : -1;
    const unfolded = [...document.querySelectorAll("section")].map((section) => seen(section, "details").map((one) => one.open));
    all();
    document.querySelectorAll("section").forEach((section, k) => seen(section, "details").forEach((one, i) => { one.open = Boolean(unfolded[k][i]); }));
    if (place >= 0) seen(home, stops)[place]?.focus({ preventScroll: true });
  }

  // ---- while the job runs

  if (live) {
    let version = "", silent = 0;
    const say = (text) => { at("live").hidden = false; if (at("live").textContent !== text) at("live").textContent = text; };
    const ask = async () => {
      try {
        const found = await (await fetch(`${live}?${version}`, { cache: "no-store" })).json();
        silent = 0;
        if (found.data) {
          const label = data.windows[chosen.window]; // the oldest windows may have gone
          version = found.version;
          ended = found.ended;
          data = { ...found.data, live };
          if (label !== undefined) chosen.window = Math.max(data.windows.indexOf(label), 0);
          again();
        }
        say(ended ? "The job has ended. These are all its windows." : data.total ? "Live: all reports that have come." : "Live: new windows appear as they close.");
      } catch {
        silent += 1;
        if (silent > 2 && !ended) say(`The ${data.total ? "server" : "job"} does not answer: it has ended, or was stopped. These are the last numbers.`);
      }
      setTimeout(ask, ended ? 5000 : 1000);
    };
    ask();
  }
})();

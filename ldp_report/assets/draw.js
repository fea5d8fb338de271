// Elements, numbers and pictures, of the report and of the planner. All text is put in as text, never as HTML.
"use strict";
const LDP = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  function filled(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false && value !== undefined) node.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat()) {
      if (child !== null && child !== undefined && child !== false)
        node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return node;
  }
  const el = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

  // ---- numbers

  const MISSING = "–";
  const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
  const FORMATS = []; // by digits: a new one for each number takes longer than all else on a page
  const format = (digits) => (FORMATS[digits] ??= new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  const fixed = (x, digits) => (isNumber(x) ? format(digits).format(x).replace(/^-(0(\.0*)?)$/, "$1").replace("-", "−") : MISSING);
  const whole = (x) => fixed(x, 0);
  const percent = (x) => (isNumber(x) ? `${fixed(100 * x, 2)} %` : MISSING);
  const digits = (x, most) => (isNumber(x) ? Number(x.toPrecision(most || 4)).toLocaleString("en-US", { maximumFractionDigits: 12 }).replace("-", "−") : MISSING);

  // The least and the greatest of many: as arguments of Math.min some 100,000 are too many.
  const ends = (numbers) => numbers.reduce(([low, high], x) => [Math.min(low, x), Math.max(high, x)], [Infinity, -Infinity]);

  // As many decimals as the half width of an interval has significant ones: two.
  const decimals = (rows) => {
    const widths = rows.map((row) => row.high - row.low).filter((w) => isNumber(w) && w > 0);
    return widths.length ? Math.min(Math.max(1 - Math.floor(Math.log10(ends(widths)[0] / 2)), 0), 12) : 2;
  };

  // ---- axes

  function ticks(low, high, about) {
    const span = high - low || Math.abs(high) || 1;
    const rough = span / about, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((m) => m * power >= rough * 0.999) * power;
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
    return found;
  }

  function extent(rows, fromZero) {
    const found = rows.flatMap((row) => [row.estimate, row.low, row.high, row.truth]).filter(isNumber);
    let [low, high] = found.length ? ends(fromZero ? [0, ...found] : found) : [0, 1];
    if (low === high) [low, high] = [low - (low ? Math.abs(low) / 10 : 0), high + (high ? Math.abs(high) / 10 : 1)];
    const margin = fromZero ? 0 : (high - low) * 0.06;
    return [low - margin, high + margin];
  }

  const TALL = 34;

  function barOf(row, low, high, marks, dot) {
    const x = (value) => (1000 * (value - low)) / (high - low);
    const picture = svg("svg", { viewBox: `0 0 1000 ${TALL}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    for (const mark of marks) picture.append(svg("line", { class: mark === 0 ? "zero" : "grid", x1: x(mark), x2: x(mark), y1: 0, y2: TALL }));
    if (isNumber(row.estimate) && !dot) {
      const [from, to] = [x(0), x(row.estimate)].sort((a, b) => a - b);
      picture.append(svg("rect", { class: "bar", x: from, width: to - from, y: 7, height: TALL - 14 }));
    }
    if (isNumber(row.low) && isNumber(row.high)) {
      picture.append(svg("path", { class: "interval", d: `M${x(row.low)} ${TALL / 2}H${x(row.high)}M${x(row.low)} 12V${TALL - 12}M${x(row.high)} 12V${TALL - 12}` }));
    }
    if (dot && isNumber(row.estimate)) picture.append(svg("line", { class: "dot", x1: x(row.estimate), x2: x(row.estimate), y1: TALL / 2, y2: TALL / 2 }));
    if (isNumber(row.truth)) picture.append(svg("line", { class: "truth", x1: x(row.truth), x2: x(row.truth), y1: 4, y2: TALL - 4 }));
    return picture;
  }

  // A table whose rows have a bar: the numbers and the picture in one.
  //   rows: {name, estimate, low, high, share, truth, chosen}; options: {caption, head, what, number, dot, axis, confidence, scale}
  function bars(rows, options) {
    const { caption, head, what, number = whole, dot = false, shares = false, confidence, scale } = options;
    const [low, high] = scale || extent(rows, !dot);
    const marks = ticks(low, high, 4);
    const axis = el("div", { class: "axis", "aria-hidden": "true" });
    marks.forEach((mark, k) => {
      const place = (mark - low) / (high - low);
      const label = el("span", { class: place < 0.04 ? "first" : place > 0.96 ? "last" : null }, (options.axis || number)(mark));
      label.style.left = `${100 * place}%`;
      axis.append(label);
    });
    const interval = confidence ? `${digits(100 * confidence, 12)} % from – to` : "from – to";
    const cell = (tag, kind, ...children) => el(tag, { class: kind, role: tag === "th" ? null : "cell" }, ...children);
    return el(
      "table", { class: options.long ? "bars long" : "bars", role: "table" },
      el("caption", {}, caption),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" },
        el("th", { class: "value", scope: "col", role: "columnheader" }, head),
        el("td", { class: "picture", "aria-hidden": "true" }, axis),
        el("th", { class: "estimate n", scope: "col", role: "columnheader" }, what),
        shares ? el("th", { class: "share n", scope: "col", role: "columnheader" }, "share") : null,
        el("th", { class: "ends n", scope: "col", role: "columnheader" }, interval))),
      el("tbody", { role: "rowgroup" }, rows.map((row) => el("tr", { role: "row", class: row.chosen ? "chosen" : null },
        el("th", { class: "value", scope: "row", role: "rowheader" }, row.name),
        el("td", { class: "picture", "aria-hidden": "true" }, barOf(row, low, high, marks, dot)),
        cell("td", "estimate n", number(row.estimate)),
        shares ? cell("td", "share n", percent(row.share)) : null,
        cell("td", "ends n", `${number(row.low)} – ${number(row.high)}`)))));
  }

  // A plain table: head, rows of cells; columns from `words` on are numbers.
  function table(caption, head, rows, words = 1) {
    const kind = (k) => (k >= words ? "n" : null);
    const long = head.length > 3; // on a phone each row of it is a card
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, el("table", { class: long ? "cards" : null, role: "table" },
      el("caption", {}, caption),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head.map((text, k) => el("th", { scope: "col", role: "columnheader", class: kind(k) }, text)))),
      el("tbody", { role: "rowgroup" }, rows.map((row) => el("tr", { role: "row" }, row.map((text, k) => k
        ? el("td", { role: "cell", class: kind(k), "data-head": head[k], "data-empty": text === "" }, text)
        : el("th", { scope: "row", role: "rowheader" }, text)))))));
  }

  const DASHES = ["", "7 4", "2 3", "10 3 2 3", "1 4", "14 4"];
  const MARKS = ["M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z", "M-3 -3H3V3H-3Z", "M0 -4L4 3H-4Z", "M0 -4.5L4 0L0 4.5L-4 0Z", "M-1 -4H1V-1H4V1H1V4H-1V1H-4V-1H-1Z", "M0 4L4 -3H-4Z"];
  const mark = (k, x, y, color) => svg("path", { class: "mark", d: MARKS[k % MARKS.length], transform: `translate(${x} ${y})`, fill: color });

  // Lines with their intervals, one point a place. lines: {name, points: [{at, estimate, low, high}]}; drawn anew at each width.
  function chart(lines, options) {
    const box = el("div", {});
    const figure = el("figure", { class: "chart" }, box);
    if (lines.length > 1) {
      figure.append(el("ul", { class: "legend" }, lines.map((line, k) => el("li", {},
        svg("svg", { viewBox: "0 0 28 12", "aria-hidden": "true" }, svg("line", { x1: 0, x2: 28, y1: 6, y2: 6, style: null, "stroke-width": 3, stroke: `var(--line${k})`, "stroke-dasharray": DASHES[k] }), mark(k, 14, 6, `var(--line${k})`)), line.name))));
    }
    const draw = () => {
      const wide = Math.max(box.clientWidth || 680, 240), tall = 230, left = 62, under = 26, top = 10, right = 14;
      const points = lines.flatMap((line) => line.points);
      const [low, high] = extent(points, options.fromZero);
      const x = (at) => left + ((wide - left - right) * (at - options.from)) / (options.to - options.from || 1);
      const y = (value) => top + ((tall - top - under) * (high - value)) / (high - low);
      const picture = svg("svg", { viewBox: `0 0 ${wide} ${tall}`, height: tall, role: "img", "aria-label": options.label });
      for (const mark of ticks(low, high, 4)) {
        picture.append(svg("line", { class: mark === 0 ? "zero" : "grid", x1: left, x2: wide - right, y1: y(mark), y2: y(mark) }));
        picture.append(svg("text", { x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, options.number(mark)));
      }
      options.labels(wide).forEach(({ at, text }, k, all) => {
        picture.append(svg("text", { x: x(at), y: tall - 6, "text-anchor": all.length === 1 ? "middle" : k === 0 ? "start" : k === all.length - 1 ? "end" : "middle" }, text));
      });
      lines.forEach((line, k) => {
        const color = `var(--line${k})`, shift = options.steps ? 0 : (k - (lines.length - 1) / 2) * 3;
        const known = line.points.filter((p) => isNumber(p.estimate));
        if (options.steps) {
          const up = known.map((p) => `${x(p.at)} ${y(p.high)}H${x(p.to)}`), down = [...known].reverse().map((p) => `${x(p.to)} ${y(p.low)}H${x(p.at)}`);
          if (known.length) picture.append(svg("path", { d: `M${up.join("L")}L${down.join("L")}Z`, fill: "var(--bar)", opacity: 0.55 }));
          if (known.length) picture.append(svg("path", { d: `M${known.map((p) => `${x(p.at)} ${y(p.estimate)}H${x(p.to)}`).join("L")}`, fill: "none", stroke: color, "stroke-width": 2 }));
          return;
        }
        for (const p of known) if (isNumber(p.low) && isNumber(p.high)) picture.append(svg("line", { x1: x(p.at) + shift, x2: x(p.at) + shift, y1: y(p.low), y2: y(p.high), stroke: color, "stroke-width": 1.5, opacity: 0.75 }));
        picture.append(svg("path", { d: known.map((p, i) => `${i ? "L" : "M"}${x(p.at) + shift} ${y(p.estimate)}`).join(""), fill: "none", stroke: color, "stroke-width": 2, "stroke-dasharray": DASHES[k] }));
        for (const p of known) picture.append(mark(k, x(p.at) + shift, y(p.estimate), color));
      });
      if (options.choose) {
        picture.addEventListener("click", (event) => {
          const frame = picture.getBoundingClientRect();
          const at = options.from + ((event.clientX - frame.left - left) / (wide - left - right)) * (options.to - options.from);
          options.choose(Math.round(Math.min(Math.max(at, options.from), options.to)));
        });
      }
      box.replaceChildren(picture);
    };
    draw();
    let last = 0;
    new ResizeObserver(() => { if (box.clientWidth && Math.abs(box.clientWidth - last) > 1) { last = box.clientWidth; draw(); } }).observe(box);
    return figure;
  }

  return { el, whole, fixed, ends, decimals, percent, digits, bars, table, chart, isNumber, MISSING };
})();

// The page's data as typed columns, and helpers for elements. Text is inserted as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, text = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  return element;
}

function columns(side, n, ranks, other, uncounted) {
  if (!side) return null;
  const nanoseconds = (values) => Float64Array.from(values, (value) => value * 1e-9);
  // The baseline's counts are stored as differences from the candidate's.
  const stored = Float64Array.from(side.ncalls, (value, row) => (other ? value + other.stored[row] : value));
  const unknown = new Set(side.unknown), estimated = new Set(side.estimated);
  const ncalls = stored.map((value, row) => (uncounted || unknown.has(row) ? NaN : value));
  return {
    rank: Int32Array.from(side.rank ?? ranks),
    stored,
    ncalls,
    exact: (row) => !uncounted && !unknown.has(row) && !estimated.has(row),
    // The text of a function's calls, or of some of them.
    calls: (row, value = ncalls[row]) => (unknown.has(row) ? UNKNOWN : (estimated.has(row) ? "~" : "") + count(value)),
    tottime: nanoseconds(side.tottime),
    cumtime: nanoseconds(side.cumtime),
    wait: side.wait ? nanoseconds(side.wait) : null,
    whole: { tottime: side.total, cumtime: side.most },
  };
}

// Rows are in the order of the candidate's rank; functions that it lacks come last.
const functions = (() => {
  const table = data.functions;
  if (!table) return null;
  const n = table.names.length;
  const ranks = Int32Array.from({ length: n }, (_, row) => (row < table.present ? row + 1 : 0));
  const after = columns(table.after, n, ranks, null, table.uncounted);
  const before = columns(table.before, n, null, after, table.uncounted);
  const marked = new Uint8Array(n);
  for (const row of table.marked) marked[row] = 1;
  const where = (row) => {
    const place = table.places[table.place[row]];
    return table.line[row] && place !== "built-in" ? `${place}:${table.line[row]}` : place;
  };
  return { ...table, n, after, before, marked, where };
})();

function link(text, act, title = "") {
  const button = make("button", { type: "button", className: "link", title }, make("bdi", {}, text));
  button.addEventListener("click", act);
  return button;
}

function onChoice(name, act) {
  for (const radio of document.querySelectorAll(`input[name=${name}]`)) radio.addEventListener("change", () => act(radio.value));
}

// The colour scale from blue to red, with the values of both ends.
function scaleOf(most, unit = "") {
  const kinds = ["l3", "l2", "l1", "same", "m1", "m2", "m3"].map((kind) => make("i", { className: kind }));
  return [change(0, -most), ...kinds, `${change(0, most)}${unit}`];
}

// Move the focus and the Tab stop (roving tabindex).
function focusOn(next, last, options = {}) {
  last.tabIndex = -1;
  next.tabIndex = 0;
  next.focus(options);
}

// Tells other parts of the page which function the reader chose.
const chosen = new EventTarget();
function choose(row) {
  chosen.dispatchEvent(new CustomEvent("function", { detail: row }));
}

// Functions with exactly this name, else without regard to case, else whose names contain it; most time first.
function searched(typed) {
  const { names, n, after } = functions, lower = typed.toLowerCase();
  const rows = [], exact = [], alike = [];
  for (let row = 0; row < n; row++) {
    if (names[row] === typed) exact.push(row);
    const name = names[row].toLowerCase();
    if (name === lower) alike.push(row);
    if (name.includes(lower)) rows.push(row);
  }
  const found = exact.length ? exact : alike.length ? alike : rows;
  return { rows: found.sort((a, b) => after.cumtime[b] - after.cumtime[a]), exact: found !== rows };
}

// The table of all functions, with sorting, search and pages.
function startTable() {
  const FEW = 10, MANY = 50;
  let size = FEW;
  const { n, after, before, names, marked } = functions;
  const find = byId("table-find"), root = byId("table-root"), only = byId("table-marked"), place = byId("table-rows");
  let measure = functions.by, rows = [], page = 0, haystack = null;
  // "change" sorts by absolute value, like the tables of the comparison.
  let sort = before ? { key: "change", down: true } : { key: "after", down: true };

  // Times per call are written in picoseconds; an unknown ratio is −1.
  const each = (row) => (after.ncalls[row] > 0 ? functions.each[row] * 1e-12 : NaN);
  const ratio = (row) => (functions.ratio[row] < 0 ? NaN : functions.ratio[row]);
  const none = (side, row) => side.rank[row] === 0;
  const time = (side, row) => (none(side, row) ? UNKNOWN : seconds(side[measure][row]));
  // The texts of both sides, one if they are equal.
  const both = (text) => {
    const now = text(after), was = before ? text(before) : now;
    return was === now ? now : `${was} → ${now}`;
  };
  const unseen = (row) => functions.match[row] === "unseen";
  const lacking = (side, row) => (unseen(row) ? UNKNOWN : side === after ? "gone" : "new");
  const rank = (row) => both((side) => (none(side, row) ? lacking(side, row) : `#${side.rank[row]}`));
  const calls = (row) => both((side) => (none(side, row) ? UNKNOWN : side.calls(row)));
  // Not known where one side may have missed the function.
  const delta = (row) => (unseen(row) ? NaN : after[measure][row] - before[measure][row]);
  const LAST = Number.MAX_SAFE_INTEGER;

  // heading, sort key, greatest first, text of a row, value to sort by
  const all = [
    ["rank", "rank", false, rank, (row) => after.rank[row] || LAST],
    ["function", "name", false, null, null],
    before && ["baseline", "before", true, (row) => time(before, row), (row) => before[measure][row]],
    [before ? "candidate" : "seconds", "after", true, (row) => time(after, row), (row) => after[measure][row]],
    before && ["change", "change", true, (row) => change(0, delta(row)), (row) => Math.abs(delta(row)) || 0],
    ["share", "share", true, (row) => share(after[measure][row] / after.whole[measure]), (row) => after[measure][row]],
    before && ["per call", "ratio", true, (row) => factor(ratio(row)), (row) => functions.ratio[row]],
    !before && ["per call", "each", true, (row) => seconds(each(row)), (row) => each(row) || 0],
    after.wait && ["CPU queue", "wait", true, (row) => seconds(after.wait[row]), (row) => after.wait[row]],
    ["calls", "calls", true, calls, (row) => after.ncalls[row] || 0],
  ].filter(Boolean);

  const table = make("table", { className: "every" });
  const heads = make("tr");
  for (const [title, key, down] of all) {
    const button = make("button", { type: "button" }, title, make("span", { ariaHidden: "true" }));
    button.addEventListener("click", () => {
      sort = { key, down: sort.key === key ? !sort.down : down };
      page = 0;
      update();
    });
    const className = key === "name" ? "name" : `number ${key}`;
    heads.append(make("th", { scope: "col", className, "data-key": key }, button));
  }
  const body = make("tbody");
  table.append(make("thead", {}, heads), body);
  place.append(table);

  function matching() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && !haystack) {
      haystack = names.map((name, row) => `${name} ${functions.where(row)}`.toLowerCase());
    }
    const found = [];
    for (let row = 0; row < n; row++) {
      if (only?.checked && !marked[row]) continue;
      if (root.value && functions.roots[functions.place[row]] !== root.value) continue;
      if (words.every((word) => haystack[row].includes(word))) found.push(row);
    }
    return found;
  }

  function ordered(found) {
    const typed = find.value.trim().toLowerCase();
    const exactly = (row) => typed && names[row].toLowerCase() === typed;
    const sorted = sortedRows(found);
    return typed ? [...sorted.filter(exactly), ...sorted.filter((row) => !exactly(row))] : sorted;
  }

  function sortedRows(found) {
    const sign = sort.down ? -1 : 1;
    if (sort.key === "name") {
      const collator = new Intl.Collator("en");
      return found.sort((a, b) => sign * collator.compare(names[a], names[b]) || a - b);
    }
    const value = all.find(([, key]) => key === sort.key)[4];
    const keys = new Float64Array(n);
    for (const row of found) keys[row] = value(row);
    return found.sort((a, b) => sign * (keys[a] - keys[b]) || a - b);
  }

  function rowOf(row, index) {
    const line = make("tr", { className: marked[row] ? "marked" : "", "aria-rowindex": index + 2 });
    for (const [, key, , text] of all) {
      if (key === "name") {
        const name = link(names[row], () => choose(row), "Show who calls it");
        const small = make("span", { className: "small" }, ` ${functions.where(row)}`);
        const match = functions.match[row];
        if (match) small.append(` · ${match}`);
        if (functions.reason[row]) small.append(` · ${functions.reason[row]}`);
        const label = data.calls ? name : make("bdi", {}, names[row]);
        const mark = marked[row] ? [make("span", { className: "dot", title: "moved beyond the noise" }, "● ")] : [];
        line.append(make("th", { scope: "row", className: "name" }, ...mark, make("code", {}, label), small));
        continue;
      }
      const cell = make("td", { className: `number ${key}` }, text(row));
      if (key === "change" && marked[row]) cell.classList.add(delta(row) > 0 ? "worse" : "better");
      line.append(cell);
    }
    return line;
  }

  function show() {
    const pages = Math.max(1, Math.ceil(rows.length / size));
    page = Math.min(Math.max(page, 0), pages - 1);
    const from = page * size, shown = rows.slice(from, from + size);
    body.replaceChildren(...shown.map((row, at) => rowOf(row, from + at)));
    table.setAttribute("aria-rowcount", rows.length + 1);
    byId("table-count").textContent = rows.length
      ? `${thousands(from + 1)}–${thousands(from + shown.length)} of ${thousands(rows.length)}`
      : find.value.trim() && !only?.checked && !root.value ? `No function is named “${find.value.trim()}”.` : "Nothing matches.";
    for (const [id, end] of [["first", page === 0], ["back", page === 0], ["next", page === pages - 1], ["last", page === pages - 1]]) {
      byId(`table-${id}`).disabled = end;
    }
  }

  function update() {
    rows = ordered(matching());
    for (const head of heads.children) {
      const sorted = head.dataset.key === sort.key;
      if (sorted) head.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      head.querySelector("span").textContent = sorted ? (sort.down ? " ↓" : " ↑") : "";
    }
    show();
  }

  function restart() {
    page = 0;
    update();
  }
  find.addEventListener("input", restart);
  root.addEventListener("change", restart);
  only?.addEventListener("change", restart);
  onChoice("measure", (value) => {
    measure = value;
    update();
  });
  const turn = { first: () => 0, back: () => page - 1, next: () => page + 1, last: () => Infinity };
  for (const [name, to] of Object.entries(turn)) {
    byId(`table-${name}`).addEventListener("click", () => {
      page = to();
      show();
    });
  }
  byId("table-more").addEventListener("click", () => {
    size = size === FEW ? MANY : FEW;
    byId("table-more").textContent = size === FEW ? "More rows" : "Fewer rows";
    page = 0;
    show();
  });
  update();
}

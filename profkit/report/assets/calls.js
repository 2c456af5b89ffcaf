// Who calls whom, around one function: an icicle of which the middle three levels are measured sums. What stands
// further up and down is apportioned from the sums of pairs, since no profile holds the paths.
function startCalls() {
  const { n, after, before, names } = functions;
  const graph = data.calls;
  const m = graph.caller.length;
  const sums = (side, other) =>
    side && {
      ncalls: Float64Array.from(side.ncalls, (value, edge) => (functions.uncounted ? NaN : other ? value + other.ncalls[edge] : value)),
      cumtime: Float64Array.from(side.cumtime, (value) => value * 1e-9),
    };
  const edgesAfter = sums(graph.after, null), edgesBefore = sums(graph.before, graph.after);
  const callers = indexed(graph.callee), callees = indexed(graph.caller);
  const picture = byId("calls-picture"), said = byId("calls-said"), table = byId("calls-table");
  const find = byId("calls-find"), back = byId("calls-back"), deep = byId("calls-deep"), list = byId("calls-names");
  const history = [];
  let focus = 0, side = "after", scale = 0;
  const DEEPEST = 5, HIGHEST = 4;
  const NARROWEST = 0.003; // of the width: narrower blocks are counted instead of drawn

  // Edges by one of their ends: the edges of row r are order[start[r]] … order[start[r + 1] - 1].
  function indexed(end) {
    const start = new Int32Array(n + 1), order = new Int32Array(m);
    for (const row of end) start[row + 1]++;
    for (let row = 0; row < n; row++) start[row + 1] += start[row];
    const next = start.slice();
    for (let edge = 0; edge < m; edge++) order[next[end[edge]]++] = edge;
    return (row) => order.subarray(start[row], start[row + 1]);
  }

  const nodes = () => (side === "after" ? after : before);
  const edges = () => (side === "after" ? edgesAfter : edgesBefore);
  const grown = (edge) => (before ? edgesAfter.cumtime[edge] - edgesBefore.cumtime[edge] : 0);

  // Every measured pair of the focused function, widest first; itself and what only the other side has are kept apart.
  function pairs(of, other) {
    const found = { rows: [], itself: null, absent: 0 };
    for (const edge of of(focus)) {
      const row = other[edge];
      if (row === focus) found.itself = edge;
      else if (edges().cumtime[edge] > 0) found.rows.push({ row, edge, seconds: edges().cumtime[edge], change: grown(edge) });
      else found.absent++;
    }
    found.rows.sort((a, b) => b.seconds - a.seconds);
    return found;
  }

  const total = (items) => items.reduce((sum, item) => sum + item.seconds, 0);

  function colour(delta) {
    if (!before || !(scale > 0)) return "same";
    const size = Math.abs(delta) / scale;
    if (size < 0.02) return "same";
    return `${delta > 0 ? "m" : "l"}${size > 0.5 ? 3 : size > 0.15 ? 2 : 1}`;
  }

  function block(item, from, width, classes) {
    const plain = item.row === undefined;
    const text = item.text ?? `${item.again ? "↻ " : ""}${names[item.row]}`;
    const known = [`${seconds(item.seconds)}`];
    if (before && item.change !== undefined) known.push(`${change(0, item.change)} against the baseline`);
    if (item.calls !== undefined) known.push(`${count(item.calls)} calls`);
    if (item.again) known.push("drawn already: followed no further");
    if (item.apportioned) known.push("apportioned");
    const label = `${text}: ${known.join(", ")}`;
    const element = make(plain ? "span" : "button", { className: `block ${classes}`, title: label });
    element.append(make("bdi", {}, text));
    if (plain) element.classList.add("plain");
    else {
      element.type = "button";
      element.tabIndex = -1;
      element.setAttribute("aria-label", label);
      element.classList.add(colour(item.change));
      element.addEventListener("click", () => go(item.row));
    }
    if (width < 0.03) element.classList.add("thin");
    element.style.left = `${100 * from}%`;
    element.style.width = `${100 * width}%`;
    return element;
  }

  function level(name, label, first = false) {
    const blocks = make("div", { className: "blocks" });
    blocks.setAttribute("role", "group");
    blocks.setAttribute("aria-label", label);
    const whole = make("div", { className: "level" }, make("span", {}, name), blocks);
    if (first) picture.prepend(whole);
    else picture.append(whole);
    return blocks;
  }

  // One level of blocks beside each other; what is too narrow ends up in one block that counts it.
  function fill(blocks, items, from, whole, classes = "") {
    let at = from, narrow = [];
    for (const item of items) {
      const width = item.seconds / whole;
      if (width < NARROWEST) {
        narrow.push(item);
        continue;
      }
      item.from = at;
      item.width = width;
      blocks.append(block(item, at, width, classes));
      at += width;
    }
    if (narrow.length && total(narrow) / whole > 0.0008) {
      const rest = { seconds: total(narrow), text: `${thousands(narrow.length)} more` };
      blocks.append(block(rest, at, rest.seconds / whole, classes));
    }
  }

  // One more level beyond `parents`, away from the focused function. Down, the callees of each are scaled by the part
  // that this caller has in it; up, its time is shared out among its callers as they share all its calls.
  function beyond(parents, whole, up) {
    const blocks = make("div"), found = [];
    for (const parent of parents) {
      if (parent.row === undefined || parent.again) continue;
      const near = (up ? callers : callees)(parent.row), other = up ? graph.caller : graph.callee;
      const all = up ? near.reduce((sum, edge) => sum + edges().cumtime[edge], 0) : nodes().cumtime[parent.row];
      if (!(all > 0)) continue;
      const part = Math.min(1, parent.seconds / all), path = [...parent.path, parent.row];
      const items = [];
      for (const edge of near) {
        const row = other[edge], time = edges().cumtime[edge] * part;
        if (time > 0) items.push({ row, seconds: time, change: grown(edge) * part, path, again: path.includes(row), apportioned: true });
      }
      items.sort((a, b) => b.seconds - a.seconds);
      // Recursion makes callees hold more than their caller: they are then drawn in proportion.
      const excess = Math.max(1, total(items) / parent.seconds);
      for (const item of items) item.seconds /= excess;
      fill(blocks, items, parent.from, whole, "deep");
      found.push(...items.filter((item) => item.width));
    }
    return { blocks, found };
  }

  function levelsBeyond(items, whole, up) {
    const levels = [];
    let parents = items.filter((item) => item.width);
    while (deep.checked && levels.length < (up ? HIGHEST : DEEPEST)) {
      const next = beyond(parents, whole, up);
      if (!next.found.length) break;
      levels.push(next.blocks);
      parents = next.found;
    }
    levels.forEach((blocks, at) => {
      const place = level(at ? "" : "apportioned", `${up ? "Further up" : "Further down"}, apportioned`, up);
      place.append(...blocks.children);
    });
  }

  function show() {
    const up = pairs(callers, graph.caller), down = pairs(callees, graph.callee);
    const own = nodes().tottime[focus], all = nodes().cumtime[focus];
    const again = new Set(up.rows.map((item) => item.row));
    for (const item of down.rows) item.again = again.has(item.row);
    const below = new Set(down.rows.map((item) => item.row));
    for (const item of up.rows) item.again = below.has(item.row);
    for (const item of [...up.rows, ...down.rows]) {
      item.calls = edges().ncalls[item.edge];
      item.path = [focus];
    }
    const whole = Math.max(all, total(up.rows), total(down.rows) + own, 1e-12);
    const delta = before ? after.cumtime[focus] - before.cumtime[focus] : undefined;
    scale = before ? Math.max(Math.abs(delta), ...[...up.rows, ...down.rows].map((item) => Math.abs(item.change))) : 0;
    picture.replaceChildren();

    fill(level("called by", `Callers of ${names[focus]}`), withRest(up.rows, all, "not called by a function in the profile"), 0, whole);
    const self = { row: focus, seconds: all, change: delta, calls: nodes().ncalls[focus] };
    const middle = level("function", "Function");
    middle.append(block(self, 0, Math.max(all / whole, 0.02), "focused"));
    middle.firstChild.setAttribute("aria-current", "true");
    const ownWork = { seconds: own, change: before && after.tottime[focus] - before.tottime[focus], text: "self" };
    fill(level("calls", `Callees of ${names[focus]}`), withRest([ownWork, ...down.rows], all, "not in the profile"), 0, whole);
    levelsBeyond(down.rows, whole, false);
    levelsBeyond(up.rows, whole, true);
    picture.querySelector(".focused").tabIndex = 0;
    if (before) picture.append(legend());
    describe(up, down, own, all);
    tabulate(up, down);
    back.disabled = history.length === 0;
    find.value = names[focus];
  }

  function withRest(items, all, text) {
    const rest = all - total(items);
    return rest > 0.005 * all && items.length ? [...items, { seconds: rest, text }] : items;
  }

  function legend() {
    const key = make("div", { className: "key", ariaHidden: "true" }, change(0, -scale));
    for (const kind of ["l3", "l2", "l1", "same", "m1", "m2", "m3"]) key.append(make("i", { className: kind }));
    key.append(change(0, scale));
    return key;
  }

  function describe(up, down, own, all) {
    const parts = [`${names[focus]} (${functions.where(focus)}): ${seconds(all)} with callees, ${seconds(own)} itself, ${count(nodes().ncalls[focus])} calls.`];
    if (up.itself !== null) {
      parts.push(`↻ It calls itself: ${count(edges().ncalls[up.itself])} of its calls. The times of callers and callees then overlap, and may exceed its own.`);
    }
    const only = up.absent + down.absent;
    if (only) parts.push(`${thousands(only)} callers and callees take no time on this side.`);
    if (!up.rows.length && up.itself === null) parts.push("Nothing in the profile calls it.");
    said.textContent = parts.join(" ");
  }

  function tabulate(up, down) {
    const head = make("tr", {}, ...["who", "function", ...(before ? ["baseline", "candidate", "change"] : ["seconds"]), "calls"].map((text, at) =>
      make("th", { scope: "col", className: at > 1 ? "number" : "" }, text)));
    const body = make("tbody");
    for (const [what, items] of [["caller", up.rows], ["callee", down.rows]]) {
      for (const item of items.slice(0, 50)) {
        const name = make("button", { type: "button", className: "link" }, make("bdi", {}, names[item.row]));
        name.addEventListener("click", () => go(item.row));
        const numbers = before
          ? [seconds(edgesBefore.cumtime[item.edge]), seconds(edgesAfter.cumtime[item.edge]), change(0, item.change)]
          : [seconds(item.seconds)];
        const cells = [...numbers, count(item.calls)].map((text) => make("td", { className: "number" }, text));
        body.append(make("tr", {}, make("td", {}, what), make("th", { scope: "row" }, make("code", {}, name)), ...cells));
      }
      if (items.length > 50) body.append(make("tr", {}, make("td", { colSpan: 6 }, `and ${thousands(items.length - 50)} more`)));
    }
    table.replaceChildren(make("table", {}, make("thead", {}, head), body));
  }

  function go(row, remember = true) {
    if (row === focus && remember) return;
    if (remember) history.push(focus);
    const inside = picture.contains(document.activeElement);
    focus = row;
    show();
    if (inside) picture.querySelector(".focused").focus();
  }

  // Arrows go from block to block, as they lie.
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Backspace" && history.length) back.click();
    if (!step || !event.target.matches("button.block")) return;
    event.preventDefault();
    const levels = [...picture.querySelectorAll(".blocks")].map((blocks) => [...blocks.querySelectorAll("button.block")]);
    const at = levels.findIndex((level) => level.includes(event.target)), place = levels[at].indexOf(event.target);
    let next = levels[at][place + step[1]];
    if (step[0]) {
      const near = levels[at + step[0]] ?? [];
      const middle = event.target.offsetLeft + event.target.offsetWidth / 2;
      next = near.find((block) => block.offsetLeft + block.offsetWidth > middle) ?? near.at(-1);
    }
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });

  // Up to forty names that hold what was typed; the whole list would be as long as the table.
  let offered = [];
  find.addEventListener("input", () => {
    const exact = offered.find((row) => names[row] === find.value);
    if (exact !== undefined) return go(exact);
    const typed = find.value.toLowerCase();
    offered = [];
    for (let row = 0; row < n && offered.length < 40 && typed; row++) {
      if (names[row].toLowerCase().includes(typed)) offered.push(row);
    }
    list.replaceChildren(...offered.map((row) => make("option", { value: names[row], label: functions.where(row) })));
  });
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && offered.length) go(offered[0]);
  });
  back.addEventListener("click", () => {
    if (history.length) go(history.pop(), false);
  });
  byId("calls-top").addEventListener("click", () => go(top()));
  deep.addEventListener("change", show);
  for (const radio of document.querySelectorAll("input[name=width]")) {
    radio.addEventListener("change", () => {
      side = radio.value;
      show();
    });
  }
  chosen.addEventListener("function", (event) => {
    go(event.detail);
    byId("calls").scrollIntoView();
    picture.querySelector(".focused").focus({ preventScroll: true });
  });

  function top() {
    let best = 0;
    for (let row = 0; row < n; row++) if (nodes().cumtime[row] > nodes().cumtime[best]) best = row;
    return best;
  }

  // Where the answer points: the function that moved most; else where the time is.
  focus = functions.start >= 0 ? functions.start : top();
  show();
}

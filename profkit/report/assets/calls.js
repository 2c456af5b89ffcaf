// One function with its callers above and its callees below, as wide as their times.
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
  const find = byId("calls-find"), back = byId("calls-back"), list = byId("calls-names");
  const history = [];
  let focus = 0, side = "after", scale = 0;
  const NARROWEST = 0.003; // share of the width below which blocks are only counted

  // Index edges by one end: those of row r are order[start[r]] … order[start[r + 1] - 1].
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

  // The focused function's pairs, widest first; recursion and pairs of the other side only are kept apart.
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

  function block(item, from, width, classes = "") {
    const plain = item.row === undefined;
    const text = item.text ?? names[item.row];
    const known = [`${seconds(item.seconds)}`];
    if (before && item.change !== undefined) known.push(`${change(0, item.change)} against the baseline`);
    if (item.calls !== undefined) known.push(counted(item.calls, "call"));
    const label = `${text}: ${known.join(", ")}`;
    const kinds = ["block", classes, plain ? "plain" : colour(item.change), width < 0.03 ? "thin" : ""];
    const focusable = plain ? {} : { type: "button", tabIndex: -1, "aria-label": label };
    const element = make(plain ? "span" : "button", { className: kinds.join(" "), title: label, ...focusable }, make("bdi", {}, text));
    if (!plain) element.addEventListener("click", () => go(item.row));
    element.style.left = `${100 * from}%`;
    element.style.width = `${100 * width}%`;
    return element;
  }

  function level(name, label) {
    const blocks = make("div", { className: "blocks", role: "group", "aria-label": label });
    picture.append(make("div", { className: "level" }, make("span", {}, name), blocks));
    return blocks;
  }

  // Blocks beside each other; narrow ones are counted in one block.
  function fill(blocks, items, whole) {
    let at = 0, narrow = [];
    for (const item of items) {
      const width = item.seconds / whole;
      if (width < NARROWEST) {
        narrow.push(item);
        continue;
      }
      blocks.append(block(item, at, width));
      at += width;
    }
    if (narrow.length && total(narrow) / whole > 0.0008) {
      const rest = { seconds: total(narrow), text: `${thousands(narrow.length)} more` };
      blocks.append(block(rest, at, rest.seconds / whole));
    }
  }

  function show() {
    const up = pairs(callers, graph.caller), down = pairs(callees, graph.callee);
    const own = nodes().tottime[focus], all = nodes().cumtime[focus];
    for (const item of [...up.rows, ...down.rows]) item.calls = nodes().calls(graph.callee[item.edge], edges().ncalls[item.edge]);
    const whole = Math.max(all, total(up.rows), total(down.rows) + own, 1e-12);
    const delta = before ? after.cumtime[focus] - before.cumtime[focus] : undefined;
    scale = before ? Math.max(Math.abs(delta), ...[...up.rows, ...down.rows].map((item) => Math.abs(item.change))) : 0;
    picture.replaceChildren();

    fill(level("called by", `Callers of ${names[focus]}`), withRest(up.rows, all, "not called by a function in the profile"), whole);
    const self = { row: focus, seconds: all, change: delta, calls: nodes().calls(focus) };
    const middle = level("function", "Function");
    middle.append(block(self, 0, Math.max(all / whole, 0.02), "focused"));
    middle.firstChild.setAttribute("aria-current", "true");
    const ownWork = { seconds: own, change: before && after.tottime[focus] - before.tottime[focus], text: "self" };
    fill(level("calls", `Callees of ${names[focus]}`), withRest([ownWork, ...down.rows], all, "not in the profile"), whole);
    picture.querySelector(".focused").tabIndex = 0;
    if (before) picture.append(make("div", { className: "key", ariaHidden: "true" }, ...scaleOf(scale)));
    describe(up, down, own, all);
    tabulate(up, down);
    back.disabled = history.length === 0;
    find.value = names[focus];
  }

  function withRest(items, all, text) {
    const rest = all - total(items);
    return rest > 0.005 * all && items.length ? [...items, { seconds: rest, text }] : items;
  }

  function describe(up, down, own, all) {
    const parts = [`${names[focus]} (${functions.where(focus)}): ${seconds(all)} with callees, ${seconds(own)} itself, ${counted(nodes().calls(focus), "call")}.`];
    if (up.itself !== null) {
      parts.push(`↻ It calls itself: ${nodes().calls(focus, edges().ncalls[up.itself])} of its calls. The times of callers and callees then overlap, and may exceed its own.`);
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
        const name = link(names[item.row], () => go(item.row));
        const numbers = before
          ? [seconds(edgesBefore.cumtime[item.edge]), seconds(edgesAfter.cumtime[item.edge]), change(0, item.change)]
          : [seconds(item.seconds)];
        const cells = [...numbers, item.calls].map((text) => make("td", { className: "number" }, text));
        body.append(make("tr", {}, make("td", {}, what), make("th", { scope: "row" }, make("code", {}, name)), ...cells));
      }
      if (items.length > 50) body.append(make("tr", {}, make("td", { colSpan: 6 }, `and ${thousands(items.length - 50)} more`)));
    }
    table.replaceChildren(make("table", {}, make("thead", {}, head), body));
  }

  function go(row, remember = true) {
    if (row === focus && remember) return;
    if (remember) history.push(focus);
    const typing = document.activeElement === find;
    const inside = picture.contains(document.activeElement);
    focus = row;
    const typed = find.value;
    show();
    if (typing) find.value = typed; // keep what the reader is typing
    if (inside) picture.querySelector(".focused").focus();
  }

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
    if (next) focusOn(next, event.target);
  });

  // Offer at most forty names: the whole list would be as long as the table.
  find.addEventListener("input", () => {
    const typed = find.value.trim();
    if (!typed) return;
    const { rows, exact } = searched(typed);
    if (exact) return go(rows[0]);
    list.replaceChildren(...rows.slice(0, 40).map((row) => make("option", { value: names[row], label: functions.where(row) })));
    if (!rows.length) said.textContent = `No function is named “${typed}”.`;
  });
  find.addEventListener("keydown", (event) => {
    const { rows } = searched(find.value.trim());
    if (event.key === "Enter" && find.value.trim() && rows.length) go(rows[0]);
  });
  back.addEventListener("click", () => {
    if (history.length) go(history.pop(), false);
  });
  byId("calls-top").addEventListener("click", () => go(top()));
  onChoice("width", (value) => {
    side = value;
    show();
  });
  chosen.addEventListener("function", (event) => {
    byId("calls").open = true;
    go(event.detail);
    byId("calls").scrollIntoView();
    picture.querySelector(".focused").focus({ preventScroll: true });
  });

  function top() {
    let best = 0;
    for (let row = 0; row < n; row++) if (nodes().cumtime[row] > nodes().cumtime[best]) best = row;
    return best;
  }

  // Begin at the function that moved most, else at the one with most time.
  focus = functions.start >= 0 ? functions.start : top();
  show();
}

// The flame graph: contexts as blocks, callees below callers, as wide as their time. A click zooms into a block.
function startFlame() {
  const graph = data.stacks, { names } = functions;
  const n = graph.row.length;
  const parent = new Int32Array(n), end = new Int32Array(n), again = new Set(graph.again);
  const picture = byId("flame-picture"), said = byId("flame-said"), path = byId("flame-path"), key = byId("flame-key");
  const find = byId("flame-find"), found = byId("flame-found"), whole = byId("flame-whole"), choice = byId("flame-measure");
  const ROW = 21, DEEPEST = 14, NARROWEST = 0.0012, LETTER = 7.3;
  const OUTSIDE = -1;
  let side = "after", measure = choice ? choice.value : "active", zoom = OUTSIDE, start = OUTSIDE, matches = null;

  // Contexts are in preorder: one ends where the next of no greater depth begins.
  const open = [];
  for (let node = 0; node < n; node++) {
    while (open.length > graph.depth[node]) end[open.pop()] = node;
    parent[node] = open.length ? open.at(-1) : OUTSIDE;
    open.push(node);
  }
  for (const node of open) end[node] = n;

  const PARTS = { running: (q, b) => 1 - q - b, queued: (q) => q, blocked: (q, b) => b, active: (q, b) => 1 - b, all: () => 1 };
  function sums(columns) {
    if (!columns) return null;
    const part = (column, node) => Math.max(0, columns[column]?.[node] ?? 0) / 100;
    const scale = 1e-9 / (columns.iterations ?? 1);
    const sides = {};
    for (const [name, share] of Object.entries(PARTS)) {
      const own = Float64Array.from(columns.own, (value, node) => value * scale * Math.max(0, share(part("queued", node), part("blocked", node))));
      const within = own.slice();
      for (let node = n - 1; node >= 0; node--) if (parent[node] >= 0) within[parent[node]] += within[node];
      sides[name] = { own, within };
    }
    return sides;
  }
  const after = sums(graph.after), before = sums(graph.before);
  const ncalls = (columns, node) => columns.ncalls[node] / (columns.iterations ?? 1);
  const shown = () => (side === "after" ? after : before)[measure];
  const per = graph.after.iterations ? " per iteration" : "";
  const name = (node) => (graph.row[node] < 0 ? "…" : `${again.has(node) ? "↻ " : ""}${names[graph.row[node]]}`);
  const inner = (node) => (node === OUTSIDE ? n : end[node]);
  const total = () => {
    let sum = 0;
    for (let node = 0; node < n; node = end[node]) sum += shown().within[node];
    return sum;
  };

  function* children(node) {
    for (let child = node + 1; child < inner(node); child = end[child]) yield child;
  }

  // The colour scale: changes of self time relative to the greatest one.
  let greatest = 0, least = 0;
  function weigh() {
    if (!before) return;
    let all = 0;
    greatest = 0;
    for (let node = 0; node < n; node++) {
      greatest = Math.max(greatest, Math.abs(grown(node)));
      all += Math.max(after[measure].own[node], before[measure].own[node]);
    }
    least = 0.001 * all;
  }
  const grown = (node) => after[measure].own[node] - before[measure].own[node];
  function colour(node) {
    if (graph.row[node] < 0) return "same";
    if (!before) return `root${Math.max(0, ROOTS.indexOf(functions.roots[functions.place[graph.row[node]]]))}`;
    const delta = grown(node), size = Math.abs(delta);
    const own = Math.max(after[measure].own[node], before[measure].own[node]);
    if (size < least || size < 0.03 * greatest || size < 0.05 * own) return "same";
    return `${delta > 0 ? "m" : "l"}${size > 0.4 * greatest ? 3 : size > 0.12 * greatest ? 2 : 1}`;
  }
  const ROOTS = ["project", "site", "stdlib", "builtin"];

  const both = (part, kind, node) => {
    const now = after[part][kind][node];
    if (!before) return seconds(now);
    const was = before[part][kind][node];
    return `${seconds(was)} → ${seconds(now)} (${change(was, now)})`;
  };

  function tell(node) {
    const row = graph.row[node];
    const parts = [`${both(measure, "within", node)} with all it calls${per}, ${share(shown().within[node] / total())} of the whole`];
    if (node + 1 < end[node]) parts.push(`itself ${both(measure, "own", node)}`);
    for (const [part, text] of graph.waits ? [["running", "running"], ["queued", "queued"], ["blocked", "off the CPU"]] : []) {
      if (after[part].within[node] > 0 || before?.[part].within[node] > 0) parts.push(`${text} ${both(part, "within", node)}`);
    }
    // Contexts of functions with estimated calls have those that were seen: a part of them.
    const told = (known, columns) => (known.exact(row) ? count(Math.round(ncalls(columns, node))) : UNKNOWN);
    const calls = row < 0 ? UNKNOWN : told(functions.after, graph.after);
    const was = row < 0 || !before ? calls : told(functions.before, graph.before);
    const known = was === calls ? calls : `${was} → ${calls}`;
    if (known !== UNKNOWN) parts.push(`${graph.measured ? counted(known, "call") : `${known} of its calls`}${per}`);
    const title = row < 0 ? "calls that are too short to draw separately" : name(node);
    const where = row < 0 ? "" : ` (${functions.where(row)})`;
    const more = row >= 0 && data.calls ? [" ", link("Who calls it?", () => choose(row))] : [];
    said.replaceChildren(make("b", {}, make("bdi", {}, title)), `${where}: ${parts.join("; ")}.`, ...more);
  }

  function waits(node) {
    const sum = (part) => (side === "after" ? after : before)[part].within[node];
    const all = shown().within[node];
    if (!graph.waits || !(all > 0) || measure === "running" || measure === "queued") return [];
    return [["queued", sum("queued") / all], ["blocked", measure === "all" ? sum("blocked") / all : 0]]
      .filter(([, part]) => part > 0.01)
      .map(([kind, part], at, parts) => {
        const strip = make("i", { className: kind });
        strip.style.width = `${100 * part}%`;
        strip.style.right = at ? `${100 * parts[0][1]}%` : "0";
        return strip;
      });
  }

  // The last part of a name says most.
  const fitted = (text, room) => (text.length > room ? text.slice(text.lastIndexOf(".") + 1) : text);

  function block(node, level, left, width) {
    const room = Math.floor((width * picture.clientWidth - 8) / LETTER);
    const kinds = ["block", colour(node), room < 3 ? "thin" : "", !matches ? "" : matches.has(node) ? "hit" : "miss"];
    const delta = before ? `, ${change(before[measure].within[node], after[measure].within[node])}` : "";
    const label = `${name(node)}: ${seconds(shown().within[node])}${delta}`;
    const text = room < 3 ? [] : [make("bdi", {}, fitted(name(node), room))];
    const known = { type: "button", className: kinds.join(" "), tabIndex: -1, "data-node": node, "aria-label": label };
    const button = make("button", known, ...text, ...waits(node));
    button.style.left = `${100 * left}%`;
    button.style.width = `${100 * width}%`;
    button.style.top = `${level * ROW}px`;
    return button;
  }

  let drawn = 0;
  function show() {
    weigh();
    drawn = picture.clientWidth;
    const values = shown().within, all = zoom === OUTSIDE ? total() : values[zoom];
    const blocks = [];
    let deepest = 0, hidden = false;
    const lay = (nodes, level, left) => {
      let at = left;
      for (const node of nodes) {
        const width = all > 0 ? values[node] / all : 0;
        if (width < NARROWEST) continue;
        if (level >= DEEPEST) {
          hidden = true;
          return;
        }
        blocks.push(block(node, level, at, width));
        // Rows of slivers alone appear only after zooming in.
        if (width > 0.012) deepest = Math.max(deepest, level);
        lay(children(node), level + 1, at);
        at += width;
      }
    };
    lay(zoom === OUTSIDE ? children(OUTSIDE) : [zoom], 0, 0);
    picture.replaceChildren(...blocks);
    picture.style.height = `${(deepest + 1) * ROW}px`;
    if (blocks.length) blocks[0].tabIndex = 0;
    whole.disabled = zoom === OUTSIDE;
    trail();
    legend();
    said.textContent = hidden
      ? "Point at a block for its values; a click widens it, and shows what is called further inside."
      : "Point at a block for its values; a click widens it. Arrows, Enter and Escape work too.";
  }

  function trail() {
    const around = [];
    for (let node = zoom === OUTSIDE ? OUTSIDE : parent[zoom]; node !== OUTSIDE; node = parent[node]) around.unshift(node);
    const steps = around.map((node) => make("span", {}, link(name(node), () => go(node)), " › "));
    path.replaceChildren(...(zoom === OUTSIDE ? [] : ["in ", ...steps]));
    path.hidden = !steps.length;
  }

  function legend() {
    key.replaceChildren(...(before && greatest > 0 ? scaleOf(greatest, per) : []));
    if (!before) {
      for (const [at, text] of ["the program", "packages", "standard library", "built-in"].entries()) key.append(make("i", { className: `root${at}` }), text);
    }
    if (graph.waits) {
      key.append(make("i", { className: "strip queued" }), "queued for a CPU");
      if (measure === "all") key.append(make("i", { className: "strip blocked" }), "off the CPU");
    }
  }

  function go(node, focus = false) {
    zoom = node;
    show();
    if (focus) picture.querySelector(".block")?.focus({ preventScroll: true });
  }

  const out = () => {
    if (zoom !== OUTSIDE) go(parent[zoom], true);
  };
  const nodeOf = (target) => {
    const button = target.closest?.("button.block");
    return button && picture.contains(button) ? Number(button.dataset.node) : null;
  };
  picture.addEventListener("click", (event) => {
    const node = nodeOf(event.target);
    if (node === null) return;
    if (node === zoom) out();
    else go(node, true);
    if (zoom !== OUTSIDE) tell(zoom);
  });
  for (const kind of ["pointerover", "focusin"]) {
    picture.addEventListener(kind, (event) => {
      const node = nodeOf(event.target);
      if (node !== null) tell(node);
    });
  }
  picture.addEventListener("keydown", (event) => {
    if (event.key === "Escape" || event.key === "Backspace") {
      event.preventDefault();
      out();
      return;
    }
    const node = nodeOf(event.target);
    if (node === null || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const buttons = [...picture.children], at = buttons.indexOf(event.target);
    const level = (button) => button.offsetTop;
    let next = null;
    if (event.key === "ArrowUp") next = buttons.find((button) => Number(button.dataset.node) === parent[node]);
    else if (event.key === "ArrowDown") {
      const inside = buttons.filter((button) => parent[Number(button.dataset.node)] === node);
      next = inside.reduce((best, button) => (!best || button.offsetWidth > best.offsetWidth ? button : best), null);
    } else {
      const beside = buttons.filter((button) => level(button) === level(buttons[at])).sort((a, b) => a.offsetLeft - b.offsetLeft);
      next = beside[beside.indexOf(buttons[at]) + (event.key === "ArrowRight" ? 1 : -1)];
    }
    if (next) focusOn(next, buttons[at], { preventScroll: true });
  });
  whole.addEventListener("click", () => go(OUTSIDE));

  // If a name is exactly what was typed, names that only contain it do not match.
  function search() {
    const typed = find.value.trim();
    matches = null;
    found.textContent = "";
    if (typed) {
      const rows = new Set(searched(typed).rows);
      matches = new Set();
      let time = 0, until = 0;
      for (let node = 0; node < n; node++) {
        if (!rows.has(graph.row[node])) continue;
        matches.add(node);
        if (node >= until) {
          time += shown().within[node];
          until = end[node];
        }
      }
      found.textContent = !rows.size
        ? `No function is named “${typed}”.`
        : matches.size
          ? `${counted(thousands(matches.size), "block")}, ${seconds(time)}${per}, ${share(time / total())} of the whole.`
          : "Too short to be drawn here.";
    }
    show();
  }
  new ResizeObserver(() => {
    if (picture.clientWidth !== drawn) show();
  }).observe(picture);
  find.addEventListener("input", search);
  find.addEventListener("keydown", (event) => {
    // Escape first zooms out; only then may the browser clear the search.
    if (event.key === "Escape" && zoom !== start) {
      event.preventDefault();
      go(start);
      return;
    }
    if (event.key !== "Enter" || !matches?.size) return;
    const widest = [...matches].reduce((best, node) => (shown().within[node] > shown().within[best] ? node : best));
    go(widest);
    tell(widest);
  });
  const restart = () => {
    if (zoom !== OUTSIDE && !(shown().within[zoom] > 0)) zoom = OUTSIDE;
    search();
  };
  choice?.addEventListener("change", () => {
    measure = choice.value;
    restart();
  });
  onChoice("flame-side", (value) => {
    side = value;
    restart();
  });

  // Begin inside the outer functions, which hold nearly all of the time.
  for (;;) {
    const inside = [...children(zoom)], widest = inside.find((node) => shown().within[node] > 0.97 * total());
    if (widest === undefined || !(end[widest] > widest + 1)) break;
    zoom = widest;
  }
  if (zoom !== OUTSIDE && graph.depth[zoom] === 0) zoom = OUTSIDE;
  start = zoom;
  show();
}

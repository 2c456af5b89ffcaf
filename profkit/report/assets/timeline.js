// Runs over time on one scale: ranges of threads, states of processes, and the machine.
function startTimeline() {
  const place = byId("time-picture"), sides = data.timeline;
  const end = Math.max(...sides.map((side) => side.seconds));
  const ROW = 14, STATE = 22, AREA = 26, GAP = 6, DEEPEST = 3, HUES = 8, FEW = 5;
  const narrow = () => width < 560;
  const label = () => (narrow() ? 84 : 150), axis = () => (narrow() ? 0 : 30);
  let from = 0, to = end, width = 0, every = false;

  // The processes that ran and queued most, in their original order.
  const activity = (process) => process.running.reduce((sum, value, at) => sum + Math.max(0, value) + Math.max(0, process.queued[at]), 0);
  const busiest = new Map(sides.map((side) => {
    const most = [...side.processes].sort((a, b) => activity(b) - activity(a)).slice(0, FEW);
    return [side, side.processes.filter((process) => most.includes(process))];
  }));
  const shown = (side) => (every ? side.processes : busiest.get(side));

  // Names with most time have a colour of their own, the same everywhere; the others share grey.
  const totals = new Map();
  const functionsOf = (side) => side.processes.flatMap((process) => process.functions ?? []);
  for (const track of sides.flatMap((side) => [...side.tracks, ...functionsOf(side)])) {
    track.name.forEach((name, at) => {
      const text = track.names[name];
      totals.set(text, (totals.get(text) ?? 0) + track.took[at]);
    });
  }
  const heavy = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a)).slice(0, HUES - 1);
  const hues = new Map(heavy.map((name, at) => [name, at]));
  const hue = (name) => hues.get(name) ?? HUES - 1;

  function legend() {
    const key = make("ul", { className: "names" });
    const shown = totals.size > heavy.length ? [...heavy, null] : heavy;
    for (const name of shown) {
      const text = name ?? `${thousands(totals.size - heavy.length)} others`;
      const square = draw("svg", { width: 12, height: 12, "aria-hidden": "true" });
      square.append(draw("rect", { width: 12, height: 12, rx: 2, class: `r${name === null ? HUES - 1 : hue(name)}` }));
      key.append(make("li", {}, square, make("bdi", {}, text)));
    }
    return key;
  }

  const x = (time) => label() + ((time - from) / (to - from)) * (width - label());

  function ticks() {
    const raw = (to - from) / Math.max(2, (width - label()) / 110);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((times) => times * power).find((value) => value >= raw);
    const found = [];
    for (let at = Math.ceil(from / step) * step; at <= to + step * 1e-6; at += step) found.push(at);
    return found;
  }

  function steps(values, top, height, most, seconds) {
    // A bar for each bin; unknown values (−1) have none.
    const bin = seconds / values.length;
    let path = "";
    values.forEach((value, at) => {
      const begin = Math.max(at * bin, from), stop = Math.min((at + 1) * bin, to);
      if (value <= 0 || stop <= begin) return;
      const high = Math.min(1, value / most) * height;
      path += `M${x(begin).toFixed(1)} ${(top + height).toFixed(1)}v${(-high).toFixed(1)}H${x(stop).toFixed(1)}v${high.toFixed(1)}z`;
    });
    return path;
  }

  function ranges(svg, track, top) {
    const group = draw("g", { class: "range" });
    for (let at = 0; at < track.begin.length; at++) {
      const begin = track.begin[at] * 1e-6, stop = begin + track.took[at] * 1e-6;
      if (stop < from || begin > to || track.depth[at] >= DEEPEST) continue;
      const left = x(Math.max(begin, from)), wide = Math.max(0.8, x(Math.min(stop, to)) - left);
      const name = track.names[track.name[at]], y = top + track.depth[at] * ROW;
      const bar = draw("rect", { x: left.toFixed(1), y, width: wide.toFixed(1), height: ROW - 1, class: `r${hue(name)}${wide > 3 ? " wide" : ""}` });
      bar.append(draw("title", {}, `${name}: ${seconds(stop - begin)} from ${seconds(begin)} on`));
      group.append(bar);
      if (wide > 34) {
        const room = Math.floor((wide - 6) / 6.2);
        group.append(draw("text", { x: (left + 3).toFixed(1), y: y + 11 }, name.length > room ? `${name.slice(0, room - 1)}…` : name));
      }
    }
    svg.append(group);
  }

  // Stacked from the bottom: running, queued, off the CPU (the rest of 100 %).
  function states(svg, process, top, side) {
    const bins = process.running.length;
    const share = (at, part) => {
      const all = Math.max(100, process.running[at] + process.queued[at]);
      return process.running[at] < 0 ? 0 : (100 * part(at)) / all;
    };
    const layers = [
      ["blocked", (at) => 100],
      ["queued", (at) => share(at, (bin) => process.running[bin] + process.queued[bin])],
      ["running", (at) => share(at, (bin) => process.running[bin])],
    ];
    for (const [kind, value] of layers) {
      const values = Array.from({ length: bins }, (_, at) => (process.running[at] < 0 ? -1 : value(at)));
      svg.append(draw("path", { d: steps(values, top, STATE, 100, side.seconds), class: kind }));
    }
    for (const [percent, at] of axis() ? [["100 %", top + 8], ["0", top + STATE]] : []) {
      svg.append(draw("text", { x: label() - 4, y: at, class: "percent" }, percent));
    }
    svg.append(draw("line", { x1: label(), x2: width, y1: top + STATE, y2: top + STATE, class: "base" }));
  }

  function area(svg, text, values, top, most, side, said) {
    const path = draw("path", { d: steps(values, top, AREA, most, side.seconds), class: "area" });
    path.append(draw("title", {}, said));
    const base = draw("line", { x1: label(), x2: width, y1: top + AREA, y2: top + AREA, class: "base" });
    svg.append(draw("text", { x: 0, y: top + AREA - 4 }, text), path, base);
  }

  function named(text, y, beside = 0) {
    const room = Math.floor((label() - beside) / 6.4);
    const name = draw("text", { x: 0, y, class: "label" }, text.length > room ? `${text.slice(0, room - 1)}…` : text);
    name.append(draw("title", {}, text));
    return name;
  }

  function picture(side) {
    const svg = draw("svg", { role: "img", tabindex: 0, "aria-label": described(side) });
    let y = 18;
    for (const at of ticks()) {
      svg.append(draw("line", { x1: x(at), x2: x(at), y1: 14, y2: 14, class: "base tick" }));
      if (x(at) + 44 < width) svg.append(draw("text", { x: x(at) + 2, y: 11 }, seconds(at)));
    }
    for (const track of side.tracks) {
      const depth = Math.min(DEEPEST, track.depth.reduce((most, value) => Math.max(most, value + 1), 0));
      svg.append(named(track.label, y + 11));
      ranges(svg, track, y);
      y += Math.max(1, depth) * ROW + GAP;
    }
    const rows = [];
    for (const process of shown(side)) {
      svg.append(named(process.label, y + STATE / 2 + 4, axis()));
      states(svg, process, y, side);
      if (process.functions) ranges(svg, process.functions, y + STATE + 1);
      const height = STATE + (process.functions ? ROW + 1 : 0) + GAP;
      rows.push({ process, top: y, bottom: y + height });
      y += height;
    }
    if (side.runnable) {
      const most = Math.max(side.cpus ?? 1, ...side.runnable);
      area(svg, narrow() ? "runnable" : `≤ ${Math.round(most)} runnable${side.cpus ? `, ${side.cpus} CPUs` : ""}`, side.runnable, y, most, side, "runnable threads of the machine");
      if (side.cpus) {
        const high = y + AREA * (1 - side.cpus / most);
        svg.append(draw("line", { x1: label(), x2: width, y1: high, y2: high, class: "limit" }));
      }
      y += AREA + GAP;
    }
    if (side.gpu) {
      area(svg, "GPU", side.gpu, y, 100, side, "GPU utilisation");
      y += AREA + GAP;
    }
    for (const tick of svg.querySelectorAll(".tick")) tick.setAttribute("y2", y);
    svg.setAttribute("viewBox", `0 0 ${width} ${y}`);
    svg.setAttribute("height", y);
    drag(svg, y, side, rows);
    svg.addEventListener("keydown", keys);
    return svg;
  }

  function described(side) {
    const drawn = side.tracks.reduce((sum, track) => sum + track.begin.length, 0);
    const parts = [counted(shown(side).length, "process", "processes"), `${counted(side.tracks.length, "thread")} with ${counted(drawn, "range")}`];
    return `${side.label || "The run"} over ${seconds(side.seconds)}: ${parts.join(", ")}`;
  }

  function show() {
    width = place.clientWidth;
    if (!width) return;
    const active = [...place.querySelectorAll("svg")].indexOf(document.activeElement);
    const parts = [];
    for (const side of sides) {
      if (side.label) parts.push(make("h3", {}, `${side.label}, ${seconds(side.seconds)}`));
      parts.push(picture(side));
    }
    if (totals.size) parts.push(legend());
    place.replaceChildren(...parts);
    if (active >= 0) place.querySelectorAll("svg")[active].focus({ preventScroll: true });
  }

  function look(begin, stop) {
    const span = Math.min(end, Math.max(stop - begin, end * 1e-5));
    from = Math.min(Math.max(begin, 0), end - span);
    to = from + span;
    show();
  }
  const zoom = (times) => {
    const middle = (from + to) / 2, half = ((to - from) * times) / 2;
    look(middle - half, middle + half);
  };
  const move = (part) => look(from + part * (to - from), to + part * (to - from));
  const acts = { in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.3), right: () => move(0.3), all: () => look(0, end) };
  for (const [name, act] of Object.entries(acts)) byId(`time-${name}`).addEventListener("click", act);
  const most = Math.max(...sides.map((side) => side.processes.length)), more = byId("time-every");
  more.hidden = most <= FEW;
  more.addEventListener("click", () => {
    every = !every;
    more.setAttribute("aria-pressed", every);
    more.textContent = every ? `${FEW} busiest` : `All ${most} processes`;
    show();
  });
  more.textContent = `All ${most} processes`;

  function keys(event) {
    const act = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return; // those are the browser's
    event.preventDefault();
    acts[act]();
  }

  // Say what the given processes did at one moment.
  function tell(side, time, rows) {
    const parts = [`${side.label ? `${side.label}, ` : ""}${seconds(time)}`];
    for (const { process } of rows) {
      const at = Math.min(process.running.length - 1, Math.floor((time / side.seconds) * process.running.length));
      const run = process.running[at] / 100, wait = process.queued[at] / 100;
      if (run < 0) continue;
      const all = Math.max(1, run + wait);
      const text = [`running ${share(run / all)}`, `queued ${share(wait / all)}`, `off the CPU ${share(Math.max(0, 1 - (run + wait) / all))}`];
      parts.push(`${process.label}: ${text.join(", ")}`);
    }
    if (side.runnable) {
      const value = side.runnable[Math.min(side.runnable.length - 1, Math.floor((time / side.seconds) * side.runnable.length))];
      if (value >= 0) parts.push(`the machine: ${value} runnable threads`);
    }
    byId("time-said").textContent = `${parts.join(" · ")}.`;
  }

  function drag(svg, height, side, rows) {
    let begin = null, mark = null;
    const time = (event) => {
      const at = ((event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width) * width;
      return from + (Math.max(0, at - label()) / (width - label())) * (to - from);
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch") return;
      begin = time(event);
      mark = draw("rect", { y: 0, height, class: "pick" });
      svg.append(mark);
      svg.setPointerCapture(event.pointerId);
    });
    const line = draw("line", { y1: 14, y2: height, class: "cursor", visibility: "hidden" });
    svg.append(line);
    svg.addEventListener("pointerleave", () => line.setAttribute("visibility", "hidden"));
    svg.addEventListener("pointermove", (event) => {
      const now = time(event);
      const box = svg.getBoundingClientRect(), y = ((event.clientY - box.top) / box.height) * height;
      const told = rows.length > FEW ? rows.filter((row) => row.top <= y && y < row.bottom) : rows;
      if (now <= side.seconds) tell(side, now, told);
      for (const end of ["x1", "x2"]) line.setAttribute(end, x(now));
      line.setAttribute("visibility", "visible");
      if (begin === null) return;
      mark.setAttribute("x", x(Math.min(begin, now)));
      mark.setAttribute("width", Math.abs(x(now) - x(begin)));
    });
    svg.addEventListener("pointerup", (event) => {
      if (begin === null) return;
      const was = begin, now = time(event);
      begin = null;
      mark.remove();
      if (Math.abs(x(now) - x(was)) > 4) look(Math.min(was, now), Math.max(was, now));
    });
  }

  show();
  new ResizeObserver(() => {
    if (place.clientWidth !== width) show();
  }).observe(place);
}

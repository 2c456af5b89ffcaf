// Numbers as text, formatted as in profkit/report/units.py.
const UNKNOWN = "–";
const SCALES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

function thousands(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

// A number, or its text, with its noun.
function counted(number, one, more = `${one}s`) {
  return `${number} ${String(number) === "1" ? one : more}`;
}

function threeDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

function seconds(value) {
  if (!Number.isFinite(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size < 0.5e-9) return "0 s";
  if (size >= 999.5) return `${value < 0 ? "-" : ""}${thousands(size)} s`;
  const [scale, unit] = SCALES.find(([scale, unit]) => size >= 0.9995 * scale || unit === "ns");
  return `${threeDigits(value / scale)} ${unit}`;
}

function change(before, after) {
  const text = seconds(after - before);
  return after < before || text === "0 s" || text === UNKNOWN ? text : `+${text}`;
}

function share(value) {
  if (!Number.isFinite(value)) return UNKNOWN;
  const percent = 100 * value;
  if (percent === 0) return "0 %";
  if (Math.abs(percent) < 0.1) return "<0.1 %";
  return `${percent.toFixed(Math.abs(percent) < 99.95 ? 1 : 0)} %`;
}

function count(value) {
  if (Number.isNaN(value)) return UNKNOWN;
  for (const [limit, scale, suffix] of [[1e13, 1e12, " T"], [1e10, 1e9, " G"], [1e7, 1e6, " M"]]) {
    if (value >= limit) {
      const [whole, part] = (value / scale).toFixed(1).split(".");
      return `${thousands(whole)}.${part}${suffix}`;
    }
  }
  return thousands(value);
}

function factor(value) {
  if (!Number.isFinite(value)) return UNKNOWN;
  if (value === 0) return "0×";
  if (value < 0.01) return "<0.01×";
  if (value < 9.995) return `${value.toFixed(2)}×`;
  return value < 99.95 ? `${value.toFixed(1)}×` : `${thousands(value)}×`;
}

"use strict";

// The plots of a campaign, drawn from its figures. Elements and texts are made as for the rest of the page (dashboard.js).

const outcomes = ["delivered", "rejected", "failed", "other"];

function legend() {
  return element("ul", { class: "legend" }, outcomes.map((name) => element("li", {},
    shape("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" },
      shape("rect", { width: 10, height: 10, class: "fill-" + name })), name)));
}

// Outcomes over time: a column for each interval, one outcome above the other.
function timelinePlot(intervals, seconds) {
  const width = 720, height = 200, left = 56, bottom = 22;
  const values = intervals.map((row) => ({
    at: row.at, delivered: row.delivered, rejected: row.rejected, failed: row.failed,
    other: row.suppressed + row.expired + row.cancelled + row.unknown,
  }));
  const total = (row) => outcomes.reduce((sum, name) => sum + row[name], 0);
  const first = Date.parse(values[0].at) / 1000;
  const place = (row) => Math.round((Date.parse(row.at) / 1000 - first) / seconds);
  const places = place(values[values.length - 1]) + 1;
  const most = Math.max(1, ...values.map(total));
  const step = (width - left) / places;
  const plot = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label":
    `Outcomes over time: ${count(values.reduce((sum, row) => sum + total(row), 0))} in ${duration(places * seconds)}` });
  for (const share of [0, 0.5, 1]) {
    const y = (height - bottom) * (1 - share) + (share === 1 ? 1 : 0);
    plot.append(shape("line", { x1: left, x2: width, y1: y, y2: y, class: "axis" }));
    plot.append(shape("text", { x: left - 6, y: y + (share === 1 ? 10 : 4), "text-anchor": "end" },
      count(Math.round(most * share))));
  }
  for (const row of values) {
    let y = height - bottom;
    for (const name of outcomes) {
      const size = row[name] / most * (height - bottom);
      y -= size;
      if (size <= 0) continue;
      plot.append(shape("rect", {
        x: left + place(row) * step, y, width: Math.max(1, step - 1), height: size, class: "fill-" + name,
      }, shape("title", {}, `${moment(row.at)}: ${count(row[name])} ${name}`)));
    }
  }
  plot.append(shape("text", { x: left, y: height - 6 }, moment(values[0].at)));
  if (places > 1) {
    plot.append(shape("text", { x: width, y: height - 6, "text-anchor": "end" }, moment(values[values.length - 1].at)));
  }
  return plot;
}

// Reasons by how often they were given.
function reasonPlot(reasons) {
  const line = 22, width = 720, left = 220;
  const most = Math.max(...reasons.map((row) => row.count));
  const plot = shape("svg", { viewBox: `0 0 ${width} ${reasons.length * line}`, role: "img",
    "aria-label": "Refusals by reason: " + reasons.map((row) => `${row.reason} ${count(row.count)}`).join(", ") });
  reasons.forEach((row, index) => {
    const y = index * line;
    const size = Math.max(2, row.count / most * (width - left - 90));
    plot.append(shape("text", { x: left - 8, y: y + 15, "text-anchor": "end" }, row.reason));
    plot.append(shape("rect", { x: left, y: y + 3, width: size, height: line - 6, class: "fill-rejected" }));
    plot.append(shape("text", { x: left + size + 6, y: y + 15 }, count(row.count)));
  });
  return plot;
}

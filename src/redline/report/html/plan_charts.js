// The charts of plans. report.js calls this with its own helpers, and draws what it gives back.
"use strict";
window.moreDrawers = ({ words, axis, logarithmic, titled, layout, literal, lines, colour, kinds, shapes, glyphs, named }) => {
  const column = (points, name) => points.map((point) => point[name]);
  const hover = (points) => ({ hoverinfo: "text", hovertext: column(points, "text").map(lines) });
  const spread = (points, name, tint) => ({
    type: "data", symmetric: false, color: tint, thickness: 1, width: 3,
    array: points.map((point) => point[`${name}_high`] - point[name]), arrayminus: points.map((point) => point[name] - point[`${name}_low`]),
  });
  const note = (text, x, y, more) => ({ text: literal(text), x, y, showarrow: false, font: { size: 11, color: colour("soft") }, ...more });

  // --- speed against memory -----------------------------------------------------------------------------------------

  function marked(points, tint, symbol, more) {
    return {
      type: "scatter", mode: "markers", x: column(points, "x"), y: column(points, "y"), ...hover(points),
      marker: { size: 9, color: tint, symbol, line: { width: 1, color: colour("panel") } }, ...more,
    };
  }

  function frontier(figure, element) {
    const sorted = figure.frontier.slice().sort((one, two) => one.x - two.x);
    const everything = [...figure.frontier, ...figure.others, figure.best];
    const right = 1.05 * Math.max(figure.device, ...column(everything, "x_high"));
    const top = 1.1 * Math.max(...column(everything, "y_high"));
    const traces = [
      { type: "scatter", mode: "lines", x: [figure.device, figure.device], y: [0, top], line: { color: colour("accent"), width: 1.5 }, hoverinfo: "skip" },
      marked(figure.others, kinds[6], shapes[1], {}),
      marked(sorted, kinds[0], shapes[0], { mode: "lines+markers", line: { color: kinds[0], width: 1.5, dash: "dot" }, error_x: spread(sorted, "x", kinds[0]), error_y: spread(sorted, "y", kinds[0]) }),
      marked([figure.best], colour("accent"), "star", { marker: { size: 16, color: colour("accent"), symbol: "star", line: { width: 1, color: colour("panel") } } }),
    ];
    const items = [{ name: words.best, colour: colour("accent"), glyph: "\u2605" }, { name: words.frontier, colour: kinds[0], glyph: glyphs[0] }];
    if (figure.others.length) {
      items.push({ name: words.others, colour: kinds[6], glyph: glyphs[1] });
    }
    const labels = [note(figure.device_name, figure.device, top, { xanchor: "right", yanchor: "top", xshift: -4 })];
    const names = [figure.best, ...sorted, ...figure.others].filter((point, place) => place === 0 || point.name !== figure.best.name)
      .map(({ name, x, y }, place) => ({ name, x, y, radius: place ? 5 : 8 }));
    const view = { x: [0, right], y: [0, top], width: element.clientWidth - 80, height: 330 };
    return { traces, items, height: 400, layout: layout({
      annotations: [...labels, ...named(names, view, labels)],
      xaxis: axis({ ...titled(words.memory), type: "linear", range: [0, right] }),
      yaxis: axis({ ...titled(words.speed), type: "linear", range: [0, top], tickformat: "~s" }),
    }) };
  }

  // --- throughput against latency -----------------------------------------------------------------------------------

  function serving(figure) {
    const traces = figure.curves.map((curve, place) => {
      const tint = kinds[place % kinds.length];
      return {
        type: "scatter", mode: "lines+markers", x: column(curve.points, "x"), y: column(curve.points, "y"), ...hover(curve.points),
        line: { color: tint, width: 2 }, marker: { size: 7, color: tint, symbol: shapes[place % shapes.length] },
      };
    });
    const items = figure.curves.map((curve, place) => ({ name: curve.name, colour: kinds[place % kinds.length], glyph: glyphs[place % glyphs.length] }));
    return { traces, items, height: 420, layout: layout({
      xaxis: axis({ ...titled(words.user_speed), type: "linear", rangemode: "tozero" }),
      yaxis: axis({ ...titled(words.device_speed), type: "linear", rangemode: "tozero", tickformat: "~s" }),
    }) };
  }

  // --- predicted against measured -----------------------------------------------------------------------------------

  function predictions(figure) {
    const log = Math.log10;
    const all = figure.groups.flatMap((group) => [...column(group.points, "x"), ...column(group.points, "y")]);
    const [low, high] = [Math.min(...all) / 1.5, Math.max(...all) * 1.5];
    const line = (factor, dash) => ({
      type: "scatter", mode: "lines", x: [low, high], y: [low * factor, high * factor], line: { color: colour("accent"), width: 1.2, dash }, hoverinfo: "skip",
    });
    const shape = (place) => (place + 3 * Math.floor(place / kinds.length)) % shapes.length; // groups of one colour differ in shape
    const dots = figure.groups.map((group, place) => ({
      type: "scatter", mode: "markers", x: column(group.points, "x"), y: column(group.points, "y"), ...hover(group.points),
      marker: { size: 5, color: kinds[place % kinds.length], symbol: shapes[shape(place)], opacity: 0.6 },
    }));
    const items = figure.groups.map((group, place) => ({ name: group.name, colour: kinds[place % kinds.length], glyph: glyphs[shape(place)] }));
    items.push({ name: words.equal, colour: colour("accent"), glyph: "\u2014" }, { name: words.within, colour: colour("accent"), glyph: "\u2504" });
    return { traces: [line(1.25, "dot"), line(0.8, "dot"), line(1, "solid"), ...dots], items, height: 520, layout: layout({
      xaxis: logarithmic([log(low), log(high)], { ...titled(`${words.measured}, ${figure.unit}`), tickformat: "~g" }),
      yaxis: logarithmic([log(low), log(high)], { ...titled(`${words.predicted}, ${figure.unit}`), tickformat: "~g" }),
    }) };
  }

  return { frontier, serving, steps_seen: predictions, memory_seen: predictions, serving_seen: predictions };
};

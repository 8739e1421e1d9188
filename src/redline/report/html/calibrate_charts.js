// The charts of a calibration. report.js calls this with its own helpers, and draws what it gives back.
"use strict";
window.moreDrawers = ({ words, axis, logarithmic, titled, layout, literal, lines, filled, colour, kinds, shapes, glyphs, peakLabels, named, isNarrow }) => {
  const log = Math.log10;
  const xs = (marks) => marks.map((mark) => mark.x);
  const ys = (marks) => marks.map((mark) => mark.y);
  const hover = (marks) => ({ hoverinfo: "text", hovertext: marks.map((mark) => lines(mark.text)) });
  const bars = (marks, tint) => ({
    type: "data", symmetric: false, array: marks.map((mark) => mark.high - mark.y), arrayminus: marks.map((mark) => mark.y - mark.low),
    color: tint, thickness: 1, width: 3,
  });
  const note = (text, x, y, more) => ({ text: literal(text), x, y, showarrow: false, font: { size: 11, color: colour("soft") }, ...more });
  const range = (values, below, above) => [log(Math.min(...values)) - below, log(Math.max(...values)) + above];

  // --- roofline -----------------------------------------------------------------------------------------------------

  const families = { matmul: 0, convolution: 1, attention: 2 };

  function roofs(figure, element) {
    const dtypes = [...new Set(figure.kernels.map((one) => one.dtype))];
    const tint = (dtype) => kinds[dtypes.indexOf(dtype) % kinds.length];
    const place = (family) => families[family] ?? 3;
    const traces = figure.kernels.map((one) => ({
      type: "scatter", mode: "markers", x: xs(one.marks), y: ys(one.marks), ...hover(one.marks),
      marker: { size: 8, color: tint(one.dtype), symbol: shapes[place(one.family)], opacity: 0.85, line: { width: 1, color: colour("panel") } },
    }));
    const items = dtypes.map((dtype) => ({ name: dtype, colour: tint(dtype) }));
    [...new Map(figure.kernels.map((one) => [one.family, one.family_name]))].forEach(([family, name]) =>
      items.push({ name, colour: colour("soft"), glyph: glyphs[place(family)] }));
    if (figure.experiment.length) {
      traces.push({
        type: "scatter", mode: "lines+markers", x: xs(figure.experiment), y: ys(figure.experiment), ...hover(figure.experiment),
        line: { color: colour("ink"), width: 1 }, marker: { size: 6, symbol: "circle-open", color: colour("ink"), line: { width: 1.5 } },
        error_y: bars(figure.experiment, colour("faint")),
      });
      items.push({ name: figure.experiment_name, colour: colour("ink"), glyph: "\u25cb" });
    }
    const all = [...figure.kernels.flatMap((one) => one.marks), ...figure.experiment];
    const [left, right] = range([...xs(all), ...figure.peaks.map((peak) => (figure.bytes_per_s ? peak.value / figure.bytes_per_s : xs(all)[0]))], 0.35, 0.5);
    const [bottom, top] = range([...ys(all), ...figure.peaks.map((peak) => peak.value)], 0.3, 0.35);
    const annotations = peakLabels(figure.peaks, top - bottom, 400).map((peak) =>
      note(peak.name, right, log(peak.value), { xanchor: "right", yanchor: "bottom", yshift: 1 }));
    roofLines(figure, 10 ** left, 10 ** right).forEach((line) => traces.unshift(line));
    if (figure.bytes_per_s) {
      const highest = Math.max(...figure.peaks.map((peak) => peak.value), figure.bytes_per_s * 10 ** left);
      const foot = Math.max(left, bottom - log(figure.bytes_per_s)); // where the slope enters the picture
      const along = foot + 0.55 * (log(highest / figure.bytes_per_s) - foot);
      annotations.push(note(filled(words.memory_roof, { rate: figure.bandwidth }), along, along + log(figure.bytes_per_s), { xanchor: "right", yanchor: "bottom", xshift: -4 }));
    }
    if (figure.ridge) {
      traces.push({
        type: "scatter", mode: "markers", x: [figure.ridge.x], y: [figure.ridge.y], ...hover([figure.ridge]),
        marker: { size: 14, symbol: "star", color: colour("accent"), line: { width: 1, color: colour("panel") } },
      });
      items.push({ name: words.ridge, colour: colour("accent"), glyph: "\u2605" });
    }
    const view = { x: [left, right], y: [bottom, top], width: element.clientWidth - 80, height: 390 };
    const names = figure.kernels.flatMap((one) => one.marks).sort((one, two) => two.y - one.y)
      .map((mark) => ({ name: mark.name, x: log(mark.x), y: log(mark.y), radius: 5 }));
    return { traces, items, height: 460, layout: layout({
      annotations: [...annotations, ...named(names, view, annotations)],
      xaxis: logarithmic([left, right], { ...titled(words.intensity), tickformat: "~g" }),
      yaxis: logarithmic([bottom, top], { ...titled(words.rate), tickformat: "~s" }),
    }) };
  }

  function roofLines(figure, left, right) {
    const line = { color: colour("accent"), width: 1.5 };
    const drawn = figure.peaks.map((peak) => ({
      type: "scatter", mode: "lines", x: [figure.bytes_per_s ? peak.value / figure.bytes_per_s : left, right], y: [peak.value, peak.value], line, hoverinfo: "skip",
    }));
    if (figure.bytes_per_s && figure.peaks.length) {
      const top = Math.max(...figure.peaks.map((peak) => peak.value));
      drawn.push({ type: "scatter", mode: "lines", x: [left, top / figure.bytes_per_s], y: [left * figure.bytes_per_s, top], line, hoverinfo: "skip" });
    }
    return drawn;
  }

  // --- curves -------------------------------------------------------------------------------------------------------

  function curve(series, place) {
    const tint = kinds[place % kinds.length];
    return {
      type: "scatter", mode: "lines+markers", x: xs(series.marks), y: ys(series.marks), ...hover(series.marks),
      line: { color: tint, width: 2 }, marker: { size: 7, color: tint, symbol: shapes[place % shapes.length] }, error_y: bars(series.marks, tint),
    };
  }

  const curveItems = (curves) => curves.map((one, place) => ({ name: one.name, colour: kinds[place % kinds.length], glyph: glyphs[place % glyphs.length] }));

  // Sizes are powers of two, and caches are spoken of so.
  function binaryTicks(least, most) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    const [first, last] = [Math.ceil(Math.log2(least)), Math.floor(Math.log2(most))];
    const every = Math.max(1, Math.ceil((last - first) / (isNarrow() ? 5 : 10)));
    const powers = [];
    for (let power = first; power <= last; power += every) {
      powers.push(power);
    }
    return { tickvals: powers.map((power) => 2 ** power), ticktext: powers.map((power) => `${2 ** (power % 10)} ${units[Math.floor(power / 10)]}`) };
  }

  function bandwidths(figure) {
    const sizes = figure.curves.flatMap((one) => xs(one.marks));
    const [left, right] = range(sizes, 0.1, 0.1);
    return { traces: figure.curves.map(curve), items: curveItems(figure.curves), height: 340, layout: layout({
      xaxis: logarithmic([left, right], { ...titled(words.working_set), ...binaryTicks(10 ** left, 10 ** right) }),
      yaxis: axis({ ...titled(words.bandwidth), type: "linear", rangemode: "tozero", tickformat: "~s" }),
    }) };
  }

  function sustained(figure) {
    const traces = figure.curves.map((one, place) => ({ ...curve(one, place), error_y: { visible: false } }));
    return { traces, items: curveItems(figure.curves), height: 300, layout: layout({
      xaxis: axis({ ...titled(words.seconds), type: "linear", rangemode: "tozero" }),
      yaxis: axis({ ...titled(words.of_burst), type: "linear", rangemode: "tozero" }),
    }) };
  }

  // --- collectives: one small chart for each operation, all with the same axes --------------------------------------

  function bus(figure) {
    const columns = isNarrow() ? 1 : Math.min(3, figure.curves.length);
    const rows = Math.ceil(figure.curves.length / columns);
    const marks = figure.curves.flatMap((one) => one.marks);
    const rings = figure.curves.flatMap((one) => one.ring);
    const [left, right] = range(xs(marks), 0.3, 0.3);
    const [bottom, top] = range([...ys(marks), ...rings.map((point) => point[1])], 0.3, 0.3);
    const made = { traces: [], annotations: [], axes: {}, count: figure.curves.length };
    figure.curves.forEach((one, place) => small(made, one, place, { columns, rows, left, right, bottom, top }));
    const items = [{ name: words.measured, colour: kinds[0], glyph: glyphs[0] }];
    if (rings.length) {
      items.push({ name: words.ring, colour: colour("accent"), glyph: "\u2504" });
    }
    return { traces: made.traces, items, height: 60 + rows * 190, layout: layout({ annotations: made.annotations, ...made.axes }) };
  }

  function small(made, one, place, grid) {
    const suffix = place ? String(place + 1) : "";
    const [column, row] = [place % grid.columns, Math.floor(place / grid.columns)];
    const [width, height] = [1 / grid.columns, 1 / grid.rows];
    const gap = { x: grid.columns > 1 ? 0.1 * width : 0, y: 0.2 * height };
    const at = { xaxis: `x${suffix}`, yaxis: `y${suffix}` };
    const domain = { x: [column * width + (column ? gap.x : 0), (column + 1) * width], y: [1 - (row + 1) * height + (row === grid.rows - 1 ? 0 : gap.y), 1 - row * height - gap.y / 2] };
    if (one.ring.length) {
      made.traces.push({ type: "scatter", mode: "lines", x: one.ring.map((point) => point[0]), y: one.ring.map((point) => point[1]), line: { color: colour("accent"), width: 1.5, dash: "dash" }, hoverinfo: "skip", ...at });
    }
    made.traces.push({ ...curve(one, 0), ...at });
    const isLeft = column === 0;
    const isLowest = place + grid.columns >= made.count;
    const ticks = binaryTicks(10 ** grid.left, 10 ** grid.right);
    const few = { tickvals: ticks.tickvals.filter((_, index) => index % 3 === 0), ticktext: ticks.ticktext.filter((_, index) => index % 3 === 0) };
    made.axes[`xaxis${suffix}`] = logarithmic([grid.left, grid.right], { ...few, domain: domain.x, anchor: at.yaxis, ...(isLowest ? titled(words.size) : {}) });
    made.axes[`yaxis${suffix}`] = logarithmic([grid.bottom, grid.top], { tickformat: "~s", dtick: 1, domain: domain.y, anchor: at.xaxis, showticklabels: isLeft, ...(isLeft && row === Math.floor((grid.rows - 1) / 2) ? titled(words.bandwidth) : {}) });
    made.annotations.push(note(one.name, domain.x[0], domain.y[1], { xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", font: { size: 12, color: colour("ink") } }));
  }

  return { roofs, bandwidths, sustained, bus };
};

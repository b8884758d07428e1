// Draws the charts of a report from the numbers in the page.
const data = JSON.parse(document.getElementById('run').textContent);
const W = 620, H = 270, LEFT = 74, RIGHT = 14, TOP = 10, BOTTOM = 26;

const svg = (name, attributes, parent, text) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return parent.appendChild(node);
};
const html = (name, attributes, parent, text) => {
  const node = Object.assign(document.createElement(name), attributes);
  if (text !== undefined) node.textContent = text;
  return parent.appendChild(node);
};

const number = (value, unit) => {
  if (value === null) return 'not finite';
  if (unit === 'bytes') {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let i = 0;
    for (; Math.abs(value) >= 1024 && i < 4; ++i) value /= 1024;
    return `${+value.toPrecision(4)} ${units[i]}`;
  }
  if (unit === '%') return `${+(100 * value).toFixed(2)} %`;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(3).replace(/\.?0+e/, 'e');
  return `${+value.toPrecision(6)}`;
};

// About `count` round numbers from `low` to `high`; with `base` 1024 round in binary units.
const ticks = (low, high, count, base) => {
  const raw = (high - low) / count || 1;
  const power = base === 1024 ? 2 ** Math.floor(Math.log2(raw)) : 10 ** Math.floor(Math.log10(raw));
  const step = power * (base === 1024 ? (raw / power > 1.5 ? 2 : 1) : [1, 2, 5, 10].find(m => m * power >= raw * 0.999));
  const all = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) all.push(+(i * step).toPrecision(12));
  return all;
};

// 1, 2 and 5 times the powers of ten, or the powers alone where these are many; `low` and `high` are logarithms.
const logTicks = (low, high) => {
  const all = [];
  for (let power = Math.floor(low); power <= high; ++power)
    for (const m of high - low > 3 ? [1] : [1, 2, 5]) all.push(power + Math.log10(m));
  const shown = all.filter(tick => tick >= low && tick <= high);
  return shown.filter((_, i) => i % Math.ceil(shown.length / 8) === 0);
};

const finite = values => values.filter(value => value !== null);

function draw(figure, chart, log) {
  const own = chart.series.map(s => ({...s, low: s.low ?? s.y, high: s.high ?? s.y}));
  const xs = own.flatMap(s => s.x), lows = own.flatMap(s => finite(s.low)), highs = own.flatMap(s => finite(s.high));
  const x0 = xs.reduce((a, b) => Math.min(a, b)), x1 = Math.max(x0 + 1, xs.reduce((a, b) => Math.max(a, b)));
  const to = log ? Math.log10 : value => value, back = log ? value => 10 ** value : value => value;
  let y0 = to(lows.reduce((a, b) => Math.min(a, b), Infinity)), y1 = to(highs.reduce((a, b) => Math.max(a, b), -Infinity));
  if (!(y1 > y0)) [y0, y1] = Number.isFinite(y0) ? [y0 - (Math.abs(y0) || 1) / 10, y1 + (Math.abs(y1) || 1) / 10] : [0, 1];
  const pad = (y1 - y0) * 0.05;
  y0 = log || y0 < 0 ? y0 - pad : chart.zero ? 0 : Math.max(0, y0 - pad);
  y1 += pad;
  const px = x => LEFT + (x - x0) / (x1 - x0) * (W - LEFT - RIGHT);
  const py = y => H - BOTTOM - (to(y) - y0) / (y1 - y0) * (H - TOP - BOTTOM);

  figure.querySelector('svg')?.remove();
  const view = svg('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': chart.title}, figure);
  figure.insertBefore(view, figure.querySelector('figcaption'));
  for (const tick of log ? logTicks(y0, y1) : ticks(y0, y1, 5, chart.unit === 'bytes' ? 1024 : 10)) {
    const y = py(back(tick));
    svg('line', {class: 'grid', x1: LEFT, x2: W - RIGHT, y1: y, y2: y}, view);
    svg('text', {x: LEFT - 8, y: y + 4, 'text-anchor': 'end'}, view, number(log ? +back(tick).toPrecision(3) : tick, chart.unit));
  }
  for (const tick of ticks(x0, x1, 6).filter(Number.isInteger)) {
    svg('line', {class: 'axis', x1: px(tick), x2: px(tick), y1: H - BOTTOM, y2: H - BOTTOM + 4}, view);
    svg('text', {x: px(tick), y: H - 8, 'text-anchor': 'middle'}, view, tick);
  }
  svg('line', {class: 'axis', x1: LEFT, x2: W - RIGHT, y1: H - BOTTOM, y2: H - BOTTOM}, view);

  const path = (s, values) => {
    let text = '', pen = 'M';
    s.x.forEach((x, i) => {
      const y = values[i];
      if (y === null || (log && y <= 0)) return void (pen = 'M');
      text += `${pen}${px(x).toFixed(1)} ${py(y).toFixed(1)}`;
      pen = 'L';
    });
    return text;
  };
  own.forEach((s, i) => {
    const color = `var(--s${i % 3})`;
    if (chart.series[i].low && !s.high.includes(null) && !s.low.includes(null)) {
      const reversed = {x: [...s.x].reverse()};
      svg('path', {class: 'band', fill: color, d: path(s, s.high) + path(reversed, [...s.low].reverse()).replace('M', 'L') + 'Z'}, view);
    }
    svg('path', {class: `curve c${i}`, stroke: color, d: path(s, s.y)}, view);
    if (s.x.length <= 40)
      s.x.forEach((x, j) => s.y[j] !== null && svg('circle', {cx: px(x), cy: py(s.y[j]), r: 2.6, fill: color}, view));
  });
  hover(figure, chart, view, px, py, x => x0 + (x - LEFT) / (W - LEFT - RIGHT) * (x1 - x0));
}

function hover(figure, chart, view, px, py, stepAt) {
  const rule = svg('line', {class: 'rule', y1: TOP, y2: H - BOTTOM, visibility: 'hidden'}, view);
  const tip = figure.querySelector('.tip');
  const nearest = (xs, x) => xs.reduce((best, value, i) => Math.abs(value - x) < Math.abs(xs[best] - x) ? i : best, 0);
  view.onmouseleave = () => {
    tip.hidden = true;
    rule.setAttribute('visibility', 'hidden');
  };
  view.onmousemove = event => {
    const box = view.getBoundingClientRect();
    const at = stepAt((event.clientX - box.left) / box.width * W);
    const first = chart.series[0], step = first.x[nearest(first.x, at)];
    const lines = chart.series.map(s => {
      const i = nearest(s.x, at);
      return `${s.name} ${number(s.y[i], chart.unit)}` + (s.x[i] === step ? '' : ` (step ${s.x[i]})`);
    });
    tip.textContent = [`step ${step}`, ...lines].join('\n');
    tip.hidden = false;
    const x = px(step) / W * box.width;
    rule.setAttribute('x1', px(step));
    rule.setAttribute('x2', px(step));
    rule.setAttribute('visibility', 'visible');
    tip.style.top = `${view.offsetTop ?? 40}px`;
    tip.style.left = `${x + (x > box.width * 0.6 ? -tip.offsetWidth + 4 : 24)}px`;
  };
}

for (const chart of data.charts) {
  const figure = html('figure', {className: 'card chart', id: `chart-${chart.id}`}, document.getElementById('charts'));
  const header = html('header', {}, figure);
  html('h3', {}, header, chart.title);
  chart.series.forEach((s, i) => {
    const key = html('span', {className: 'key'}, header);
    html('i', {}, key).style.background = `var(--s${i % 3})`;
    key.append(s.name);
  });
  const positive = chart.series.every(s => (s.low ?? s.y).every(y => y === null || y > 0));
  let log = positive && chart.log;
  if (positive) {
    const button = html('button', {type: 'button'}, header, 'log');
    button.setAttribute('aria-pressed', log);
    button.onclick = () => {
      button.setAttribute('aria-pressed', log = !log);
      draw(figure, chart, log);
    };
  }
  html('div', {className: 'tip', hidden: true}, figure);
  const last = chart.series.map(s => `${s.name} ${number(s.last[1], chart.unit)} at step ${s.last[0]}`);
  html('figcaption', {}, figure, `last: ${last.join(', ')}`);
  draw(figure, chart, log);
}
document.body.dataset.charts = data.charts.length;

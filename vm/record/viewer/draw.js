/* Drawing: what is where, and how it looks. */

const $ = (id) => document.getElementById(id);
const trace = JSON.parse($('trace').textContent), world = trace.world ? new World(trace.world, trace.ranks) : null;
const asked = new URLSearchParams(location.hash.slice(1)); /* of a world: the rank that is shown, and when */
const rank = world && Number(asked.get('rank')) < world.n ? Number(asked.get('rank')) : 0;
const model = new Model(world ? trace.ranks[rank] : trace, world);
const canvas = $('canvas'), overview = $('overview'), ctx = canvas.getContext('2d');
const RULER = 26, LANE = 15, BAR = 20, STRIP = 6, SECTION = 22, MANY_ARROWS = 60;

const view = {t0: model.begin, t1: model.total, y: 0, selected: -1, hits: null, hit: -1,
  hover: -1, at: -1, measure: null, arrows: true, path: false, step: -1, share: null, gap: null, mark: -1, lit: [], width: 1, height: 1, drawn: 0};
let colors = {}, tints = [], rows = [], rowOf = {}, queued = false;

/* ---- Colours ------------------------------------------------------------------------------ */

function mix(a, b, f) {
  const p = (c) => [1, 3, 5].map((k) => parseInt(c.slice(k, k + 2), 16));
  const x = p(a), y = p(b);
  return '#' + x.map((v, k) => Math.round(v + (y[k] - v) * f).toString(16).padStart(2, '0')).join('');
}

function readColors() {
  const css = getComputedStyle(document.documentElement);
  for (const name of ['bg', 'panel', 'line', 'faint', 'text', 'muted', 'accent', 'shade', 'tensor',
    'vector', 'scalar', 'gpsimd', 'sync', 'cc', 'load', 'store', 'other', 'wait', 'trigger', 'step', 'fill', 'tint', 'ink', 'bad'])
    colors[name] = css.getPropertyValue('--' + name).trim();
  /* Mnemonics of an engine differ by three shades of its colour. */
  const seen = {};
  tints = model.data.code.map((c) => {
    const engine = model.engineKind(c[0]), list = seen[engine] = seen[engine] || [];
    if (!list.includes(c[2])) list.push(c[2]);
    return mix(colors[engine], colors.tint, [0, 0.18, 0.09][list.indexOf(c[2]) % 3]);
  });
}

function setTheme(theme) {
  const dark = theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  readColors();
  if (view.laidOut) showAll();
}
function toggleTheme() {
  const theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  try { localStorage.setItem('soma-theme', theme); } catch (e) { /* a file may have no storage */ }
  setTheme(theme);
}

function colorOf(i) {
  if (model.kind[i] === TABLE) return colors.muted;
  if (model.kind[i] === TRIGGER) return colors.trigger;
  if (model.isWrite(i)) return colors.step;
  if (model.kind[i] === INSN) return tints[model.code[i]] || colors.muted;
  return model.kind[i] === DMA ? colors[model.direction(i)] : colors.wait;
}

/* ---- Layout ------------------------------------------------------------------------------- */

const open = new Set(), fewSems = model.tracks.filter((t) => t.type === 'sem').length <= 8 * model.data.cores;
for (const t of model.tracks) if ((t.type !== 'sem' || fewSems) && !t.closed) open.add('section ' + t.section);

/* Height of an engine's bars; an engine that only waits and triggers has none. */
function barsHeight(track) {
  return !track.spans.n ? 3 : open.has(track) ? track.spans.lanes * LANE : BAR;
}
/* Below the bars: the triggers of transfers, then waits. */
function triggersTop(track) { return 5 + barsHeight(track) + 2; }
function waitsTop(track) { return triggersTop(track) + (track.triggers.n ? STRIP + 2 : 0); }
function trackHeight(track) {
  const expanded = open.has(track);
  if (track.type === 'engine') return waitsTop(track) + STRIP + 5;
  if (track.type === 'rank' || track.type === 'link') return track.type === 'rank' ? 28 : 16;
  if (track.rings) return 8 + track.rings.length * (expanded ? 10 : 2);
  return track.type === 'memory' || track.type === 'rate' ? 40 : 24;
}

function layOut() {
  let y = 0, section = '';
  rows = [];
  rowOf = {engine: [], queue: []};
  for (const track of model.tracks) {
    if (track.section !== section) {
      section = track.section;
      rows.push({section, y, h: SECTION});
      y += SECTION;
    }
    if (!open.has('section ' + section)) continue;
    const row = {track, y, h: trackHeight(track)};
    rows.push(row);
    if (track.type === 'engine' || track.type === 'queue') rowOf[track.type][track[track.type]] = row;
    y += row.h;
  }
  view.content = y + 8;
}

function shareText(track) {
  const s = model.data.summary, whole = model.total - model.begin;
  if (track.type === 'rank') return percentText(timeIn(track.list), whole);
  if (track.type === 'link') return `${world.gbs(track.link).toFixed(1)} GB/s, ${Math.round(100 * track.link.busy / whole)}\u00a0%`;
  if (track.type === 'engine') return percentText(s.engines[track.engine][1], whole);
  if (track.type === 'queue') return track.dge === 'none' ? 'static' : track.dge;
  if (track.type === 'dma') return track.ids.length + ' engines';
  if (track.type === 'rate') return 'max ' + track.max.toFixed(0);
  return track.type === 'memory' ? percentText(track.max, model.data.capacity[track.memory]) : 'max ' + track.max;
}

function makeLabel(row) {
  const key = row.section ? 'section ' + row.section : row.track;
  const fold = row.section || row.track.type === 'engine' || row.track.rings, ofRank = row.track && row.track.type === 'rank';
  const el = document.createElement(fold || ofRank ? 'button' : 'div');
  el.style.top = row.y + 'px';
  el.style.height = row.h + 'px';
  el.className = row.section ? 'section' : '';
  if (fold) {
    el.type = 'button';
    el.setAttribute('aria-expanded', open.has(key));
    el.addEventListener('click', () => {
      if (!open.delete(key)) open.add(key);
      const label = el.textContent;
      showAll();
      [...$('rows').children].find((x) => x.textContent === label).focus();
    });
  }
  if (ofRank) {
    el.type = 'button';
    el.setAttribute('aria-pressed', row.track.rank === rank);
    el.addEventListener('click', () => showRank(row.track.rank));
  }
  const name = document.createElement('span');
  name.className = 'name';
  name.textContent = row.section || row.track.name;
  el.append(name);
  if (row.track) {
    const share = document.createElement('span');
    share.className = 'share';
    share.textContent = shareText(row.track);
    el.append(share);
  }
  el.title = name.textContent;
  return el;
}

function showLabels() {
  $('rows').replaceChildren(...rows.map(makeLabel));
}

function fitCanvas(c) {
  const box = c.getBoundingClientRect(), scale = devicePixelRatio || 1;
  c.width = Math.max(1, Math.round(box.width * scale));
  c.height = Math.max(1, Math.round(box.height * scale));
  c.getContext('2d').setTransform(scale, 0, 0, scale, 0, 0);
  return [box.width, box.height];
}

function showAll() {
  layOut();
  showLabels();
  [view.width, view.height] = fitCanvas(canvas);
  view.laidOut = true;
  clamp();
  showPanels();
  showDetails();
  drawOverview();
  draw();
}

/* ---- Time and place ----------------------------------------------------------------------- */

const X = (t) => (t - view.t0) / (view.t1 - view.t0) * view.width;
const T = (x) => view.t0 + x / view.width * (view.t1 - view.t0);

/* Never out of the run by more than a margin, and never below a nanosecond. */
function clamp() {
  const whole = model.total - model.begin, margin = whole * 0.02;
  const span = Math.min(Math.max(view.t1 - view.t0, Math.min(whole, 1000)), whole + 2 * margin);
  const lo = model.begin - margin, hi = model.total + margin - span;
  view.t0 = Math.max(lo, Math.min(view.t0, hi));
  view.t1 = view.t0 + span;
  view.y = Math.max(0, Math.min(view.y, view.content - (view.height - RULER)));
}
function setView(t0, t1) {
  view.t0 = t0;
  view.t1 = t1;
  draw();
}
/* The time under the pointer stays where it is. */
function zoom(factor, t) {
  const at = t === undefined ? (view.t0 + view.t1) / 2 : t;
  const span = (view.t1 - view.t0) * factor;
  const left = (at - view.t0) / (view.t1 - view.t0);
  setView(at - left * span, at - left * span + span);
}
function pan(share) {
  const by = (view.t1 - view.t0) * share;
  setView(view.t0 + by, view.t1 + by);
}
function fit() {
  const margin = (model.total - model.begin) * 0.02;
  setView(model.begin - margin, model.total + margin);
}

/* The row of an event, and its top and height on the content. Null when it is not shown.
 * Where an event is drawn must be known for arrows, outlines and clicks. */
function placeOf(i) {
  const k = model.kind[i], ring = k === DMA || model.isWrite(i);
  const row = ring ? rowOf.queue[model.queueOf(i)] : rowOf.engine[model.engine[i]];
  if (!row) return null;
  const t = row.track, wide = open.has(t);
  if (ring) return {row, y: row.y + 4 + t.ids.indexOf(model.ringOf(i)) * (wide ? 10 : 2), h: wide ? 8 : 2};
  if (k === TRIGGER) return {row, y: row.y + triggersTop(t), h: STRIP};
  if (k !== INSN && k !== TABLE) return {row, y: row.y + waitsTop(t), h: STRIP};
  return {row, y: row.y + 5 + (wide ? laneOf(t, i) * LANE : 0), h: wide ? LANE - 2 : BAR};
}
function listOf(i) {
  /* The list that an event is drawn from, for steps to its neighbours. */
  const t = model.trackOf(i), k = model.kind[i];
  if (!t) return null;
  if (k === DMA) return t.rings[t.ids.indexOf(model.engine[i])];
  if (model.isWrite(i)) return {ev: t.writes[t.ids.indexOf(model.ringOf(i))], n: t.writes[t.ids.indexOf(model.ringOf(i))].length};
  return k === INSN || k === TABLE ? t.spans : k === TRIGGER ? t.triggers : t.waits;
}
/* When an event begins and ends on its track. */
function beginOf(i) { return model.isWrite(i) ? model.writtenAt(i) : model.start[i]; }
function endOf(i) { return model.isWrite(i) ? model.writtenAt(i) : model.end[i]; }
/* Several events may begin at one time: from the first of them on. */
function positionIn(s, i) {
  let k = firstWhere(s.n, (m) => beginOf(s.ev[m]) >= beginOf(i));
  while (k < s.n && s.ev[k] !== i) k++;
  return k;
}
const laneOf = (track, i) => track.spans.lane[positionIn(track.spans, i)];

/* ---- Drawing ------------------------------------------------------------------------------ */

/* Many calls in a row paint once, with the next frame. */
function draw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    paint();
  });
}

/* Bars of s between y and y + h. Bars narrower than two pixels are gathered by column, and a column
 * shows how much of it was busy. lane(k): offset of span k from y. */
function drawSpans(s, y, h, color, lane, text) {
  /* cover: how much of each column narrow bars take. */
  const pxPerPs = view.width / (view.t1 - view.t0), cover = new Float32Array(Math.ceil(view.width) + 1);
  let k = firstWhere(s.n, (m) => s.maxEnd[m] >= view.t0), any = false;
  for (; k < s.n; k++) {
    const i = s.ev[k];
    if (model.start[i] > view.t1) break;
    const x0 = (model.start[i] - view.t0) * pxPerPs;
    /* A whole block that fits in a pixel is one addition, so that a million events draw
     * quickly. */
    if (k % BLOCK === 0 && k + BLOCK <= s.n && s.maxEnd[k + BLOCK - 1] <= view.t1 &&
        (s.maxEnd[k + BLOCK - 1] - model.start[i]) * pxPerPs < 1 && !view.hits) {
      if (x0 >= 0) cover[x0 | 0] += s.blockBusy[k / BLOCK | 0] * pxPerPs;
      any = true;
      k += BLOCK - 1;
      continue;
    }
    const x1 = (model.end[i] - view.t0) * pxPerPs;
    view.drawn++;
    /* With a search each hit is drawn, however narrow. */
    if (x1 - x0 < 2 && !(view.hits && view.hits.hit[i])) {
      if (x0 >= 0) cover[Math.min(cover.length - 1, x0 | 0)] += Math.max(x1 - x0, 0.05);
      any = true;
      continue;
    }
    /* Cut at the border, so that no rectangle is longer than the window. */
    const left = Math.max(x0, -2), right = Math.min(x1, view.width + 2);
    ctx.globalAlpha = view.hits && !view.hits.hit[i] ? 0.2 : 1;
    ctx.fillStyle = color(i);
    ctx.fillRect(left, y + lane(k), Math.max(right - left - (h > 4 ? 0.75 : 0), 1), h);
    if (text) drawText(s, k, left, right, y + lane(k), h);
  }
  if (any) drawCover(s, cover, y, h, color);
  ctx.globalAlpha = 1;
}

function drawCover(s, cover, y, h, color) {
  /* One colour for a column: that of the first bar in view. */
  ctx.fillStyle = color(s.ev[Math.min(s.n - 1, firstWhere(s.n, (m) => model.start[s.ev[m]] >= view.t0))]);
  /* Nine levels, so that neighbouring columns often are one rectangle. */
  const level = (x) => Math.ceil(8 * Math.min(1, cover[x]));
  for (let x = 0, to; x < cover.length; x = to) {
    const l = level(x);
    for (to = x + 1; to < cover.length && level(to) === l;) to++;
    if (!l) continue;
    ctx.globalAlpha = (0.2 + 0.1 * l) * (view.hits ? 0.2 : 1);
    ctx.fillRect(x, y, to - x, h);
  }
}

/* The mnemonic on a bar, in the part that the next instruction leaves free. */
function drawText(s, k, left, right, y, h) {
  /* In one lane the next bar may begin on top of this one. */
  const i = s.ev[k], next = k + 1 < s.n && s.lanes > 1 && h === BAR ? X(model.start[s.ev[k + 1]]) : right;
  const from = Math.max(left, 0), room = Math.min(right, next, view.width) - from - 8;
  if (room < 14) return;
  /* About 6.1 pixels a character in this font. */
  const label = model.label(i), fits = Math.floor(room / 6.1);
  ctx.fillStyle = colors.ink;
  if (label.length <= fits || fits > 3)
    ctx.fillText(label.length <= fits ? label : label.slice(0, fits - 1) + '\u2026', from + 4, y + h / 2 + 0.5);
}

/* Waits are hatched: they look like nothing that works. */
let hatch = null;
function hatchPattern() {
  if (hatch && hatch.of === colors.wait) return hatch.pattern;
  const c = document.createElement('canvas');
  c.width = c.height = 5;
  const g = c.getContext('2d');
  g.strokeStyle = colors.wait;
  g.lineWidth = 1.4;
  g.beginPath();
  for (const d of [-5, 0, 5]) { g.moveTo(d, 5); g.lineTo(d + 5, 0); }
  g.stroke();
  hatch = {of: colors.wait, pattern: ctx.createPattern(c, 'repeat')};
  return hatch.pattern;
}

function drawEngine(track, y) {
  const wide = open.has(track), s = track.spans;
  drawSpans(s, y + 5, wide ? LANE - 2 : BAR, colorOf, wide ? (k) => s.lane[k] * LANE : () => 0, true);
  drawSpans(track.triggers, y + triggersTop(track), STRIP, colorOf, () => 0, false);
  drawSpans(track.waits, y + waitsTop(track), STRIP,
    (i) => model.kind[i] === NOTIFY ? colors.accent : hatchPattern(), () => 0, false);
}

function drawQueue(track, y) {
  const wide = open.has(track);
  track.rings.forEach((s, r) => drawSpans(s, y + 4 + r * (wide ? 10 : 2), wide ? 8 : 2, colorOf, () => 0, false));
  if (wide && track.writes) track.writes.forEach((list, r) => drawWrites(list, y + 4 + r * 10));
}
/* A tick where a ring writes its 4 bytes, at most one per column. */
function drawWrites(list, y) {
  let k = firstWhere(list.length, (m) => model.writtenAt(list[m]) >= view.t0);
  ctx.fillStyle = colors.step;
  for (let last = -9; k < list.length && model.writtenAt(list[k]) <= view.t1; k++) {
    const x = Math.round(X(model.writtenAt(list[k])));
    if (x < last + 3) continue;
    ctx.globalAlpha = view.hits && !view.hits.hit[list[k]] ? 0.2 : 1;
    ctx.fillRect(x, y - 1, 2, 10);
    last = x;
  }
  ctx.globalAlpha = 1;
}

/* 1, 2, 5 or 10 times a power of ten: what people read easily. */
function niceStep(span, ticks) {
  const raw = span / ticks, unit = 10 ** Math.floor(Math.log10(raw));
  return unit * [1, 2, 5, 10].find((m) => m * unit >= raw);
}

function drawRuler() {
  const step = niceStep(view.t1 - view.t0, Math.max(2, view.width / 110)), [u, name] = unitFor(view.t1);
  /* As many digits as the step needs; 1e-9 forgives the rounding of log10. */
  const digits = Math.max(0, Math.ceil(-Math.log10(step / u) - 1e-9));
  ctx.fillStyle = colors.panel;
  ctx.fillRect(0, 0, view.width, RULER);
  ctx.fillStyle = colors.line;
  ctx.fillRect(0, RULER - 1, view.width, 1);
  ctx.textBaseline = 'middle';
  for (let t = Math.ceil(view.t0 / step) * step; t <= view.t1; t += step) {
    const x = Math.round(X(t));
    ctx.fillStyle = colors.line;
    ctx.fillRect(x, RULER - 7, 1, 6);
    ctx.fillStyle = colors.muted;
    const label = (t / u).toFixed(digits) + ' ' + name;
    if (x + 4 + ctx.measureText(label).width < view.width) ctx.fillText(label, x + 4, RULER / 2);
  }
}

function drawGrid() {
  const step = niceStep(view.t1 - view.t0, Math.max(2, view.width / 110));
  ctx.fillStyle = colors.faint;
  for (let t = Math.ceil(view.t0 / step) * step; t <= view.t1; t += step)
    ctx.fillRect(Math.round(X(t)), RULER, 1, view.height - RULER);
  for (const t of [model.begin, model.total]) {
    ctx.fillStyle = colors.line;
    ctx.fillRect(Math.round(X(t)), RULER, 1, view.height - RULER);
  }
}

/* An arrow from the end of event a to the end of wait b, or from a trigger to the start of a share.
 * Down from above or up from below, so that it never crosses the bars it joins. */
function drawArrow(a, b, strong) {
  const from = placeOf(a), to = placeOf(b);
  if (!from || !to) return false;
  const x0 = X(endOf(a)), x1 = X(model.kind[b] === DMA ? model.start[b] : model.end[b]);
  if (Math.max(x0, x1) < 0 || Math.min(x0, x1) > view.width) return false;
  const top = RULER - view.y, y0 = top + from.y + from.h / 2, down = to.y >= from.y;
  const y1 = top + (down ? to.y : to.y + to.h), bend = Math.max(14, Math.abs(y1 - y0) * 0.35) * (down ? 1 : -1);
  ctx.strokeStyle = ctx.fillStyle = strong ? colors.accent : colors.muted;
  ctx.globalAlpha = strong ? 1 : 0.5;
  ctx.lineWidth = strong ? 1.75 : 1;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.bezierCurveTo(x0 + 6, y0 + bend * 0.4, x1, y1 - bend, x1, y1);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x1 - 3, y1 - (down ? 6 : -6));
  ctx.lineTo(x1 + 3, y1 - (down ? 6 : -6));
  ctx.fill();
  ctx.globalAlpha = 1;
  return true;
}

/* Waits that end in view, unless there are too many to tell their arrows apart. */
function waitsInView() {
  const out = [];
  for (const t of model.tracks) {
    if (t.type !== 'engine') continue;
    let k = firstWhere(t.waits.n, (m) => t.waits.maxEnd[m] >= view.t0);
    /* Too many arrows say nothing: then none are drawn. */
    for (; k < t.waits.n && model.start[t.waits.ev[k]] <= view.t1; k++) {
      const i = t.waits.ev[k];
      if (model.isWait(i) && model.end[i] <= view.t1) out.push(i);
      if (out.length > MANY_ARROWS) return [];
    }
  }
  return out;
}

/* What ended the selected event's wait, and which waits it ended. */
function selectionArrows() {
  const i = view.selected, out = [];
  if (i < 0) return out;
  const wait = model.waitBefore(i), source = model.producer(i), trigger = model.triggerOf(i);
  if (source >= 0 && wait >= 0) out.push([source, wait]);
  if (model.kind[i] === DMA && trigger >= 0) out.push([trigger, i]);
  if (model.kind[i] === TRIGGER) for (const k of model.sharesOf(i)) out.push([i, k]);
  if (!model.isWait(i) && model.kind[i] !== TRIGGER) for (const w of model.endedWaits(i)) out.push([i, w]);
  return out;
}

function drawArrows() {
  let n = 0;
  /* The path has lines of its own. */
  if (view.arrows && !(path && view.path))
    for (const w of waitsInView()) {
      const source = model.producer(w);
      if (source >= 0 && drawArrow(source, w, false)) n++;
    }
  let strong = 0;
  for (const [a, b] of selectionArrows()) if (drawArrow(a, b, true)) strong++;
  /* Tests read what was drawn from these. */
  canvas.dataset.arrows = n;
  canvas.dataset.links = strong;
}

/* The time of the selection, drawn under all rows. */
function drawSelectedTime() {
  if (view.selected < 0) return;
  const x0 = X(beginOf(view.selected)), x1 = X(endOf(view.selected));
  ctx.fillStyle = colors.shade;
  ctx.fillRect(x0, RULER, Math.max(1, x1 - x0), view.height - RULER);
}
function drawSelection() {
  const place = view.selected >= 0 ? placeOf(view.selected) : null;
  if (!place) return;
  outline(view.selected, place, colors.accent);
}
function outline(i, place, color) {
  const x0 = X(beginOf(i)), x1 = X(endOf(i));
  ctx.strokeStyle = color;
  ctx.lineWidth = 2;
  ctx.strokeRect(x0 - 1, RULER - view.y + place.y - 1, Math.max(3, x1 - x0) + 1, place.h + 2);
}
/* The two accesses of a finding. */
function drawLit() {
  let n = 0;
  for (const i of view.lit) {
    const place = placeOf(i);
    /* A place may be folded away: then there is nothing to light. */
    if (!place) continue;
    ctx.fillStyle = colors.bad;
    ctx.globalAlpha = 0.35;
    ctx.fillRect(X(beginOf(i)), RULER - view.y + place.y, Math.max(2, X(endOf(i)) - X(beginOf(i))), place.h);
    ctx.globalAlpha = 1;
    outline(i, place, colors.bad);
    n++;
  }
  canvas.dataset.lit = n;
}

function drawPointer() {
  /* While a span is measured its label stands at the pointer. */
  if (view.at >= 0 && !view.measure) {
    ctx.fillStyle = colors.muted;
    ctx.globalAlpha = 0.5;
    ctx.fillRect(Math.round(view.at), RULER, 1, view.height - RULER);
    ctx.globalAlpha = 1;
  }
  if (!view.measure) return;
  const [a, b] = view.measure, x0 = X(Math.min(a, b)), x1 = X(Math.max(a, b));
  ctx.fillStyle = colors.shade;
  ctx.fillRect(x0, RULER, x1 - x0, view.height - RULER);
  const label = spanText(Math.abs(b - a)), width = ctx.measureText(label).width + 10;
  ctx.fillStyle = colors.text;
  ctx.fillRect((x0 + x1 - width) / 2, RULER + 4, width, 18);
  ctx.fillStyle = colors.panel;
  ctx.fillText(label, (x0 + x1 - width) / 2 + 5, RULER + 13);
}

function paint() {
  clamp();
  view.drawn = 0;
  ctx.font = '11px system-ui, "Segoe UI", "Liberation Sans", sans-serif';
  ctx.fillStyle = colors.bg;
  ctx.fillRect(0, 0, view.width, view.height);
  ctx.textBaseline = 'middle';
  drawGrid();
  drawSelectedTime();
  for (const row of rows) {
    /* Rows outside of the window are not drawn. */
    const y = RULER + row.y - view.y;
    if (y + row.h < RULER || y > view.height) continue;
    ctx.fillStyle = row.section ? colors.panel : colors.faint;
    ctx.fillRect(0, row.section ? y : y + row.h - 1, view.width, row.section ? row.h : 1);
    if (row.section) continue;
    if (row.track.type === 'rank') drawRank(row.track, y);
    else if (row.track.type === 'link') drawLink(row.track, y);
    else if (row.track.type === 'engine') drawEngine(row.track, y);
    else if (row.track.rings) drawQueue(row.track, y);
    else if (row.track.type === 'rate') drawRate(row.track, y, row.h);
    else drawSteps(row.track, y, row.h);
  }
  /* Above the rows, in this order: each may lie on the ones before. */
  const steps = drawPath();
  if (world) drawOverRanks();
  drawGap();
  drawLit();
  drawSelection();
  drawArrows();
  drawPointer();
  drawRuler();
  drawMarks();
  /* Labels are elements of the page: they follow the canvas. */
  $('rows').style.transform = `translateY(${RULER - view.y}px)`;
  Object.assign(canvas.dataset, {from: Math.round(view.t0), to: Math.round(view.t1),
    selected: view.selected, drawn: view.drawn, steps, step: view.step});
  drawBrush();
}

/* ---- Overview ----------------------------------------------------------------------------- */

/* Painted once for the run, and copied at each move of the brush. */
const strips = document.createElement('canvas');
function drawOverview() {
  const [w, h] = fitCanvas(overview), g = strips.getContext('2d');
  strips.width = overview.width;
  strips.height = overview.height;
  g.setTransform(overview.getContext('2d').getTransform());
  const shown = model.tracks.filter((t) => t.type === 'engine' || t.type === 'queue');
  const each = Math.max(2, Math.min(6, (h - 8) / Math.max(1, shown.length)));
  const px = w / (model.total - model.begin);
  shown.forEach((t, r) => {
    /* The overview shows how busy, not what. */
    const cover = new Float32Array(Math.ceil(w) + 1);
    for (const s of t.type === 'engine' ? [t.spans] : t.rings) addCover(s, cover, px, t.type === 'engine' ? 1 : t.rings.length);
    g.fillStyle = t.type === 'engine' ? colors[model.engineKind(t.engine)] : colorOf((t.rings.find((s) => s.n) || t.rings[0]).ev[0]);
    for (let x = 0; x < w; x++) {
      if (!cover[x]) continue;
      g.globalAlpha = 0.2 + 0.8 * Math.min(1, cover[x]);
      g.fillRect(x, 4 + r * each, 1, Math.max(1, each - 1));
    }
  });
}

function addCover(s, cover, px, of) {
  /* most: time counts once where spans overlap. */
  for (let k = 0, most = -Infinity; k < s.n; k++) {
    const i = s.ev[k], a = Math.max(model.start[i], most), b = model.end[i];
    if (b <= a) continue;
    most = b;
    const x0 = (a - model.begin) * px, x1 = (b - model.begin) * px;
    for (let x = x0 | 0; x <= x1 && x < cover.length; x++)
      cover[x] += (Math.min(x1, x + 1) - Math.max(x0, x)) / of;
  }
}

function drawBrush() {
  const g = overview.getContext('2d'), box = overview.getBoundingClientRect();
  const px = box.width / (model.total - model.begin);
  g.clearRect(0, 0, box.width, box.height);
  g.drawImage(strips, 0, 0, box.width, box.height);
  const x0 = (view.t0 - model.begin) * px, x1 = (view.t1 - model.begin) * px;
  g.fillStyle = colors.shade;
  g.fillRect(0, 0, Math.max(0, x0), box.height);
  g.fillRect(x1, 0, Math.max(0, box.width - x1), box.height);
  g.strokeStyle = colors.muted;
  g.lineWidth = 1;
  g.strokeRect(Math.max(0.5, x0), 0.5, Math.max(2, Math.min(x1, box.width) - Math.max(0.5, x0) - 1), box.height - 1);
}

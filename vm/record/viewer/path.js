/* The critical path and idle gaps as the page shows them, and how the path and the marks of faults
 * and findings lie on the timeline. The first part does not touch the document. */

const DATA = 1, SEQUENCER = 2, TRANSFER = 3, DELAY = 4;

class Path {
  constructor(data, model) {
    /* Eight numbers for each step, flat. */
    const raw = data.steps, n = raw.length / 8, int = (k) => Int32Array.from({length: n}, (_, i) => raw[8 * i + k]);
    this.model = model;
    this.n = n;
    this.causes = data.causes;
    this.blocks = data.blocks; /* first step, number of steps, how often these come: flat */
    [this.kind, this.engine, this.ring, this.queue, this.sem, this.code, this.cause] = [0, 1, 2, 3, 4, 5, 6].map(int);
    this.start = new Float64Array(n);
    this.end = new Float64Array(n);
    for (let i = 0, t = 0; i < n; i++) {
      this.start[i] = t;
      this.end[i] = t += raw[8 * i + 7];
    }
  }

  engineName(k) { return this.model.engines[this.engine[k]]; }
  queueName(k) { return this.model.queueName(this.queue[k]); }
  semText(k) { return 'until semaphore ' + this.model.semName(this.sem[k]) + ' was seen'; }
  causeText(k) { return this.causes[this.cause[k]] || ''; }
  /* What a step is part of, as in the text of --explain-time. */
  share(k) {
    switch (this.kind[k]) {
      case DATA: return this.engineName(k) + ': data path';
      case SEQUENCER: return this.engineName(k) + ': sequencer';
      case TRANSFER: return this.queueName(k) + ': moving data';
      /* Delays by what was waited for: a semaphore, a queue's, an engine's cause. */
      default:
        if (this.sem[k] >= 0) return 'wait: ' + this.semText(k);
        return (this.queue[k] >= 0 ? this.queueName(k) : this.engineName(k)) + ': wait: ' + this.causeText(k);
    }
  }
  /* What a step shows on its bar and in lists. */
  label(k) {
    const c = this.model.data.code[this.code[k]], name = c ? c[2] : '?';
    if (this.kind[k] === DATA) return name;
    if (this.kind[k] === SEQUENCER) return name + ' (sequencer)';
    if (this.kind[k] === TRANSFER) return (c && c[6] ? c[6] : name) + ' (' + this.queueName(k) + ')';
    return 'wait: ' + (this.sem[k] >= 0 ? 'semaphore ' + this.model.semName(this.sem[k]) : this.causeText(k));
  }

  /* Time by what it went into, largest first; `after` is the time after the path's end. */
  shares(total) {
    const by = new Map();
    for (let k = 0; k < this.n; k++) {
      const name = this.share(k), s = by.get(name);
      if (s) {
        s.time += this.end[k] - this.start[k];
        /* Steps of a share, so that one can walk through them. */
        s.steps.push(k);
      } else {
        by.set(name, {name, time: this.end[k] - this.start[k], steps: [k]});
      }
    }
    const out = [...by.values()], after = total - (this.n ? this.end[this.n - 1] : 0);
    if (after > 0) out.push({name: 'after the path: completions that nothing waits for', time: after, steps: []});
    /* A set for drawing, a list for walking. */
    for (const s of out) s.set = new Set(s.steps);
    return out.sort((a, b) => b.time - a.time);
  }

  /* The event that step k is (part of); -1: none was recorded. */
  eventOf(k) {
    const m = this.model, kind = this.kind[k];
    const track = m.tracks.find((t) => kind === TRANSFER ? t.type === 'queue' && t.queue === this.queue[k]
      : t.type === 'engine' && t.engine === this.engine[k]);
    if (!track || kind === SEQUENCER) return -1;
    /* Data on the engine's bars, delays among its waits, transfers on their ring. */
    const s = kind === DATA ? track.spans : kind === DELAY ? track.waits : track.rings[track.ids.indexOf(this.ring[k])];
    if (!s) return -1;
    for (let i = firstWhere(s.n, (j) => s.maxEnd[j] >= this.end[k]); i < s.n; i++) {
      const e = s.ev[i];
      if (m.start[e] > this.end[k]) return -1;
      /* Events that end before the step does are others. */
      if (m.end[e] < this.end[k]) continue;
      if (kind === DELAY && m.end[e] !== this.end[k]) continue;
      /* A delay ends with its wait; a span of the path may be a part of an event. */
      if (kind !== DELAY ? m.code[e] === this.code[k] : this.sem[k] < 0 ? m.kind[e] === MEET : m.kind[e] === WAIT && m.id[e] === this.sem[k]) return e;
    }
    return -1;
  }
  /* The step of event i, -1 if it is not on the path. */
  stepOf(i) {
    const m = this.model;
    /* Steps are in order of time: only those within the event are asked. */
    for (let k = firstWhere(this.n, (j) => this.end[j] > m.start[i]); k < this.n && this.start[k] <= m.end[i]; k++)
      if (this.eventOf(k) === i) return k;
    return -1;
  }
}

const path = model.data.path ? new Path(model.data.path, model) : null;
const marks = (model.data.marks || []).map(([what, engine, t, file, line, text, places]) => ({what, engine, t, file, line, text, places}));
/* The events of a finding's places, in order of time. */
function eventsOf(mark) {
  /* A finding may be about an instruction that was not recorded. */
  const all = mark.places.map(([engine, pc, t]) => model.eventNear(engine, pc, t)).filter((i) => i >= 0);
  return [...new Set(all)].sort((a, b) => model.start[a] - model.start[b]);
}

/* What an engine was waiting for while it was idle, in words. */
function whomText(w) {
  const {firstEngine, afterEngines} = model.data.idle;
  if (w < firstEngine) return 'for ' + model.queueName(w);
  if (w < afterEngines) return 'for ' + model.engines[w - firstEngine];
  /* In the order of VM_REC_FOR_HOST and the ones after it. */
  return ['for an update that was not recorded', 'its own doing', 'after its last instruction'][w - afterEngines];
}
const gaps = model.data.idle.gaps.map(([engine, whom, start, length, waited, sem, condition, reached, code, late]) =>
  ({engine, whom, start, end: start + length, waited, sem, condition, reached, code, late}));

/* The wait that takes most of a gap; -1: none was recorded. */
function waitOf(gap) {
  const track = model.tracks.find((t) => t.type === 'engine' && t.engine === gap.engine), s = track && track.waits;
  let best = -1, most = 0;
  /* A meeting has no semaphore. */
  const waited = (i) => gap.sem < 0 ? model.kind[i] === MEET : model.kind[i] === WAIT && model.id[i] === gap.sem;
  /* Its own doing: nothing was waited for. */
  if (!s || (gap.sem < 0 && gap.late < 0)) return -1;
  for (let k = firstWhere(s.n, (m) => s.maxEnd[m] > gap.start); k < s.n && model.start[s.ev[k]] < gap.end; k++) {
    const i = s.ev[k], time = Math.min(model.end[i], gap.end) - Math.max(model.start[i], gap.start);
    if (!waited(i) || time <= most) continue;
    best = i;
    most = time;
  }
  return best;
}

/* ---- On the timeline ---------------------------------------------------------------------- */

/* Top and height of step k on the content; null when its section is closed. */
function placeOfStep(k) {
  const row = path.kind[k] === TRANSFER ? rowOf.queue[path.queue[k]] : rowOf.engine[path.engine[k]];
  if (!row) return null;
  const t = row.track, wide = open.has(t);
  if (path.kind[k] === TRANSFER) return {row, y: row.y + 4 + t.ids.indexOf(path.ring[k]) * (wide ? 10 : 2), h: wide ? 8 : 2};
  if (path.kind[k] !== DATA) return {row, y: row.y + waitsTop(t), h: STRIP};
  const i = wide ? path.eventOf(k) : -1;
  return {row, y: row.y + 5 + (i >= 0 ? laneOf(t, i) * LANE : 0), h: wide ? LANE - 2 : BAR};
}

function drawStep(k, x0, x1, top, place) {
  const width = Math.max(1, x1 - x0);
  /* Waits are lines, sequencer steps are low bars: neither is work. */
  if (path.kind[k] === DELAY || path.kind[k] === SEQUENCER) {
    ctx.fillStyle = colors.accent;
    if (path.kind[k] === SEQUENCER) ctx.fillRect(x0, top + 1, width, place.h - 2);
    else ctx.fillRect(x0, top + place.h / 2 - 1, width, 2);
    return;
  }
  ctx.fillStyle = path.kind[k] === DATA ? colors[model.engineKind(path.engine[k])] : colors.accent;
  ctx.fillRect(x0, top, width, place.h);
  ctx.fillStyle = colors.accent;
  /* A frame of 1.5 would fill a bar of four pixels anyway. */
  if (width < 4) ctx.fillRect(x0, top, width, place.h);
  else if (place.h > 4) ctx.strokeRect(x0 + 0.75, top + 0.75, width - 1.5, place.h - 1.5);
  if (path.kind[k] !== DATA || width < 40 || place.h < 12) return;
  const from = Math.max(x0, 0) + 4, fits = Math.floor((Math.min(x1, view.width) - from - 4) / 6.1);
  ctx.fillStyle = colors.ink;
  if (fits > 3) ctx.fillText(path.label(k).slice(0, fits), from, top + place.h / 2 + 0.5);
}

/* Lines from step to step, one per column: where many fall together the line reaches from the
 * highest to the lowest, and they are pale. */
class Joints {
  constructor(pale) { Object.assign(this, {pale, x: NaN, lo: 0, hi: 0}); }
  add(x, a, b) {
    /* A new column: what was gathered for the last one is drawn. */
    if (Math.round(x) !== this.x) {
      this.draw();
      Object.assign(this, {x: Math.round(x), lo: a, hi: a});
    }
    this.lo = Math.min(this.lo, a, b);
    this.hi = Math.max(this.hi, a, b);
  }
  draw() {
    if (!(this.hi > this.lo)) return;
    ctx.globalAlpha = this.pale ? 0.12 : 1;
    ctx.fillStyle = colors.accent;
    ctx.fillRect(this.x, this.lo, this.pale ? 1 : 1.5, this.hi - this.lo);
    ctx.globalAlpha = 1;
  }
}

/* Steps narrower than a pixel, by place: the more of a column they take, the stronger it is
 * drawn. */
function drawThinSteps(thin) {
  ctx.fillStyle = colors.accent;
  for (const [y, {h, cover}] of thin)
    for (let x = 0; x < cover.length; x++) {
      if (!cover[x]) continue;
      ctx.globalAlpha = 0.15 + 0.85 * Math.min(1, cover[x]);
      ctx.fillRect(x, y, 1, h);
    }
  ctx.globalAlpha = 1;
}

/* The path drawn over the other engines and transfers, which are veiled: its steps, and lines where
 * it moves elsewhere. */
function drawPath() {
  if (!path || !view.path) return 0;
  ctx.globalAlpha = 0.62;
  ctx.fillStyle = colors.bg;
  /* Veiled, not hidden: what the path does not touch stays visible. */
  for (const row of [...rowOf.engine, ...rowOf.queue])
    if (row) ctx.fillRect(0, RULER + row.y - view.y, view.width, row.h - 1);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colors.accent;
  ctx.lineWidth = 1.5;
  const shown = view.share ? view.share.set : null, px = view.width / (view.t1 - view.t0), thin = new Map();
  const first = firstWhere(path.n, (j) => path.end[j] >= view.t0), last = firstWhere(path.n, (j) => path.start[j] > view.t1);
  /* More steps than a third of the pixels: single lines could not be told apart. */
  const joints = new Joints(last - first > view.width / 3);
  for (let k = first, before = null; k < last; k++) {
    const place = placeOfStep(k);
    if (!place) continue;
    const x0 = (path.start[k] - view.t0) * px, x1 = (path.end[k] - view.t0) * px, top = RULER - view.y + place.y;
    if (before !== null && x0 >= 0) joints.add(x0, before, top + place.h / 2);
    before = top + place.h / 2;
    /* With a share selected only its steps are drawn, but lines go on. */
    if (shown && !shown.has(k)) continue;
    if (x1 - x0 >= 1 || !joints.pale) {
      drawStep(k, x0, x1, top, place);
      continue;
    }
    if (!thin.has(top)) thin.set(top, {h: place.h, cover: new Float32Array(Math.ceil(view.width) + 1)});
    if (x0 >= 0) thin.get(top).cover[x0 | 0] += x1 - x0;
  }
  joints.draw();
  drawThinSteps(thin);
  return last - first;
}

function drawGap() {
  const row = view.gap && rowOf.engine[view.gap.engine];
  if (!row) return;
  const x0 = X(view.gap.start), y = RULER + row.y - view.y;
  ctx.fillStyle = colors.shade;
  ctx.fillRect(x0, y, Math.max(2, X(view.gap.end) - x0), row.h);
  ctx.strokeStyle = colors.accent;
  ctx.lineWidth = 1.5;
  ctx.setLineDash([4, 3]);
  ctx.strokeRect(x0, y + 1, Math.max(2, X(view.gap.end) - x0), row.h - 3);
  ctx.setLineDash([]);
}

/* A line at the time of each fault and finding, with a flag on the ruler. */
function drawMarks() {
  let n = 0;
  marks.forEach((m, k) => {
    const x = Math.round(X(m.t));
    if (x < -5 || x > view.width + 5) return;
    n++;
    ctx.fillStyle = colors.bad;
    ctx.globalAlpha = k === view.mark ? 1 : 0.6;
    ctx.fillRect(x, RULER - 9, k === view.mark ? 2 : 1, view.height);
    ctx.globalAlpha = 1;
    ctx.beginPath();
    ctx.moveTo(x - 5, RULER - 10);
    ctx.lineTo(x + 6, RULER - 10);
    ctx.lineTo(x + 0.5, RULER - 1);
    ctx.fill();
  });
  canvas.dataset.marks = n;
}
/* The mark whose flag is at x on the ruler, -1: none. */
function markAt(x, y) {
  if (y >= RULER) return -1;
  /* Six pixels to each side: the flag's width. */
  return marks.findIndex((m) => Math.abs(X(m.t) - x) <= 6);
}

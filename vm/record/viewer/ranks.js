/* The rows of a world on the timeline: ranks, links, messages that were waited for, the critical path over ranks;
 * and its panel. */

const RANK_BAR = 14, RANK_WAIT = 5; /* of a rank's row: a collective, and below it waits */

function rowOfRank(r) { return rows.find((row) => row.track && row.track.type === 'rank' && row.track.rank === r); }

/* The same page with another rank below, at the same time. */
function showRank(r) {
  /* The place is in the address, so the page opens there again. */
  location.hash = new URLSearchParams({rank: r, from: Math.round(view.t0), to: Math.round(view.t1), tab});
  location.reload();
}

/* Time in any of the spans. */
function timeIn(list) {
  /* Counted once where they overlap, as collectives of two streams do. */
  let until = -Infinity, time = 0;
  for (const c of [...list].sort((a, b) => a.start - b.start)) {
    time += Math.max(0, c.end - Math.max(until, c.start));
    until = Math.max(until, c.end);
  }
  return time;
}

function bar(start, end, y, h, color) {
  /* Cut at the border; 0: it is out of view. */
  const x0 = Math.max(X(start), -2), x1 = Math.min(X(end), view.width + 2);
  if (x1 < 0 || x0 > view.width) return 0;
  ctx.fillStyle = color;
  ctx.fillRect(x0, y, Math.max(1, x1 - x0 - 0.75), h);
  view.drawn++;
  return x1 - x0;
}
function barText(text, start, end, y, h) {
  const x0 = Math.max(X(start), 0), room = Math.min(X(end), view.width) - x0 - 8, fits = Math.floor(room / 6.1);
  /* Fewer than four letters say nothing. */
  if (fits < 4) return;
  ctx.fillStyle = colors.ink;
  ctx.fillText(text.length <= fits ? text : text.slice(0, fits - 1) + '\u2026', x0 + 4, y + h / 2 + 0.5);
}

function ratesText(c) { return c.bytes ? `algbw ${c.algbw.toFixed(2)}, busbw ${c.busbw.toFixed(2)} GB/s` : ''; }
function boundText(c) { return c.busiest ? `link ${world.linkName(c.busiest.link)} at work ${percentText(c.busiest.share, 1)} of it` : ''; }

function drawRank(track, y) {
  /* The rank whose engines are below. */
  if (track.rank === rank) {
    ctx.fillStyle = colors.shade;
    ctx.fillRect(0, y, view.width, 27);
  }
  for (const c of track.list) {
    if (bar(c.start, c.end, y + 4, RANK_BAR, colors.cc)) barText(`${c.op} ${ratesText(c)}`, c.start, c.end, y + 4, RANK_BAR);
  }
  for (const w of track.waits) bar(w.start, w.end, y + 20, RANK_WAIT, hatchPattern());
}

/* Messages on a link, by column where they are narrow: the stronger, the more of its rate; those of the critical path. */
function drawLink(track, y) {
  const l = track.link, n = l.start.length, px = view.width / (view.t1 - view.t0), cover = new Float32Array(Math.ceil(view.width) + 1);
  for (let k = firstWhere(n, (m) => l.stop[m] >= view.t0); k < n && l.start[k] <= view.t1; k++) {
    const x0 = X(l.start[k]), x1 = X(l.stop[k]);
    /* Two pixels or more: a bar; less is gathered by column. */
    if (x1 - x0 >= 2) bar(l.start[k], l.stop[k], y + 3, 10, colors.load);
    else if (x0 >= 0) cover[Math.min(cover.length - 1, x0 | 0)] += (l.stop[k] - l.start[k]) * px;
  }
  ctx.fillStyle = colors.load;
  for (let x = 0; x < cover.length; x++) {
    if (!cover[x]) continue;
    ctx.globalAlpha = 0.2 + 0.8 * Math.min(1, cover[x]);
    ctx.fillRect(x, y + 3, 1, 10);
  }
  ctx.globalAlpha = 1;
  /* The path's messages come last, on top. */
  if (!view.path) return;
  for (const i of world.onPath) {
    const k = l.of.indexOf(i);
    if (k >= 0) bar(l.start[k], l.stop[k], y + 1, 14, colors.accent);
  }
}

/* ---- Over ranks --------------------------------------------------------------------------- */

function middleOf(row) { return RULER - view.y + row.y + 4 + RANK_BAR / 2; }

/* From where a message was sent to the end of the wait for it. */
function drawMessage(w) {
  const from = rowOfRank(w.src), to = rowOfRank(w.rank);
  if (!from || !to) return false;
  /* To the strip of waits of the other row. */
  const x0 = X(w.sent), x1 = X(w.end), y0 = middleOf(from), y1 = RULER - view.y + to.y + 20, down = y1 > y0 ? 1 : -1;
  if (Math.max(x0, x1) < 0 || Math.min(x0, x1) > view.width) return false;
  ctx.strokeStyle = ctx.fillStyle = colors.muted;
  ctx.globalAlpha = 0.5; /* what it goes over stays readable */
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x1 - 2.5, y1 - 5 * down);
  ctx.lineTo(x1 + 2.5, y1 - 5 * down);
  ctx.fill();
  ctx.globalAlpha = 1;
  return true;
}

function messagesInView() {
  const list = world.waits, out = [];
  for (let k = firstWhere(list.length, (m) => list[m].end >= view.t0); k < list.length && list[k].end <= view.t1; k++) {
    out.push(list[k]);
    /* Too many arrows say nothing. */
    if (out.length > 4 * MANY_ARROWS) return [];
  }
  return out;
}

/* Its steps as lines on the rows of the ranks, and lines where it goes to another. */
function drawWorldPath() {
  /* The steps in view: they are in order of time. */
  const s = world.steps, first = firstWhere(s.length, (k) => s[k].end >= view.t0), last = firstWhere(s.length, (k) => s[k].start > view.t1);
  const joints = new Joints(last - first > view.width / 3);
  for (let k = first, before = null, was = -1; k < last; k++) {
    const row = rowOfRank(s[k].rank);
    if (!row) continue;
    const y = RULER - view.y + row.y + 12, x0 = X(s[k].start), x1 = X(s[k].end), thick = s[k].kind === DELAY ? 2 : 5;
    /* Only where it changes the rank. */
    if (before !== null && was !== s[k].rank && x0 >= 0) joints.add(x0, before, y);
    ctx.fillStyle = colors.accent;
    ctx.fillRect(x0, y - thick / 2, Math.max(1, x1 - x0), thick);
    [before, was] = [y, s[k].rank];
  }
  joints.draw();
  return last - first;
}

function drawOverRanks() {
  let n = 0;
  canvas.dataset.worldsteps = view.path ? drawWorldPath() : 0;
  if (view.arrows && !view.path) for (const w of messagesInView()) if (drawMessage(w)) n++;
  canvas.dataset.messages = n;
}

/* What is under the pointer on a row of a rank or a link. */
function worldTip(x, y) {
  const at = y - RULER + view.y, row = y < RULER ? null : rows.find((r) => at >= r.y && at < r.y + r.h), t = T(x);
  if (!row || !row.track || (row.track.type !== 'rank' && row.track.type !== 'link')) return null;
  if (row.track.type === 'link') {
    /* The first message that ends after the pointer: it is there if it has begun. */
    const l = row.track.link, k = firstWhere(l.start.length, (m) => l.stop[m] >= t), p = world.data.passes, i = l.of[k];
    if (k === l.start.length || l.start[k] > T(x + 2)) return [`link ${world.linkName(l)}`, `${world.gbs(l).toFixed(2)} of ${l.rate} GB/s`];
    return [`rank ${p[7 * i + 1]} to rank ${p[7 * i + 2]}`, `${bytesText(p[7 * i + 3])}, ${spanText(l.stop[k] - l.start[k])}, from ${timeText(l.start[k])}`];
  }
  const step = view.path ? world.steps.find((s) => s.rank === row.track.rank && s.start <= t && s.end >= t) : null;
  if (step) return [`critical path: ${stepName(step)}`, `${step.cause}, ${spanText(step.end - step.start)}`];
  /* Waits are below the bars of a row. */
  const wait = at - row.y > 19 ? row.track.waits.find((w) => w.start <= t && w.end >= t) : null;
  if (wait) return [`rank ${wait.rank} waits for rank ${wait.src}`, `${spanText(wait.end - wait.start)}; sent at ${timeText(wait.sent)}`];
  const c = row.track.list.find((k) => k.start <= t && k.end >= t);
  return c ? [`${c.op} by ${c.algorithm} of ${c.of} ranks, ${bytesText(c.bytes)}`,
    [spanText(c.end - c.start), ratesText(c), boundText(c)].filter(Boolean).join('; ')] : null;
}

/* ---- The panel ---------------------------------------------------------------------------- */

/* What a step's instruction is called: its rank's list of instructions has those of its events.
 * The other ranks' events have their own list of instructions. */
function stepName(s) {
  const c = trace.ranks[s.rank].code.find((k) => k[0] === s.engine && k[1] === s.pc);
  return c ? c[2] : 'pc ' + s.pc;
}

/* Collectives of several ranks that are one: the n-th of a place. */
function together() {
  const by = new Map(), seen = new Map();
  for (const c of world.collectives) {
    if (c.core) continue;
    /* A collective in a loop comes several times from one line: each rank's n-th
     * belongs together. */
    const place = [c.op, c.file, c.line, c.bytes, c.of].join(), own = place + c.rank, n = seen.get(own) || 0;
    seen.set(own, n + 1);
    const key = place + ' ' + n, one = by.get(key) || by.set(key, {first: c, start: Infinity, end: 0, ranks: 0, slowest: c}).get(key);
    one.start = Math.min(one.start, c.start);
    one.end = Math.max(one.end, c.end);
    one.ranks++;
    if (c.end - c.start > one.slowest.end - one.slowest.start) one.slowest = c;
  }
  return [...by.values()].sort((a, b) => a.start - b.start);
}

const COLLECTIVES_SHOWN = 100, LINKS_SHOWN = 40;
function collectiveTable() {
  const [table, body] = headed(['Collective', 'bytes', 'time', 'algbw', 'busbw', 'link']), all = together();
  for (const one of all.slice(0, COLLECTIVES_SHOWN)) {
    const c = one.slowest, b = element('button', `${c.op} by ${c.algorithm}`, {type: 'button', className: 'link'});
    /* At least a nanosecond around it. */
    const room = Math.max(one.end - one.start, 1000) * 0.15, busiest = world.busiest(one);
    b.addEventListener('click', () => setView(one.start - room, one.end + room));
    const name = document.createDocumentFragment(), place = c.file ? `, ${c.file.replace(/^.*\//, '')}:${c.line}` : '';
    name.append(b, element('span', ` ${one.ranks} ranks${place}`, {className: 'quiet'}));
    cells(body.insertRow(), [name, bytesText(c.bytes), spanText(one.end - one.start), c.algbw.toFixed(1), c.busbw.toFixed(1),
      busiest ? `${Math.round(100 * busiest.share)} %` : '']);
  }
  if (all.length > COLLECTIVES_SHOWN) cells(body.insertRow(), [`and ${all.length - COLLECTIVES_SHOWN} more`]);
  const note = element('p', 'Rates of the slowest rank in GB/s; link: how much of its rate the busiest one was at work meanwhile.', {className: 'quiet'});
  return [table, note];
}
function linkTable() {
  const [table, body] = headed(['Link', 'GB/s', 'of', '', 'moved', 'most waiting']);
  /* The same order as the rows. */
  const used = world.links.filter((l) => l.messages).sort((a, b) => b.busy - a.busy || a.link - b.link);
  for (const l of used.slice(0, LINKS_SHOWN))
    cells(body.insertRow(), [world.linkName(l), world.gbs(l).toFixed(2), `${percentText(l.busy, world.total)} of ${l.rate}`,
      busyBar(l.busy / Math.max(1, world.total), colors.load), bytesText(l.bytes), bytesText(l.waiting)]);
  if (used.length > LINKS_SHOWN) cells(body.insertRow(), [`and ${used.length - LINKS_SHOWN} more`]);
  return used.length ? table : element('p', 'No message went over a link: all ranks are on one device.', {className: 'quiet'});
}

function rankChooser() {
  const box = element('label', 'Rank below: '), list = element('select', '', {id: 'rank'});
  for (let r = 0; r < world.n; r++) list.append(element('option', String(r), {value: r, selected: r === rank}));
  list.addEventListener('change', () => showRank(list.value));
  box.append(list);
  return box;
}

function showWorld() {
  const shares = world.pathShares(), [paths, body] = headed(['Critical path over ranks', 'time', 'share']);
  for (const [name, time] of shares) cells(body.insertRow(), [name, spanText(time), percentText(time, world.total)]);
  $('world').replaceChildren(rankChooser(),
    factTable([['Ranks', `${world.n} on ${world.data.instance}`], ['Simulated time', spanText(world.total)]]),
    element('p', world.data.trust, {className: 'quiet'}),
    element('h3', 'Collectives'), ...collectiveTable(), element('h3', 'Links'), linkTable(),
    ...(shares.length ? [element('h3', 'Path'), paths] : []));
}

/* The page of a world of ranks: which rank is shown, and what all ranks have together: collectives, who
 * waited for whose messages, links, the critical path over ranks. The first part does not touch the document. */

class World {
  constructor(data, ranks) {
    this.data = data;
    this.n = ranks.length;
    this.total = data.total;
    /* Rates come in MB/s, as whole numbers. */
    this.collectives = data.collectives.map(([rank, core, op, algorithm, of, bytes, start, end, algbw, busbw, file, line]) =>
      ({rank, core, op, algorithm, of, bytes, start, end, algbw: algbw / 1000, busbw: busbw / 1000, file, line}));
    this.links = data.links.map(([from, to, rate, bytes, messages, waiting, busy, waited], link) =>
      /* Messages of a link: when each began and ended, and its number. */
      ({link, from: this.end(from), to: this.end(to), rate: rate / 1000, bytes, messages, waiting, busy, waited, start: [], stop: [], of: []}));
    const p = data.passes, n = this.passes = p.length / 7;
    this.came = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      const l = this.links[p[7 * i]];
      this.came[i] = p[7 * i + 4];
      l.start.push(p[7 * i + 5]);
      l.stop.push(p[7 * i + 6]);
      l.of.push(i);
    }
    this.findWaits(ranks);
    this.readPath();
    /* Which messages lie on the path is asked for at each drawing. */
    this.onPath = this.pathPasses();
    for (const c of this.collectives) c.busiest = this.busiest(c);
  }
  end(device) { return device === -1 ? 'switch' : device === -2 ? 'efa' : String(device); }
  linkName(l) { return l.from + '-' + l.to; }
  gbs(l) { return l.bytes / Math.max(1, this.total) * 1000; }

  /* Waits that a message of another rank ended: {rank, src, start, end, sent}.
   * Raw numbers, as only one rank has a model: the others' events stay as they came. */
  findWaits(ranks) {
    this.waits = [];
    ranks.forEach((d, rank) => {
      const raw = d.events;
      /* The events of a rank hold differences: t is the running end. */
      for (let k = 0, t = 0; k < raw.length; k += 9) {
        t += raw[k + 5];
        const by = raw[k] === 5 && raw[k + 8] ? k - 9 * raw[k + 8] : -1; /* a wait, and the update that ended it */
        if (by < 0 || raw[by] !== 3 || raw[by + 1] !== PEER) continue;
        this.waits.push({rank, src: -2 - raw[by + 2], start: t - raw[k + 6], end: t});
      }
    });
    this.waits.sort((a, b) => a.end - b.end || a.rank - b.rank);
    for (const w of this.waits) w.sent = this.sentAt(w);
  }
  /* The last pass over a link of the message from src to dst that came by time t; -1: they are on one device.
   * Messages of a pair in order of arrival; made at the first question. */
  passBefore(src, dst, t) {
    const p = this.data.passes;
    if (!this.byPair) {
      this.byPair = new Map();
      for (let i = 0; i < this.passes; i++) {
        const key = p[7 * i + 1] + ' ' + p[7 * i + 2];
        (this.byPair.get(key) || this.byPair.set(key, []).get(key)).push(i);
      }
      for (const list of this.byPair.values()) list.sort((a, b) => p[7 * a + 6] - p[7 * b + 6] || a - b);
    }
    const list = this.byPair.get(src + ' ' + dst) || [], k = firstWhere(list.length, (m) => p[7 * list[m] + 6] > t);
    return k ? list[k - 1] : -1;
  }
  /* When the message left: before the last link of its way; without links LINK_LAT before.
   * By the pass that came last before the wait ended. */
  sentAt(w) {
    const i = this.passBefore(w.src, w.rank, w.end);
    return i >= 0 ? this.data.passes[7 * i + 4] : w.end - this.data.latency;
  }

  /* Time of a link's messages within a span, as a share of it. */
  load(l, from, to) {
    let busy = 0;
    for (let k = firstWhere(l.start.length, (m) => l.stop[m] > from); k < l.start.length && l.start[k] < to; k++)
      busy += Math.min(to, l.stop[k]) - Math.max(from, l.start[k]);
    return busy / Math.max(1, to - from);
  }
  /* The link that was most at work while a collective went on, and how much of its rate that was.
   * Shares, not bytes: links may differ in their rates. */
  busiest(c) {
    let best = null, most = 0;
    for (const l of this.links) {
      if (!l.start.length) continue;
      const share = this.load(l, c.start, c.end);
      if (share > most) [best, most] = [l, share];
    }
    return best ? {link: best, share: most} : null;
  }

  /* Steps of the critical path over ranks. */
  readPath() {
    const p = this.data.path, raw = p ? p.steps : [], n = raw.length / 7;
    this.steps = [];
    for (let i = 0, t = 0; i < n; i++) {
      const [rank, kind, engine, queue, pc, cause] = raw.slice(7 * i, 7 * i + 6);
      this.steps.push({rank, kind, engine, queue, pc, cause: p.causes[cause], start: t, end: t += raw[7 * i + 6]});
    }
  }
  /* Passes over links that are on the path: where it goes from a rank to another. */
  pathPasses() {
    const out = new Set(), s = this.steps;
    for (let k = 1; k < s.length; k++) {
      /* A change of rank is a message, unless both are on one device. */
      const i = s[k].rank !== s[k - 1].rank ? this.passBefore(s[k - 1].rank, s[k].rank, s[k].start) : -1;
      if (i >= 0) out.add(i);
    }
    return out;
  }
  /* Its time by rank, and that of messages on their way; largest first. */
  pathShares() {
    const by = new Map();
    for (const s of this.steps) {
      /* The cause is a text of the library: it says that the time was spent between
       * ranks. */
      const name = s.cause === 'on the way to another rank' && s.kind === 4 ? 'messages on their way' : 'rank ' + s.rank;
      by.set(name, (by.get(name) || 0) + s.end - s.start);
    }
    return [...by].sort((a, b) => b[1] - a[1]);
  }

  /* Rows above the engines: one for each rank, one for each link that was used, the fullest first.
   * More than sixteen links are closed at first, or the engines would be out of sight. */
  tracks() {
    const out = [];
    for (let rank = 0; rank < this.n; rank++)
      out.push({type: 'rank', section: 'Ranks', name: 'rank ' + rank, rank, list: this.collectives.filter((c) => c.rank === rank && !c.core),
        waits: this.waits.filter((w) => w.rank === rank)});
    const used = this.links.filter((l) => l.messages).sort((a, b) => b.busy - a.busy || a.link - b.link);
    for (const l of used) out.push({type: 'link', section: 'Links', name: this.linkName(l), link: l, closed: used.length > 16});
    return out;
  }
}

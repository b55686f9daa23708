'use strict';
/* The trace as the page shows it: events in typed arrays, tracks, links, search. Times are
 * picoseconds. No part of this file touches the document. */

const INSN = 1, DMA = 2, SEM = 3, NOTIFY = 4, WAIT = 5, TABLE = 6, TRIGGER = 7, MEET = 8;
const NONE = 2 ** 32 - 1; /* the value of a trigger whose transfer adds to no semaphore */
const MEETING = "for the other core's sendrecv"; /* what a wait of kind MEET is */
const PEER = 254; /* in place of an engine: another rank */
const BLOCK = 64; /* events that are skipped together when they are narrower than a pixel */

class Model {
  /* world: of a page of all ranks, whose rows come first; null: none. */
  constructor(data, world) {
    /* Nine numbers for each event, flat: an array of arrays would take several times
     * the memory. */
    const raw = data.events, n = raw.length / 9;
    this.data = data;
    this.n = n;
    this.begin = data.begin;
    /* At least 1: the width of the view is divided by it. */
    this.total = Math.max(data.total, data.begin + 1, world ? world.total : 0);
    this.tracks = world ? world.tracks() : [];
    /* Typed arrays: a trace may have a million events. */
    this.kind = new Uint8Array(n);
    this.engine = new Uint8Array(n);
    this.code = new Int32Array(n);
    this.id = new Uint32Array(n);
    this.value = new Uint32Array(n);
    this.start = new Float64Array(n);
    this.end = new Float64Array(n);
    this.bytes = new Float64Array(n);
    this.from = new Int32Array(n).fill(-1);
    /* Ends are differences from the event before; a start is its end minus its length. */
    for (let i = 0, k = 0, t = 0; i < n; i++, k += 9) {
      t += raw[k + 5];
      this.kind[i] = raw[k];
      this.engine[i] = raw[k + 1];
      this.code[i] = raw[k + 2];
      this.id[i] = raw[k + 3];
      this.value[i] = raw[k + 4];
      this.end[i] = t;
      this.start[i] = t - raw[k + 6];
      this.bytes[i] = raw[k + 7];
      if (raw[k + 8]) this.from[i] = i - raw[k + 8];
    }
    this.linkBack();
    this.findWrites();
    this.nameCores();
    this.makeTracks();
  }

  /* Engines, queues and semaphores of both cores are numbered together: core 0's, then core 1's.
   * After the engines come the CC sequencers, from number firstCc on. With two cores their names say which core they belong to. */
  nameCores() {
    const d = this.data, of = (core) => d.cores > 1 ? 'core ' + core + ' ' : '';
    this.engines = [];
    for (let core = 0; core < d.cores; core++) {
      d.engines.forEach((name, k) => { this.engines[core * d.engines.length + k] = of(core) + name; });
      d.ccs.forEach((name, k) => { this.engines[d.firstCc + core * d.ccs.length + k] = of(core) + name; });
    }
    d.summary.ccs.forEach((sums, k) => { d.summary.engines[d.firstCc + k] = sums; });
    this.queues = new Map(d.queues.map(([q, name, dge, rings]) =>
      /* short: the name alone, where a heading has said the core. */
      [q, {name: of(Math.floor(q / d.queuesOfCore)) + name, short: name, dge, rings}]));
    this.semNames = new Map(d.sems);
    this.semCore = (id) => of(Math.floor(id / d.semsOfCore));
  }
  /* Its name on every core: its colour depends on it.
   * CC sequencers have one colour together. */
  engineKind(e) { return e < this.data.firstCc ? this.data.engines[e % this.data.engines.length] : 'cc'; }
  engineCore(e) {
    const d = this.data;
    /* -1: the host or another rank, which belong to no core. */
    return e < d.firstCc ? Math.floor(e / d.engines.length) : e < d.firstCc + 2 * d.ccs.length ? Math.floor((e - d.firstCc) / d.ccs.length) : -1;
  }
  queueName(q) { return this.queues.has(q) ? this.queues.get(q).name : 'queue' + q % this.data.queuesOfCore; }
  semShort(id) { return this.semNames.get(id) || 'sem' + id % this.data.semsOfCore; }
  semName(id) { return this.semCore(id) + this.semShort(id); }
  /* A heading; next to the names of two cores there is less room. */
  section(core, name, short) { return this.data.cores > 1 ? 'Core ' + core + ' ' + short : name; }

  /* first[i], then sibling[...]: the events that follow from event i. */
  linkBack() {
    /* Backwards, so that the lists are in the order of the events. */
    this.first = new Int32Array(this.n).fill(-1);
    this.sibling = new Int32Array(this.n).fill(-1);
    for (let i = this.n - 1; i >= 0; i--) {
      const f = this.from[i];
      if (f < 0) continue;
      this.sibling[i] = this.first[f];
      this.first[f] = i;
    }
  }

  /* The 4 bytes that rings write to semaphores: an event of kind SEM has 1 + 16 * queue + ring of
   * its core in `bytes`. It is seen later than it is written, by the same time as after a share. */
  findWrites() {
    const seen = [0, 0], d = this.data;
    this.remote = (i) => Math.floor(this.id[i] / d.semsOfCore) === this.engineCore(this.engine[i]) ? 0 : 1;
    for (let i = 0; i < this.n; i++) {
      const f = this.from[i];
      /* The last one that is seen counts: all are the same. */
      if (this.kind[i] === SEM && f >= 0 && this.kind[f] === DMA) seen[this.remote(i)] = this.start[i] - this.end[f];
    }
    this.seen = seen;
  }
  isWrite(i) { return this.kind[i] === SEM && this.bytes[i] > 0; }
  writtenAt(i) { return this.start[i] - this.seen[this.remote(i)]; }
  ringOf(i) { return this.isWrite(i) ? (this.bytes[i] - 1) % 16 : this.engine[i]; }
  queueOf(i) {
    if (!this.isWrite(i)) return this.id[i];
    return this.engineCore(this.engine[i]) * this.data.queuesOfCore + Math.floor((this.bytes[i] - 1) / 16);
  }
  /* The trigger of a share's or a write's transfer; -1: it was not recorded. */
  triggerOf(i) {
    const share = this.isWrite(i) ? this.from[i] : i;
    const f = share >= 0 ? this.from[share] : -1;
    /* What a share follows from is its trigger only if that was recorded. */
    return share >= 0 && this.kind[share] === DMA && f >= 0 && this.kind[f] === TRIGGER ? f : -1;
  }
  sharesOf(trigger) { return this.followers(trigger).filter((k) => this.kind[k] === DMA); }

  followers(i) {
    const out = [];
    for (let k = this.first[i]; k >= 0; k = this.sibling[k]) out.push(k);
    return out;
  }

  /* Spans in order of start, with what drawing needs: the largest end so far, time in blocks. */
  spans(list) {
    list.sort((a, b) => this.start[a] - this.start[b] || a - b);
    const n = list.length, s = {n, ev: Int32Array.from(list), maxEnd: new Float64Array(n),
      lane: new Uint8Array(n), lanes: 1, blockBusy: new Float64Array(Math.ceil(n / BLOCK))};
    for (let i = 0, most = -Infinity; i < n; i++) {
      const e = s.ev[i];
      /* Time is counted once where spans overlap. */
      s.blockBusy[i / BLOCK | 0] += Math.max(0, this.end[e] - Math.max(most, this.start[e]));
      most = Math.max(most, this.end[e]);
      s.maxEnd[i] = most;
    }
    return s;
  }

  assignLanes(s) {
    /* The first lane that is free; at most twelve, so that a row stays on the screen. */
    const ends = [];
    for (let i = 0; i < s.n; i++) {
      const e = s.ev[i];
      let lane = ends.findIndex((t) => t <= this.start[e]);
      if (lane < 0) lane = Math.min(ends.length, 11);
      ends[lane] = this.end[e];
      s.lane[i] = lane;
    }
    s.lanes = Math.max(1, ends.length);
  }

  makeTracks() {
    /* By what each event lies on, then tracks are made in the order in which they are
     * shown. */
    const insns = {}, waits = {}, triggers = {}, rings = {}, writes = {}, sems = {}, d = this.data;
    const put = (map, key, i) => (map[key] = map[key] || []).push(i);
    for (let i = 0; i < this.n; i++) {
      if (this.kind[i] === INSN || this.kind[i] === TABLE) put(insns, this.engine[i], i);
      else if (this.isWait(i) || this.kind[i] === NOTIFY) put(waits, this.engine[i], i);
      else if (this.kind[i] === TRIGGER) put(triggers, this.engine[i], i);
      else if (this.kind[i] === DMA) put(rings[this.id[i]] = rings[this.id[i]] || {}, this.engine[i], i);
      else if (this.kind[i] === SEM) put(sems, this.id[i], i);
      if (this.isWrite(i)) put(writes[this.queueOf(i)] = writes[this.queueOf(i)] || {}, this.ringOf(i), i);
    }
    /* Rings that only signal have no share, but a row. */
    for (const q of Object.keys(writes))
      for (const r of Object.keys(writes[q])) (rings[q] = rings[q] || {})[r] = rings[q][r] || [];
    for (let core = 0; core < d.cores; core++) {
      const here = (id, each) => Math.floor(id / each) === core;
      d.engines.forEach((name, k) => this.makeEngine(core, name, core * d.engines.length + k, {insns, waits, triggers}));
      d.ccs.forEach((name, k) => this.makeEngine(core, name, d.firstCc + core * d.ccs.length + k, {insns, waits, triggers}));
      const queues = [...this.queues.keys()].filter((q) => rings[q] && here(q, d.queuesOfCore));
      if (queues.length) this.makeLoad(core, queues);
      for (const q of queues) this.makeQueue(core, q, rings[q], writes[q] || {});
      if (queues.length) this.makeDmaEngines(core, queues.map((q) => rings[q]));
      this.makeUse(core);
      Object.keys(sems).map(Number).filter((id) => here(id, d.semsOfCore))
        .forEach((id) => this.makeSem(core, id, sems[id]));
    }
  }

  /* The track that event i lies on; undefined: none. */
  trackOf(i) {
    const dma = this.kind[i] === DMA || this.isWrite(i);
    return this.tracks.find((t) => dma ? t.type === 'queue' && t.queue === this.queueOf(i)
      : t.type === 'engine' && t.engine === this.engine[i]);
  }

  /* An engine that ran is shown even if none of its instructions left an event. */
  makeEngine(core, name, e, {insns, waits, triggers}) {
    /* `ran` names the engines that issued something, whether or not it left an event. */
    if (!insns[e] && !waits[e] && !triggers[e] && !(this.data.ran || []).includes(e)) return;
    const track = {type: 'engine', section: this.section(core, 'Engines', 'engines'), name, engine: e,
      spans: this.spans(insns[e] || []), waits: this.spans(waits[e] || []), triggers: this.spans(triggers[e] || [])};
    this.assignLanes(track.spans);
    this.tracks.push(track);
  }

  makeQueue(core, q, rings, writes) {
    const ids = Object.keys(rings).map(Number).sort((a, b) => a - b), {short, dge} = this.queues.get(q);
    this.tracks.push({type: 'queue', section: this.section(core, 'DMA queues', 'DMA'), name: short, dge,
      queue: q, ids, rings: ids.map((r) => this.spans(rings[r])), writes: ids.map((r) => this.writes(writes[r] || []))});
  }
  /* Points in time, in order. */
  writes(list) {
    return Int32Array.from(list.sort((a, b) => this.writtenAt(a) - this.writtenAt(b) || a - b));
  }

  /* The same shares by the DMA engine that moves them: a row for each engine, over all queues. */
  makeDmaEngines(core, queues) {
    /* Rings of all queues that the same DMA engine serves, one after another. */
    const by = new Map();
    for (const rings of queues)
      for (const r of Object.keys(rings).map(Number)) by.set(r, (by.get(r) || []).concat(rings[r]));
    const ids = [...by.keys()].sort((a, b) => a - b), shares = ids.reduce((a, r) => a + by.get(r).length, 0);
    /* With one queue it looks like the queue, and drawing very many shares twice takes time. */
    this.tracks.push({type: 'dma', closed: queues.length < 2 || shares > 20000, section: this.section(core, 'DMA engines', 'by engine'), name: 'all', core,
      ids, rings: ids.map((r) => this.spans(by.get(r)))});
  }

  /* Transfers that have been triggered and still have bytes to move; and bytes per time. */
  makeLoad(core, queues) {
    const section = this.section(core, 'DMA queues', 'DMA'), of = new Set(queues), steps = [], edges = [];
    for (let i = 0; i < this.n; i++) {
      if (!of.has(this.id[i])) continue;
      if (this.kind[i] === DMA && this.end[i] > this.start[i]) {
        /* A rate begins with a share and ends with it: sums of these edges are the
         * throughput. */
        const rate = this.bytes[i] / (this.end[i] - this.start[i]);
        edges.push([this.start[i], rate], [this.end[i], -rate]);
      }
      if (this.kind[i] !== TRIGGER || !this.bytes[i]) continue;
      let bytes = 0, end = 0;
      for (const k of this.sharesOf(i)) {
        bytes += this.bytes[k];
        end = Math.max(end, this.end[k]);
      }
      steps.push([this.start[i], 1]);
      /* A transfer whose shares were not all recorded has no known end. */
      if (bytes === this.bytes[i]) steps.push([end, -1]);
    }
    const sum = (list) => {
      /* Falls before rises at one time, so that no false peak appears. */
      list.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      let now = 0;
      return Float64Array.from(list, ([, by]) => now += by);
    };
    const v = sum(steps), rate = sum(edges), most = v.reduce((a, b) => Math.max(a, b), 1);
    if (steps.length)
      this.tracks.push({type: 'pending', section, name: 'pending', max: most, t: Float64Array.from(steps, (x) => x[0]), v});
    if (!edges.length) return;
    const t = Float64Array.from(edges, (x) => x[0]), moved = new Float64Array(t.length);
    /* Sums of rate times time, so that any stretch is a difference of two. */
    for (let k = 1; k < t.length; k++) moved[k] = moved[k - 1] + Math.max(0, rate[k - 1]) * (t[k] - t[k - 1]);
    this.tracks.push({type: 'rate', section, name: 'GB/s', max: 1000 * rate.reduce((a, b) => Math.max(a, b), 0), t, moved});
  }
  /* Bytes moved until time x. */
  movedUntil(track, x) {
    const {t, moved} = track, n = t.length, k = firstWhere(n, (m) => t[m] > x);
    if (k === 0) return 0;
    /* Between two points the rate is constant. */
    return k === n ? moved[n - 1] : moved[k - 1] + (moved[k] - moved[k - 1]) * (x - t[k - 1]) / (t[k] - t[k - 1]);
  }

  makeSem(core, id, events) {
    const list = Int32Array.from(events);
    let max = 1;
    /* A line that never rises has a scale of 1. */
    for (const i of list) max = Math.max(max, this.value[i]);
    this.tracks.push({type: 'sem', section: this.section(core, 'Semaphores', 'semaphores'), name: this.semShort(id),
      id, max, t: Float64Array.from(list, (i) => this.start[i]), v: Float64Array.from(list, (i) => this.value[i])});
  }

  makeUse(core) {
    const u = this.data.use[core], n = u.length / 3, peak = this.data.peak[core];
    ['SBUF', 'PSUM'].forEach((name, m) => {
      /* A memory that no tile uses has no line. */
      if (!peak[m]) return;
      const track = {type: 'memory', section: this.section(core, 'Memory in use', 'memory'), name, memory: m,
        max: peak[m],
        t: new Float64Array(n), v: new Float64Array(n)};
      for (let i = 0, t = 0; i < n; i++) {
        t += u[3 * i];
        track.t[i] = t;
        track.v[i] = u[3 * i + 1 + m];
      }
      this.tracks.push(track);
    });
  }

  insn(i) { return this.code[i] >= 0 ? this.data.code[this.code[i]] : null; }
  source(i) {
    const c = this.insn(i);
    return c && c[4] ? this.data.files[c[4] - 1] + ':' + c[5] : '';
  }
  /* The engine whose instruction event i is about. */
  ownerUnit(i) { return this.kind[i] === DMA ? this.value[i] : this.engine[i]; }
  owner(i) {
    const e = this.ownerUnit(i);
    return e === PEER && this.code[i] <= -2 ? 'rank ' + (-2 - this.code[i]) : this.unitName(e);
  }
  /* 254: an update by another rank; 255: by the host.
   * Names are looked up last: an unknown number is the host's. */
  unitName(e) { return this.engines[e] || (e === PEER ? 'another rank' : 'host'); }
  label(i) {
    const c = this.insn(i);
    switch (this.kind[i]) {
      case INSN:
      case TRIGGER: return c ? c[2] : '?';
      case TABLE: return 'load_act_table';
      case DMA: return c && c[6] ? c[6] : c ? c[2] : 'share';
      /* One label for both: for a semaphore, or for the other core. */
      case WAIT:
      case MEET: return 'wait ' + this.waitedFor(i);
      case NOTIFY: return 'notify ' + this.id[i];
      default: return this.semName(this.id[i]) + ' = ' + this.value[i];
    }
  }
  /* A wait: for a semaphore, or at a sendrecv for the other core's. */
  isWait(i) { return this.kind[i] === WAIT || this.kind[i] === MEET; }
  waitedFor(i) { return this.kind[i] === MEET ? MEETING : this.semName(this.id[i]); }
  trackName(i) {
    if (this.kind[i] !== DMA && !this.isWrite(i)) return this.unitName(this.engine[i]);
    return this.queueName(this.queueOf(i)) + ' ring ' + this.ringOf(i);
  }
  /* Where a share moves its bytes: 'load', 'store' or 'other'. */
  direction(i) {
    /* By its ends: into HBM it is a store, out of it a load, else neither. */
    const c = this.insn(i);
    return !c ? 'other' : c[8] === 'hbm' ? 'store' : c[7] === 'hbm' ? 'load' : 'other';
  }

  /* The event whose end let i continue, through waits and updates; -1: none.
   * Step by step back: i, its wait, the update that ended it, what made the update. */
  producer(i) {
    let w = this.isWait(i) ? i : this.from[i];
    if (this.kind[i] === SEM) return w;
    if (w >= 0 && this.kind[w] === TRIGGER) w = this.from[w];
    if (w < 0 || !this.isWait(w) || this.from[w] < 0) return -1;
    if (this.kind[w] === MEET) return this.from[w];
    const update = this.from[w], source = this.from[update];
    return source >= 0 ? source : update;
  }
  /* Waits that i ended, through its updates.
   * A transfer signals through its shares. */
  endedWaits(i) {
    if (this.kind[i] === TRIGGER) return this.sharesOf(i).flatMap((k) => this.endedWaits(k));
    const updates = this.kind[i] === SEM ? [i] : this.followers(i).filter((k) => this.kind[k] === SEM);
    return updates.flatMap((u) => this.followers(u).filter((k) => this.kind[k] === WAIT));
  }
  /* What continued when i was over: the instruction or share after a wait that it ended.
   * What a person wants to go to: the instruction, not the wait before it. */
  consumers(i) {
    const waits = this.isWait(i) ? [i] : this.endedWaits(i);
    return waits.map((w) => {
      const after = this.followers(w);
      const better = after.find((k) => this.kind[k] === INSN || this.kind[k] === TRIGGER || this.kind[k] === DMA);
      return better === undefined ? w : better;
    });
  }

  /* The wait that came before event i of its own instruction; -1: there was none. */
  waitBefore(i) {
    let w = this.isWait(i) ? i : this.from[i];
    if (w >= 0 && this.kind[w] === TRIGGER) w = this.from[w];
    return w >= 0 && this.isWait(w) ? w : -1;
  }

  /* Of each line of each file: how often its instructions ran, the time in which any of them or of
   * their transfers was at work, and how long they waited. [file, line] -> {count, work, wait}.
   * Time counted once where instructions of one line overlap. */
  lines() {
    const by = new Map(), spans = new Map();
    /* An instruction without a line belongs to none. */
    const of = (code) => {
      const c = this.data.code[code];
      if (!c || !c[4]) return null;
      const key = c[4] + ':' + c[5];
      if (!by.has(key)) by.set(key, {file: c[4], line: c[5], count: 0, work: 0, wait: 0});
      return key;
    };
    for (let i = 0; i < this.n; i++) {
      const k = this.kind[i], key = k === SEM || k === NOTIFY ? null : of(this.code[i]);
      if (!key) continue;
      const row = by.get(key);
      if (k === INSN || k === TRIGGER) row.count++;
      if (this.isWait(i)) row.wait += this.end[i] - this.start[i];
      else if (k !== TRIGGER) (spans.get(key) || spans.set(key, []).get(key)).push(i);
    }
    for (const [key, list] of spans) {
      list.sort((a, b) => this.start[a] - this.start[b]);
      let until = -Infinity;
      for (const i of list) {
        by.get(key).work += Math.max(0, this.end[i] - Math.max(until, this.start[i]));
        until = Math.max(until, this.end[i]);
      }
    }
    return by;
  }
  /* Events of a line's instructions, marked as a search marks them. */
  ofLine(file, line) {
    const codes = this.data.code.map((c) => c[4] === file && c[5] === line), hit = new Uint8Array(this.n), list = [];
    for (let i = 0; i < this.n; i++) {
      if (this.kind[i] === SEM || this.code[i] < 0 || !codes[this.code[i]]) continue;
      hit[i] = 1;
      list.push(i);
    }
    list.sort((a, b) => this.start[a] - this.start[b] || a - b);
    return {hit, list, line: [file, line]};
  }
  /* The event of an instruction that is nearest to a time: it is at work then, or begins closest to
   * it.
   * A finding names an instruction and a time, which may lie beside its event. */
  eventNear(engine, pc, t) {
    let best = -1, far = Infinity;
    for (let i = 0; i < this.n; i++) {
      const c = this.insn(i), k = this.kind[i];
      if (!c || c[0] !== engine || c[1] !== pc || (k !== INSN && k !== DMA && k !== TRIGGER)) continue;
      /* A trigger loses against the transfer that it started. */
      const d = Math.max(this.start[i] - t, t - this.end[i], 0) + (k === TRIGGER ? 0.5 : 0);
      if (d < far) [best, far] = [i, d];
    }
    return best;
  }

  /* Events with the words of a query, in order of start. */
  search(query) {
    /* All words must occur, in any order. */
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return null;
    const has = (text) => words.every((w) => text.toLowerCase().includes(w));
    /* Texts of instructions are searched once, not for each event. */
    const codes = this.data.code.map((c) => has([this.engines[c[0]], c[2], c[3], c[6],
      c[4] ? this.data.files[c[4] - 1] + ':' + c[5] : '', 'pc ' + c[1]].join(' ')));
    const sems = new Map();
    const hit = new Uint8Array(this.n), list = [];
    for (let i = 0; i < this.n; i++) {
      const k = this.kind[i], id = this.id[i];
      /* Updates are found through what made them. */
      if (k === SEM) continue;
      if (k === WAIT) {
        if (!sems.has(id)) sems.set(id, has('wait ' + this.semName(id)));
        hit[i] = sems.get(id) ? 1 : 0;
      } else if (k === MEET) {
        hit[i] = has('wait ' + MEETING) ? 1 : 0;
      } else {
        hit[i] = this.code[i] >= 0 && codes[this.code[i]] ? 1 : 0;
      }
      if (hit[i]) list.push(i);
    }
    list.sort((a, b) => this.start[a] - this.start[b] || a - b);
    return {hit, list};
  }
}

/* The first i in [0, n) for which yes(i); n when none exists. yes is false, then true. */
function firstWhere(n, yes) {
  let lo = 0, hi = n;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (yes(mid)) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}

const UNITS = [[1e12, 's'], [1e9, 'ms'], [1e6, '\u00b5s'], [1e3, 'ns'], [1, 'ps']];
function unitFor(ps) { return UNITS.find(([u]) => Math.abs(ps) >= u) || UNITS[4]; }
/* A span for people: "1.24 us". */
function spanText(ps) {
  if (ps === 0) return '0 ns';
  const [u, name] = unitFor(ps), v = ps / u;
  return (v >= 100 ? v.toFixed(1) : v >= 10 ? v.toFixed(2) : v.toFixed(3)) + '\u00a0' + name;
}
/* A point in time, to a nanosecond's thousandth. */
function timeText(ps) { return (ps / 1e6).toFixed(ps % 1000 ? 6 : 3) + '\u00a0\u00b5s'; }
function bytesText(b) {
  if (b < 1024) return b + ' B';
  const k = Math.min(3, Math.floor(Math.log2(b) / 10));
  return (b / 2 ** (10 * k)).toFixed(b % 2 ** (10 * k) ? 2 : 0) + ' ' + ['B', 'KiB', 'MiB', 'GiB'][k];
}
function percentText(a, b) { return b > 0 ? (100 * a / b).toFixed(1) + ' %' : '-'; }
/* A large count for people: "268 M". */
function countText(n) {
  const k = n < 1e5 ? 0 : Math.floor(Math.log10(n) / 3);
  return k ? (n / 1000 ** k).toPrecision(3) + '\u00a0' + ['', 'k', 'M', 'G', 'T', 'P'][k] : n.toLocaleString('en');
}

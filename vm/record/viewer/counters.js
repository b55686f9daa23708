/* Lines over time: memory in use, semaphores, pending transfers, bytes per time. Each is scaled to
 * what is in view. */

/* The scale of a line: the largest value in view. */
function drawScale(text, y) {
  const width = ctx.measureText(text).width;
  /* Half transparent: the line goes on below it. */
  ctx.globalAlpha = 0.8;
  ctx.fillStyle = colors.bg;
  ctx.fillRect(2, y + 2, width + 4, 13);
  ctx.globalAlpha = 1;
  ctx.fillStyle = colors.muted;
  ctx.fillText(text, 4, y + 9);
}

/* The largest value of a step line between two times.
 * From the last point before the view, whose value reaches into it. */
function mostInView(track) {
  const n = track.t.length;
  let k = Math.max(0, firstWhere(n, (m) => track.t[m] > view.t0) - 1), most = 0;
  for (; k < n && track.t[k] <= view.t1; k++) most = Math.max(most, track.v[k]);
  return most;
}
function valueText(track, v) {
  return track.type === 'memory' ? bytesText(v) : track.type === 'rate' ? v.toFixed(v < 10 ? 1 : 0) + ' GB/s' : String(v);
}

/* Bytes per time: the mean of each pixel column. */
function drawRate(track, y, h) {
  const w = Math.ceil(view.width), rates = new Float64Array(w);
  /* Each column's bytes are a difference of two sums, so no share is lost. */
  let before = model.movedUntil(track, view.t0), most = 0;
  for (let x = 0; x < w; x++) {
    const until = model.movedUntil(track, T(x + 1));
    rates[x] = 1000 * (until - before) / (T(x + 1) - T(x));
    most = Math.max(most, rates[x]);
    before = until;
  }
  /* First the areas, then the line on top of them. */
  ctx.fillStyle = colors.fill;
  for (let x = 0; x < w && most > 0; x++) {
    const top = (h - 9) * rates[x] / most;
    if (top > 0) ctx.fillRect(x, y + h - 4 - top, 1, top);
  }
  ctx.fillStyle = colors.step;
  for (let x = 0; x < w && most > 0; x++)
    if (rates[x] > 0) ctx.fillRect(x, y + h - 4 - (h - 9) * rates[x] / most, 1, 1.5);
  track.scale = most;
  if (most > 0) drawScale(valueText(track, most), y);
}

/* A step line, scaled to what is in view; each pixel column shows its least and its largest value. */
function drawSteps(track, y, h) {
  const n = track.t.length, most = mostInView(track), scale = most || 1, yOf = (v) => y + h - 4 - (h - 9) * v / scale;
  track.scale = scale;
  let k = Math.max(0, firstWhere(n, (m) => track.t[m] > view.t0) - 1);
  const fill = new Path2D(), line = new Path2D();
  /* The value at the left border is that of the last point before it. */
  let x = Math.max(0, X(k < n ? track.t[k] : model.total)), v = k < n && track.t[k] <= view.t0 ? track.v[k] : 0;
  if (k < n && track.t[k] > view.t0) x = 0;
  line.moveTo(x, yOf(v));
  fill.moveTo(x, yOf(0));
  fill.lineTo(x, yOf(v));
  for (; k < n && track.t[k] <= view.t1; k++) {
    const at = Math.max(0, X(track.t[k]));
    let lo = Math.min(v, track.v[k]), hi = Math.max(v, track.v[k]);
    /* All points of one pixel: their least and largest value are drawn as one line. */
    for (; k + 1 < n && X(track.t[k + 1]) < at + 1; k++) {
      lo = Math.min(lo, track.v[k + 1]);
      hi = Math.max(hi, track.v[k + 1]);
    }
    line.lineTo(at, yOf(v));
    /* The value went beyond the two ends and came back within the pixel. */
    if (hi > Math.max(v, track.v[k]) || lo < Math.min(v, track.v[k])) {
      line.lineTo(at, yOf(hi));
      line.lineTo(at, yOf(lo));
    }
    fill.lineTo(at, yOf(v));
    v = track.v[k];
    line.lineTo(at, yOf(v));
    fill.lineTo(at, yOf(v));
  }
  const end = Math.min(view.width, X(model.total));
  line.lineTo(end, yOf(v));
  fill.lineTo(end, yOf(v));
  fill.lineTo(end, yOf(0));
  ctx.fillStyle = colors.fill;
  ctx.fill(fill);
  ctx.strokeStyle = colors.step;
  ctx.lineWidth = 1;
  ctx.stroke(line);
  if (most > 0) drawScale(valueText(track, scale), y);
}

const INTERVAL = 100; // milliseconds between reports

/** Counts the bytes of a model that are there, over all of its files, and reports them every now and then. */
export class DownloadProgress {
  /** @param {((progress: {stage: "download", done: number, total: number, cached: number}) => void)} [report] */
  constructor(report) {
    this.total = 0;
    this.done = 0;
    /** of `done`, what was in the cache already */
    this.cached = 0;
    this._report = report;
    this._next = 0;
  }

  /** Takes note of `count` more bytes; fewer where a cached part has turned out to be spoilt. */
  add(count, cached = 0) {
    this.done += count;
    this.cached += cached;
    const now = performance.now();
    if (now < this._next && this.done < this.total) return;
    this._next = now + INTERVAL;
    this._report?.({ stage: "download", done: this.done, total: this.total, cached: this.cached });
  }
}

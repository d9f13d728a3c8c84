import { Worker } from 'node:worker_threads';

/** Most memory of this process, including garbage of many cases. */
const RSS_BYTES_MAX = 3 * 1024 ** 3;

/**
 * Ends the process when its memory exceeds 3 GiB, with a line that names the running case. It checks from a thread of
 * its own. A case that takes all memory of a machine leaves its own thread no time for that.
 */
export class MemoryWatch {
  readonly #at = new Int32Array(new SharedArrayBuffer(4));
  readonly #thread: Worker;

  constructor() {
    const workerData = { at: this.#at, rssBytesMax: RSS_BYTES_MAX };
    this.#thread = new Worker(`(${watch})()`, { eval: true, workerData });
    this.#thread.unref();
  }

  /** Records that the case of `seed` begins. */
  note(seed: number): void {
    Atomics.store(this.#at, 0, seed);
  }

  async stop(): Promise<void> {
    await this.#thread.terminate();
  }
}

/** Runs in the thread as text, so that it cannot use anything outside of it, imports included. */
function watch(): void {
  const { workerData } = process.getBuiltinModule('node:worker_threads');
  const { writeSync } = process.getBuiltinModule('node:fs');
  const { at, rssBytesMax } = workerData as { readonly at: Int32Array; readonly rssBytesMax: number };
  setInterval(() => {
    if (process.memoryUsage.rss() <= rssBytesMax) return;
    writeSync(2, `FAILED: seed ${Atomics.load(at, 0)} takes more than ${rssBytesMax / 2 ** 30} GiB of memory\n`);
    process.kill(process.pid, 'SIGKILL');
  }, 20);
}

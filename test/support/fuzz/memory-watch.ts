import { Worker } from 'node:worker_threads';

/** Of this process, garbage of many cases included. */
const RSS_BYTES_MAX = 3 * 1024 ** 3;

/**
 * Ends the process, with a line that names the case it was at, when its memory goes beyond 3 GiB. It looks from a thread of
 * its own, since a case that asks for all the memory of a machine gives its own thread no time to look.
 */
export class MemoryWatch {
  readonly #at = new Int32Array(new SharedArrayBuffer(4));
  readonly #thread: Worker;

  constructor() {
    const workerData = { at: this.#at, rssBytesMax: RSS_BYTES_MAX };
    this.#thread = new Worker(`(${watch})()`, { eval: true, workerData });
    this.#thread.unref();
  }

  /** The case of `seed` is played from now on. */
  note(seed: number): void {
    Atomics.store(this.#at, 0, seed);
  }

  async stop(): Promise<void> {
    await this.#thread.terminate();
  }
}

/** Runs in the thread, as text: nothing outside it is there, imports included. */
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

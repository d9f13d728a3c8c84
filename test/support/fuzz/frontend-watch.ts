import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type SpawnedProcess, spawnNode } from '../spawn-node.ts';
import { waitUntil } from '../wait-until.ts';

export const START_MS_MAX = 30_000;
export const PROGRAM = 'dist/stator.js';
const PROBE = './dist/bench-loop-probe.js';
/**
 * A program that pings `/live` from a process of its own. For each line of its input it prints the longest wait since
 * the last line.
 */
const PINGER = `
let worst = 0;
process.stdin.on('data', () => { console.log('worst ' + worst.toFixed(0)); worst = 0; });
for (;;) {
  const from = performance.now();
  const response = await fetch(process.argv[1] + '/live', { signal: AbortSignal.timeout(60000) });
  if (!response.ok) throw new Error('live ' + response.status);
  await response.text();
  worst = Math.max(worst, performance.now() - from);
  await new Promise((resolve) => setTimeout(resolve, 10));
}`;

/** Measurements of a frontend since the last look. */
export interface Health {
  /** Longest uninterrupted CPU time of its event loop, in milliseconds. */
  readonly sliceCpuMs: number;
  /** Longest wait for `/live`, measured from another process. Other processes on the machine affect it. */
  readonly liveMs: number;
  readonly rssBytes: number;
  readonly openFiles: number;
}

/** A frontend observed from outside. */
export class WatchedFrontend {
  readonly url: string;
  readonly #process: SpawnedProcess;
  readonly #pinger: SpawnedProcess;
  readonly #probeFile: string;
  readonly #defect: RegExp;

  private constructor(frontend: SpawnedProcess, url: string, probeFile: string, defect: RegExp) {
    this.#process = frontend;
    this.url = url;
    this.#probeFile = probeFile;
    this.#defect = defect;
    this.#pinger = spawnNode(['--input-type=module', '-e', PINGER, url]);
  }

  /**
   * Starts the built program (`dist/`).
   *
   * @param folder where its measurements go
   * @param defect pattern that no line of its log may match
   */
  static async start(
    folder: string,
    env: Readonly<Record<string, string>>,
    { args = [], defect }: { readonly args?: readonly string[]; readonly defect: RegExp },
  ): Promise<WatchedFrontend> {
    const probeFile = join(folder, `probe-${process.hrtime.bigint()}.json`);
    const started = spawnNode(
      ['--import', PROBE, PROGRAM, 'frontend', '--http-host=127.0.0.1', '--http-port=0', ...args],
      { env: { ...env, STATOR_BENCH_PROBE: probeFile } },
    );
    const [, url = ''] = await started.waitForOutput(/serving url=(\S+)/, START_MS_MAX);
    return new WatchedFrontend(started, url, probeFile, defect);
  }

  /**
   * Checks that the process runs.
   * @throws Error if it has ended
   */
  mustRun(): void {
    try {
      process.kill(this.#process.pid, 0);
    } catch {
      throw new Error(`the frontend has ended: ${this.#process.stderr().slice(-3000)}`);
    }
  }

  /**
   * Measures the frontend.
   * @throws Error if it has ended, is silent or reports a defect
   */
  async look(): Promise<Health> {
    this.mustRun();
    const said = this.#defect.exec(this.#process.stdout() + this.#process.stderr());
    if (said !== null) throw new Error(`the frontend says: ${said[0].slice(0, 2000)}`);
    await rm(this.#probeFile, { force: true });
    this.#process.signal('SIGUSR2');
    const report = await waitUntil(() => readFile(this.#probeFile, 'utf8'), { timeoutMs: START_MS_MAX });
    const earlier = this.#pinger.stdout().length;
    this.#pinger.write('\n');
    const told = await waitUntil(() => /worst (\d+)\n/.exec(this.#pinger.stdout().slice(earlier)) ?? undefined, {
      timeoutMs: START_MS_MAX,
      what: 'an answer of /live',
    });
    const status = await readFile(`/proc/${this.#process.pid}/status`, 'utf8');
    return {
      sliceCpuMs: (JSON.parse(report) as { readonly sliceCpuMs: number }).sliceCpuMs,
      liveMs: Number(told[1]),
      rssBytes: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024,
      openFiles: (await readdir(`/proc/${this.#process.pid}/fd`)).length,
    };
  }

  async close(): Promise<void> {
    await Promise.all([this.#pinger.kill(), this.#process.kill()]);
  }
}

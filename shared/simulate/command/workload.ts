import { readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { ConfigError, type Settings } from '../../config/index.ts';
import { makeWorkload } from '../synthetic.ts';
import { parseTrace, TraceError } from '../trace.ts';
import type { Workload } from '../workload.ts';

const GZIP_MAGIC = 0x1f8b;
const DEFAULT_TURNS = { steady: 1, poisson: 1, bursts: 1, sessions: 5 } as const;

/** Opens workloads; a trace is read once for all runs of a sweep. */
export class WorkloadSource {
  readonly #traces = new Map<string, Workload>(); // bounded by the runs of a sweep

  /**
   * @throws ConfigError when the settings name no workload, or two
   * @throws Error for a trace that cannot be read; the message has its line and field
   */
  async open(settings: Settings<'simulate'>): Promise<Workload> {
    const { trace, workload: shape } = settings;
    if (trace !== undefined && shape !== undefined)
      throw new ConfigError(['--trace and --workload exclude each other']);
    if (trace !== undefined) return this.#openTrace(trace, settings);
    if (shape === undefined)
      throw new ConfigError([
        'nothing to simulate: give --trace FILE, or --workload steady, poisson, bursts or sessions',
      ]);
    return makeWorkload({
      shape,
      sessions: settings.requestCount,
      turnsPerSession: settings.turnsPerSession ?? DEFAULT_TURNS[shape],
      interTurnDelayMs: settings.interTurnDelayMs,
      arrivalIntervalMs: settings.requestRate === undefined ? settings.arrivalIntervalMs : 1000 / settings.requestRate,
      burstSize: settings.burstSize,
      inputTokens: settings.inputTokens,
      outputTokens: settings.outputTokens,
      lengthSpread: settings.lengthSpread,
      sharedPrefixRatio: settings.sharedPrefixRatio,
      prefixGroups: settings.numPrefixGroups,
      stretchTokens: settings.blockSize,
      seed: settings.seed,
    });
  }

  async #openTrace(path: string, { traceBlockSize, blockSize }: Settings<'simulate'>): Promise<Workload> {
    if (traceBlockSize % blockSize !== 0) {
      throw new ConfigError([
        `--trace-block-size ${traceBlockSize} must be a multiple of --block-size ${blockSize}: an id names whole blocks`,
      ]);
    }
    const key = `${traceBlockSize} ${path}`;
    const known = this.#traces.get(key);
    if (known !== undefined) return known;
    const workload = await readTrace(path, traceBlockSize);
    this.#traces.set(key, workload);
    return workload;
  }
}

async function readTrace(path: string, traceBlockSize: number): Promise<Workload> {
  const bytes = await readFile(path);
  const isZipped = bytes.length >= 2 && bytes.readUInt16BE(0) === GZIP_MAGIC;
  try {
    return parseTrace((isZipped ? gunzipSync(bytes) : bytes).toString('utf8'), traceBlockSize);
  } catch (thrown) {
    if (thrown instanceof TraceError) throw new Error(`--trace ${path}, ${thrown.message}`);
    throw new Error(`--trace ${path} cannot be unzipped`, { cause: thrown });
  }
}

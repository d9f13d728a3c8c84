import type { Clock, Timer } from '../../clock/index.ts';
import type { EngineLatency, EngineLoad, EngineSink } from '../types.ts';

/** One line of Prometheus' text format. */
export interface MetricSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(?<![a-zA-Z0-9_])([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;

/** The samples of the metrics in `names`; everything else is passed over unread. */
export function readSamples(text: string, names: ReadonlySet<string>): readonly MetricSample[] {
  const samples: MetricSample[] = [];
  for (const line of text.split('\n')) {
    const end = line.search(/[{ ]/);
    if (end <= 0 || !names.has(line.slice(0, end))) continue;
    const [, name = '', labels = '', value = ''] = SAMPLE.exec(line) ?? [];
    const number = Number(value);
    if (name !== '' && !Number.isNaN(number)) samples.push({ name, labels: readLabels(labels), value: number });
  }
  return samples;
}

/** What an engine calls the load of its ranks. */
export interface LoadMetrics {
  /** Label with the number of the rank. */
  readonly rankLabel: string;
  readonly running: string;
  readonly waiting: string;
  /** Used share of the KV blocks; what older versions call it behind it. */
  readonly usage: readonly string[];
}

export type PartialLoad = Pick<EngineLoad, 'dpRank'> & Partial<EngineLoad>;

/** The load of each rank; what the metrics do not say is left out. */
export function readLoads(
  text: string,
  { rankLabel, running, waiting, usage }: LoadMetrics,
  totalKvBlocks: number,
): readonly PartialLoad[] {
  const byRank = new Map<number, PartialLoad>();
  for (const { name, labels, value } of readSamples(text, new Set([running, waiting, ...usage]))) {
    const dpRank = Number(labels[rankLabel] ?? 0) || 0;
    const row = byRank.get(dpRank) ?? { dpRank };
    if (name === running) byRank.set(dpRank, { ...row, runningRequests: value });
    else if (name === waiting) byRank.set(dpRank, { ...row, waitingRequests: value });
    else byRank.set(dpRank, { ...row, usedKvBlocks: Math.round(value * totalKvBlocks) });
  }
  return [...byRank.values()];
}

/** What all ranks have counted under the first of the names that the engine knows; undefined where it knows none. */
export function readLatency(
  text: string,
  names: readonly (readonly [sum: string, count: string])[],
): EngineLatency | undefined {
  const samples = readSamples(text, new Set(names.flat()));
  const total = (wanted: string): number | undefined => {
    const values = samples.filter(({ name }) => name === wanted).map(({ value }) => value);
    return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
  };
  for (const [sumName, countName] of names) {
    const [sumSeconds, count] = [total(sumName), total(countName)];
    if (sumSeconds !== undefined && count !== undefined) return { sumSeconds, count };
  }
  return undefined;
}

function readLabels(text: string): Readonly<Record<string, string>> {
  const pairs = [...text.matchAll(LABEL)].map(([, name = '', value = '']) => [name, value.replace(/\\(.)/g, '$1')]);
  return Object.fromEntries(pairs);
}

/** Engines whose own metrics are passed on. Their process and interpreter have others that would clash with ours. */
const ENGINE_PREFIXES = ['vllm:', 'sglang:'];

/**
 * The metrics of `text` that are the engine's own, with more labels on every sample. Labels that a sample has are
 * never overwritten.
 */
export function relabelEngineMetrics(text: string, labels: Readonly<Record<string, string>>): string {
  const added = Object.entries(labels);
  const lines: string[] = [];
  for (const line of text.split('\n')) {
    if (line.startsWith('#')) {
      if (isEngines(line.split(' ', 3)[2] ?? '')) lines.push(line);
    } else if (isEngines(line)) {
      lines.push(withLabels(line, added));
    }
  }
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}

function isEngines(name: string): boolean {
  return ENGINE_PREFIXES.some((prefix) => name.startsWith(prefix));
}

function withLabels(line: string, added: readonly (readonly [string, string])[]): string {
  const open = line.indexOf('{');
  const space = line.indexOf(' ');
  const hasLabels = open >= 0 && open < space;
  const own = hasLabels ? line.slice(open + 1, line.lastIndexOf('}')) : '';
  const more = added.filter(([name]) => !new RegExp(`(^|,)${name}="`).test(own));
  const texts = more.map(([name, value]) => `${name}="${value.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n')}"`);
  const all = [...(own === '' ? [] : [own]), ...texts].join(',');
  const name = line.slice(0, hasLabels ? open : space);
  const rest = hasLabels ? line.slice(line.lastIndexOf('}') + 1) : line.slice(space);
  return all === '' ? `${name}${rest}` : `${name}{${all}}${rest}`;
}

interface LoadScraperOptions {
  readonly clock: Clock;
  readonly intervalMs: number;
  /** The engine's metrics in Prometheus' text format. */
  fetch(): Promise<string>;
  onMetrics(text: string): void;
  /** The engine did not answer. */
  onSilence(reason: unknown): void;
}

/** Reads the engine's metrics again and again, one reading at a time. */
export class LoadScraper {
  readonly #options: LoadScraperOptions;
  readonly #timer: Timer;
  #isReading = false;
  #isStopped = false;

  constructor(options: LoadScraperOptions) {
    this.#options = options;
    this.#timer = options.clock.every(options.intervalMs, () => {
      if (!this.#isReading) void this.#read();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer.cancel();
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    try {
      const text = await this.#options.fetch();
      if (!this.#isStopped) this.#options.onMetrics(text);
    } catch (reason) {
      if (!this.#isStopped) this.#options.onSilence(reason);
    } finally {
      this.#isReading = false;
    }
  }
}

interface Prefill {
  readonly dpRank: number;
  readonly tokens: number;
}

/** Prompt tokens of requests that have no output yet: engines do not tell how much they have still to prefill. */
export class PrefillWatch {
  readonly #prefills = new Map<string, Prefill>();

  add(id: string, dpRank: number, tokens: number): void {
    this.#prefills.set(id, { dpRank, tokens });
  }

  remove(id: string): void {
    this.#prefills.delete(id);
  }

  tokensOf(dpRank: number): number {
    let sum = 0;
    for (const prefill of this.#prefills.values()) if (prefill.dpRank === dpRank) sum += prefill.tokens;
    return sum;
  }

  /** `sink`, with the prefill of `id` over at its first output. */
  watch(id: string, sink: EngineSink): EngineSink {
    let isOver = false;
    const over = (): void => {
      if (isOver) return;
      isOver = true;
      this.remove(id);
    };
    return {
      tokens(choice, ids, start, count) {
        if (!isOver) over();
        sink.tokens(choice, ids, start, count);
      },
      output(output) {
        over();
        sink.output(output);
      },
      end: () => sink.end(),
      fail: (error) => sink.fail(error),
      isBlocked: () => sink.isBlocked(),
      onUnblocked: (callback) => sink.onUnblocked(callback),
    };
  }
}

import type { EngineLatency, EngineLoad } from '../types.ts';

/** Line of Prometheus' text format. */
export interface MetricSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(?<![a-zA-Z0-9_])([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;

/** Reads the samples of the metrics in `names`; skips everything else. */
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

/** Names of an engine's metrics for the load of its ranks. */
export interface LoadMetrics {
  /** Label with the number of the rank. */
  readonly rankLabel: string;
  readonly running: string;
  readonly waiting: string;
  /** Used share of the KV blocks; the names of older versions follow. */
  readonly usage: readonly string[];
}

export type PartialLoad = Pick<EngineLoad, 'dpRank'> & Partial<EngineLoad>;

/** Returns the load of each rank; leaves out values that the metrics lack. */
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

/** Returns the counts of all ranks under the first of the names that the engine has; undefined if it has none. */
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

/**
 * Prefixes of the engines' own metrics, which are passed on. Their process and interpreter have others that would clash
 * with the worker's.
 */
const ENGINE_PREFIXES = ['vllm:', 'sglang:', 'trtllm_'];

/**
 * Returns the engine's own metrics in `text`, with labels added to every sample. Existing labels are never overwritten.
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

import { describe, expect, it } from 'vitest';
import {
  type RunReport,
  renderHtml,
  renderJson,
  renderText,
  reportRun,
  simulate,
} from '../../../shared/simulate/index.ts';
import type { RoutingMode } from '../../../shared/simulate/routers.ts';
import { mooncake, options, routing } from './simulation-bed.ts';

function runOf(mode: RoutingMode, swept: Readonly<Record<string, string>> = {}): RunReport {
  const simulation = simulate(options({ workload: mooncake('synthetic'), workers: 4, routing: routing(mode) }));
  return reportRun(simulation, { swept, about: { workload: 'a<b>.jsonl', workers: 4 }, wallMs: 12 });
}

const one = runOf('kv');
const sweep = (['round-robin', 'kv'] as const).map((mode) => runOf(mode, { 'router-mode': mode, workers: '4' }));

describe('renderJson', () => {
  it('prints one object with the figures of a run', () => {
    const figures = JSON.parse(renderJson([one]));
    const spread = {
      mean: expect.any(Number),
      p50: expect.any(Number),
      p90: expect.any(Number),
      p99: expect.any(Number),
    };
    expect(figures).toEqual({
      requests: 1500,
      refused: 0,
      durationMs: expect.any(Number),
      ttftMs: spread,
      itlMs: spread,
      e2eMs: spread,
      queueMs: spread,
      hitRate: expect.any(Number),
      firstHitRate: expect.any(Number),
      hitCeiling: expect.any(Number),
      hitCeilingUnbounded: expect.any(Number),
      outputTokensPerS: expect.any(Number),
      preemptions: 0,
      gpuHours: expect.any(Number),
      loadBalance: { busyTime: expect.any(Number), promptTokens: expect.any(Number), activeBlocks: expect.any(Number) },
      wallMs: 12,
      about: { workload: 'a<b>.jsonl', workers: 4 },
    });
    expect(figures.hitRate).toBeGreaterThan(0.1);
    expect(figures.ttftMs.p50).toBeLessThanOrEqual(figures.ttftMs.p90);
  });

  it('prints the runs of a sweep side by side, also a sweep of one', () => {
    const { runs } = JSON.parse(renderJson(sweep));
    expect(runs.map((run: { swept: unknown }) => run.swept)).toEqual([
      { 'router-mode': 'round-robin', workers: '4' },
      { 'router-mode': 'kv', workers: '4' },
    ]);
    expect(JSON.parse(renderJson(sweep.slice(0, 1))).runs).toHaveLength(1);
  });

  it('adds what charts show to a report', () => {
    const { curves } = JSON.parse(renderJson([one], true));
    expect(curves.ranks).toHaveLength(4);
    expect(curves.ranks.reduce((sum: number, rank: { requests: number }) => sum + rank.requests, 0)).toBe(1500);
    expect(curves.ttftMs).toEqual(curves.ttftMs.toSorted((a: number, b: number) => a - b));
    expect(curves.underWay.at(-1)).toBe(0);
    expect(Math.max(...curves.underWay)).toBeGreaterThan(1);
  });
});

describe('renderText', () => {
  it('shows one run in detail', () => {
    const text = renderText([one]);
    expect(text).toMatch(/^workload a<b>.jsonl, workers 4\n/);
    expect(text).toMatch(/TTFT ms +\d+ +\d+ +\d+ +\d+\n/);
    expect(text).toMatch(/hit rate +\d+\.\d % of prompt tokens; one cache for all: \d+\.\d %\n/);
    expect(text).toContain('1500 answered, 0 refused, 0 preemptions');
  });

  it('gives each run of a sweep a row, with columns in line', () => {
    const rows = renderText(sweep).split('\n');
    expect(rows[1]).toMatch(/^round-robin, workers 4 /);
    expect(rows[2]).toMatch(/^kv, workers 4 /);
    expect(new Set(rows.slice(0, 3).map(({ length }) => length)).size).toBe(1);
  });

  it('fits a terminal, whatever is swept', () => {
    const long = {
      'router-mode': 'kv',
      'router-temperature': '0.5',
      'num-gpu-blocks-override': '16384',
      workers: '16',
    };
    const many = [...sweep, runOf('kv', long)];
    for (const runs of [sweep, many, [one]]) {
      for (const line of renderText(runs).split('\n')) expect(line.length, line).toBeLessThanOrEqual(100);
    }
    for (const head of ['TTFT mean', 'E2E p99', 'hits %', 'tokens/s', 'GPU h']) {
      for (const runs of [sweep, many]) expect(renderText(runs)).toContain(head);
    }
    expect(renderText(many)).toContain('kv, router-temperature 0.5, num-gpu-blocks-override 16384, workers 16\n');
  });

  it('says of a sweep which run is soonest, and which is nearly as good for less', () => {
    const of = (name: string, mean: number, gpuHours: number): RunReport => ({
      ...one,
      swept: { 'router-mode': name },
      summary: { ...one.summary, gpuHours, refused: 0, ttftMs: { ...one.summary.ttftMs, mean } },
    });
    const text = renderText([of('slow', 1000, 1), of('best', 100, 4), of('near', 120, 2), of('cheap', 300, 1)]);
    expect(text.replaceAll('\n', ' ')).toContain(
      '"best" has its first tokens soonest: 100 ms on average, 10.0 times as soon as "slow" (1000 ms). ' +
        '"near" is nearly as soon (120 ms) and saves 50 % of the GPU hours (2.00 against 4.00).',
    );
  });

  it('is empty without runs', () => {
    expect(renderText([])).toBe('');
  });
});

describe('renderHtml', () => {
  const COMMAND = "stator simulate --trace 'a<b>.jsonl'";
  const pages = { run: renderHtml([one], COMMAND), sweep: renderHtml(sweep, COMMAND) };

  it('names what made it, and says in a sentence what came of it', () => {
    expect(pages.run).toContain("<pre>stator simulate --trace 'a&lt;b&gt;.jsonl'</pre>");
    expect(pages.run).toMatch(/<p class="verdict">Half of the requests have their first token within \d+ ms/);
    expect(pages.sweep).toMatch(
      /<p class="verdict">&quot;kv, workers 4&quot; has its first tokens soonest: \d+ ms on average/,
    );
  });

  it.each(['run', 'sweep'] as const)('draws the charts of a %s and needs nothing else', (kind) => {
    const page = pages[kind];
    for (const title of [
      'Time to first token',
      'Time to last token',
      'Mean time to first token by arrival',
      'Requests under way',
      'Prompt tokens found cached, by arrival',
    ]) {
      expect(page).toContain(`>${title}</text>`);
    }
    expect(page.match(/<svg /g)).toHaveLength(kind === 'run' ? 6 : 8);
    expect(page).not.toMatch(/<script|<link|https?:|@import|url\(/);
    expect(page).not.toMatch(/NaN|undefined|Infinity/);
  });

  it('draws a line a run and shows its figures', () => {
    const chart = pages.sweep.split('<figure>')[1] ?? '';
    expect(chart.match(/<path /g)).toHaveLength(2);
    expect(pages.sweep).toContain('round-robin, workers 4</td>');
    expect(pages.run).toContain('worker 3 (');
  });

  it('shows names as text, whatever they hold', () => {
    expect(pages.run).toContain('a&lt;b&gt;.jsonl');
    expect(pages.run).not.toContain('a<b>');
  });
});

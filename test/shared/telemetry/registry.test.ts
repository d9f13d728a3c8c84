import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MetricRegistry } from '../../../shared/telemetry/index.ts';

function linesOf(text: string, name: string): readonly string[] {
  return text.split('\n').filter((line) => line.startsWith(name));
}

describe('a metric registry', () => {
  it('prints help, type and zero of a metric without labels before anything happened', async () => {
    const registry = new MetricRegistry();
    registry.counter('a_total', 'Things.');
    registry.gauge('b', 'Level.');
    expect(await registry.render()).toContain('# HELP a_total Things.\n# TYPE a_total counter\na_total 0\n');
    expect(await registry.render()).toContain('# HELP b Level.\n# TYPE b gauge\nb 0\n');
  });

  it('prints series with their labels and escapes what clients may have written', async () => {
    const registry = new MetricRegistry();
    const family = registry.counter('a_total', 'Things.', 'model', 'status');
    family.with('q"\\\n', 'ok').add(2);
    family.with('q"\\\n', 'ok').add();
    expect(linesOf(await registry.render(), 'a_total{')).toEqual(['a_total{model="q\\"\\\\\\n",status="ok"} 3']);
  });

  it('prints the histogram that a naive count gives', async () => {
    const bounds = [0, 0.5, 1, 10];
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.double({ min: 0, max: 20, noNaN: true }), fc.integer({ min: 1, max: 5 }))),
        async (observed) => {
          const registry = new MetricRegistry();
          const series = registry.histogram('h', 'Spread.', bounds).with();
          for (const [value, times] of observed) series.observe(value, times);
          const values = observed.flatMap(([value, times]) => Array<number>(times).fill(value));
          const buckets = bounds.map((le) => `h_bucket{le="${le}"} ${values.filter((value) => value <= le).length}`);
          const lines = linesOf(await registry.render(), 'h_');
          expect(lines.slice(0, -2)).toEqual([...buckets, `h_bucket{le="+Inf"} ${values.length}`]);
          expect(lines.at(-1)).toBe(`h_count ${values.length}`);
          expect(Number(lines.at(-2)?.split(' ')[1])).toBeCloseTo(
            values.reduce((sum, value) => sum + value, 0),
            6,
          );
        },
      ),
      { numRuns: 50 },
    );
  });

  it('counts on one shared series beyond its bound, and tells so', async () => {
    const registry = new MetricRegistry({ seriesMax: 2 });
    const family = registry.counter('a_total', 'Things.', 'model');
    for (const model of ['m1', 'm2', 'm3', 'm4', 'm1']) family.with(model).add();
    const text = await registry.render();
    expect(linesOf(text, 'a_total{')).toEqual([
      'a_total{model="m1"} 2',
      'a_total{model="m2"} 1',
      'a_total{model="__other__"} 2',
    ]);
    expect(text).toContain('stator_metric_series_overflow_total{metric="a_total"} 2\n');
  });

  it('forgets series by label', async () => {
    const registry = new MetricRegistry();
    const family = registry.gauge('load', 'Load.', 'worker', 'rank');
    for (const [worker, rank] of [
      ['a', '0'],
      ['a', '1'],
      ['b', '0'],
    ] as const)
      family.with(worker, rank).set(1);
    family.removeWhere('worker', 'a');
    expect(linesOf(await registry.render(), 'load{')).toEqual(['load{worker="b",rank="0"} 1']);
  });

  it('runs updates before each scrape', async () => {
    const registry = new MetricRegistry();
    const gauge = registry.gauge('scrapes', 'Scrapes.').with();
    registry.beforeScrape(() => gauge.add(1));
    await registry.render();
    expect(await registry.render()).toContain('\nscrapes 2\n');
  });

  it('refuses a second metric of the same name and the wrong number of labels', () => {
    const registry = new MetricRegistry();
    const family = registry.counter('a_total', 'Things.', 'model');
    expect(() => registry.counter('a_total', 'Others.')).toThrow('a_total');
    expect(() => family.with()).toThrow('a_total has 1 labels');
  });
});

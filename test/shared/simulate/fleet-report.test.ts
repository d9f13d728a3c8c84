import { describe, expect, it } from 'vitest';
import { joinSamples } from '../../../shared/planner/index.ts';
import { type FleetStory, renderFleet } from '../../../shared/simulate/index.ts';
import { binsOf } from '../../../shared/simulate/report/fleet/bins.ts';
import { totalOf } from '../../../shared/simulate/report/fleet/fleet-story.ts';
import { decisionOf, sampleOf, toldStory, UNTIL_MS } from '../../support/planner/fleet-story.ts';

const empty: FleetStory = { ...toldStory(), samples: [], decisions: [], notes: ['a note'] };

/** Returns the cells of the row that begins with `first`. */
function rowOf(html: string, first: string): readonly string[] {
  const at = html.indexOf(`<th scope="row">${first}</th>`);
  const row = at < 0 ? '' : html.slice(at, html.indexOf('</tr>', at));
  return [...row.matchAll(/<td[^>]*>([^<]*)<\/td>/g)].map(([, cell = '']) => cell);
}

function factOf(html: string, name: string): string | undefined {
  return new RegExp(`<dt>${name.replace('$', '\\$')}</dt><dd>([^<]*)</dd>`).exec(html)?.[1];
}

describe('the page of a fleet', () => {
  it('is the same for the same story', async () => {
    await expect(renderFleet(toldStory())).toMatchFileSnapshot('../../fixtures/planner/fleet-report.html');
  });

  it('loads nothing and runs nothing', () => {
    const html = renderFleet(toldStory());
    expect(html).not.toMatch(/<script|<link|<img|@import|url\(|https?:/i);
    expect(html).not.toMatch(/\son[a-z]+=/i);
  });

  it('draws only numbers', () => {
    for (const html of [
      renderFleet(toldStory()),
      renderFleet({ ...empty, samples: [{ atMs: UNTIL_MS, sample: sampleOf() }] }),
    ]) {
      expect(html).not.toMatch(/NaN|Infinity|undefined|null/);
    }
  });

  it('shows names and reasons as text, whatever they contain', () => {
    const evil = `<script>alert("x")</script>'&`;
    const [{ atMs, sample }] = toldStory().samples as [FleetStory['samples'][number]];
    const html = renderFleet({
      ...toldStory(),
      model: evil,
      namespace: evil,
      notes: [evil],
      samples: [
        {
          atMs,
          sample: {
            ...sample,
            options: { [`decode/${evil}`]: { workers: { serving: 60 }, gpuSeconds: 60, failing: evil } },
            events: [{ atMs, kind: evil, pool: evil, instance: evil, about: evil }],
          },
        },
      ],
      decisions: [decisionOf(0, atMs, { reason: evil, problem: evil, code: evil, option: evil, fleet: evil })],
    });
    expect(html).not.toContain('<script');
    expect(html).not.toContain('"x"');
    expect(html).toContain('&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;');
  });

  it('names every drawing, and each table and its columns', () => {
    const html = renderFleet(toldStory());
    const figures = html.match(/<figure>/g) ?? [];
    expect(html.match(/role="img" aria-label="[^"]{10,}"/g)).toHaveLength(figures.length);
    expect(html.match(/<table>/g)).toHaveLength(5);
    expect(html.match(/role="region" tabindex="0" aria-label="[^"]+"/g)).toHaveLength(5);
    expect(html).toMatch(/^<!doctype html>\n<html lang="en">[\s\S]*<title>Fleet of Qwen\/Qwen3-32B<\/title>/);
    expect(html).toContain('prefers-color-scheme: dark');
    expect(html).toContain('@media print');
  });

  it('says what each decision became, and why capacity was missing', () => {
    const cells = rowOf(renderFleet(toldStory()), '#1');
    expect(cells[1]).toBe('decode 1 → 5');
    expect(cells[2]).toContain('a worker serves 10.0: 5 needed');
    expect(cells[3]).toContain('waits for capacity; decode: 4 of 5 workers are missing');
    expect(cells[3]).toContain('code InsufficientInstanceCapacity, option 0-on-demand');
  });

  it('counts hours and dollars of each option by its price, and says which price is missing', () => {
    const html = renderFleet(toldStory());
    const [onDemand, spot] = ['decode/0-on-demand', 'decode/1-spot'].map((option) => rowOf(html, option));
    // 170 recorded minutes with two GPUs
    expect(onDemand?.slice(-3)).toEqual(['5.67', '23.23', 'InsufficientInstanceCapacity']);
    expect(Number(spot?.at(-2))).toBeCloseTo(1.6 * Number(spot?.at(-3)), 1);
    const part = renderFleet({ ...toldStory(), prices: { byOption: { '0-on-demand': 4.1 } } });
    expect(factOf(part, 'US$')).toBe('23.23, without decode/1-spot');
    expect(rowOf(part, 'decode/1-spot').at(-2)).toBe('unknown');
    expect(factOf(renderFleet({ ...toldStory(), prices: { byOption: {} } }), 'US$')).toBeUndefined();
    expect(factOf(renderFleet({ ...toldStory(), prices: { all: 1, byOption: {} } }), 'US$')).toBe(
      factOf(html, 'GPU hours'),
    );
  });

  it('says how long a start took by phase', () => {
    const html = renderFleet(toldStory());
    expect(rowOf(html, '4')).toEqual(['40', '61', '50', '30', '181']);
  });

  it('sums up demand, latencies and how much of the time was recorded', () => {
    const html = renderFleet(toldStory());
    expect(factOf(html, 'held at once')).toBe('at most 37');
    expect(factOf(html, 'recorded')).toBe('94 % of the time');
    expect(factOf(html, 'interruptions')).toBe('1');
    expect(factOf(html, 'failed launches')).toBe('1');
    expect(factOf(html, 'first token')).toMatch(/^mean 260 ms, target 500 ms met by 94\.9 %$/);
  });

  it('says that nothing was recorded, rather than draw nothing', () => {
    const html = renderFleet(empty);
    expect(html).toContain('Nothing of this fleet was recorded in this time.');
    expect(html).toContain('<p>a note</p>');
    expect(html).not.toContain('<figure');
  });
});

describe('the bins of a chart', () => {
  const second = 1000;
  const ten = { atMs: 10 * second, sample: sampleOf({ seconds: 10, knownSeconds: 10, started: 100 }) };

  it('keep the sums of the samples, whatever their limits', () => {
    const story = { ...toldStory(), fromMs: 0, untilMs: 10 * second, samples: [ten] };
    for (const binsMax of [1, 3, 4, 7, 10]) {
      const { samples } = binsOf([ten], 0, 10 * second, binsMax);
      const all = samples.flatMap((sample) => sample ?? []).reduce(joinSamples);
      expect(all.started).toBeCloseTo(100, 6);
      expect(all.seconds).toBeCloseTo(10, 6);
    }
    expect(totalOf(story)?.started).toBe(100);
  });

  it('count only the part of a sample that lies in their time', () => {
    const { samples } = binsOf([ten], 5 * second, 15 * second, 10);
    expect(samples.map((sample) => sample?.started ?? null)).toEqual([
      10,
      10,
      10,
      10,
      10,
      null,
      null,
      null,
      null,
      null,
    ]);
  });
});

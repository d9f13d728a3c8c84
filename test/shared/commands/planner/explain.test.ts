import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { renderPlannerPage } from '../../../../shared/commands/planner/planner-page.ts';
import { explainPlanner } from '../../../../shared/commands/planner-explain.ts';
import { parsePlannerConfig } from '../../../../shared/planner/config.ts';
import { type DecisionRecord, FilePlannerStore } from '../../../../shared/planner/index.ts';

const NEVER = new AbortController().signal;
const NOW = 1_800_000_000_000;

const victims = Array.from({ length: 10 }, (_, at) => {
  return { instanceId: `i-${at}`, pool: 'decode' as const, option: '1-spot', atMs: NOW };
});

const stalled: DecisionRecord = {
  decisionId: 0,
  status: 'STALLED',
  targets: { decode: 8 },
  previous: { decode: 2 },
  reason: 'decode 2 -> 8: 6 requests wait',
  isAdvisory: false,
  configHash: 'abc',
  decidedAtMs: NOW,
  figures: { held: 6 },
  code: 'InsufficientInstanceCapacity',
  option: '1-spot',
  problem: 'decode: 6 of 8 workers are missing, and no option has room',
  fleet: 'decode: 2 serve, 0-on-demand 2 of 2 (InsufficientInstanceCapacity in us-east-1b)',
  victims,
  reapplied: 2,
};

describe('stator planner explain', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stator-explain-'));
    const store = new FilePlannerStore(folder);
    await store.commit('ns#m', { version: 0, state: '', decision: stalled }, NEVER);
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('tells what became of a decision: why capacity is missing, the fleet, and the instances that it ends', async () => {
    const text = await explainPlanner(['0', `--planner-dir=${folder}`], {}, NOW);
    const named = victims.slice(0, 8).map(({ instanceId }) => `${instanceId} (1-spot)`);
    expect(text).toContain(
      [
        'waits for capacity: decode: 6 of 8 workers are missing, and no option has room',
        '    decode 2 -> 8: 6 requests wait',
        '    held 6',
        '    code InsufficientInstanceCapacity, option 1-spot',
        '    fleet: decode: 2 serve, 0-on-demand 2 of 2 (InsufficientInstanceCapacity in us-east-1b)',
        `    ends ${named.join(', ')} and 2 more`,
        '    applied again 2 times, because the fleet had become something else',
        '',
      ].join('\n'),
    );
  });

  it('has the same in JSON', async () => {
    const json = JSON.parse(await explainPlanner(['--json', `--planner-dir=${folder}`], {}, NOW)) as object;
    expect(json).toMatchObject({ model: 'ns#m', decisions: [stalled] });
  });
});

describe('the report of a planner', () => {
  it('tells it beside each decision', () => {
    const config = parsePlannerConfig({ mode: 'agg' });
    const html = renderPlannerPage({
      group: 'ns#m',
      config,
      points: [{ atMs: NOW, figures: {}, reason: '' }],
      decisions: [stalled],
    });
    expect(html).toContain('<td style="text-align:left">stalled</td>');
    expect(html).toContain('code InsufficientInstanceCapacity, option 1-spot; fleet: decode: 2 serve');
    expect(html).toContain('i-7 (1-spot) and 2 more');
  });
});

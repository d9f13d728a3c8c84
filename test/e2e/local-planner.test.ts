import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ConsoleFleet } from '../../shared/console/wire/fleet.ts';
import { postJson, runStator, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const fleet = useFleet();
const QUESTION = { model: 'stator-mini', messages: [{ role: 'user', content: 'What are you?' }], max_tokens: 16 };
/** Windows and pauses of seconds instead of minutes; a worker "serves" two requests a second. */
const QUICK = {
  rate_requests_per_second: 2,
  rate_window_seconds: 5,
  rate_deviations: 0, // within its first second the window would take one request for two
  rate_down_window_seconds: 5,
  idle_to_zero_seconds: 5,
  load_adjustment_interval_seconds: 1,
};

describe('stator local --planner', () => {
  const BASE_MS = 1250; // one request in that; the step is of eight
  let local: StatorProcess;
  const asked: Promise<number>[] = [];
  const folder = (): string => join(fleet.temporary, 'planner');

  beforeAll(async () => {
    const config = `--planner-config=${JSON.stringify(QUICK)}`;
    // Engines at a tenth of their speed: an answer takes a second, and the law decides, not the processors.
    const engine = '--speedup-ratio=0.1';
    const kept = `--planner-dir=${folder()}`;
    local = await fleet.local(['--planner', '--min-workers=0', '--max-workers=4', kept, config, engine]);
  });
  afterAll(() => local.kill());

  async function ask(): Promise<number> {
    const response = await postJson(`${local.url}/v1/chat/completions`, QUESTION);
    await response.text();
    return response.status;
  }

  /** Asks without waiting for answers, once in so many milliseconds, until something is so. */
  const askEvery = (pollMs: number, isSo: () => boolean, what: string) =>
    waitUntil(
      () => {
        asked.push(ask());
        return isSo();
      },
      { timeoutMs: 60_000, pollMs, what },
    );

  const told = (text: string) => () => local.stdout().includes(text);

  it('says between what numbers of workers it moves', () => {
    expect(local.stdout()).toContain(
      'Stator is up: one mock worker (0 to 4, as the planner decides), model stator-mini',
    );
  });

  it('stays at one worker for what one serves', async () => {
    await askEvery(BASE_MS, () => asked.length > 6, 'seven requests');
    expect(local.stdout()).not.toMatch(/planner: workers 1 -> /);
  });

  it('has more workers when eight times as many begin, and says why in a sentence', async () => {
    await askEvery(BASE_MS / 8, told('planner: 4 workers serve'), 'four workers');
    expect(local.stdout()).toMatch(/planner: workers \d -> 4: [\d.]+ requests\/s .*a worker serves 2\.0: \d needed/);
  });

  // It stays for five times what a start takes, and starts take long while others use the machine.
  it('lets them go when nothing begins, the last one at last', { timeout: 200_000 }, async () => {
    await waitUntil(told('-> 0: '), { timeoutMs: 180_000, what: 'the last worker goes' });
    expect(local.stdout()).toMatch(/planner: workers 4 -> [0-3]: /);
  });

  it('holds the first request after that, and serves it', async () => {
    await waitUntil(told('0 workers serve'), { timeoutMs: 30_000, what: 'nobody serves' });
    const held = ask();
    asked.push(held);
    const start = await waitUntil(
      async () => {
        const fleet = (await (await fetch(`${local.url}/console/api`)).json()) as ConsoleFleet;
        const [newest] = fleet.cold_starts;
        return newest?.phases.some(({ name }) => name === 'launch') === true && newest.ready_ms !== null
          ? newest
          : undefined;
      },
      { timeoutMs: 60_000, what: 'the console shows the cold start' },
    );
    expect(start).toMatchObject({ model: 'stator-mini', requests: 1, note: null });
    expect(start.phases.map(({ name }) => name)).toEqual(['decide', 'launch']);
    expect(await held).toBe(200);
    expect(local.stdout()).toMatch(/planner: workers 0 -> [12]: .* and 1 wait/);
  });

  it('says afterwards why, for every decision', async () => {
    const { stdout } = await runStator(['planner', 'explain', `--planner-dir=${folder()}`]);
    expect(stdout).toContain('local#stator-mini');
    expect(stdout).toMatch(/decode 0 -> [12]: .*1 wait/);
    expect(stdout).toMatch(/#0 .*(?:carried out|replaced by a newer one)/);
  });

  it('has lost no request on the way', async () => {
    const statuses = await Promise.all(asked);
    expect(statuses.length).toBeGreaterThan(15);
    expect(new Set(statuses)).toEqual(new Set([200]));
  });
});

describe('stator local --planner refuses', () => {
  it.each([
    [['--min-workers=5'], '--min-workers 5 is above --max-workers 4'],
    [['--num-prefill-workers=1', '--num-decode-workers=1'], '--planner scales one pool'],
    [
      ['--planner-law=sla', '--engine=openai', '--engine-url=http://127.0.0.1:9'],
      'the law sla needs the duration of passes',
    ],
    [['--planner-config={"ttft_ms":-1}'], 'planner configuration: ttft_ms: '],
    [['--engine=openai', '--engine-url=http://127.0.0.1:9'], '--planner-config \'{"rate_requests_per_second": N}\''],
  ])('%j', async (flags, message) => {
    const { code, stderr } = await runStator(['local', '--planner', ...flags]);
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});

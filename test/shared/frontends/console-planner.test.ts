import { describe, expect, it } from 'vitest';
import type { ConsolePlanner, ConsoleWhatIf } from '../../../shared/console/planner/wire.ts';
import { LIMITS } from '../../../shared/errors/index.ts';
import { parsePlannerConfig } from '../../../shared/planner/config.ts';
import { handleSignals } from '../../../shared/planner/decide/handle-batch.ts';
import { MemoryPlannerStore } from '../../../shared/planner/index.ts';
import { openConsoleBed } from '../../support/console-bed.ts';
import { createTestApp, type TestAppOptions } from '../../support/http-app.ts';
import { BEGIN_S, tellStory } from '../../support/planner/fleet-signals.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { waitUntil } from '../../support/wait-until.ts';

const NEVER = new AbortController().signal;
const QUESTION = '/console/api/what-if';

interface BedOptions extends TestAppOptions {
  readonly group?: string;
  /** @default the store is there */
  readonly opens?: () => Promise<void>;
}

async function bed({ group = 'ns#m', opens = async () => {}, ...options }: BedOptions = {}) {
  const clock = new VirtualClock(1000 * (BEGIN_S + 60));
  const store = new MemoryPlannerStore({ wallMs: () => clock.wallMs() });
  const raw = { mode: 'agg', rate_requests_per_second: 10, max_gpu_budget: 32, start_seconds: 60 };
  const planner = { config: parsePlannerConfig(raw), engines: {} };
  for (const signal of tellStory(60, { rate: () => 30, workers: () => 1 })) {
    await handleSignals([signal], { store, group, planner }, NEVER);
  }
  const { open } = openConsoleBed(clock, 1000, {
    planners: { howToStart: 'Start one.', open: () => opens().then(() => store) },
  });
  const { app } = createTestApp({ clock, console: open, ...options });
  const ask = (path: string, init: RequestInit = {}, peer = '127.0.0.1') =>
    Promise.resolve(app.fetch(new Request(`http://localhost${path}`, init), { peer }));
  const question = (body: unknown, type = 'application/json') =>
    ask(QUESTION, { method: 'POST', headers: { 'content-type': type }, body: JSON.stringify(body) });
  return { clock, store, ask, question };
}

describe('GET /console/api?view=planner', () => {
  it('is what the planner recorded, with its bounds', async () => {
    const { ask } = await bed();
    const response = await ask('/console/api?view=planner&model=m');
    expect([response.status, response.headers.get('cache-control')]).toEqual([200, 'no-store']);
    const shown = (await response.json()) as ConsolePlanner;
    expect(shown).toMatchObject({
      group: 'ns#m',
      groups: [{ id: 'ns#m', namespace: 'ns', model: 'm' }],
      config: { law: 'rate', bounds: { min_endpoint: 1, max_gpu_budget: 32, rate_requests_per_second: 10 } },
      tick: { reason: expect.stringContaining('a worker serves 10') },
    });
    expect(shown.decisions.at(-1)).toMatchObject({ id: 0, outcome: 'waiting', previous: { decode: 1 } });
    expect(shown.points.at(-1)).toMatchObject({ need: { decode: 4 }, capacity: { decode: 10 } });
  });

  it('sends events until the client leaves, up to the limit of viewers', async () => {
    const { ask, clock } = await bed();
    const headers = { accept: 'text/event-stream' };
    const response = await ask('/console/api?view=planner', { headers });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader.read()).value).toMatch(/^event: planner\ndata: \{/);
    const others = Array.from({ length: LIMITS.console_viewers.max - 1 }, () =>
      ask('/console/api?view=planner', { headers }),
    );
    await Promise.all(others);
    expect((await ask('/console/api?view=planner', { headers })).status).toBe(503);
    await reader.cancel();
    await waitUntil(async () => (await ask('/console/api?view=planner', { headers })).status === 200);
    expect(clock.pendingTimers).toBeGreaterThan(0);
  });

  it('takes no parameter of other views', async () => {
    const { ask } = await bed();
    expect((await ask('/console/api?view=planner&key=k')).status).toBe(400);
  });
});

describe('POST /console/api/what-if', () => {
  it('answers with the bounds as they are and with others, and changes nothing', async () => {
    const { question, store } = await bed();
    const before = await store.readState('ns#m', NEVER);
    const response = await question({ group: 'ns#m', rate_requests_per_second: 5 });
    expect(response.status).toBe(200);
    const { present, other, changed } = (await response.json()) as ConsoleWhatIf;
    expect([present.targets, other.targets, changed]).toEqual([{ decode: 4 }, { decode: 8 }, false]);
    expect(other.reason).toContain('8 needed');
    expect(await store.readState('ns#m', NEVER)).toEqual(before);
    expect(await store.decisions('ns#m', { sinceMs: 0 }, NEVER)).toMatchObject([{ decisionId: 0 }]);
  });

  it.each([
    [{ max_gpu_budget: 'many' }, 400, 'max_gpu_budget'],
    [{ max_gpu_budget: -2 }, 400, 'max_gpu_budget'],
    [{ spot_share: 1 }, 400, 'spot_share'],
    [{ min_endpoint: 40 }, 400, 'exceeding max_gpu_budget=32'],
    [{ prefill_min_endpoint: 2 }, 400, 'not for mode agg'],
    [{ group: 'none' }, 404, 'none'],
  ])('refuses %j with %i', async (body, status, part) => {
    const { question } = await bed();
    const response = await question(body);
    expect(response.status).toBe(status);
    expect(await response.text()).toContain(part);
  });

  it('is for JSON, by POST, and for operators', async () => {
    const { question, ask } = await bed();
    expect((await question({}, 'text/plain')).status).toBe(415);
    expect((await ask(QUESTION)).status).toBe(405);
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' };
    expect((await ask(QUESTION, init, '10.0.0.7')).status).toBe(403);
    expect((await ask('/console/api?view=planner', {}, '10.0.0.7')).status).toBe(403);
  });

  it('answers 503 with the reason while the records cannot be read', async () => {
    const { question } = await bed({ opens: () => Promise.reject(new Error('the planner has not started yet')) });
    const response = await question({});
    expect(response.status).toBe(503);
    expect(await response.text()).toContain('the planner has not started yet');
    const late = await bed({ opens: () => new Promise(() => {}) });
    const asked = late.question({});
    await waitUntil(() => late.clock.pendingTimers > 0);
    await late.clock.advance(5000);
    expect((await asked).status).toBe(503);
  });

  it('says so if the planner keeps its state to itself', async () => {
    const { question, store } = await bed();
    const tick = { atMs: 1, reason: '', figures: {} };
    await store.commit('local#m', { version: 0, state: 'next 3', tick }, NEVER);
    const response = await question({ group: 'local#m' });
    expect(response.status).toBe(501);
    expect(await response.text()).toContain('ask the console of that process');
  });
});

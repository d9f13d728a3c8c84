import { describe, expect, it } from 'vitest';
import type { FleetLoads } from '../../../shared/discovery/index.ts';
import type { RoutableWorker } from '../../../shared/router/index.ts';
import { Inhibition } from '../../../shared/scheduler/index.ts';
import { StatelessRouter } from '../../../shared/stateless-router/index.ts';
import { choose } from '../../support/router/choose.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { prompt, request, worker } from '../router-service/resident-rig.ts';

const MANY = Array.from({ length: 32 }, (_, at) => worker((0x1000 + 7919 * at).toString(16)));
const SYSTEM = prompt(200);

function loadsOf(requestsOf: (worker: RoutableWorker) => number): FleetLoads {
  return new Map(
    MANY.map((each) => {
      const requests = requestsOf(each);
      const rank = { dpRank: 0, requests, decodeBlocks: 20 * requests, prefillTokens: 0 };
      return [each.id, { ranks: [rank], isDraining: false }];
    }),
  );
}

/** A process that has its own memory of what it saw. */
function process(
  loads: () => FleetLoads = () => new Map(),
  clock = new VirtualClock(),
  inhibition = new Inhibition(clock, 5000),
) {
  return new StatelessRouter<RoutableWorker>({ clock, loads, inhibition });
}

/** A system prompt that all share, then `tokens` of the user's own. */
function asked(user: number, tokens: number): Uint32Array {
  return Uint32Array.from([...SYSTEM, ...prompt(tokens, 1 + user)]);
}

describe('a herd', () => {
  const views: readonly (readonly [string, FleetLoads])[] = [
    ['knows nothing of the loads', new Map()],
    ['sees an idle fleet', loadsOf(() => 0)],
    ['sees a fleet that is loaded evenly', loadsOf(() => 8)],
  ];
  it.each(views.flatMap(([what, loads]) => [10, 400].map((tokens) => [what, tokens, loads] as const)))(
    'of 500 functions that each %s spreads prompts with %i words of their own over the fleet',
    async (_, tokens, loads) => {
      const counts = new Map<string, number>();
      for (let at = 0; at < 500; at++) {
        const held = await choose(
          process(() => loads),
          request(`r${at}`, asked(at, tokens)),
          MANY,
        );
        counts.set(held.worker.id, (counts.get(held.worker.id) ?? 0) + 1);
      }
      expect(Math.max(...counts.values())).toBeLessThanOrEqual((2.5 * 500) / MANY.length);
    },
  );
});

describe('processes that have seen some requests', () => {
  /** Those that have served ten other users. */
  async function seasoned(count: number) {
    const processes = Array.from({ length: count }, () => process(() => loadsOf(() => 4)));
    for (const [at, each] of processes.entries()) {
      for (let user = 0; user < 10; user++)
        await choose(each, request(`w${at}/${user}`, asked(100 * at + user, 900)), MANY);
    }
    return processes;
  }

  it('send a conversation to its worker at every turn, from any process', async () => {
    const chosen = new Set<string>();
    for (const [turn, each] of (await seasoned(12)).entries()) {
      const held = await choose(each, request(`turn ${turn}`, asked(99_999, 400 + 300 * turn)), MANY);
      chosen.add(held.worker.id);
    }
    expect(chosen.size).toBe(1);
  });

  it('send a session to its worker, whatever its prompts, and what has one cache key to few', async () => {
    const placed = async (key: 'session_id' | 'prompt_cache_key', isOfOne: boolean) => {
      const chosen = new Set<string>();
      for (const [at, each] of (await seasoned(12)).entries()) {
        const routing = { [key]: isOfOne ? 'one' : `${at}` };
        const held = await choose(each, request(`r${at}`, asked(5000 + at, 400), { routing }), MANY);
        chosen.add(held.worker.id);
      }
      return chosen.size;
    };
    expect(await placed('session_id', true)).toBe(1);
    expect(await placed('prompt_cache_key', true)).toBe(1);
    expect(await placed('session_id', false)).toBeGreaterThan(6);
  });

  it('send a chat to its worker by how it began, whatever they have seen themselves, and what all begin with to many', async () => {
    const chat = (user: string) => [
      { role: 'system', content: 'You are kind.' },
      { role: 'user', content: user },
    ];
    const placed = async (ask: (at: number) => { readonly user: string; readonly tokens: Uint32Array }) => {
      const chosen = new Set<string>();
      for (let at = 0; at < 64; at++) {
        const each = process(() => loadsOf(() => 4));
        for (let seen = 0; seen < 1 + (at % 3); seen++)
          await choose(each, request(`s${at}/${seen}`, asked(1000 * at + seen, 40 * at)), MANY);
        const { user, tokens } = ask(at);
        const held = await choose(each, request(`r${at}`, tokens, { messages: chat(user) }), MANY);
        chosen.add(held.worker.id);
      }
      return chosen.size;
    };
    expect(await placed((turn) => ({ user: 'Who are you?', tokens: asked(99_999, 100 + 300 * turn) }))).toBe(1);
    expect(await placed((at) => ({ user: `I am number ${at}`, tokens: asked(5000 + at, 400) }))).toBeGreaterThan(20);
    const same = new Set<string>();
    const each = process(() => loadsOf(() => 4));
    for (let at = 0; at < 200; at++)
      same.add((await choose(each, request(`m${at}`, asked(1, 400), { messages: chat('the same') }), MANY)).worker.id);
    expect(same.size).toBe(MANY.length); // all of the traffic that this process sees begins so
  });

  it('pass over workers that are loaded above their share, drain, failed, or may not take it', async () => {
    const clock = new VirtualClock();
    let loads = loadsOf(() => 4);
    const inhibition = new Inhibition(clock, 5000);
    const each = process(() => loads, clock, inhibition);
    for (let user = 0; user < 10; user++) await choose(each, request(`w${user}`, asked(user, 900)), MANY);
    let turns = 0;
    const turn = (id: string, more = {}) => choose(each, request(id, asked(77, 2000 + 50 * turns++), more), MANY);
    const { worker: home } = await turn('home');
    await clock.advance(2000);
    expect((await turn('again')).worker).toBe(home);
    loads = loadsOf(({ id }) => (id === home.id ? 50 : 4));
    expect((await turn('loaded')).worker).not.toBe(home);
    const idle = loadsOf(() => 4);
    loads = new Map([...idle].map(([id, load]) => [id, { ...load, isDraining: id === home.id }]));
    expect((await turn('draining')).worker).not.toBe(home);
    loads = loadsOf(() => 4);
    await clock.advance(2000);
    expect((await turn('back')).worker).toBe(home);
    expect((await turn('failed', { excluded: new Set([home.id]) })).worker).not.toBe(home);
    expect((await turn('pinned', { routing: { backend_instance_id: MANY[7]?.id } })).worker).toBe(MANY[7]);
    inhibition.add(home.id);
    expect((await turn('inhibited')).worker).not.toBe(home);
  });

  it('count what they sent themselves until the workers can have said so', async () => {
    const clock = new VirtualClock();
    const each = process(() => loadsOf(() => 0), clock);
    const sent = async (id: string) => (await choose(each, request(id, asked(77, 20_000)), MANY)).worker;
    for (let user = 0; user < 10; user++) await choose(each, request(`w${user}`, asked(user, 900)), MANY);
    const first = await sent('a');
    expect(await sent('b')).not.toBe(first);
    await clock.advance(1000);
    expect(await sent('c')).toBe(first);
  });

  it('find no worker in an unknown pool', async () => {
    const alone = process();
    await expect(alone.choose(request('r', SYSTEM), new AbortController().signal)).rejects.toMatchObject({
      code: 'service_unavailable',
    });
    await expect(choose(alone, request('r', SYSTEM), [])).rejects.toMatchObject({ code: 'service_unavailable' });
    alone.removePool(request('r', SYSTEM).pool);
  });
});

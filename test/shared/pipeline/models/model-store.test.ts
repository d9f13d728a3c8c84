import { beforeEach, describe, expect, it } from 'vitest';
import { ModelStore, type RoutableModel } from '../../../../shared/pipeline/index.ts';
import type { ModelStoreOptions } from '../../../../shared/pipeline/models/model-store.ts';
import type { LoadedModel } from '../../../../shared/tokens/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { letterModel, model } from '../fixtures.ts';

const RETRY_MS = 5000;

let clock: VirtualClock;
let opened: string[];
let failures: string[];
let problem: Error | undefined;

beforeEach(() => {
  clock = new VirtualClock();
  opened = [];
  failures = [];
  problem = undefined;
});

function storeOf(more: Partial<ModelStoreOptions> = {}): ModelStore {
  return new ModelStore({
    open: async ({ card }): Promise<LoadedModel> => {
      opened.push(card.display_name);
      await clock.sleep(100);
      if (problem !== undefined) throw problem;
      return { ...letterModel, path: `/${card.display_name}` };
    },
    clock,
    onFailure: (name, reason) => failures.push(`${name}: ${reason}`),
    ...more,
  });
}

function named(name: string, more: Partial<RoutableModel> = {}): RoutableModel {
  const base = model();
  return model({
    name,
    primaryName: name,
    mdcSum: `sum of ${name}`,
    card: { ...base.card, display_name: name },
    ...more,
  });
}

/** The loaded model, whether it is there already or not; the clock moves as long as loading takes. */
async function load(store: ModelStore, one: RoutableModel): Promise<LoadedModel> {
  const got = store.get(one);
  await clock.advance(100);
  return got;
}

describe('a model', () => {
  it('is loaded once for all who ask meanwhile, and given to all who ask afterwards', async () => {
    const store = storeOf();
    const [first, second] = [store.get(named('a')), store.get(named('a'))];
    await clock.advance(100);
    const loaded = await first;
    expect(await second).toBe(loaded);
    expect(await store.get(named('a'))).toBe(loaded);
    expect(await store.get(named('alias', { mdcSum: 'sum of a' }))).toBe(loaded);
    expect(opened).toEqual(['a']);
  });

  it('that cannot be opened fails everyone who waits, and is not tried again too soon', async () => {
    const store = storeOf({ retryAfterMs: RETRY_MS });
    problem = new Error('/m/tokenizer.json is missing');
    const waiting = Promise.allSettled([store.get(named('a')), store.get(named('a'))]);
    await clock.advance(100);
    const expected = {
      code: 'service_unavailable',
      message: 'Model `a` cannot be loaded by the frontend',
      cause: problem,
    };
    for (const outcome of await waiting) expect(outcome).toMatchObject({ status: 'rejected', reason: expected });
    await clock.advance(RETRY_MS - 1);
    await expect(store.get(named('a'))).rejects.toMatchObject(expected);
    expect([opened.length, failures]).toEqual([1, ['a: /m/tokenizer.json is missing']]);

    problem = undefined;
    await clock.advance(1);
    expect((await load(store, named('a'))).path).toBe('/a');
    expect(opened).toHaveLength(2);
  });

  it('leaves when there are too many and it was used longest ago', async () => {
    const store = storeOf({ modelsMax: 2 });
    await load(store, named('a'));
    await load(store, named('b'));
    await load(store, named('a'));
    await load(store, named('c'));
    expect(opened).toEqual(['a', 'b', 'c']);
    await load(store, named('a'));
    expect(opened).toHaveLength(3);
    await load(store, named('b'));
    expect(opened).toEqual(['a', 'b', 'c', 'b']);
  });

  it('that is pushed out while it loads is still given to those who wait for it', async () => {
    const store = storeOf({ modelsMax: 1 });
    const [first, second] = [store.get(named('a')), store.get(named('b'))];
    await clock.advance(100);
    expect([(await first).path, (await second).path]).toEqual(['/a', '/b']);
  });
});

describe('loading ahead', () => {
  it('is not loaded ahead before a worker serves it, from which to fetch it', async () => {
    const store = storeOf();
    store.prefetch([named('a', { workers: [] })]);
    await clock.advance(100);
    expect(opened).toEqual([]);
    store.prefetch([named('a')]);
    expect(opened).toEqual(['a']);
  });

  it('covers every model of tokens once, and no other', async () => {
    const store = storeOf();
    const base = model().card;
    const text = named('t', { card: { ...base, display_name: 't', model_input: 'Text' } });
    store.prefetch([named('a'), named('alias', { mdcSum: 'sum of a' }), text, named('b')]);
    store.prefetch([named('a')]);
    await clock.advance(100);
    expect(opened).toEqual(['a', 'b']);
    expect(await store.get(named('b'))).toMatchObject({ path: '/b' });
  });

  it('tells of a failure and leaves it to the next request', async () => {
    const store = storeOf({ retryAfterMs: RETRY_MS });
    problem = new Error('no folder');
    store.prefetch([named('a')]);
    await clock.advance(100);
    expect(failures).toEqual(['a: no folder']);
    problem = undefined;
    await clock.advance(RETRY_MS);
    store.prefetch([named('a')]);
    expect(opened).toHaveLength(1);
    expect((await load(store, named('a'))).path).toBe('/a');
  });

  it('pushes nothing out', async () => {
    const store = storeOf({ modelsMax: 2 });
    store.prefetch([named('a'), named('b'), named('c')]);
    await clock.advance(100);
    store.prefetch([named('a'), named('b'), named('c')]);
    expect(opened).toEqual(['a', 'b']);
    expect((await load(store, named('c'))).path).toBe('/c');
  });
});

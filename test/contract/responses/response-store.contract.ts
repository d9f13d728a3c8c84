import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import type { ResponseStore, StoredResponse } from '../../../shared/responses/index.ts';
import { countTurns } from '../../support/count-turns.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

/** One store for one test, with the clock that its records age by. */
export interface StoreUnderTest {
  readonly store: ResponseStore;
  /** Lets wall time pass for the records. */
  age(ms: number): Promise<void>;
  close(): Promise<void>;
}

/** Life of a record in every implementation under test. */
export const TTL_MS = 60_000;

let counter = 0;

/** A record with an id of its own. */
export function someResponse(overrides: Partial<StoredResponse> = {}): StoredResponse {
  const id = `resp_${String(counter++).padStart(32, '0')}`;
  return {
    id,
    owner: '',
    response: {
      id,
      object: 'response',
      output: [{ type: 'message', content: [{ type: 'output_text', text: 'é\u0000' }] }],
    },
    input: [{ type: 'message', role: 'user', content: 'hi' }],
    ...overrides,
  };
}

/** Tests what every `ResponseStore` does. */
export function describeResponseStore(name: string, open: () => Promise<StoreUnderTest>): void {
  describe(`${name} response store`, () => {
    let opened: StoreUnderTest | undefined;
    const start = async (): Promise<StoreUnderTest> => {
      opened = await open();
      return opened;
    };
    afterEach(async () => {
      await opened?.close();
      opened = undefined;
    });

    it('gives back what was put, whatever happens to the original object', async () => {
      const { store } = await start();
      const input: Record<string, unknown>[] = [{ type: 'message', role: 'user', content: 'hi' }];
      const record = someResponse({ input });
      const expected = structuredClone(record);
      await store.put(record);
      input.push({ type: 'later' });
      expect(await store.get(record.id, '')).toEqual(expected);
    });

    it('gives back how the answer was told', async () => {
      const { store } = await start();
      const record = someResponse({ pieces: [[3, 1], []] });
      await store.put(record);
      expect(await store.get(record.id, '')).toEqual(record);
    });

    it('writes and reads a large record in several turns, and only one of two', async () => {
      const { store } = await start();
      const record = someResponse({ input: Array.from({ length: 120_000 }, (_, at) => ({ at })) });
      const { turns, result } = await countTurns(Promise.allSettled([store.put(record), store.put(record)]));
      expect(turns).toBeGreaterThan(15);
      const conflict = expect.objectContaining({ code: 'conflict' });
      const ends = result.map((put) => (put.status === 'rejected' ? put.reason : 'kept'));
      expect(ends).toEqual(expect.arrayContaining(['kept', conflict]));
      const read = await countTurns(store.get(record.id, ''));
      expect(read.turns).toBeGreaterThan(15);
      expect(read.result).toEqual(record);
    });

    it('knows nothing of an id that was never put', async () => {
      const { store } = await start();
      expect(await store.get('resp_none', '')).toBeUndefined();
      expect(await store.delete('resp_none', '')).toBe(false);
    });

    it('replaces nothing, not even for the same owner, until the record is deleted', async () => {
      const { store } = await start();
      const record = someResponse();
      const other = { ...record, response: { status: 'cancelled' } };
      await store.put(record);
      await expect(store.put(other)).rejects.toMatchObject({ code: 'conflict' });
      expect(await store.get(record.id, '')).toEqual(record);
      await store.delete(record.id, '');
      await store.put(other);
      expect(await store.get(record.id, '')).toEqual(other);
    });

    it('hides a record from every other owner and protects it from them', async () => {
      const { store } = await start();
      const record = someResponse({ owner: 'key-a' });
      await store.put(record);
      expect(await store.get(record.id, 'key-b')).toBeUndefined();
      expect(await store.get(record.id, '')).toBeUndefined();
      expect(await store.delete(record.id, 'key-b')).toBe(false);
      await expect(store.put({ ...record, owner: 'key-b' })).rejects.toMatchObject({ code: 'conflict' });
      expect(await store.get(record.id, 'key-a')).toEqual(record);
    });

    it('deletes once', async () => {
      const { store } = await start();
      const record = someResponse();
      await store.put(record);
      expect(await store.delete(record.id, '')).toBe(true);
      expect(await store.get(record.id, '')).toBeUndefined();
      expect(await store.delete(record.id, '')).toBe(false);
    });

    it('forgets a record when its time is over, and then anyone may have the id', async () => {
      const { store, age } = await start();
      const record = someResponse({ owner: 'key-a' });
      await store.put(record);
      await age(TTL_MS - 1);
      expect(await store.get(record.id, 'key-a')).toEqual(record);
      await age(1);
      expect(await store.get(record.id, 'key-a')).toBeUndefined();
      expect(await store.delete(record.id, 'key-a')).toBe(false);
      await store.put({ ...record, owner: 'key-b' });
      expect((await store.get(record.id, 'key-b'))?.owner).toBe('key-b');
    });

    it('keeps a record of a megabyte that hardly compresses, and deletes all of it', async () => {
      const { store } = await start();
      const bytes = new Uint8Array(1024 * 1024);
      for (let at = 0, state = 1; at < bytes.length; at++) {
        state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
        bytes[at] = state >>> 24;
      }
      const record = someResponse({ response: { text: Buffer.from(bytes).toString('base64') } });
      await store.put(record);
      expect(await store.get(record.id, '')).toEqual(record);
      expect(await store.delete(record.id, '')).toBe(true);
      expect(await store.get(record.id, '')).toBeUndefined();
    });

    it('does nothing for a caller that has left', async () => {
      const { store } = await start();
      const left = AbortSignal.abort(new Error('left'));
      const record = someResponse();
      await expect(store.put(record, left)).rejects.toThrow('left');
      await expect(store.get(record.id, '', left)).rejects.toThrow('left');
      await expect(store.delete(record.id, '', left)).rejects.toThrow('left');
      expect(await store.get(record.id, '')).toBeUndefined();
    });

    it('agrees with a plain map over any sequence of calls', async () => {
      const { store } = await start();
      const ids = [someResponse().id, someResponse().id, someResponse().id];
      const model = new Map<string, StoredResponse>();
      const step = fc.record({
        kind: fc.constantFrom('put', 'get', 'delete'),
        id: fc.constantFrom(...ids),
        owner: fc.constantFrom('', 'a'),
        value: fc.jsonValue(),
      });
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
          for (const { kind, id, owner, value } of steps) await playStep(store, model, { kind, id, owner, value });
        }),
        { numRuns: 15, seed: 7 },
      );
    });
  });
}

interface Step {
  readonly kind: string;
  readonly id: string;
  readonly owner: string;
  readonly value: unknown;
}

async function playStep(store: ResponseStore, model: Map<string, StoredResponse>, step: Step): Promise<void> {
  const { kind, id, owner, value } = step;
  const known = model.get(id);
  const visible = known?.owner === owner ? known : undefined;
  if (kind === 'get') {
    expect(await store.get(id, owner)).toEqual(visible);
  } else if (kind === 'delete') {
    expect(await store.delete(id, owner)).toBe(visible !== undefined);
    if (visible !== undefined) model.delete(id);
  } else if (known !== undefined) {
    await expect(store.put({ id, owner, response: { value }, input: [] })).rejects.toMatchObject({ code: 'conflict' });
  } else {
    // As JSON knows it: -0 is 0 there.
    const record = JSON.parse(JSON.stringify({ id, owner, response: { value }, input: [] })) as StoredResponse;
    await store.put(record);
    model.set(id, record);
  }
}

/** A clock of wall and monotonic time that a test moves. */
export function recordClock(): { readonly clock: VirtualClock; age(ms: number): Promise<void> } {
  const clock = new VirtualClock();
  return { clock, age: (ms) => clock.advance(ms) };
}

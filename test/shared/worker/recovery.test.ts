import { describe, expect, it } from 'vitest';
import { BlockIndex, RankTable } from '../../../shared/block-index/index.ts';
import type { KvEvent } from '../../../shared/engines/index.ts';
import type { ServeError } from '../../../shared/errors/index.ts';
import type { IncomingCall } from '../../../shared/planes/index.ts';
import type { EngineOutput } from '../../../shared/protocol/index.ts';
import { EventRing, RankJournal, RecoveryService } from '../../../shared/worker/events/rank-journal.ts';
import type { RecoveryResponse } from '../../../shared/worker-events/index.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { applyTo, decodeAnswer, heldBy } from '../worker-events/scripted-rank.ts';

const WHO = { worker_id: '2748', dp_rank: 0 };

/** A journal with `count` events, each storing `blocks` blocks at the start of a prompt. */
function journalOf(count: number, blocks = 1): RankJournal {
  const ranks = new RankTable();
  const rank = ranks.intern('abc', 0);
  const journal = new RankJournal({
    dpRank: 0,
    index: new BlockIndex({ ranks }),
    rank,
    workerId: '2748',
    publisherId: 'p',
  });
  for (let at = 0; at < count; at++) journal.append(stored(at, blocks));
  return journal;
}

function stored(salt: number, blocks: number): KvEvent {
  const pairs = (low: number): Uint32Array =>
    Uint32Array.from({ length: 2 * blocks }, (_, word) => (word % 2 === 0 ? salt * blocks + word / 2 : low));
  return { kind: 'stored', dpRank: 0, parentHash: undefined, blockHashes: pairs(1), tokensHashes: pairs(2) };
}

/** What a router holds that applies all of it in order: low halves of the names. */
function held(parts: readonly RecoveryResponse[]): number[] {
  const ranks = new RankTable();
  const index = new BlockIndex({ ranks });
  const rank = ranks.intern('abc', 0);
  const answer = decodeAnswer(parts);
  if ('events' in answer) for (const { change } of answer.events) applyTo(index, rank, change);
  return heldBy(index, rank);
}

/** What is sent: an answer has slices without a part, too. */
function partsOf(answer: Iterable<RecoveryResponse | undefined>): RecoveryResponse[] {
  return [...answer].flatMap((part) => part ?? []);
}

function idsOf(parts: readonly RecoveryResponse[]): number[] {
  return parts.flatMap((part) => ('Events' in part ? part.Events.events.map(({ event }) => event.event_id) : []));
}

describe('what a rank answers', () => {
  it('is the events asked for, as long as it keeps them (case 27)', () => {
    const journal = journalOf(20);
    const parts = partsOf(journal.answer({ ...WHO, start_event_id: 12, end_event_id: 15 }));
    expect(idsOf(parts)).toEqual([12, 13, 14, 15]);
    expect(parts.at(-1)).toMatchObject({ Events: { last_event_id: 15 }, publisher_id: 'p' });
    expect(idsOf(partsOf(journal.answer({ ...WHO, start_event_id: 19 })))).toEqual([19, 20]);
  });

  it('is every block that it holds when the events are gone, or none were asked for (case 27)', () => {
    const journal = journalOf(1500);
    for (const request of [WHO, { ...WHO, start_event_id: 5 }]) {
      const parts = partsOf(journal.answer(request));
      const blocks = parts.flatMap((part) => ('TreeDump' in part ? part.TreeDump.events : []));
      expect(blocks).toHaveLength(1500);
      expect(parts.at(-1)).toMatchObject({ TreeDump: { last_event_id: 1500 } });
    }
  });

  it('is that it holds nothing before its first event', () => {
    expect(partsOf(journalOf(0).answer(WHO))).toEqual([
      { TreeDump: { events: [], last_event_id: 0 }, publisher_id: 'p' },
    ]);
    expect(partsOf(journalOf(0).answer({ ...WHO, start_event_id: 1 }))).toHaveLength(1);
  });

  it('is its newest event when more is asked for, and a refusal of ranges that run backwards (case 27)', () => {
    const journal = journalOf(20);
    expect(partsOf(journal.answer({ ...WHO, start_event_id: 30 }))).toEqual([
      { TooNew: { requested_start: 30, requested_end: null, newest_available: 20 }, publisher_id: 'p' },
    ]);
    expect(partsOf(journal.answer({ ...WHO, start_event_id: 9, end_event_id: 3 }))).toEqual([
      { InvalidRange: { start_id: 9, end_id: 3 }, publisher_id: 'p' },
    ]);
  });

  it('goes on while events are published, and is put right by those after it', () => {
    const journal = journalOf(4, 10_000);
    const answer = journal.answer(WHO);
    const first = answer.next().value as RecoveryResponse | undefined;
    journal.append({ kind: 'removed', dpRank: 0, blockHashes: Uint32Array.of(10_000, 1) }); // of the second prompt, the start
    journal.append(stored(5000, 10));
    const parts = partsOf([first, ...answer]);
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.at(-1)).toMatchObject({ TreeDump: { last_event_id: 4 } });
    const later = partsOf(journal.answer({ ...WHO, start_event_id: 5 }));
    expect(held([...parts, ...later])).toEqual(held(partsOf(journal.answer(WHO))));
    expect(held(partsOf(journal.answer(WHO))).length).toBe(30_010);
  });

  it('ends where the rank is cleared while it is made', () => {
    const journal = journalOf(4, 10_000);
    const answer = journal.answer(WHO);
    const first = answer.next().value as RecoveryResponse | undefined;
    journal.append({ kind: 'cleared', dpRank: 0 });
    const parts = partsOf([first, ...answer]);
    expect(held([...parts, ...partsOf(journal.answer({ ...WHO, start_event_id: 5 }))])).toEqual([]);
  });

  it('tells in which tier a block is', () => {
    const journal = journalOf(0);
    const { blockHashes, tokensHashes } = stored(0, 2) as Extract<KvEvent, { kind: 'stored' }>;
    journal.append({ kind: 'stored', dpRank: 0, tier: 'disk', parentHash: undefined, blockHashes, tokensHashes });
    expect(partsOf(journal.answer(WHO))).toMatchObject([{ TreeDump: { events: [{ storage_tier: 'disk' }] } }]);
  });
});

describe('the events that a rank keeps', () => {
  it('are the last 1,024', () => {
    const ring = new EventRing();
    for (let at = 1; at <= 2000; at++) expect(ring.add({ kind: 'cleared', dpRank: 0 })).toBe(at);
    expect([ring.oldest, ring.newest]).toEqual([977, 2000]);
    expect(() => ring.at(976)).toThrow('event 976 is not kept');
  });

  it('are fewer when they are large', () => {
    const ring = new EventRing();
    const large = stored(0, 1 << 16); // one is enough: making a hundred takes seconds
    for (let at = 0; at < 100; at++) ring.add(large);
    expect(ring.newest - ring.oldest + 1).toBe(16);
  });
});

/** A router's call that takes no output until it is let to. */
class HeldCall implements IncomingCall {
  readonly id = 'r';
  readonly endpoint = 'q';
  readonly headers = {};
  readonly deadlineMs = undefined;
  readonly tokenIds = undefined;
  readonly #stop = new AbortController();
  readonly signal = this.#stop.signal;
  readonly stopped = this.signal;
  readonly isStopped = false;
  readonly wasMoved = false;
  readonly hearsMoves = true;
  readonly body: unknown;
  readonly outputs: EngineOutput[] = [];
  hasEnded = false;
  error: ServeError | undefined;
  #isBlocked = true;
  #onUnblocked: () => void = () => {};

  constructor(body: unknown) {
    this.body = body;
  }

  release(): void {
    this.#isBlocked = false;
    this.#onUnblocked();
  }

  leave(): void {
    this.#stop.abort();
  }

  accept(): void {}

  askToMove(): void {}

  tokens(): void {}

  output(output: EngineOutput): void {
    this.outputs.push(output);
  }

  end(): void {
    this.hasEnded = true;
  }

  fail(error: ServeError): void {
    this.error = error;
  }

  isBlocked(): boolean {
    return this.#isBlocked;
  }

  onUnblocked(callback: () => void): void {
    this.#onUnblocked = callback;
  }
}

describe('a recovery endpoint', () => {
  function ask(service: RecoveryService, journal: RankJournal, body: unknown): HeldCall {
    const call = new HeldCall(body);
    service.serve(journal, call);
    return call;
  }

  it('answers eight dumps at once and asks others to come again', async () => {
    const service = new RecoveryService();
    const journal = journalOf(10);
    const dumps = Array.from({ length: 9 }, () => ask(service, journal, WHO));
    expect(dumps.map(({ error }) => error?.worker)).toEqual([...Array(8).fill(undefined), 'WorkerOverloaded']);
    expect(dumps.flatMap(({ outputs }) => outputs)).toEqual([]); // nobody takes them yet
    for (const dump of dumps) dump.release();
    await waitUntil(() => dumps.filter(({ hasEnded }) => hasEnded).length === 8);
    const later = ask(service, journal, WHO);
    later.release();
    await waitUntil(() => later.hasEnded);
    expect(later.outputs).toHaveLength(1);
  });

  it('makes one part of a dump a turn, and none for a router that is gone', async () => {
    const journal = journalOf(20_000);
    const call = ask(new RecoveryService(), journal, WHO);
    call.release();
    const perTurn: number[] = [];
    while (!call.hasEnded) {
      const before = call.outputs.length;
      await new Promise(setImmediate);
      perTurn.push(call.outputs.length - before);
    }
    expect(Math.max(...perTurn)).toBe(1);
    expect(perTurn.length).toBeGreaterThan(15);
    const left = ask(new RecoveryService(), journal, WHO);
    left.release();
    await new Promise(setImmediate);
    left.leave();
    await waitUntil(() => left.hasEnded);
    expect(left.outputs.length).toBeLessThan(5);
  });

  it.each([[7], [null], [{ start_event_id: 'one' }], [{ start_event_id: -1 }], [{ end_event_id: 1.5 }]])(
    'refuses %o',
    (body) => {
      expect(ask(new RecoveryService(), journalOf(1), body).error?.worker).toBe('InvalidArgument');
    },
  );
});

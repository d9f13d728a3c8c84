import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startBrokerSession } from '../support/fuzz/broker-session.ts';
import { startListenerFleet } from '../support/fuzz/listener-fleet.ts';
import { type PartCase, partOf, playPart } from '../support/fuzz/parts.ts';
import { type FuzzSession, startFuzzSession } from '../support/fuzz/session.ts';

/** Cases that failed once, and are played for ever: `npm run fuzz -- --keep` adds to them. */
const KEPT = JSON.parse(readFileSync(new URL('../fixtures/fuzz-seeds.json', import.meta.url), 'utf8')) as {
  readonly parts: readonly PartCase[];
  readonly sessions: readonly number[];
  readonly brokers: readonly number[];
  readonly listeners: readonly number[];
};
const PARTS = 3000;
const SESSIONS = 200;
const BATCH = 20;
const BROKER_ROUNDS = 20;
const LISTENER_CASES = 160;
/** Cases that end with a refusal take the two seconds that a refused client may linger: many wait at once. */
const LISTENERS_AT_ONCE = 40;
/** Generous: the machine runs other tests. */
const LIVE_MS_MAX = 5000;
/** Brokers promise and send more than this at once. */
const BROKER_RSS_BYTES_MAX = 512 * 1024 * 1024;
const RSS_BYTES_MAX = 1024 * 1024 * 1024;

const seedsTo = (count: number): readonly number[] => Array.from({ length: count }, (_, seed) => seed);

describe('hostile input', () => {
  it('is read or refused by every reader', () => {
    for (const drawn of [...KEPT.parts, ...seedsTo(PARTS).map(partOf)]) {
      expect(() => playPart(drawn), `${drawn.part}, seed ${drawn.seed}`).not.toThrow();
    }
  });

  describe('of clients, workers and writers of discovery', () => {
    let session: FuzzSession;
    beforeAll(async () => {
      session = await startFuzzSession(1);
    });
    afterAll(() => session.close());

    it('gets answers with envelopes, and leaves a frontend that lives and holds no connection', async () => {
      const before = await session.look();
      const seeds = [...KEPT.sessions, ...seedsTo(SESSIONS)];
      for (let from = 0; from < seeds.length; from += BATCH) {
        await Promise.all(seeds.slice(from, from + BATCH).map((seed) => session.play(seed)));
      }
      const after = await session.look(); // throws where the frontend is gone, silent or says that it has a bug
      expect(after.rssBytes).toBeLessThan(RSS_BYTES_MAX);
      expect(after.liveMs).toBeLessThan(LIVE_MS_MAX);
      expect(after.openFiles - before.openFiles).toBeLessThan(BATCH);
    });
  });

  it('leaves every listener of a fleet answering honest clients, and holds no connection', {
    timeout: 120_000,
  }, async () => {
    const fleet = await startListenerFleet();
    try {
      const seeds = [...KEPT.listeners, ...seedsTo(LISTENER_CASES)];
      for (let from = 0; from < seeds.length; from += LISTENERS_AT_ONCE) {
        await Promise.all(seeds.slice(from, from + LISTENERS_AT_ONCE).map((seed) => fleet.play(seed)));
      }
      expect((await fleet.look()).rssBytes).toBeLessThan(RSS_BYTES_MAX);
    } finally {
      await fleet.close();
    }
  });

  it.each([1, ...KEPT.brokers])(
    'of brokers and publishers of events leaves frontends that serve, seed %d',
    async (seed) => {
      const session = await startBrokerSession(seed);
      try {
        for (let round = 0; round < BROKER_ROUNDS; round++) {
          await Promise.all(Array.from({ length: 5 }, () => session.play()));
        }
        for (const { liveMs, rssBytes } of await session.look()) {
          expect(liveMs).toBeLessThan(LIVE_MS_MAX);
          expect(rssBytes).toBeLessThan(BROKER_RSS_BYTES_MAX);
        }
      } finally {
        await session.close();
      }
    },
  );
});

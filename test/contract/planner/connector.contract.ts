import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import type { Connector } from '../../../shared/planner/index.ts';
import { handTargets, isDone, planOf } from '../../support/planner/hand-over.ts';

const NEVER = new AbortController().signal;

/** Workers that a connector scales. */
export interface Fleet {
  /** Opens a connector that knows nothing of those before it. */
  connect(): Connector;
  /** Carries out the last target. */
  carryOut(): Promise<void>;
  /** Makes it another number of workers, behind the connector's back. */
  changeByHand(count: number): Promise<void>;
  /** Number of workers that the connector asked for last; undefined before the first target. */
  readonly wanted: number | undefined;
  /** Number of targets that it received. */
  readonly changes: number;
  /** Present time in Unix milliseconds, for a connector that plans by it. @default 0 */
  readonly nowMs?: number;
  close(): Promise<void>;
}

export interface ConnectorTraits {
  /** Takes no other targets before the last ones are carried out. */
  readonly waits: boolean;
  /** Orders of events that are tried. */
  readonly runs: number;
}

/** Rounds of a planner in which a connector must carry out what it is handed. */
const ROUNDS = 4;

/** Hands a target over again until it is carried out, as the planner does. */
async function handOver(fleet: Fleet, connector: Connector, decode: number): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    await handTargets(connector, { decode }, fleet.nowMs);
    await fleet.carryOut();
    if (await isDone(connector, { decode }, fleet.nowMs)) return;
  }
  throw new Error(`${decode} workers are not carried out after ${ROUNDS} rounds`);
}

/** Tests what every connector promises. The fleet that it scales has no workers at first. */
export function describeConnector(name: string, open: () => Promise<Fleet>, { waits, runs }: ConnectorTraits): void {
  describe(`the ${name} connector`, () => {
    const opened: Fleet[] = [];
    const fleetOf = async (): Promise<Fleet> => {
      const fleet = await open();
      opened.push(fleet);
      return fleet;
    };
    afterEach(async () => {
      await Promise.all(opened.splice(0).map((fleet) => fleet.close()));
    });

    it('does nothing before the first decision, and has nothing left to do', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      await connector.observe(NEVER);
      expect(await isDone(connector, {}, fleet.nowMs)).toBe(true);
      expect(fleet.changes).toBe(0);
    });

    it('is settled once what it took is carried out, and not before', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      expect(await handTargets(connector, { decode: 2 }, fleet.nowMs)).toBe('accepted');
      expect(fleet.wanted).toBe(2);
      expect(await isDone(connector, { decode: 2 }, fleet.nowMs)).toBe(false);
      await fleet.carryOut();
      expect(await isDone(connector, { decode: 2 }, fleet.nowMs)).toBe(true);
    });

    it('says how many workers there are, or that it does not know', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      await handOver(fleet, connector, 2);
      const { pools } = await connector.observe(NEVER);
      if (pools !== undefined) expect(pools.decode).toMatchObject({ ready: 2, starting: 0, desired: 2 });
    });

    it('takes the same targets twice and tells the fleet once, carried out or not', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      await handTargets(connector, { decode: 2 }, fleet.nowMs);
      expect(await handTargets(connector, { decode: 2 }, fleet.nowMs)).toBe('accepted');
      await fleet.carryOut();
      expect(await handTargets(connector, { decode: 2 }, fleet.nowMs)).toBe('accepted');
      expect(fleet.changes).toBe(1);
    });

    it('leaves a pool alone that the targets say nothing of', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      await handOver(fleet, connector, 2);
      expect(await handTargets(connector, {}, fleet.nowMs)).toBe('accepted');
      expect(fleet).toMatchObject({ wanted: 2, changes: 1 });
      expect(await isDone(connector, {}, fleet.nowMs)).toBe(true);
    });

    it('scales to nothing and from nothing', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      for (const count of [1, 0, 1]) {
        await handOver(fleet, connector, count);
        expect(fleet.wanted).toBe(count);
        expect(await isDone(connector, { decode: count }, fleet.nowMs)).toBe(true);
      }
    });

    it(`${waits ? 'waits with' : 'takes'} other targets while the last ones are not carried out`, async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      await handTargets(connector, { decode: 2 }, fleet.nowMs);
      expect(await handTargets(connector, { decode: 1 }, fleet.nowMs)).toBe(waits ? 'waiting' : 'accepted');
      expect(fleet.wanted).toBe(waits ? 2 : 1);
      await handOver(fleet, connector, 1);
      expect(fleet.wanted).toBe(1);
      expect(await isDone(connector, { decode: 1 }, fleet.nowMs)).toBe(true);
    });

    it('tells the fleet again what it should be, if someone has changed it by hand', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      await handOver(fleet, connector, 2);
      await fleet.changeByHand(5);
      expect(await isDone(connector, { decode: 2 }, fleet.nowMs)).toBe(false);
      await handOver(fleet, connector, 2);
      expect(fleet.wanted).toBe(2);
      expect(await isDone(connector, { decode: 2 }, fleet.nowMs)).toBe(true);
    });

    it('plans the same for the same fleet, and does nothing by that', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      expect(await planOf(connector, { decode: 2 }, fleet.nowMs)).toEqual(
        await planOf(connector, { decode: 2 }, fleet.nowMs),
      );
      expect(fleet.changes).toBe(0);
    });

    it('begins anew without telling the fleet what it was told before', async () => {
      const fleet = await fleetOf();
      await handTargets(fleet.connect(), { decode: 2 }, fleet.nowMs);
      const successor = fleet.connect();
      expect(await handTargets(successor, { decode: 2 }, fleet.nowMs)).toBe('accepted');
      expect(fleet).toMatchObject({ wanted: 2, changes: 1 });
      expect(await isDone(successor, { decode: 2 }, fleet.nowMs)).toBe(false);
      await fleet.carryOut();
      expect(await isDone(successor, { decode: 2 }, fleet.nowMs)).toBe(true);
    });

    it('does nothing for a caller who has given up, and says why', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      const reason = new Error('given up');
      const signal = AbortSignal.abort(reason);
      await expect(connector.observe(signal)).rejects.toBe(reason);
      await expect(connector.apply([{ kind: 'targets', targets: { decode: 2 } }], signal)).rejects.toBe(reason);
      expect(fleet.changes).toBe(0);
    });

    it('comes to the last targets, whatever went before', async () => {
      const step = fc.oneof(fc.constant('carry out'), fc.constant('begin anew'), fc.nat(4));
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 12 }), fc.nat(4), async (steps, last) => {
          const fleet = await fleetOf();
          let connector = fleet.connect();
          for (const each of steps) {
            if (each === 'begin anew') connector = fleet.connect();
            else if (each === 'carry out') await fleet.carryOut();
            else if (typeof each === 'number') await handTargets(connector, { decode: each }, fleet.nowMs);
          }
          await handOver(fleet, connector, last);
          expect(fleet.wanted ?? 0).toBe(last);
          expect(await isDone(connector, { decode: last }, fleet.nowMs)).toBe(true);
        }),
        { numRuns: runs },
      );
    });
  });
}

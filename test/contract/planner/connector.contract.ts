import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import type { Connector } from '../../../shared/planner/index.ts';

const NEVER = new AbortController().signal;

/** Workers that a connector scales. */
export interface Fleet {
  /** Opens a connector that knows nothing of those before it. */
  connect(): Connector;
  /** Carries out the last target. */
  carryOut(): Promise<void>;
  /** Number of workers that the connector asked for last; undefined before the first target. */
  readonly wanted: number | undefined;
  /** Number of targets that it received. */
  readonly changes: number;
  close(): Promise<void>;
}

export interface ConnectorTraits {
  /** Takes no other targets before the last ones are carried out. */
  readonly waits: boolean;
  /** Orders of events that are tried. */
  readonly runs: number;
}

/** Hands a target over again until the connector takes it, as the planner does. */
async function handOver(fleet: Fleet, connector: Connector, decode: number): Promise<void> {
  for (let times = 0; times < 3; times++) {
    if ((await connector.scale({ decode }, NEVER)) === 'accepted') return fleet.carryOut();
    await fleet.carryOut();
  }
  throw new Error('the connector takes nothing');
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
      expect(await connector.isSettled(NEVER)).toBe(true);
      expect(fleet.changes).toBe(0);
    });

    it('is settled once what it took is carried out, and not before', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      expect(await connector.scale({ decode: 2 }, NEVER)).toBe('accepted');
      expect(fleet.wanted).toBe(2);
      expect(await connector.isSettled(NEVER)).toBe(false);
      await fleet.carryOut();
      expect(await connector.isSettled(NEVER)).toBe(true);
    });

    it('says how many workers there are, or that it does not know', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      await handOver(fleet, connector, 2);
      const { counted } = await connector.observe(NEVER);
      expect([undefined, { ready: 2, starting: 0 }]).toContainEqual(counted?.decode);
    });

    it('takes the same targets twice and tells the fleet once, carried out or not', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      await connector.scale({ decode: 2 }, NEVER);
      expect(await connector.scale({ decode: 2 }, NEVER)).toBe('accepted');
      await fleet.carryOut();
      expect(await connector.scale({ decode: 2 }, NEVER)).toBe('accepted');
      expect(fleet.changes).toBe(1);
    });

    it('leaves a pool alone that the targets say nothing of', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      await handOver(fleet, connector, 2);
      expect(await connector.scale({}, NEVER)).toBe('accepted');
      expect(fleet).toMatchObject({ wanted: 2, changes: 1 });
      expect(await connector.isSettled(NEVER)).toBe(true);
    });

    it('scales to nothing and from nothing', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      for (const count of [1, 0, 1]) {
        await handOver(fleet, connector, count);
        expect(fleet.wanted).toBe(count);
        expect(await connector.isSettled(NEVER)).toBe(true);
      }
    });

    it(`${waits ? 'waits with' : 'takes'} other targets while the last ones are not carried out`, async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      await connector.scale({ decode: 2 }, NEVER);
      expect(await connector.scale({ decode: 1 }, NEVER)).toBe(waits ? 'waiting' : 'accepted');
      expect(fleet.wanted).toBe(waits ? 2 : 1);
      await handOver(fleet, connector, 1);
      expect(fleet.wanted).toBe(1);
      expect(await connector.isSettled(NEVER)).toBe(true);
    });

    it('begins anew without telling the fleet what it was told before', async () => {
      const fleet = await fleetOf();
      await fleet.connect().scale({ decode: 2 }, NEVER);
      const successor = fleet.connect();
      expect(await successor.scale({ decode: 2 }, NEVER)).toBe('accepted');
      expect(fleet).toMatchObject({ wanted: 2, changes: 1 });
      expect(await successor.isSettled(NEVER)).toBe(false);
      await fleet.carryOut();
      expect(await successor.isSettled(NEVER)).toBe(true);
    });

    it('does nothing for a caller who has given up, and says why', async () => {
      const fleet = await fleetOf();
      const connector = fleet.connect();
      const reason = new Error('given up');
      const signal = AbortSignal.abort(reason);
      await expect(connector.observe(signal)).rejects.toBe(reason);
      await expect(connector.scale({ decode: 2 }, signal)).rejects.toBe(reason);
      await expect(connector.isSettled(signal)).rejects.toBe(reason);
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
            else if (typeof each === 'number') await connector.scale({ decode: each }, NEVER);
          }
          await handOver(fleet, connector, last);
          expect(fleet.wanted ?? 0).toBe(last);
          expect(await connector.isSettled(NEVER)).toBe(true);
        }),
        { numRuns: runs },
      );
    });
  });
}

import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Discovery,
  type DiscoveryRecord,
  type DrainOrder,
  eventChannelPrefix,
  type FleetLoads,
  type WorkerLoad,
} from '../../../shared/discovery/index.ts';
import type { SharedStoreOptions } from '../../support/create-discovery.ts';
import { type FreezableClock, type SpawnedProcess, spawnTypeScript, waitUntil } from '../../support/index.ts';
import { rememberedBy } from '../../support/remembered-by.ts';
import { channelOf, endpointAt, modelAt, Witness } from './records.ts';

/** A fresh, empty store and the processes that use it. */
export interface DiscoveryHarness {
  /**
   * Opens a handle as another process would. A test freezes its clock to play a crash or a pause of that process.
   * @param ttlMs @default 10_000: no lease ends because the machine stands still for a while
   * @param wallOffsetMs by how much its wall clock is wrong @default 0
   */
  open(
    ttlMs?: number,
    wallOffsetMs?: number,
  ): Promise<{
    readonly discovery: Discovery;
    readonly clock: FreezableClock;
    /** Errors that its background work reported. */
    readonly problems: readonly Error[];
  }>;
  /** Present for a store outside this process: ways to fail, and the options for other processes to open it. */
  readonly external?: {
    readonly options: SharedStoreOptions;
    beginOutage(): Promise<void>;
    endOutage(): Promise<void>;
    /**
     * Whether something beside the store judges which processes live. An outage of the store then ends no lease.
     * @default false
     */
    readonly hasOtherJudge?: boolean;
  };
  /** Closes every handle and the store. */
  close(): Promise<void>;
}

/** TTL for tests in which a process dies: short, but no other lease ends when the machine pauses for a moment. */
const SHORT_TTL_MS = 1500;
const HOUR_MS = 3_600_000;

/** Tests what every `Discovery` does; with `isExternal`, also across processes and outages. */
export function describeDiscovery(name: string, start: () => Promise<DiscoveryHarness>, isExternal: boolean): void {
  describe(`discovery: ${name}`, () => {
    let harness: DiscoveryHarness;
    beforeEach(async () => {
      harness = await start();
    });
    afterEach(async () => {
      await harness.close();
    });
    const instances = { bucket: 'v1/instances', prefix: '' } as const;

    describe('an order to drain', () => {
      const order = { reason: 'scale-in', deadlineMs: 1_800_000_000_000 };

      /** Opens a worker's process, which renews its lease twice a second, and notes its orders. */
      async function openWorker(id: string, machine?: string) {
        const { discovery } = await harness.open(SHORT_TTL_MS);
        const heard: DrainOrder[] = [];
        discovery.onDrainOrdered((each) => heard.push(each));
        const host = machine === undefined ? {} : { host: { instance_id: machine } };
        await discovery.put({ ...endpointAt(`ns/backend/generate/${id}`), ...host });
        await discovery.put(modelAt(`ns/backend/generate/${id}`));
        return { discovery, heard };
      }

      /** Gives the order once the store shows as many of the workers. */
      async function orderOnceShown(planner: Discovery, ids: readonly string[], count: number) {
        let ordered: readonly string[] = [];
        await waitUntil(async () => {
          ordered = await planner.orderDrain(ids, order);
          return ordered.length >= count;
        });
        return ordered.toSorted();
      }

      it('reaches the processes of the named workers, once each, and no other process', async () => {
        const [one, two] = [await openWorker('a'), await openWorker('b')];
        const { discovery: planner } = await harness.open();
        expect(await orderOnceShown(planner, ['a', 'nobody'], 1)).toEqual(['a']);
        await waitUntil(() => one.heard.length > 0);
        await orderOnceShown(planner, ['a'], 1); // the same again
        await orderOnceShown(planner, ['b'], 1);
        await waitUntil(() => two.heard.length > 0);
        expect(two.heard).toHaveLength(1);
        expect(one.heard.map(({ reason }) => reason)).toEqual(['scale-in']);
        expect(Math.abs((one.heard[0]?.deadlineMs ?? 0) - order.deadlineMs)).toBeLessThan(2000);
      });

      it('to an instance reaches all workers on it, and is known to a listener that comes later', async () => {
        const workers = [await openWorker('a', 'i-1'), await openWorker('b', 'i-1'), await openWorker('c', 'i-2')];
        const { discovery: planner } = await harness.open();
        expect(await orderOnceShown(planner, ['i-1'], 2)).toEqual(['a', 'b']);
        await waitUntil(() => workers.slice(0, 2).every(({ heard }) => heard.length > 0));
        expect(workers[2]?.heard).toEqual([]);
        let late: DrainOrder | undefined;
        workers[0]?.discovery.onDrainOrdered((each) => {
          late = each;
        });
        expect(late).toEqual(workers[0]?.heard[0]);
      });

      it('with a nearer deadline follows an earlier one', async () => {
        const worker = await openWorker('a');
        const { discovery: planner } = await harness.open();
        await orderOnceShown(planner, ['a'], 1);
        await waitUntil(() => worker.heard.length === 1);
        await planner.orderDrain(['a'], { reason: 'spot-warning', deadlineMs: order.deadlineMs - 60_000 });
        await waitUntil(() => worker.heard.length === 2);
        expect(worker.heard[1]?.reason).toBe('spot-warning');
      });

      it('to workers that are not there is given to none, and one without a reason is refused', async () => {
        const { discovery } = await harness.open();
        expect(await discovery.orderDrain(['nobody'], order)).toEqual([]);
        await expect(discovery.orderDrain(['nobody'], { ...order, reason: '' })).rejects.toThrow(
          /drain order .*allowed/,
        );
      });
    });

    describe('put, list and remove', () => {
      it('lists what any process put, in key order, as it was written', async () => {
        const [one, two] = [await harness.open(), await harness.open()];
        await two.discovery.put(endpointAt('ns/backend/generate/b'));
        await one.discovery.put(endpointAt('ns/backend/generate/a'));
        await one.discovery.put(modelAt('ns/backend/generate/a'));
        expect(await one.discovery.list(instances)).toEqual([
          endpointAt('ns/backend/generate/a'),
          endpointAt('ns/backend/generate/b'),
        ]);
        expect(await two.discovery.list({ bucket: 'v1/mdc', prefix: '' })).toEqual([modelAt('ns/backend/generate/a')]);
      });

      it("keeps the facts of a worker's machine, beside workers without any", async () => {
        const [one, two] = [await harness.open(), await harness.open()];
        const host = { instance_id: 'i-0123', zone: 'us-east-1b', market: 'spot', group: 'chat-1-spot' };
        const hosted = { ...endpointAt('ns/backend/generate/a'), host };
        await one.discovery.put(hosted);
        await one.discovery.put(endpointAt('ns/backend/generate/b'));
        expect(await two.discovery.list(instances)).toEqual([hosted, endpointAt('ns/backend/generate/b')]);
      });

      it('matches prefixes by whole segments', async () => {
        const { discovery } = await harness.open();
        for (const path of ['ns/comp/ep/1', 'ns/comp/ep/12', 'ns/comp/ep2/1', 'ns/comp-b/ep/1', 'ns2/comp/ep/1']) {
          await discovery.put(endpointAt(path));
        }
        const idsUnder = async (prefix: string): Promise<string[]> =>
          (await discovery.list({ bucket: 'v1/instances', prefix })).map((record) =>
            record.type === 'Endpoint' ? `${record.component}/${record.endpoint}/${record.instance_id}` : record.type,
          );
        expect(await idsUnder('ns/comp/ep/1')).toEqual(['comp/ep/1']);
        expect(await idsUnder('ns/comp/ep')).toEqual(['comp/ep/1', 'comp/ep/12']);
        expect(await idsUnder('ns/comp')).toEqual(['comp/ep/1', 'comp/ep/12', 'comp/ep2/1']);
        expect(await idsUnder('ns')).toEqual(['comp-b/ep/1', 'comp/ep/1', 'comp/ep/12', 'comp/ep2/1']);
        expect(await idsUnder('')).toHaveLength(5);
        expect(await idsUnder('n')).toEqual([]);
      });

      it('finds a base card and its adapters under the instance', async () => {
        const { discovery } = await harness.open();
        await discovery.put(modelAt('ns/backend/generate/a', 'lora-1'));
        await discovery.put(modelAt('ns/backend/generate/a'));
        await discovery.put(modelAt('ns/backend/generate/ab'));
        const found = await discovery.list({ bucket: 'v1/mdc', prefix: 'ns/backend/generate/a' });
        expect(found).toEqual([modelAt('ns/backend/generate/a'), modelAt('ns/backend/generate/a', 'lora-1')]);
      });

      it('keeps any text in names, and finds it by the plain prefix', async () => {
        const { discovery } = await harness.open();
        const record = { ...endpointAt('-/-/gen.erate/a'), namespace: 'a.b>*', component: 'Ünïcode 100%#' };
        await discovery.put(record);
        expect(await discovery.list({ bucket: 'v1/instances', prefix: 'a.b>*/Ünïcode 100%#' })).toEqual([record]);
      });

      it('keeps event scopes apart', async () => {
        const { discovery } = await harness.open();
        const inNamespace = channelOf({ kind: 'namespace', namespace: 'ns' }, 'kv-events', '1');
        const inComponent = channelOf({ kind: 'component', namespace: 'ns', component: 'backend' }, 'kv-events', '2');
        const otherTopic = channelOf({ kind: 'component', namespace: 'ns', component: 'backend' }, 'kv_metrics', '3');
        for (const record of [inNamespace, inComponent, otherTopic]) await discovery.put(record);
        const under = (prefix: string) => discovery.list({ bucket: 'v1/event_channels', prefix });
        expect(await under(eventChannelPrefix(inNamespace.scope))).toEqual([inNamespace]);
        expect(await under(eventChannelPrefix(inComponent.scope))).toEqual([inComponent, otherTopic]);
        expect(await under(eventChannelPrefix(inComponent.scope, 'kv_metrics'))).toEqual([otherTopic]);
        expect(await under('')).toHaveLength(3);
      });

      it('replaces a record that is put again', async () => {
        const { discovery } = await harness.open();
        await discovery.put(endpointAt('ns/backend/generate/a', 'old:1'));
        await discovery.put(endpointAt('ns/backend/generate/a', 'new:2'));
        expect(await discovery.list(instances)).toEqual([endpointAt('ns/backend/generate/a', 'new:2')]);
      });

      it('removes its own records only, and one that is gone without an error', async () => {
        const [one, two] = [await harness.open(), await harness.open()];
        await one.discovery.put(endpointAt('ns/backend/generate/a'));
        await two.discovery.put(endpointAt('ns/backend/generate/b'));
        await one.discovery.remove(endpointAt('ns/backend/generate/b'));
        await one.discovery.remove(endpointAt('ns/backend/generate/a'));
        await one.discovery.remove(endpointAt('ns/backend/generate/a'));
        expect(await one.discovery.list(instances)).toEqual([endpointAt('ns/backend/generate/b')]);
      });
    });

    describe('watch', () => {
      it('delivers the present set in key order before it resolves, then every change', async () => {
        const [writer, reader] = [await harness.open(), await harness.open()];
        await writer.discovery.put(endpointAt('ns/backend/generate/b'));
        await writer.discovery.put(endpointAt('ns/backend/generate/a'));
        const witness = new Witness();
        await reader.discovery.watch(instances, witness);
        expect(witness.events.map((event) => event.key)).toEqual(['ns/backend/generate/a', 'ns/backend/generate/b']);

        await writer.discovery.put(endpointAt('ns/backend/generate/c'));
        await waitUntil(() => witness.present.size === 3);
        await writer.discovery.put(endpointAt('ns/backend/generate/a', 'moved:1'));
        await waitUntil(() => witness.events.length === 4);
        await writer.discovery.remove(endpointAt('ns/backend/generate/b'));
        await waitUntil(() => witness.events.length === 5);
        expect(witness.events.slice(2)).toEqual([
          { kind: 'added', key: 'ns/backend/generate/c', record: endpointAt('ns/backend/generate/c') },
          { kind: 'added', key: 'ns/backend/generate/a', record: endpointAt('ns/backend/generate/a', 'moved:1') },
          { kind: 'removed', key: 'ns/backend/generate/b' },
        ]);
      });

      it('tells only what lies under its prefix, and nothing for an unchanged record', async () => {
        const { discovery } = await harness.open();
        const witness = new Witness();
        await discovery.watch({ bucket: 'v1/instances', prefix: 'ns/comp' }, witness);
        await discovery.put(endpointAt('ns/component2/ep/1'));
        await discovery.put(endpointAt('ns/comp/ep/1'));
        await discovery.put(endpointAt('ns/comp/ep/1'));
        await discovery.put(endpointAt('ns/comp/ep/2'));
        await waitUntil(() => witness.present.size === 2);
        expect(witness.events.map((event) => event.key)).toEqual(['ns/comp/ep/1', 'ns/comp/ep/2']);
      });

      it('goes on for the others when one listener throws or closes its watch', async () => {
        const { discovery } = await harness.open();
        const [closing, witness] = [new Witness(), new Witness()];
        await discovery.watch(instances, { event: () => expect.unreachable('thrown on purpose') });
        const watch = await discovery.watch(instances, closing);
        await discovery.watch(instances, witness);
        watch.close();
        await discovery.put(endpointAt('ns/comp/ep/1'));
        await waitUntil(() => witness.present.size === 1);
        expect(closing.events).toEqual([]);
      });

      it('shows many records of many processes', async () => {
        const [one, two, reader] = [await harness.open(), await harness.open(), await harness.open()];
        const witness = new Witness();
        await reader.discovery.watch(instances, witness);
        const paths = Array.from({ length: 200 }, (_, at) => `ns${at % 3}/comp/ep/${at.toString(16)}`);
        await Promise.all(paths.map((path, at) => (at % 2 ? one : two).discovery.put(endpointAt(path))));
        await waitUntil(() => witness.present.size === paths.length);
        expect(witness.keys).toEqual([...paths].sort());
        await one.discovery.close();
        await waitUntil(() => witness.present.size === paths.length / 2);
        expect(await reader.discovery.list(instances)).toHaveLength(paths.length / 2);
      });
    });

    describe('refresh', () => {
      it('shows what was written before it was asked, in a process whose timers stand still', async () => {
        const [writer, reader] = [await harness.open(), await harness.open()];
        const [witness, ofModels] = [new Witness(), new Witness()];
        await reader.discovery.watch(instances, witness);
        await reader.discovery.watch({ bucket: 'v1/mdc', prefix: 'ns' }, ofModels);
        reader.clock.freeze();
        await writer.discovery.put(endpointAt('ns/backend/generate/a'));
        await writer.discovery.put(modelAt('ns/backend/generate/a'));
        await reader.discovery.refresh(0);
        expect([witness.keys, ofModels.keys]).toEqual([['ns/backend/generate/a'], ['ns/backend/generate/a']]);
        await writer.discovery.remove(modelAt('ns/backend/generate/a'));
        await reader.discovery.refresh(0);
        expect([witness.present.size, ofModels.present.size]).toEqual([1, 0]);
      });

      it('after standing still for longer than the time to live, knows the dead from the living', async () => {
        const [living, dying, observer] = [
          await harness.open(SHORT_TTL_MS),
          await harness.open(SHORT_TTL_MS),
          await harness.open(SHORT_TTL_MS),
        ];
        const [reader, successor] = [await harness.open(SHORT_TTL_MS), await harness.open(SHORT_TTL_MS)];
        await living.discovery.put(endpointAt('ns/backend/generate/a'));
        await dying.discovery.put(endpointAt('ns/backend/generate/b'));
        const [witness, observed] = [new Witness(), new Witness()];
        await reader.discovery.watch(instances, witness);
        await observer.discovery.watch(instances, observed);
        reader.clock.freeze();
        dying.clock.freeze();
        await successor.discovery.put(endpointAt('ns/backend/generate/c'));
        await waitUntil(() => observed.keys.join() === 'ns/backend/generate/a,ns/backend/generate/c');
        reader.clock.thaw();
        await reader.discovery.refresh(0);
        expect(witness.keys).toEqual(expect.arrayContaining(['ns/backend/generate/a', 'ns/backend/generate/c']));
        await waitUntil(async () => {
          await reader.discovery.refresh(0); // a first look may allow for clocks that differ
          return witness.present.size === 2;
        });
        expect(witness.events.filter((event) => event.key.endsWith('/a'))).toHaveLength(1);
        expect(witness.outages).toEqual([]);
      });

      it('is over at once without a watch', async () => {
        const { discovery } = await harness.open();
        await discovery.refresh(0);
      });

      it('rejects when its signal has aborted, and on a closed handle', async () => {
        const { discovery } = await harness.open();
        await discovery.watch(instances, new Witness());
        await expect(discovery.refresh(0, AbortSignal.abort(new Error('not any more')))).rejects.toThrow(
          'not any more',
        );
        await discovery.close();
        await expect(discovery.refresh(0)).rejects.toMatchObject({ code: 'closed' });
      });
    });

    describe('loads', () => {
      const loadOf = (requests: number, isDraining = false): WorkerLoad => ({
        ranks: [{ dpRank: 0, requests, decodeBlocks: 10 * requests, prefillTokens: 100 * requests }],
        isDraining,
      });
      /** The latest that a follower was told, and how often it was. */
      const follow = (discovery: Discovery) => {
        const told: FleetLoads[] = [];
        const watch = discovery.watchLoads((loads) => told.push(loads));
        return { told, watch, latest: () => Object.fromEntries(told.at(-1) ?? []) };
      };

      it('shows every process what a worker carries, and each change', async () => {
        const [worker, reader] = [await harness.open(), await harness.open()];
        const { told, latest } = follow(reader.discovery);
        expect(told).toHaveLength(1);
        await worker.discovery.put(endpointAt('ns/backend/generate/a'));
        worker.discovery.setLoad('a', loadOf(1));
        await waitUntil(() => latest().a !== undefined);
        expect(latest()).toEqual({ a: loadOf(1) });
        worker.discovery.setLoad('a', loadOf(2));
        worker.discovery.setLoad('a', loadOf(3, true));
        await waitUntil(() => latest().a?.isDraining === true);
        expect(latest()).toEqual({ a: loadOf(3, true) });
      });

      it('tells one who comes later at once what is known', async () => {
        const { discovery } = await harness.open();
        const first = follow(discovery);
        await discovery.put(endpointAt('ns/backend/generate/a'));
        discovery.setLoad('a', loadOf(1));
        await waitUntil(() => first.latest().a !== undefined);
        expect(follow(discovery).latest()).toEqual({ a: loadOf(1) });
      });

      it('carries every rank and amount exactly, and amounts that are no whole numbers rounded up', async () => {
        const { discovery } = await harness.open();
        const { latest } = follow(discovery);
        const ranks = Array.from({ length: 1024 }, (_, dpRank) => ({
          dpRank,
          requests: dpRank % 300,
          decodeBlocks: dpRank * 4099,
          prefillTokens: dpRank === 7 ? Number.MAX_SAFE_INTEGER : dpRank * 131_071,
        }));
        await discovery.put(endpointAt('ns/backend/generate/1f3a5b7c9d0e2'));
        await discovery.put(endpointAt('ns/backend/generate/b'));
        discovery.setLoad('1f3a5b7c9d0e2', { ranks, isDraining: false });
        discovery.setLoad('b', {
          ranks: [{ dpRank: 1, requests: 0, decodeBlocks: 1.5, prefillTokens: 0 }],
          isDraining: true,
        });
        await waitUntil(() => Object.keys(latest()).length === 2);
        expect(latest()).toEqual({
          '1f3a5b7c9d0e2': { ranks, isDraining: false },
          b: { ranks: [{ dpRank: 1, requests: 0, decodeBlocks: 2, prefillTokens: 0 }], isDraining: true },
        });
      });

      it('tells what is out of bounds like a failed renewal, and keeps what was said before', async () => {
        const { discovery, problems } = await harness.open();
        const { latest } = follow(discovery);
        await discovery.put(endpointAt('ns/backend/generate/a'));
        discovery.setLoad('a', loadOf(1));
        discovery.setLoad('a', loadOf(Number.NaN));
        discovery.setLoad('a', loadOf(-1));
        discovery.setLoad('a', loadOf(Number.POSITIVE_INFINITY));
        discovery.setLoad('a', {
          ...loadOf(1),
          ranks: Array.from({ length: 1025 }, () => ({ ...loadOf(1).ranks[0] }) as never),
        });
        discovery.setLoad('no id', loadOf(1));
        expect(problems.map(({ message }) => message)).toEqual([
          'load of worker a: requests of rank 0 is NaN, allowed are 0 to 2^53 - 1',
          'load of worker a: requests of rank 0 is -1, allowed are 0 to 2^53 - 1',
          'load of worker a: requests of rank 0 is Infinity, allowed are 0 to 2^53 - 1',
          'load of worker a: 1025 ranks, at most 1024 are allowed',
          'load of worker no id: ids are 1 to 16 lower-case hex digits',
        ]);
        await waitUntil(() => latest().a !== undefined);
        expect(latest()).toEqual({ a: loadOf(1) });
      });

      it('keeps a load that was told before the first record', async () => {
        const [worker, reader] = [await harness.open(), await harness.open()];
        const { latest } = follow(reader.discovery);
        worker.discovery.setLoad('a', loadOf(4));
        await worker.discovery.put(endpointAt('ns/backend/generate/a'));
        await waitUntil(() => latest().a !== undefined);
        expect(latest()).toEqual({ a: loadOf(4) });
      });

      it('forgets a worker with its last record, a process that closes, and one that dies', async () => {
        const [leaving, dying, reader] = [
          await harness.open(),
          await harness.open(SHORT_TTL_MS),
          await harness.open(SHORT_TTL_MS),
        ];
        const { latest } = follow(reader.discovery);
        const workers = () => Object.keys(latest()).sort().join();
        for (const id of ['a', 'b']) {
          await leaving.discovery.put(endpointAt(`ns/backend/generate/${id}`));
          leaving.discovery.setLoad(id, loadOf(1));
        }
        await leaving.discovery.put(modelAt('ns/backend/generate/a'));
        await dying.discovery.put(endpointAt('ns/backend/generate/c'));
        dying.discovery.setLoad('c', loadOf(1));
        await waitUntil(() => workers() === 'a,b,c');
        await leaving.discovery.remove(modelAt('ns/backend/generate/a'));
        await leaving.discovery.remove(endpointAt('ns/backend/generate/a'));
        await waitUntil(() => workers() === 'b,c');
        await leaving.discovery.close();
        await waitUntil(() => workers() === 'c');
        dying.clock.freeze();
        await waitUntil(() => workers() === '');
      });

      it('shows the load of a process again that had lost its lease', async () => {
        const [stopped, reader] = [await harness.open(SHORT_TTL_MS), await harness.open(SHORT_TTL_MS)];
        const { latest } = follow(reader.discovery);
        await stopped.discovery.put(endpointAt('ns/backend/generate/a'));
        stopped.discovery.setLoad('a', loadOf(1));
        await waitUntil(() => latest().a !== undefined);
        stopped.clock.freeze();
        await waitUntil(() => latest().a === undefined);
        stopped.clock.thaw();
        await waitUntil(() => latest().a !== undefined);
        expect(latest()).toEqual({ a: loadOf(1) });
      });

      it('tells no more once its watch is closed, and goes on for the others when one listener throws', async () => {
        const { discovery } = await harness.open();
        discovery.watchLoads(() => expect.unreachable('thrown on purpose'));
        const [closing, staying] = [follow(discovery), follow(discovery)];
        closing.watch.close();
        await discovery.put(endpointAt('ns/backend/generate/a'));
        discovery.setLoad('a', loadOf(1));
        await waitUntil(() => staying.latest().a !== undefined);
        expect(closing.told).toHaveLength(1);
      });

      it('of a closed handle cannot be followed, and are no longer told', async () => {
        const { discovery } = await harness.open();
        await discovery.close();
        discovery.setLoad('a', loadOf(1));
        expect(() => discovery.watchLoads(() => {})).toThrow('this discovery handle was closed');
      });
    });

    describe('leases', () => {
      it('withdraws everything of a process that closes, at once', async () => {
        const [leaving, staying] = [await harness.open(), await harness.open()];
        const witness = new Witness();
        await leaving.discovery.put(endpointAt('ns/backend/generate/a'));
        await leaving.discovery.put(endpointAt('other/backend/generate/a'));
        await staying.discovery.put(endpointAt('ns/backend/generate/b'));
        await staying.discovery.watch(instances, witness);
        await leaving.discovery.close();
        await leaving.discovery.close();
        expect(await staying.discovery.list(instances)).toEqual([endpointAt('ns/backend/generate/b')]);
        await waitUntil(() => witness.present.size === 1);
      });

      it('refuses work on a closed handle', async () => {
        const { discovery } = await harness.open();
        await discovery.close();
        await expect(discovery.put(endpointAt('ns/c/e/1'))).rejects.toMatchObject({ code: 'closed' });
        await expect(discovery.list(instances)).rejects.toMatchObject({ code: 'closed' });
        await expect(discovery.watch(instances, new Witness())).rejects.toMatchObject({ code: 'closed' });
      });

      it('keeps the records of a living process while two others die one after the other', async () => {
        const living = await harness.open(SHORT_TTL_MS);
        const witness = new Witness();
        await living.discovery.put(endpointAt('ns/backend/generate/a'));
        await living.discovery.watch(instances, witness);
        for (const id of ['b', 'c']) {
          const dying = await harness.open(SHORT_TTL_MS);
          await dying.discovery.put(endpointAt(`ns/backend/generate/${id}`));
          await waitUntil(() => witness.present.size === 2);
          dying.clock.freeze();
          await waitUntil(() => witness.present.size === 1);
        }
        expect(witness.keys).toEqual(['ns/backend/generate/a']);
        expect(witness.events.filter((event) => event.key.endsWith('/a'))).toHaveLength(1);
      });

      it('removes what a crashed process left and keeps the rest', async () => {
        const [crashing, staying] = [await harness.open(SHORT_TTL_MS), await harness.open(SHORT_TTL_MS)];
        const witness = new Witness();
        await crashing.discovery.put(endpointAt('ns/backend/generate/a'));
        await staying.discovery.put(endpointAt('ns/backend/generate/b'));
        await staying.discovery.watch(instances, witness);
        crashing.clock.freeze();
        await waitUntil(() => witness.present.size === 1);
        expect(witness.keys).toEqual(['ns/backend/generate/b']);
        expect(await staying.discovery.list(instances)).toEqual([endpointAt('ns/backend/generate/b')]);
      });

      it('tells a process that its lease ran out and writes everything again when it can', async () => {
        const [stopped, staying] = [await harness.open(SHORT_TTL_MS), await harness.open(SHORT_TTL_MS)];
        const witness = new Witness();
        const told: string[] = [];
        stopped.discovery.onLeaseLost(() => told.push('lost'));
        stopped.discovery.onLeaseRegained(() => told.push('regained'));
        await stopped.discovery.put(endpointAt('ns/backend/generate/a'));
        await stopped.discovery.put(modelAt('ns/backend/generate/a'));
        await staying.discovery.watch(instances, witness);
        stopped.clock.freeze();
        await waitUntil(() => witness.present.size === 0);
        stopped.clock.thaw();
        await waitUntil(() => witness.present.size === 1 && told.length === 2);
        expect(told).toEqual(['lost', 'regained']);
        expect(await staying.discovery.list({ bucket: 'v1/mdc', prefix: '' })).toHaveLength(1);
      });
    });

    describe('wall clocks', () => {
      it.each([
        ['worker', HOUR_MS],
        ['worker', -HOUR_MS],
        ['frontend', HOUR_MS],
        ['frontend', -HOUR_MS],
      ])(
        'lose no live process and keep no dead one if that of a %s is %d ms wrong and corrected while it runs',
        async (whose, offMs) => {
          const offOf = (who: string): number => (who === whose ? offMs : 0);
          const frontend = await harness.open(SHORT_TTL_MS, offOf('frontend'));
          const living = await harness.open(SHORT_TTL_MS, offOf('worker'));
          await living.discovery.put(endpointAt('ns/backend/generate/a'));
          expect(await frontend.discovery.list(instances)).toHaveLength(1); // a first look
          const witness = new Witness();
          await frontend.discovery.watch(instances, witness);
          for (const id of ['b', 'c']) {
            const dying = await harness.open(SHORT_TTL_MS, offOf('worker'));
            await dying.discovery.put(endpointAt(`ns/backend/generate/${id}`));
            await waitUntil(() => witness.present.size === 2);
            dying.clock.freeze(); // that it is missed takes longer than a lease lives: the living one renews meanwhile
            if (id === 'c') for (const { clock } of [living, frontend]) clock.stepWall(-offMs);
            await waitUntil(() => witness.present.size === 1);
          }
          expect(witness.keys).toEqual(['ns/backend/generate/a']);
          expect(witness.events.filter((event) => event.key.endsWith('/a'))).toHaveLength(1);
        },
      );

      it.each([HOUR_MS, -HOUR_MS])(
        'show a dead process to no later reader, if its clock was %d ms wrong',
        async (offMs) => {
          const [dying, staying] = [await harness.open(SHORT_TTL_MS, offMs), await harness.open(SHORT_TTL_MS)];
          const witness = new Witness();
          await staying.discovery.watch(instances, witness);
          await dying.discovery.put(endpointAt('ns/backend/generate/a'));
          await waitUntil(() => witness.present.size === 1);
          dying.clock.freeze();
          await waitUntil(() => witness.present.size === 0);
          const { discovery } = await harness.open(SHORT_TTL_MS);
          // a first look may allow for clocks that differ
          await waitUntil(async () => (await discovery.list(instances)).length === 0);
        },
      );
    });

    it('agrees with a plain map after any sequence of puts and removes by two processes', async () => {
      const step = fc.record({ by: fc.nat(1), id: fc.nat(3), port: fc.nat(2), isPut: fc.boolean() });
      const [reader, ...writers] = [await harness.open(), await harness.open(), await harness.open()];
      const witness = new Witness();
      await reader.discovery.watch(instances, witness);
      const model = new Map<string, string>();
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
          for (const { by, id, port, isPut } of steps) {
            const path = `ns/process${by}/ep/${id}`; // every key has one owner, as instance ids have
            const writer = writers[by];
            if (isPut) await writer?.discovery.put(endpointAt(path, `host:${port}`));
            else await writer?.discovery.remove(endpointAt(path));
            if (isPut) model.set(path, `host:${port}/${path}`);
            else model.delete(path);
          }
          const addresses = (records: readonly unknown[]): string[] =>
            records.map((record) => (record as { transport: { tcp: string } }).transport.tcp).sort();
          const expected = [...model.values()].sort();
          expect(addresses(await reader.discovery.list(instances))).toEqual(expected);
          await waitUntil(() => addresses([...witness.present.values()]).join() === expected.join());
        }),
        { numRuns: 15 },
      );
    });

    it('leaves nothing behind at a signal whose calls have ended', async () => {
      const { discovery } = await harness.open();
      const { signal } = new AbortController();
      const record = endpointAt('ns/c/e/1');
      await discovery.put(record, signal);
      await discovery.list(instances, signal);
      await discovery.watch(instances, new Witness(), signal);
      await discovery.refresh(0, signal);
      await discovery.remove(record, signal);
      expect(rememberedBy(signal)).toBe(0);
    });

    it('does nothing when the signal has aborted', async () => {
      const { discovery } = await harness.open();
      const signal = AbortSignal.abort(new Error('not any more'));
      const record = endpointAt('ns/c/e/1');
      await expect(discovery.put(record, signal)).rejects.toThrow('not any more');
      await expect(discovery.remove(record, signal)).rejects.toThrow('not any more');
      await expect(discovery.list(instances, signal)).rejects.toThrow('not any more');
      await expect(discovery.watch(instances, new Witness(), signal)).rejects.toThrow('not any more');
      expect(await discovery.list(instances)).toEqual([]);
    });

    if (isExternal) {
      describe('processes', { timeout: 60_000 }, () => {
        const spawnWorker = async (record: DiscoveryRecord): Promise<SpawnedProcess> => {
          const argument = JSON.stringify({ options: { ...harness.external?.options, ttlMs: SHORT_TTL_MS }, record });
          const worker = await spawnTypeScript(new URL('./worker-process.ts', import.meta.url), [argument]);
          await worker.waitForOutput(/^registered$/m);
          return worker;
        };

        it('removes what a killed process left, and what one that leaves withdraws', async () => {
          const { discovery } = await harness.open(SHORT_TTL_MS);
          const witness = new Witness();
          await discovery.watch(instances, witness);
          const killed = await spawnWorker(endpointAt('ns/backend/generate/a'));
          const leaving = await spawnWorker(endpointAt('ns/backend/generate/b'));
          await waitUntil(() => witness.present.size === 2);
          await killed.kill();
          await waitUntil(() => witness.keys.join() === 'ns/backend/generate/b');
          leaving.write('leave\n');
          expect(await leaving.exited).toBe(0);
          await waitUntil(() => witness.present.size === 0);
        });

        it('fences a process that was stopped and shows it again when it goes on', async () => {
          const { discovery } = await harness.open(SHORT_TTL_MS);
          const witness = new Witness();
          await discovery.watch(instances, witness);
          const worker = await spawnWorker(endpointAt('ns/backend/generate/a'));
          await waitUntil(() => witness.present.size === 1);
          worker.signal('SIGSTOP');
          const stoppedMs = performance.now();
          // Another judge than the lease may hide the process at once. Its lease ends only with its time to live.
          const hasEnded = (): boolean => performance.now() - stoppedMs > 2 * SHORT_TTL_MS;
          await waitUntil(() => witness.present.size === 0 && hasEnded());
          worker.signal('SIGCONT');
          await worker.waitForOutput(/lease lost\nlease regained/);
          await waitUntil(() => witness.present.size === 1);
          await worker.kill();
        });
      });

      describe('outages', () => {
        it('keeps what is known, tells once, and delivers what was missed before it tells of the recovery', async () => {
          const [writer, reader] = [await harness.open(), await harness.open()];
          const witness = new Witness();
          await writer.discovery.put(endpointAt('ns/backend/generate/a'));
          await writer.discovery.put(endpointAt('ns/backend/generate/b'));
          await reader.discovery.watch(instances, witness);

          await harness.external?.beginOutage();
          await waitUntil(() => witness.outages.length === 1);
          expect(witness.keys).toHaveLength(2);
          const [failing] = witness.outages;
          expect(failing).toMatch(/^failing: .+/);

          await harness.external?.endOutage();
          await waitUntil(() => witness.outages.length === 2);
          expect(witness.outages[1]).toBe('recovered');
          await writer.discovery.put(endpointAt('ns/backend/generate/c'));
          await writer.discovery.remove(endpointAt('ns/backend/generate/a'));
          await waitUntil(() => witness.keys.join() === 'ns/backend/generate/b,ns/backend/generate/c');
        });

        it('do not hold up a refresh for long, which tells of them and keeps what is known', async () => {
          const [writer, reader] = [await harness.open(), await harness.open()];
          const witness = new Witness();
          await writer.discovery.put(endpointAt('ns/backend/generate/a'));
          await reader.discovery.watch(instances, witness);
          await harness.external?.beginOutage();
          await reader.discovery.refresh(0);
          expect(witness.keys).toEqual(['ns/backend/generate/a']);
          expect(witness.outages).toEqual([expect.stringMatching(/^failing: .+/)]);
          await harness.external?.endOutage();
          await reader.discovery.refresh(0);
          expect(witness.outages[1]).toBe('recovered');
        });

        it('fences a process that cannot renew, and lets it back in afterwards', async () => {
          const { discovery } = await harness.open(SHORT_TTL_MS);
          const told: string[] = [];
          discovery.onLeaseLost(() => told.push('lost'));
          discovery.onLeaseRegained(() => told.push('regained'));
          await discovery.put(endpointAt('ns/backend/generate/a'));
          await harness.external?.beginOutage();
          if (harness.external?.hasOtherJudge !== true) await waitUntil(() => told.length === 1);
          await harness.external?.endOutage();
          if (harness.external?.hasOtherJudge !== true) await waitUntil(() => told.length === 2);
          expect(told).toEqual(harness.external?.hasOtherJudge === true ? [] : ['lost', 'regained']);
          expect(await discovery.list(instances)).toEqual([endpointAt('ns/backend/generate/a')]);
        });
      });
    }
  });
}

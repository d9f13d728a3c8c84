import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FolderKeys, VirtualConnector } from '../../../shared/planner/index.ts';
import type { VirtualKeys } from '../../../shared/planner/live/virtual-connector.ts';
import { handTargets, isDone } from '../../support/planner/hand-over.ts';
import { MemoryKeys } from '../../support/planner/memory-keys.ts';
import { readRows } from '../../support/planner/records.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { describeConnector, type Fleet } from './connector.contract.ts';

const NEVER = new AbortController().signal;
const WAIT_MS = 1_800_000;

/** What an environment sees of `keys`, which are acknowledged with `acknowledge`. */
function fleetOf(keys: VirtualKeys, acknowledge: (id: string) => Promise<void>): Fleet {
  const clock = new VirtualClock();
  let wanted: number | undefined;
  let latest: string | undefined;
  let changes = 0;
  const watched: VirtualKeys = {
    read: (signal) => keys.read(signal),
    async write(values, signal) {
      await keys.write(values, signal);
      const { num_decode_workers: decode, decision_id: id } = await keys.read(signal);
      wanted = Number(decode);
      latest = id;
      changes++;
    },
  };
  return {
    connect: () => new VirtualConnector({ keys: watched, clock }),
    carryOut: async () => {
      if (latest !== undefined) await acknowledge(latest);
    },
    changeByHand: (count) => keys.write({ num_decode_workers: `${count}` }, NEVER),
    get wanted() {
      return wanted;
    },
    get changes() {
      return changes;
    },
    close: async () => {},
  };
}

let root: string;
let folders = 0;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'virtual-connector-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

const newFolder = (): FolderKeys => new FolderKeys(root, `ns ${folders++}/a`);

describeConnector(
  'virtual',
  async () => {
    const keys = new MemoryKeys();
    return fleetOf(keys, async () => keys.acknowledge());
  },
  { waits: true, runs: 100 },
);

describeConnector(
  'virtual, with files,',
  async () => {
    const keys = newFolder();
    return fleetOf(keys, (id) => writeFile(join(keys.folder, 'scaled_decision_id'), `${id}\n`));
  },
  { waits: true, runs: 10 },
);

/** A row of the recording: what was done, what a coordinator says then, and what lies under the keys. */
interface Recorded {
  readonly op: string;
  readonly state: readonly [prefill: number, decode: number, decisionId: number];
  readonly keys: Readonly<Record<string, string>>;
}

/** Longest wait for an acknowledgement where the recording was made. */
const RECORDED_WAIT_MS = 4000;
const RECORDED = readRows('test/fixtures/planner', 'virtual_connector.jsonl') as unknown as readonly Recorded[];

/** `update(1,None) ...` as targets. */
function targetsOf(op: string): { prefill?: number; decode?: number } | undefined {
  const said = /update\((\d+|None),(\d+|None)\)/.exec(op);
  if (said === null) return undefined;
  const [prefill, decode] = said.slice(1).map((each) => (each === 'None' ? undefined : Number(each)));
  return { ...(prefill === undefined ? {} : { prefill }), ...(decode === undefined ? {} : { decode }) };
}

describe('the virtual connector, as Dynamo was recorded', () => {
  it('leaves the same keys and says the same after each operation', async () => {
    const clock = new VirtualClock();
    const keys = new MemoryKeys();
    const connect = (): VirtualConnector => new VirtualConnector({ keys, clock, waitMsMax: RECORDED_WAIT_MS });
    let connector = connect();
    const got: Recorded[] = [];
    for (const { op } of RECORDED) {
      const targets = targetsOf(op);
      if (op.includes('init')) connector = connect();
      if (op.includes('4.5 s later')) await clock.advance(4500);
      if (op === 'complete' || op.startsWith('after ack')) keys.acknowledge();
      if (targets !== undefined) await handTargets(connector, targets);
      const { prefill, decode, decisionId } = await connector.state(NEVER);
      got.push({ op, state: [prefill, decode, decisionId], keys: keys.values });
    }
    expect(got).toEqual(RECORDED);
    expect(got).toHaveLength(10);
  });
});

describe('the virtual connector', () => {
  const bed = (values: Readonly<Record<string, string>> = {}, waitMsMax?: number) => {
    const clock = new VirtualClock();
    const keys = new MemoryKeys();
    keys.values = values;
    return { clock, keys, connector: new VirtualConnector({ keys, clock, ...(waitMsMax && { waitMsMax }) }) };
  };

  it('writes the next decision all the same half an hour after the first that had to wait, and not before', async () => {
    const { clock, keys, connector } = bed();
    await handTargets(connector, { prefill: 1, decode: 1 });
    await clock.advance(10 * WAIT_MS); // nobody asked for anything meanwhile
    expect(await handTargets(connector, { prefill: 2, decode: 1 })).toBe('waiting');
    await clock.advance(WAIT_MS - 1);
    expect(await handTargets(connector, { prefill: 2, decode: 1 })).toBe('waiting');
    expect(keys.values.decision_id).toBe('0');
    await clock.advance(1);
    expect(await handTargets(connector, { prefill: 2, decode: 1 })).toBe('accepted');
    expect(keys.values).toEqual({ num_prefill_workers: '2', num_decode_workers: '1', decision_id: '1' });
    // the wait begins anew
    expect(await handTargets(connector, { prefill: 3, decode: 1 })).toBe('waiting');
  });

  it('is not settled by the acknowledgement of an older decision', async () => {
    const { connector } = bed({ num_decode_workers: '2', decision_id: '4', scaled_decision_id: '3' });
    expect(await isDone(connector, { decode: 2 })).toBe(false);
  });

  it('says nothing of workers: those that are heard count', async () => {
    expect(await bed({ num_decode_workers: '5', decision_id: '0' }).connector.observe(NEVER)).toEqual({
      handed: { targets: { decode: 5 }, isCarriedOut: false },
    });
  });

  it.each(['', 'three', '1.5', '-7', 'NaN', '1e400'])('takes %j under a key as nothing said', async (text) => {
    const { connector } = bed({ num_decode_workers: text, decision_id: text });
    expect(await connector.state(NEVER)).toMatchObject({ decode: -1, decisionId: -1 });
    expect(await isDone(connector, {})).toBe(true);
  });

  it('leaves files that a script can read, whole, and writes the number of the decision last', async () => {
    const keys = newFolder();
    const connector = new VirtualConnector({ keys, clock: new VirtualClock() });
    await handTargets(connector, { decode: 3 });
    const names = (await readdir(keys.folder)).toSorted();
    const texts = await Promise.all(names.map((name) => readFile(join(keys.folder, name), 'utf8')));
    expect(Object.fromEntries(names.map((name, at) => [name, texts[at]]))).toEqual({
      decision_id: '0\n',
      num_decode_workers: '3\n',
      num_prefill_workers: '-1\n',
    });
    await rm(join(keys.folder, 'decision_id'));
    await writeFile(join(keys.folder, 'decision_id'), '41\n');
    expect(await connector.state(NEVER)).toMatchObject({ decode: 3, decisionId: 41 });
  });

  it('shows no new number where it could not write everything before it', async () => {
    const keys = newFolder();
    const values = { decision_id: '0', num_decode_workers: '1', num_prefill_workers: '0' };
    const given = new AbortController();
    await keys.write(values, NEVER);
    let looks = 0;
    // given up between two files
    const signal = new Proxy(given.signal, {
      get: (target, name) => {
        if (name !== 'throwIfAborted') return Reflect.get(target, name);
        return () => {
          if (++looks > 2) throw new Error('given up');
        };
      },
    });
    const next = { decision_id: '1', num_decode_workers: '2', num_prefill_workers: '2' };
    await expect(keys.write(next, signal)).rejects.toThrow('given up');
    expect((await keys.read(NEVER)).decision_id).toBe('0');
  });
});

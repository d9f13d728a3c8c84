import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { NatsClient } from '../../../shared/planes/index.ts';
import { createNatsSnapshotStore, type SnapshotStore, snapshotBucketOf } from '../../../shared/router-state/index.ts';
import { hasNatsServer, type NatsServer, startNatsServer } from '../../support/index.ts';
import { describeSnapshotStore } from './snapshot-store.contract.ts';

const never = new AbortController().signal;

describe.runIf(hasNatsServer())('with a nats-server', () => {
  let server: NatsServer;
  beforeAll(async () => {
    server = await startNatsServer({ storeBytesMax: 16 << 20 });
  });
  afterAll(() => server?.stop());

  let bucket: string;
  let opened = 0;
  beforeEach(() => {
    bucket = snapshotBucketOf(`test${opened++}`, 'backend');
  });

  function open(clock = systemClock): SnapshotStore {
    const client = new NatsClient({ clock, servers: [server.url] });
    return createNatsSnapshotStore({ client, bucket });
  }

  /** Replaces the bytes of the object that stands alone in the bucket. */
  async function damage(): Promise<void> {
    const connection = await connect({ servers: server.url });
    const { streams } = await jetstreamManager(connection);
    const { state } = await streams.info(`OBJ_${bucket}`, { subjects_filter: `$O.${bucket}.C.>` });
    for (const subject of Object.keys(state.subjects ?? {})) {
      await streams.purge(`OBJ_${bucket}`, { filter: subject });
      connection.publish(subject, new Uint8Array(100_000).fill(8));
    }
    await connection.flush();
    await connection.close();
  }

  describeSnapshotStore('nats', async () => {
    const store = open();
    return { store, reopen: async () => open(), damage, close: () => store.close() };
  });

  it('leaves nothing behind of objects that were removed', async () => {
    const store = open();
    for (let at = 0; at < 5; at++) {
      await store.put(`a${at}`, [new Uint8Array(1000)], never);
      await store.remove(`a${at}`, never);
    }
    const connection = await connect({ servers: server.url });
    const { state } = await (await jetstreamManager(connection)).streams.info(`OBJ_${bucket}`);
    expect(state.messages).toBe(0);
    await connection.close();
    await store.close();
  });

  it.each([0, 4_000_000, -4_000_000])(
    'leaves parts to a writer that is at them, and removes those of a dead one, by a clock %d ms off',
    async (offMs) => {
      let passedMs = 0;
      const nowMs = (): number => systemClock.nowMs() + passedMs;
      const store = open({ ...systemClock, nowMs, wallMs: () => systemClock.wallMs() + offMs });
      const put = (name: string): Promise<void> => store.put(name, [Uint8Array.of(1)], never);
      await put('a');
      const connection = await connect({ servers: server.url });
      const { streams } = await jetstreamManager(connection);
      const part = async (writer: string): Promise<void> => {
        connection.publish(`$O.${bucket}.C.${writer}`, new Uint8Array(1000));
        await connection.flush();
      };
      const left = async (): Promise<readonly string[]> => {
        const { state } = await streams.info(`OBJ_${bucket}`, { subjects_filter: `$O.${bucket}.C.>` });
        return Object.keys(state.subjects ?? {}).filter((subject) => /dead|alive/.test(subject));
      };
      await part('dead');
      await part('alive');
      await put('b');
      passedMs = 2_000_000;
      await part('alive');
      await put('c');
      expect(await left()).toHaveLength(2);
      passedMs = 4_000_000;
      await put('d');
      expect(await left()).toEqual([`$O.${bucket}.C.alive`]);
      await connection.close();
      await store.close();
    },
  );

  it('names the bucket when the store is full, and keeps what it has', async () => {
    const store = open();
    await store.put('a', [Uint8Array.of(1)], never);
    function* tooMuch(): Generator<Uint8Array> {
      for (let at = 0; at < 100; at++) yield new Uint8Array(256 << 10);
    }
    await expect(store.put('b', tooMuch(), never)).rejects.toThrow(new RegExp(`NATS bucket ${bucket}: .*resources`));
    expect(await store.list(never)).toEqual(['a']);
    expect(await store.get('a', never)).toEqual(Uint8Array.of(1));
    await store.close();
  });
});

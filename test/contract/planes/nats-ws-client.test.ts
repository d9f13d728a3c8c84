import { fileURLToPath } from 'node:url';
import { unpack } from 'msgpackr';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { createNatsEventPlane, type EventScope, NatsClient } from '../../../shared/planes/index.ts';
import { createNatsSnapshotStore, snapshotBucketOf } from '../../../shared/router-state/index.ts';
import { hasNatsServer, spawnProgram, startNatsServer, waitUntil } from '../../support/index.ts';
import { nodeIn } from '../../support/tools/nodes.ts';

const READER = fileURLToPath(new URL('../../support/nats-ws-reader.mjs', import.meta.url));
const never = new AbortController().signal;

describe.runIf(hasNatsServer() && Boolean(process.env.STATOR_TEST_NODES))(
  'the stock nats.ws client, on Node 22',
  () => {
    it('reads KV events, live and out of the log, and a snapshot, all that went through a WebSocket of ours', async () => {
      const server = await startNatsServer();
      const client = (): NatsClient => new NatsClient({ clock: systemClock, servers: [server.webSocketUrl] });
      const scope: EventScope = { kind: 'component', namespace: 'dynamo', component: 'backend' };
      const bucket = snapshotBucketOf('dynamo', 'backend');
      const plane = createNatsEventPlane({
        client: client(),
        clock: systemClock,
        log: { bytesMax: 1 << 20 },
        onProblem: () => {},
      });
      const snapshots = createNatsSnapshotStore({ client: client(), bucket });
      try {
        const log = await plane.log?.(scope, 'kv-events', never);
        const snapshot = Uint8Array.from({ length: 300_000 }, (_, at) => at % 251);
        await snapshots.put('1-1', [snapshot.subarray(0, 200_000), snapshot.subarray(200_000)], never);
        const publisher = await plane.publisher(scope, 'kv-events');
        const stream = await streamOf(server.url);
        const subject = 'namespace.dynamo.component.backend.kv-events';
        const node = nodeIn(process.env.STATOR_TEST_NODES ?? '', 22);
        const reader = spawnProgram(node, [READER, server.webSocketUrl, subject, stream, bucket, '1-1']);
        await waitUntil(() => reader.stdout().includes('ready'), { what: 'the reader' });
        publisher.publish({ worker_id: '7', blocks: [1, 2, 3] });
        const hasReadAll = (): boolean => /"object".*\n/.test(reader.stdout());
        await waitUntil(() => hasReadAll() || reader.stderr() !== '', { what: 'what it read' });
        const said = reader.stdout().trim().split('\n');
        const told: Record<string, string> = Object.assign({}, ...said.map((line) => JSON.parse(line)));
        const bytesOf = (name: string): Buffer => Buffer.from(told[name] ?? '', 'base64');
        expect(reader.stderr()).toBe('');
        expect(told.ready).toMatch(/^v22/);
        expect(unpack(unpack(bytesOf('live')).payload)).toEqual({ worker_id: '7', blocks: [1, 2, 3] });
        expect(bytesOf('logged')).toEqual(bytesOf('live'));
        expect(bytesOf('object').equals(snapshot)).toBe(true);
        expect((await log?.state(never))?.lastSequence).toBe(1);
      } finally {
        await Promise.all([plane.close(), snapshots.close()]);
        await server.stop();
      }
    });
  },
);

/** The stream that captures KV events. */
async function streamOf(url: string): Promise<string> {
  const { connect } = await import('@nats-io/transport-node');
  const { jetstreamManager } = await import('@nats-io/jetstream');
  const connection = await connect({ servers: url });
  const names = await (await jetstreamManager(connection)).streams.names().next();
  await connection.close();
  const name = names.find((stream) => !stream.startsWith('OBJ_'));
  if (name === undefined) throw new Error('no stream of events');
  return name;
}

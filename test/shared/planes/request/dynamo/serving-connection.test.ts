import { Duplex } from 'node:stream';
import { Packr } from 'msgpackr';
import { afterEach, describe, expect, it } from 'vitest';
import { ServingConnection } from '../../../../../shared/planes/request/dynamo/serving-connection.ts';
import type { PlaneHandler } from '../../../../../shared/planes/request/types.ts';
import { waitUntil } from '../../../../support/index.ts';
import { twoPart } from '../../../../support/stand-in-dynamo-worker.ts';
import { servingSettings } from './serving.ts';

const PATH = '2a/dynamo/backend/generate';
const packr = new Packr({ useRecords: false, variableMapSize: true });
/** A request with a body that is decoded in slices. */
const LARGE = message(PATH, { model: 'm', token_ids: Array.from({ length: 100_000 }, () => 70_000) });

function message(path: string, body: unknown): Buffer {
  const info = JSON.stringify({ address: '127.0.0.1:1', subject: 's' });
  const connection = { transport: 'tcp_server', info };
  const control = JSON.stringify({ id: 'r', payload_codec: 'msgpack', connection_info: connection });
  const payload = twoPart(control, packr.pack(body));
  const head = Buffer.alloc(2);
  head.writeUInt16BE(path.length);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(payload.length);
  return Buffer.concat([head, Buffer.from(path), Buffer.from([0, 2]), Buffer.from('{}'), length, payload]);
}

describe('a connection with requests', () => {
  const connections: ServingConnection[] = [];
  afterEach(() => {
    for (const connection of connections.splice(0)) connection.destroy();
  });

  /** Connects a caller whose socket takes what `write` takes. */
  function connect(write: (bytes: Buffer) => boolean) {
    const socket = new Duplex({
      read() {},
      write: (bytes, _, done) => void (write(bytes) && done()),
    });
    const begun: number[] = [];
    const handler: PlaneHandler = () => void begun.push(begun.length);
    let refusal: string | undefined;
    const host = {
      handlerOf: (path: string) => refusal ?? (path === PATH ? handler : `unknown endpoint ${path}`),
      dial: () => new Duplex({ read() {}, write() {} }) as never,
      begun() {},
      over() {},
      proven() {},
      closed() {},
    };
    connections.push(new ServingConnection(socket as never, servingSettings(), host));
    const refuse = (why: string): void => {
      refusal = why;
    };
    return { socket, begun, refuse };
  }

  it('reads nothing while it decodes the second of two large requests', async () => {
    const { socket, begun } = connect(() => true);
    const begunAtResume: number[] = [];
    socket.on('resume', () => begunAtResume.push(begun.length));
    socket.push(Buffer.concat([LARGE, LARGE]));
    await waitUntil(() => begunAtResume.at(-1) === 2, { what: 'an open connection after both requests' });
    expect(begunAtResume).toEqual([0, 2]);
  });

  it('refuses a large request if the worker began to drain while it was decoded', async () => {
    const acks: string[] = [];
    const { socket, begun, refuse } = connect((bytes) => acks.push(bytes.toString('utf8', 4)) > 0);
    socket.once('pause', () => refuse('draining'));
    socket.push(LARGE);
    await waitUntil(() => acks.length === 1, { what: 'an acknowledgement' });
    expect([acks, begun]).toEqual([['Server unavailable: draining'], []]);
  });

  it('is closed if the caller does not read its acknowledgements', async () => {
    const { socket } = connect(() => false);
    const unknown = Buffer.concat(Array.from({ length: 100 }, () => message('x'.repeat(200), {})));
    for (let sent = 0; sent < 200 && !socket.destroyed; sent++) {
      socket.push(unknown);
      await new Promise(setImmediate);
    }
    expect(socket.destroyed).toBe(true);
  });
});

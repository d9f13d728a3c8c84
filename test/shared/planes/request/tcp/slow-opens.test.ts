import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import type { IncomingCall } from '../../../../../shared/planes/index.ts';
import { encodeRecord } from '../../../../../shared/planes/record-codec.ts';
import { FrameType } from '../../../../../shared/planes/request/frames/frame.ts';
import { createTcpRequestPlane } from '../../../../../shared/planes/request/tcp/plane.ts';
import { HeldCalls, RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../../../support/index.ts';
import { frameBytes, RawCaller } from './raw-peer.ts';

const ENDPOINT = '2a/dynamo/backend/generate';
const NUMBERS = Array.from({ length: 60_000 }, (_, at) => (at + 1) / 7);
/** As many values as a list may have, in as few bytes: a hundred slices. */
const ONES = new Array<number>(1 << 20).fill(1);
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A worker that keeps its calls, and a caller made of frames. */
async function start(frameBytesMax = 4 << 20) {
  const held = new HeldCalls();
  const plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1', frameBytesMax });
  cleanups.push(() => plane.close());
  const server = await plane.serve({ instanceId: '2a' });
  cleanups.push(() => server.close());
  const transport = server.handle(ENDPOINT, held.handler);
  const connect = async (): Promise<RawCaller> => {
    const caller = await RawCaller.connect(transport);
    cleanups.push(() => caller.socket.destroy());
    caller.hello({ maxFrame: frameBytesMax });
    return caller;
  };
  return { caller: await connect(), connect, held, server, plane, transport };
}

const request = (id: string, body: unknown) => ({ id, endpoint: ENDPOINT, headers: {}, body });
const open = (streamId: number, id: string, body: unknown): Buffer =>
  frameBytes(FrameType.open, streamId, encodeRecord(request(id, body)));
const credit = (streamId: number): Buffer => frameBytes(FrameType.credit, streamId, Buffer.of(0, 0, 0, 1));
const ids = ({ calls }: HeldCalls): readonly string[] => calls.map(({ id }: IncomingCall) => id);

describe('a long request', () => {
  it('lets others of its connection pass', async () => {
    const { caller, held, server } = await start();
    const long = frameBytes(FrameType.open, 1, request('long', NUMBERS));
    caller.socket.write(Buffer.concat([long, open(3, 'short', {})]));
    expect((await held.at(0)).id).toBe('short');
    expect(server.activeStreams).toBe(2);
    expect(await held.at(1)).toMatchObject({ id: 'long', body: NUMBERS });
  });

  it('comes whole, with its prompt, from a frontend', async () => {
    const { held, plane, transport } = await start();
    const tokenIds = Uint32Array.from({ length: 70_000 }, (_, at) => at * 3);
    plane.call(transport, { id: 'r', headers: {}, body: { logit_bias: NUMBERS }, tokenIds }, new RecordingSink());
    const call = await held.at(0);
    expect(call.body).toEqual({ logit_bias: NUMBERS });
    expect(call.tokenIds).toEqual(tokenIds);
  });

  it('gets afterwards what came for it meanwhile', async () => {
    const { caller, held } = await start();
    caller.socket.write(
      Buffer.concat([
        open(1, 'killed', NUMBERS),
        credit(1),
        frameBytes(FrameType.kill, 1, ''),
        open(3, 'stopped', NUMBERS),
        frameBytes(FrameType.stop, 3, ''),
      ]),
    );
    const killed = await held.at(0);
    await waitUntil(() => killed.signal.aborted);
    const stopped = await held.at(1);
    await waitUntil(() => stopped.stopped.aborted);
    expect([ids(held), stopped.signal.aborted]).toEqual([['killed', 'stopped'], false]);
  });

  it('ends its connection where too much comes for it meanwhile', async () => {
    const { caller, held } = await start();
    caller.socket.write(Buffer.concat([open(1, 'long', NUMBERS), ...Array.from({ length: 65 }, () => credit(1))]));
    await waitUntil(() => caller.isClosed);
    expect(held.calls).toEqual([]);
  });

  it.each([
    ['cut off', (payload: Buffer) => payload.subarray(0, -1)],
    ['followed by what is no prompt', (payload: Buffer) => Buffer.concat([payload, Buffer.of(0, 0, 0, 9)])],
  ])('ends its connection where it is %s', async (_name, spoil) => {
    const { caller, held } = await start();
    const payload = spoil(Buffer.from(encodeRecord(request('long', NUMBERS))));
    caller.socket.write(frameBytes(FrameType.open, 1, payload));
    await waitUntil(() => caller.isClosed);
    expect(caller.ofType(FrameType.error).map(({ streamId }) => streamId)).toEqual([0]);
    expect(held.calls).toEqual([]);
  });

  it('is refused alone where many of them take more room than two frames', async () => {
    const { caller, held } = await start(ONES.length + 1000);
    const frames = [1, 3, 5].map((streamId) => open(streamId, `r${streamId}`, ONES));
    caller.socket.write(Buffer.concat([...frames, open(7, 'short', {})]));
    await waitUntil(() => held.calls.length >= 3);
    expect(ids(held)).toEqual(['short', 'r1', 'r3']);
    const [refusal] = caller.ofType(FrameType.prologue);
    expect(refusal).toMatchObject({ streamId: 5 });
    expect(refusal!.payload.toString()).toContain('large requests of this connection take');
  });

  it('is forgotten with its connection', async () => {
    const { caller, connect, held, server } = await start();
    caller.socket.write(Buffer.concat([open(1, 'long', ONES), open(3, 'short', {})]));
    await held.at(0);
    caller.socket.destroy();
    await waitUntil(() => server.activeStreams === 0);
    (await connect()).socket.write(open(1, 'of another', ONES)); // takes as long to read
    await held.at(1);
    expect(ids(held)).toEqual(['short', 'of another']);
  });

  it('leaves its room to the next once it is read', async () => {
    const { caller, held } = await start(1 << 20);
    for (let at = 0; at < 5; at++) {
      caller.socket.write(open(2 * at + 1, `r${at}`, NUMBERS));
      await held.at(at);
    }
    expect(ids(held)).toEqual(['r0', 'r1', 'r2', 'r3', 'r4']);
  });
});

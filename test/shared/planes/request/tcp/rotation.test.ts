import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import { silentObserver } from '../../../../../shared/planes/index.ts';
import { PlaneSecrets } from '../../../../../shared/planes/request/frames/peer-trust.ts';
import { createTcpRequestPlane, type TcpRequestPlaneOptions } from '../../../../../shared/planes/request/tcp/plane.ts';
import { HeldCalls, RecordingSink } from '../../../../contract/planes/recording-sink.ts';

type Tokens = Pick<TcpRequestPlaneOptions, 'token' | 'previousToken'>;

const ENDPOINT = '2a/dynamo/backend/generate';
const OLDEST = 'o'.repeat(32);
const OLD = 'a'.repeat(32);
const NEW = 'b'.repeat(32);
/** Tokens that a process knows before it has heard of a rotation, after it, and long after. */
const BEFORE: Tokens = { token: OLD };
const BEFORE_BUT_ONCE: Tokens = { token: OLD, previousToken: OLDEST };
const AFTER: Tokens = { token: NEW, previousToken: OLD };
const DONE: Tokens = { token: NEW };
const AGAIN: Tokens = { token: OLD, previousToken: OLD };

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function open(options: Partial<TcpRequestPlaneOptions>) {
  const refusals: string[] = [];
  const observer = { ...silentObserver, peerRefused: (_: string, reason: string) => void refusals.push(reason) };
  const plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1', observer, ...options });
  cleanups.push(() => plane.close());
  return { plane, refusals };
}

/** Outcome of a call between two ends, and the report of each about the other. */
async function call(atWorker: Partial<TcpRequestPlaneOptions>, atCaller: Partial<TcpRequestPlaneOptions>) {
  const worker = open(atWorker);
  const caller = open(atCaller);
  const server = await worker.plane.serve({ instanceId: '2a' });
  cleanups.push(() => server.close());
  const held = new HeldCalls();
  const transport = server.handle(ENDPOINT, (served) => {
    held.handler(served);
    served.end();
  });
  const sink = new RecordingSink();
  caller.plane.call(transport, { id: 'r', headers: {}, body: {} }, sink);
  const { kind } = await sink.closed();
  return { kind, refusals: [...worker.refusals, ...caller.refusals], served: held.calls.length };
}

describe.each(['off', 'on'] as const)('while the plane token is rotated, encryption %s', (encryption) => {
  it.each<[string, Tokens, Tokens]>([
    ['neither side has the new one', BEFORE, BEFORE],
    ['only the worker has it', AFTER, BEFORE],
    ['only the caller has it', BEFORE, AFTER],
    ['both have it', AFTER, AFTER],
    ['the worker has dropped the old one', DONE, AFTER],
    ['the caller has dropped the old one', AFTER, DONE],
    ['the worker had another rotation behind it', BEFORE_BUT_ONCE, AFTER],
    ['the caller had another rotation behind it', AFTER, BEFORE_BUT_ONCE],
    ['a setting says the same twice', AGAIN, BEFORE],
  ])('a call is served: %s', async (_, atWorker, atCaller) => {
    expect(await call({ encryption, ...atWorker }, { encryption, ...atCaller })).toEqual({
      kind: 'end',
      refusals: [],
      served: 1,
    });
  });

  it.each<[string, Tokens, Tokens]>([
    ['a worker with the old one alone', BEFORE, DONE],
    ['a caller with the old one alone', DONE, BEFORE],
    ['a worker that missed two rotations', { token: OLDEST }, AFTER],
    ['a caller that missed two rotations', AFTER, { token: OLDEST }],
  ])('a call is refused, once it is over: %s', async (_, atWorker, atCaller) => {
    const { kind, refusals, served } = await call({ encryption, ...atWorker }, { encryption, ...atCaller });
    expect({ kind, served }).toEqual({ kind: 'fail', served: 0 });
    expect(refusals.join()).toContain('another STATOR_PLANE_TOKEN');
  });
});

describe('the tokens that a worker proves', () => {
  const transcript = { hello: new Uint8Array(5), workerNonce: new Uint8Array(32), channel: new Uint8Array(0) };
  const secrets = new PlaneSecrets(NEW, OLD);

  it('are believed for the newest that both know', () => {
    expect(secrets.provedBy(new PlaneSecrets(OLD, NEW).proofs(transcript), transcript)).toBe(secrets.current);
    expect(secrets.provedBy(new PlaneSecrets(OLD).proofs(transcript), transcript)).toBe(secrets.all[1]);
  });

  it.each([0, 31, 33, 63, 65, 96, 128])('do not have %d bytes, and no caller sends them back', (length) => {
    expect(secrets.provedBy(new Uint8Array(length), transcript)).toBeUndefined();
    const proofs = secrets.proofs(transcript);
    expect(secrets.isProof(proofs.subarray(0, length), transcript)).toBe(false);
    expect(secrets.isProof(proofs.subarray(0, 32), transcript)).toBe(false);
    expect(secrets.isProof(proofs.subarray(32), transcript)).toBe(false);
  });

  it('have names that tell nothing of them', () => {
    for (const { name } of secrets.all) expect(name).toMatch(/^[0-9a-f]{16}$/);
    expect(new PlaneSecrets(NEW, NEW).all).toHaveLength(1);
  });
});

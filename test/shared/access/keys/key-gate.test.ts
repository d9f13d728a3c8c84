import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { Metadata } from '@grpc/grpc-js';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Grant, issueKey, KeyGate, type Need, revokeKey, rotateKey } from '../../../../shared/access/index.ts';
import type { KeyGateOptions } from '../../../../shared/access/keys/key-gate.ts';
import { ReadyKey } from '../../../../shared/access/keys/key-record.ts';
import type { NewKey } from '../../../../shared/access/keys/key-store.ts';
import { codeRow, ServeError } from '../../../../shared/errors/index.ts';
import { MemoryKeyStore } from '../../../support/memory-key-store.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const MINUTE_MS = 60_000;
const CHAT = '/v1/chat/completions';

function bed(options: Partial<KeyGateOptions> = {}) {
  const clock = new VirtualClock();
  const store = new MemoryKeyStore();
  const refused: string[] = [];
  const gate = new KeyGate({
    store,
    clock,
    freshMs: MINUTE_MS,
    onRefused: (reason) => refused.push(reason),
    ...options,
  });
  const make = (wanted: Partial<NewKey> = {}) =>
    issueKey(store, clock, { name: 'test', scopes: ['inference'], limits: {}, ...wanted });
  /** Returns the outcome of showing headers. */
  const admit = async (headers: Readonly<Record<string, string>>, need: Need = 'generate', path = CHAT) => {
    try {
      return await gate.admit({ header: (name) => headers[name] }, need, path);
    } catch (thrown) {
      return thrown as ServeError;
    }
  };
  const show = (text: string, need?: Need, path?: string) => admit({ authorization: `Bearer ${text}` }, need, path);
  return { clock, store, gate, refused, make, admit, show };
}

function codeOf(outcome: Grant | ServeError): string | undefined {
  return outcome instanceof ServeError ? outcome.code : undefined;
}

describe('the gate', () => {
  it('takes a key as a bearer token and as x-api-key, and whatever else is shown beside it', async () => {
    const { make, admit } = bed();
    const { text, record } = await make({ owner: 'team-a', name: 'ci' });
    for (const headers of [
      { authorization: `Bearer ${text}` },
      { authorization: `bearer  ${text} ` },
      { 'x-api-key': text },
      { authorization: 'Bearer of-a-gateway', 'x-api-key': text },
    ]) {
      expect(await admit(headers)).toMatchObject({ owner: 'team-a', key: { id: record.id, name: 'ci' } });
    }
  });

  it('refuses who shows no key, none of ours, a wrong secret, an unknown id', async () => {
    const { make, admit, show, refused } = bed();
    const { text } = await make();
    const wrong = `${text.slice(0, -1)}${text.endsWith('a') ? 'b' : 'a'}`;
    const outcomes = [
      await admit({}),
      await admit({ authorization: 'Basic abc' }),
      await show('sk-proj-abc'),
      await show(`${text}a`),
      await show(wrong),
      await show(text.replace(/^sk-stator-./, (start) => `${start.slice(0, -1)}${start.endsWith('Z') ? 'Y' : 'Z'}`)),
      await show(text.toLowerCase()),
    ];
    expect(outcomes.map((each) => codeOf(each))).toEqual(outcomes.map(() => 'invalid_api_key'));
    expect(refused).toEqual(['no_key', 'no_key', 'invalid', 'invalid', 'invalid', 'invalid', 'invalid']);
    for (const outcome of outcomes) expect(String(outcome)).not.toContain(text.slice(-43));
  });

  it('takes gRPC metadata as it takes headers, and gives statuses of gRPC', async () => {
    const { make, gate } = bed();
    const { text } = await make({ owner: 'team-a', scopes: ['inference'] });
    const caller = (metadata: Metadata) => ({ header: (name: string) => metadata.get(name)[0]?.toString() });
    const method = '/inference.GRPCInferenceService/ModelInfer';
    for (const [name, value] of [
      ['authorization', `Bearer ${text}`],
      ['x-api-key', text],
    ] as const) {
      const metadata = new Metadata();
      metadata.set(name, value);
      expect(await gate.admit(caller(metadata), 'generate', method)).toMatchObject({ owner: 'team-a' });
      const refusal = await Promise.resolve()
        .then(() => gate.admit(caller(metadata), 'admin', '/inference.GRPCInferenceService/RepositoryModelLoad'))
        .catch((error: ServeError) => codeRow(error.code).grpc);
      expect(refusal).toBe(7); // PERMISSION_DENIED
    }
    const nobody = () => gate.admit(caller(new Metadata()), 'generate', method);
    expect(nobody).toThrow(expect.objectContaining({ code: 'invalid_api_key' }));
    expect(codeRow('invalid_api_key').grpc).toBe(16); // UNAUTHENTICATED
  });

  it.each([
    ['inference', 'generate', undefined],
    ['inference', 'inference', undefined],
    ['inference', 'key', undefined],
    ['inference', 'metrics', 'insufficient_permissions'],
    ['inference', 'admin', 'insufficient_permissions'],
    ['metrics', 'generate', 'insufficient_permissions'],
    ['metrics', 'key', undefined],
    ['metrics', 'metrics', undefined],
    ['metrics', 'admin', 'insufficient_permissions'],
    ['admin', 'generate', 'insufficient_permissions'],
    ['admin', 'inference', 'insufficient_permissions'],
    ['admin', 'metrics', undefined],
    ['admin', 'admin', undefined],
  ] as const)('with the scope %s alone lets %s in: %s', async (scope, need, code) => {
    const { make, show } = bed();
    const { text } = await make({ scopes: [scope] });
    expect(codeOf(await show(text, need))).toBe(code);
  });

  it('keeps a key to its routes and models', async () => {
    const { make, show } = bed();
    const { text } = await make({ routes: ['/v1/chat/completions', '/v1/responses*'], models: ['a', 'org/b'] });
    const on = async (path: string) => codeOf(await show(text, 'generate', path));
    expect([await on(CHAT), await on('/v1/responses'), await on('/v1/responses/resp_1')]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect([await on('/v1/completions'), await on(`${CHAT}/x`)]).toEqual(Array(2).fill('insufficient_permissions'));
    const grant = (await show(text)) as Grant;
    expect([grant.allowsModel('a'), grant.allowsModel('alias', 'org/b'), grant.allowsModel('c', 'c')]).toEqual([
      true,
      true,
      false,
    ]);
  });

  it('refuses a key past its life at once, and a revoked one within the time of the cache', async () => {
    const { make, show, clock, store } = bed();
    const short = await make({ lifeMs: 1000 });
    const revoked = await make();
    expect([codeOf(await show(short.text)), codeOf(await show(revoked.text))]).toEqual([undefined, undefined]);
    await revokeKey(store, clock, revoked.record.id);
    await clock.advance(1000);
    expect(codeOf(await show(short.text))).toBe('invalid_api_key');
    await clock.advance(MINUTE_MS - 1000);
    expect(codeOf(await show(revoked.text))).toBe('invalid_api_key');
  });

  it('takes both keys for a while after a rotation, the new one before the cache has aged', async () => {
    const { make, show, clock, store } = bed();
    const first = await make({ owner: 'team-a' });
    await show(first.text);
    const second = await rotateKey(store, clock, first.record.id, 2 * MINUTE_MS);
    await clock.advance(5000);
    expect(await show(second!.text)).toMatchObject({ owner: 'team-a', key: { id: first.record.id } });
    expect(codeOf(await show(first.text))).toBeUndefined();
    await clock.advance(2 * MINUTE_MS);
    expect([codeOf(await show(first.text)), codeOf(await show(second!.text))]).toEqual(['invalid_api_key', undefined]);
  });

  it('keeps nothing of a key but its digest', async () => {
    const { make, store, clock } = bed();
    const { text, record } = await make();
    const rotated = await rotateKey(store, clock, record.id, 1000);
    const kept = JSON.stringify(await store.list());
    for (const secret of [text, rotated!.text]) {
      expect(secret).toMatch(/^sk-stator-[0-9A-Za-z]{12}-[0-9A-Za-z]{43}$/);
      expect(kept).not.toContain(secret.slice(-43));
    }
  });
});

describe('what a key may spend', () => {
  it('is a number of requests a minute, told in the headers that clients know', async () => {
    const { make, show, clock } = bed();
    const { text } = await make({ limits: { requestsPerMinute: 2 } });
    const first = (await show(text)) as Grant;
    expect(first.headers()).toEqual({
      'x-ratelimit-limit-requests': '2',
      'x-ratelimit-remaining-requests': '1',
      'x-ratelimit-reset-requests': '30s',
    });
    expect(codeOf(await show(text))).toBeUndefined();
    const refused = await show(text);
    expect(refused).toMatchObject({
      code: 'rate_limit_exceeded',
      retryAfterMs: 30_000,
      headers: { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '1m0s' },
    });
    expect(codeOf(await show(text, 'inference'))).toBeUndefined(); // cancelling is free
    await clock.advance(30_000);
    expect(codeOf(await show(text))).toBeUndefined();
    expect(codeOf(await show(text))).toBe('rate_limit_exceeded');
  });

  it('is a number of tokens a minute, of what was used', async () => {
    const { make, show, clock } = bed();
    const { text } = await make({ limits: { tokensPerMinute: 600 } });
    ((await show(text)) as Grant).spent(900);
    expect(await show(text)).toMatchObject({ code: 'rate_limit_exceeded', retryAfterMs: 30_101 });
    await clock.advance(30_101);
    const next = (await show(text)) as Grant;
    expect(next.headers()).toMatchObject({ 'x-ratelimit-limit-tokens': '600', 'x-ratelimit-remaining-tokens': '1' });
  });

  it('is a number of tokens a day, until midnight in UTC', async () => {
    const clockNow = Date.UTC(2026, 4, 5, 22, 0, 0);
    const { make, show, clock } = bed();
    await clock.advance(clockNow - clock.wallMs() > 0 ? (clockNow - clock.wallMs()) % 86_400_000 : 0);
    const { text } = await make({ limits: { tokensPerDay: 100 } });
    ((await show(text)) as Grant).spent(100);
    const refused = (await show(text)) as ServeError;
    expect(refused).toMatchObject({ code: 'insufficient_quota', headers: { 'x-ratelimit-remaining-tokens': '0' } });
    await clock.advance((refused.retryAfterMs ?? 0) - 1);
    expect(codeOf(await show(text))).toBe('insufficient_quota');
    await clock.advance(1);
    expect(codeOf(await show(text))).toBeUndefined();
  });

  it('is counted for each key apart, and told to who counts owners', async () => {
    const spent: unknown[] = [];
    const { make, show } = bed({ onSpent: (owner, tokens) => spent.push([owner, tokens]) });
    const [a, b] = [
      await make({ limits: { tokensPerDay: 1 }, owner: 'a' }),
      await make({ limits: { tokensPerDay: 1 } }),
    ];
    ((await show(a.text)) as Grant).spent(5);
    expect([codeOf(await show(a.text)), codeOf(await show(b.text))]).toEqual(['insufficient_quota', undefined]);
    expect(spent).toEqual([['a', 5]]);
  });
});

describe('comparing a key', () => {
  afterEach(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  });

  it('compares what has one length, to its end, as often for a key that is wrong first as for one that is wrong last', async () => {
    const { make, store, clock } = bed();
    const { text, record } = await make();
    await rotateKey(store, clock, record.id, 1000);
    const ready = new ReadyKey((await store.get(record.id))!);
    const nowMs = clock.wallMs();
    const compared = vi.spyOn(crypto, 'timingSafeEqual');
    syncBuiltinESMExports();
    const flip = (at: number): string => text.slice(0, at) + (text[at] === 'a' ? 'b' : 'a') + text.slice(at + 1);
    const lengths = [flip(23), flip(40), flip(text.length - 1)].map((wrong) => {
      compared.mockClear();
      expect(ready.matches(wrong, nowMs)).toBe(false);
      return compared.mock.calls.map(([a, b]) => [a.byteLength, b.byteLength]);
    });
    expect(lengths).toEqual(
      lengths.map(() => [
        [64, 64],
        [64, 64],
      ]),
    );
    expect([ready.matches(text, nowMs), ready.matches(text, nowMs), ready.matches(text, nowMs + 2000)]).toEqual([
      true,
      true,
      false,
    ]);
    for (const wrong of [flip(23), flip(text.length - 1)]) {
      compared.mockClear();
      expect(ready.matches(wrong, nowMs)).toBe(false);
      expect(compared.mock.calls.map(([a]) => a.byteLength)).toEqual([text.length, 64, 64]);
    }
  });
});

import zlib, { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { createTestApp, type TestApp, type TestAppOptions } from '../../support/http-app.ts';
import { waitUntil } from '../../support/index.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';
import { zstdFrame } from '../../support/zstd-frame.ts';

const CHAT = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] });

function open(options: TestAppOptions = {}): TestApp {
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['a']));
  return createTestApp({ pipeline, ...options });
}

async function post({ app }: TestApp, body: RequestInit['body'], headers: Readonly<Record<string, string>> = {}) {
  const response = await app.fetch(
    new Request('http://localhost/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
      duplex: 'half',
    } as RequestInit),
  );
  const { error } = (await response.json()) as { error?: { code: string; message: string; param: string | null } };
  return { status: response.status, retryAfter: response.headers.get('retry-after'), error };
}

/** A body that comes when it is told to. */
function slowBody() {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  return { readable, send: (text: string) => writer.write(Buffer.from(text)), end: () => writer.close(), writer };
}

describe('room for bodies', () => {
  it('is refused with 503 and Retry-After when other bodies fill it, and free again once they are read', async () => {
    const test = open({ bodyBudgetBytes: 2000 });
    const slow = slowBody();
    const first = post(test, slow.readable);
    await slow.send(CHAT + ' '.repeat(2000 - CHAT.length));
    await waitUntil(() => test.deps.bodies.takenBytes === 2000);
    const second = await post(test, CHAT);
    expect(second).toMatchObject({ status: 503, retryAfter: '1', error: { code: 'server_overloaded' } });
    expect(second.error?.message).toContain('STATOR_HTTP_BODY_BUDGET_MB');
    await slow.end();
    expect((await first).status).toBe(200);
    expect(test.deps.bodies.takenBytes).toBe(0);
    expect((await post(test, CHAT)).status).toBe(200);
  });

  it('that no body of such a size could ever find is 413', async () => {
    const refused = await post(open({ bodyBudgetBytes: 1024 * 1024 }), ' '.repeat(1024 * 1024 + 1));
    expect(refused).toMatchObject({ status: 413, error: { code: 'request_too_large' } });
    expect(refused.error?.message).toBe('Request body exceeds the limit of 1 MB set by STATOR_HTTP_BODY_BUDGET_MB');
  });

  it.each([
    ['that is too large', 'x'.repeat(4096), {}, 413],
    ['that is no JSON', '{"a":', {}, 400],
    ['of the wrong shape', '{"model":1}', {}, 400],
    ['that is not packed as it says', 'no gzip', { 'content-encoding': 'gzip' }, 400],
    ['that unpacks to too much', gzipSync('x'.repeat(4096)), { 'content-encoding': 'gzip' }, 413],
  ])('is given back by a body %s', async (_what, body, headers, status) => {
    const test = open({ settings: { bodyLimitBytes: 2048 } });
    expect((await post(test, body, headers)).status).toBe(status);
    expect(test.deps.bodies.takenBytes).toBe(0);
  });

  it('is given back by a client that stops in the middle', async () => {
    const test = open();
    const slow = slowBody();
    const answer = post(test, slow.readable);
    await slow.send('{"model"');
    await slow.writer.abort(new Error('gone'));
    expect(await answer).toMatchObject({ status: 400, error: { message: 'Failed to read request body' } });
    expect(test.deps.bodies.takenBytes).toBe(0);
  });
});

describe('a compressed body', () => {
  it.each([
    ['gzip', gzipSync(CHAT)],
    ['x-gzip', gzipSync(CHAT)],
    ['GZIP', gzipSync(CHAT)],
    ['deflate', deflateSync(CHAT)],
    ['br', brotliCompressSync(CHAT)],
    ['identity', Buffer.from(CHAT)],
  ])('is unpacked: %s', async (encoding, body) => {
    expect((await post(open(), body, { 'content-encoding': encoding })).status).toBe(200);
  });

  it('is unpacked if it is zstd and this Node can do that', async () => {
    const canUnpack = 'createZstdDecompress' in zlib;
    const { status } = await post(open(), zstdFrame(CHAT), { 'content-encoding': 'zstd' });
    expect(status).toBe(canUnpack ? 200 : 415);
  });

  it.each(['compress', 'gzip, br'])('in %s is 415 and told what may be sent', async (encoding) => {
    const { status, error } = await post(open(), CHAT, { 'content-encoding': encoding });
    expect(status).toBe(415);
    expect(error?.message).toMatch(
      /^Content-Encoding .* is not supported: send gzip, deflate, br(, zstd)? or identity$/,
    );
    expect(error?.message).toContain(encoding);
  });

  it('that was cut short is 400', async () => {
    const body = gzipSync(CHAT).subarray(0, 20);
    const { status, error } = await post(open(), body, { 'content-encoding': 'gzip' });
    expect(status).toBe(400);
    expect(error?.message).toMatch(/^Failed to read request body: it is not valid gzip/);
  });

  it.each([
    ['gzip', gzipSync(Buffer.alloc(64 * 1024 * 1024))],
    ['br', brotliCompressSync(Buffer.alloc(64 * 1024 * 1024))],
  ])('that would unpack to 64 MB stops at the limit: %s', async (encoding, bomb) => {
    const limitBytes = 1024 * 1024;
    const test = open({ settings: { bodyLimitBytes: limitBytes }, bodyBudgetBytes: 2 * limitBytes });
    let peakBytes = 0;
    const take = test.deps.bodies.take.bind(test.deps.bodies);
    test.deps.bodies.take = (bytes) => {
      take(bytes);
      peakBytes = Math.max(peakBytes, test.deps.bodies.takenBytes);
    };
    const { status, error } = await post(test, bomb, { 'content-encoding': encoding });
    expect(status).toBe(413);
    expect(error?.message).toBe('Request body exceeds the limit of 1 MB set by DYN_HTTP_BODY_LIMIT_MB');
    expect(peakBytes).toBeLessThanOrEqual(limitBytes + bomb.length);
  });
});

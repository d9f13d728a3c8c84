import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { bundleFunction } from '../../infra/bundle.ts';
import { waitUntil } from '../support/index.ts';
import { startGate } from '../support/lambda/gate.ts';
import {
  hasLambdaRuntime,
  type LambdaRuntime,
  type LambdaRuntimeOptions,
  startLambdaRuntime,
} from '../support/lambda-runtime.ts';

const MIB = 1024 * 1024;
let directory: string;
const running: LambdaRuntime[] = [];

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'stator-lambda-'));
  await bundleFunction({ entry: 'test/support/lambda/sample-function.ts', outdir: directory });
});

afterAll(() => rmSync(directory, { recursive: true, force: true }));

afterEach(async () => {
  for (const runtime of running.splice(0)) await runtime.stop();
});

async function start(options: Partial<LambdaRuntimeOptions> = {}): Promise<LambdaRuntime> {
  const runtime = await startLambdaRuntime({ directory, ...options });
  running.push(runtime);
  return runtime;
}

/** Reads a body piece by piece. */
function readerOf(response: Response): { next(): Promise<string>; rest(): Promise<string> } {
  const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  const next = async (): Promise<string> => (await reader.read()).value ?? '';
  return {
    next,
    async rest() {
      let text = '';
      for (let piece = await next(); piece !== ''; piece = await next()) text += piece;
      return text;
    },
  };
}

describe.runIf(hasLambdaRuntime())('the HTTP function under the real runtime client', () => {
  it('streams each event as soon as it is written', async () => {
    const [runtime, gate] = [await start(), await startGate()];
    const response = await fetch(`${runtime.url}/gated?events=3&gate=${encodeURIComponent(gate.url)}`);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    const reader = readerOf(response);
    for (const at of [0, 1, 2]) {
      if (at > 0) await gate.open();
      expect(await reader.next()).toBe(`data: ${at}\n\n`); // the next event is not written before the gate opens
    }
    expect(await reader.rest()).toBe('');
    await gate.stop();
  });

  describe.each(['rest-api', 'function-url'] as const)('with %s events', (eventFormat) => {
    it('hands over method, path, query, headers and body', async () => {
      const runtime = await start({ eventFormat });
      const response = await fetch(`${runtime.url}/echo?a=1&a=2&b=%C3%A4%20c`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Request-Id': 'r1', Cookie: 'k=v; l=w' },
        body: '{"text":"ä€😀"}',
      });
      const echoed = (await response.json()) as Record<string, unknown>;
      expect(echoed).toMatchObject({
        method: 'POST',
        path: '/echo',
        query: 'a=1&a=2&b=%C3%A4%20c',
        headers: { 'content-type': 'application/json', 'x-request-id': 'r1', cookie: 'k=v; l=w' },
        body: Buffer.from('{"text":"ä€😀"}').toString('hex'),
      });
    });

    it('decodes a body that comes in base64', async () => {
      const runtime = await start({ eventFormat });
      const bytes = Uint8Array.of(0, 255, 128, 10);
      const response = await fetch(`${runtime.url}/echo`, {
        method: 'PUT',
        headers: { 'content-type': 'application/octet-stream' },
        body: bytes,
      });
      expect(await response.json()).toMatchObject({ method: 'PUT', bytes: 4, body: '00ff800a' });
    });

    it('keeps headers ASCII and leaves the length of the body to the service', async () => {
      const runtime = await start({ eventFormat });
      const response = await fetch(`${runtime.url}/headers`);
      expect(await response.text()).toBe('hello');
      expect(response.headers.get('x-text')).toBe('caf%C3%A9 au lait');
      expect(response.headers.get('content-length')).toBeNull();
    });
  });

  it('sends a head without a body', async () => {
    const runtime = await start();
    const nothing = await fetch(`${runtime.url}/written?status=204`);
    expect([nothing.status, await nothing.text()]).toEqual([204, '']);
    expect((await fetch(`${runtime.url}/no/such/route`)).status).toBe(404);
    const head = await fetch(`${runtime.url}/written`, { method: 'HEAD' });
    expect([head.status, head.headers.get('x-written')]).toEqual([200, 'yes']);
    expect((await fetch(`${runtime.url}/written?status=304`)).status).toBe(304);
  });

  it('answers a failure with the status and body of its code, and reveals nothing of an unknown one', async () => {
    const runtime = await start();
    const full = await fetch(`${runtime.url}/error/server_overloaded`);
    expect([full.status, full.headers.get('retry-after')]).toEqual([503, '2']);
    expect(await full.json()).toEqual({
      error: { message: 'as asked', type: 'overloaded_error', param: null, code: 'server_overloaded' },
    });
    const broken = await fetch(`${runtime.url}/error/unknown`);
    expect(broken.status).toBe(500);
    expect(await broken.text()).not.toContain('secret');
    await waitUntil(() => runtime.output().includes('a secret detail'), { what: 'the failure in the log' });
  });

  it('answers 413 to a body above 6 MiB, which it counts after decoding', async () => {
    const runtime = await start({ bodyBytesMax: 16 * MIB });
    const post = (bytes: number, type: string): Promise<Response> =>
      fetch(`${runtime.url}/echo`, {
        method: 'POST',
        headers: { 'content-type': type },
        body: Buffer.alloc(bytes, 'a'),
      });
    for (const type of ['application/json', 'application/octet-stream']) {
      expect((await post(6 * MIB, type)).status).toBe(200);
      const refused = await post(6 * MIB + 1, type);
      expect(refused.status).toBe(413);
      expect(await refused.json()).toMatchObject({
        error: { code: 'request_too_large', type: 'invalid_request_error' },
      });
    }
  });

  it('waits for a slow reader instead of keeping the answer in memory', async () => {
    const runtime = await start();
    const response = await fetch(`${runtime.url}/flood?frames=512`);
    const text = await response.text(); // fetch itself is the slow part: it reads only now
    expect(text.length).toBeGreaterThan(32 * MIB);
    expect(Number(/waits=(\d+)$/.exec(text)?.[1])).toBeGreaterThan(0);
  });

  it('breaks an answer off whose source fails, so that it does not look whole', async () => {
    const runtime = await start();
    const response = await fetch(`${runtime.url}/broken-body`);
    await expect(response.text()).rejects.toThrow();
    await runtime.idle();
    expect((await fetch(`${runtime.url}/counts`)).status).toBe(200);
    expect(runtime.stats).toMatchObject({ coldStarts: 1, crashes: 0 });
  });

  it('serves on after a client has left, and never learns of it', async () => {
    const [runtime, gate] = [await start({ environmentsMax: 1 }), await startGate()];
    const leaving = new AbortController();
    const response = await fetch(`${runtime.url}/gated?events=3&gate=${encodeURIComponent(gate.url)}`, {
      signal: leaving.signal,
    });
    await readerOf(response).next();
    leaving.abort();
    await waitUntil(() => runtime.stats.clientsGone === 1, { what: 'the front to see the client leave' });
    await gate.open();
    await gate.open(); // the function still works on the answer
    await runtime.idle();
    expect(runtime.stats.bytesAfterClientGone).toBeGreaterThan(0);
    const counts = await (await fetch(`${runtime.url}/counts`)).json();
    expect(counts).toMatchObject({ requests: 1, starts: 1, endsByCancel: 0 });
    expect(runtime.stats).toMatchObject({ coldStarts: 1, crashes: 0, streamErrors: 0 });
    await gate.stop();
  });

  it('takes the next request in the same process after it was frozen, with sockets and timers open', async () => {
    const runtime = await start({ environmentsMax: 1 });
    const counts = async (): Promise<unknown> => (await fetch(`${runtime.url}/counts`)).json();
    const first = (await counts()) as { pid: number };
    await waitUntil(() => runtime.environments()[0]?.isFrozen, { what: 'the environment to be frozen' });
    expect(await counts()).toEqual({ requests: 2, starts: 1, endsByCancel: 0, pid: first.pid });
    expect(runtime.stats.coldStarts).toBe(1);
  });

  it('starts one environment for each request at a time', async () => {
    const [runtime, gate] = [await start({ environmentsMax: 2 }), await startGate()];
    const held = await fetch(`${runtime.url}/gated?events=2&gate=${encodeURIComponent(gate.url)}`);
    expect((await fetch(`${runtime.url}/counts`)).status).toBe(200);
    expect(runtime.stats.coldStarts).toBe(2);
    await gate.open();
    expect(await held.text()).toBe('data: 0\n\ndata: 1\n\n');
    await gate.stop();
  });

  it('answers 503 while the app cannot start, and serves as soon as it can', async () => {
    const runtime = await start({ environmentsMax: 1, env: { FAILING_STARTS: '2' } }); // the first in its init
    const response = await fetch(`${runtime.url}/counts`);
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ error: { code: 'service_unavailable' } });
    await runtime.idle();
    expect(runtime.output()).toContain('the table is unreachable');
    expect(await (await fetch(`${runtime.url}/counts`)).json()).toMatchObject({ starts: 3 });
    expect(runtime.stats).toMatchObject({ coldStarts: 1, crashes: 0 });
  });

  it('refuses an event that is no HTTP request', async () => {
    const runtime = await start();
    expect(await runtime.invoke({ source: 'aws.events', detail: {} })).toBe(400);
  });

  it('fails only the request at hand when the process crashes', async () => {
    const runtime = await start({ environmentsMax: 1 });
    expect((await fetch(`${runtime.url}/crash`)).status).toBe(502);
    expect(await (await fetch(`${runtime.url}/counts`)).json()).toMatchObject({ requests: 1 });
    expect(runtime.stats).toMatchObject({ coldStarts: 2, crashes: 1 });
  });
});

describe.runIf(hasLambdaRuntime())('the deadline of the HTTP function', () => {
  // 1.5 s to come to the stream's head, 2.5 s more to end it.
  const deadlines = { timeoutMs: 4000, env: { MARGIN_MS: '2500' } };

  /** With a process that has started: on a busy machine that alone takes longer than a stream has to its head. */
  async function startWarm(): Promise<LambdaRuntime> {
    const runtime = await start(deadlines);
    await waitUntil(async () => (await fetch(`${runtime.url}/counts`)).ok, { what: 'a started environment' });
    await runtime.idle();
    return runtime;
  }

  it('lets the app end the stream in its own words', async () => {
    const runtime = await startWarm();
    const response = await fetch(`${runtime.url}/endless?polite=true`);
    expect(await response.text()).toBe('data: first\n\nevent: error\ndata: deadline_exceeded\n\n');
    await runtime.idle();
    expect(await (await fetch(`${runtime.url}/counts`)).json()).toMatchObject({ endsByCancel: 0 });
    expect(runtime.stats).toMatchObject({ timeouts: 0, streamErrors: 0, coldStarts: 1 });
  });

  it('ends the stream of an app that does not, with an error event, and cancels its work', async () => {
    const runtime = await startWarm();
    const response = await fetch(`${runtime.url}/endless`);
    expect(await response.text()).toMatch(
      /^data: first\n\ndata: \{"error":.*"deadline_exceeded"\}\}\n\ndata: \[DONE\]\n\n$/,
    );
    await runtime.idle();
    expect(await (await fetch(`${runtime.url}/counts`)).json()).toMatchObject({ endsByCancel: 1 });
    expect(runtime.stats).toMatchObject({ timeouts: 0, streamErrors: 0, coldStarts: 1 });
  });

  it('answers 504 when nothing was sent yet', async () => {
    const runtime = await startWarm();
    const response = await fetch(`${runtime.url}/endless?head=never`);
    expect(response.status).toBe(504);
    expect(await response.json()).toMatchObject({ error: { code: 'deadline_exceeded' } });
  });

  it('cuts off a body that is no event stream', async () => {
    const runtime = await startWarm();
    const response = await fetch(`${runtime.url}/endless?type=application/json`);
    await expect(response.text()).rejects.toThrow();
  });
});

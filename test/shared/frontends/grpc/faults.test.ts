import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type Settings,
} from 'node:http2';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { afterEach, describe, expect, it } from 'vitest';
import { ServeError } from '../../../../shared/errors/index.ts';
import { encodeMessage, framed, STATUS } from '../../../../shared/grpc/index.ts';
import {
  ModelInferRequestSchema,
  ModelInferResponseSchema,
  ModelStreamInferResponseSchema,
} from '../../../../shared/grpc/messages/generated/grpc_service_pb.js';
import type { IncomingCall } from '../../../../shared/planes/index.ts';
import { waitUntil } from '../../../support/index.ts';
import {
  type ScriptedKserve,
  type ScriptedKserveOptions,
  startScriptedKserve,
} from '../../../support/kserve/scripted-server.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const INFER = '/inference.GRPCInferenceService/ModelInfer';
const STREAM_INFER = '/inference.GRPCInferenceService/ModelStreamInfer';

const opened: { close(): unknown }[] = [];

afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close();
});

/** A call at a worker of `letters`, in the test's hands. */
interface AtWorker {
  readonly call: IncomingCall;
  readonly worker: number;
}

/** Says the next `count` letters: which ones depends on all tokens before them alone. */
function say({ call }: AtWorker, from: number, count: number): void {
  call.tokens(
    0,
    Array.from({ length: count }, (_, at) => from + at),
    0,
    count,
  );
}

async function bed(options: ScriptedKserveOptions = {}) {
  const calls: AtWorker[] = [];
  const models = await startScriptedKserve({
    letters: (call, worker) => {
      calls.push({ call, worker });
      call.accept();
    },
    ...options,
  });
  opened.push(models);
  const client = connectTo(models);
  return { models, client, calls, call: (at: number) => wait(`call ${at}`, () => calls[at]) };
}

function connectTo({ server }: ScriptedKserve, settings: Settings = {}): ClientHttp2Session {
  const client = connect(`http://127.0.0.1:${server.port}`, { settings });
  client.on('error', () => {}); // of those that are cut
  opened.push({ close: () => client.destroy() });
  return client;
}

/** A call, and what came of it so far. */
class Asked {
  readonly #stream: ClientHttp2Stream;
  #bytes = Buffer.alloc(0);
  /** `grpc-status`; undefined until it is there. */
  status: string | undefined;

  constructor(client: ClientHttp2Session, path: string, headers: Readonly<Record<string, string>> = {}) {
    this.#stream = client.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    this.#stream.on('error', () => {}); // `close` follows
    this.#stream.on('data', (bytes: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, bytes]);
    });
    const read = (given: IncomingHttpHeaders): void => {
      this.status ??= given['grpc-status'] as string | undefined;
    };
    this.#stream.on('response', read);
    this.#stream.on('trailers', read);
  }

  say(message: Buffer): this {
    this.#stream.write(message);
    return this;
  }

  /** Says all that it has to. */
  end(message?: Buffer): this {
    this.#stream.end(message);
    return this;
  }

  reset(): void {
    this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  /** Lets the server send. */
  open(): void {
    this.#stream.session?.settings({ initialWindowSize: 1 << 20 });
  }

  get messages(): readonly Buffer[] {
    const messages: Buffer[] = [];
    for (let rest = this.#bytes; rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1); ) {
      const length = rest.readUInt32BE(1);
      messages.push(rest.subarray(5, 5 + length));
      rest = rest.subarray(5 + length);
    }
    return messages;
  }

  /** Texts, finish reasons and errors of the stream so far. */
  get told() {
    const responses = this.messages.map((bytes) => fromBinary(ModelStreamInferResponseSchema, bytes));
    const texts = responses.map(({ inferResponse }) => textOf(inferResponse?.outputs[0]?.contents?.bytesContents));
    const finishes = responses.map(({ inferResponse }) => textOf(inferResponse?.outputs[1]?.contents?.bytesContents));
    return {
      text: texts.join(''),
      finish: finishes.join(''),
      errors: responses.map(({ errorMessage }) => errorMessage).filter((error) => error !== ''),
    };
  }
}

function wait<T>(what: string, probe: () => T): Promise<Exclude<T, false | undefined>> {
  return waitUntil(probe, { timeoutMs: 5000, what });
}

/** Asks `letters` to go on after "abc". */
function prompt(id: string, maxTokens = 6): Buffer {
  const message = encodeMessage(ModelInferRequestSchema, {
    modelName: 'letters',
    id,
    parameters: { max_tokens: { parameterChoice: { case: 'int64Param', value: BigInt(maxTokens) } } },
    inputs: [
      { name: 'text_input', datatype: 'BYTES', shape: [1n], contents: { bytesContents: [Buffer.from('abc')] } },
      { name: 'stream', datatype: 'BOOL', shape: [1n], contents: { boolContents: [true] } },
    ],
  });
  return framed(message);
}

/** The same, to be answered in one piece. */
function wholePrompt(id: string): Buffer {
  const message = fromBinary(ModelInferRequestSchema, prompt(id).subarray(5));
  message.inputs.pop();
  return framed(toBinary(ModelInferRequestSchema, message));
}

const textOf = (contents: readonly Uint8Array[] | undefined): string => Buffer.from(contents?.[0] ?? []).toString();

/** The last letters, and the end. */
function finish(at: AtWorker, from: number, count: number): void {
  say(at, from, count);
  at.call.output({ finish_reason: 'length' });
  at.call.end();
}

describe('KServe when workers fail', () => {
  it('moves a stream whose worker dies in the middle, and its client reads what it would have read', async () => {
    const { models, client, call } = await bed();
    const asked = new Asked(client, STREAM_INFER).end(prompt('r1'));
    const first = await call(0);
    say(first, 4, 2); // d, e
    await wait('the first letters', () => asked.told.text === 'de');
    await models.kill(first.worker);
    const second = await call(1);
    expect(second.worker).not.toBe(first.worker);
    expect([...(second.call.tokenIds ?? [])]).toEqual([1, 2, 3, 4, 5]);
    finish(second, 6, 4);
    await wait('the end', () => asked.status !== undefined);
    expect(asked.told).toEqual({ text: 'defghi', finish: 'length', errors: [] });
  });

  it('moves a request of one answer whose worker dies', async () => {
    const { models, client, call } = await bed();
    const asked = new Asked(client, INFER).end(wholePrompt('r1'));
    const first = await call(0);
    say(first, 4, 3);
    await models.kill(first.worker);
    finish(await call(1), 7, 3);
    await wait('the answer', () => asked.messages.length === 1);
    const response = fromBinary(ModelInferResponseSchema, asked.messages[0] ?? Buffer.alloc(0));
    expect(textOf(response.outputs[0]?.contents?.bytesContents)).toBe('defghi');
  });

  it('tells the failure inside the stream when no worker is left, and the stream goes on', async () => {
    const { models, client, call } = await bed();
    const asked = new Asked(client, STREAM_INFER).say(prompt('r1'));
    say(await call(0), 4, 1);
    await wait('the first letter', () => asked.told.text === 'd');
    await models.kill(0);
    await models.kill(1);
    await wait('the failure', () => asked.told.errors.length === 1);
    expect(asked.status).toBeUndefined();
  });
});

describe('KServe and clients that go', () => {
  it('stops the worker when the call is reset, the connection is cut', async () => {
    const { models, client, call } = await bed();
    const asked = new Asked(client, STREAM_INFER).say(prompt('r1'));
    const first = await call(0);
    asked.reset();
    await wait('the worker to hear of it', () => first.call.stopped.aborted);
    new Asked(client, INFER).end(wholePrompt('r2'));
    const second = await call(1);
    client.destroy();
    await wait('the worker to hear of that', () => second.call.stopped.aborted);
    await wait('the request to end', () => models.lifecycle.inflight === 0);
  });

  it('ends a request at the time that its client gives, wherever it is', async () => {
    const clock = new VirtualClock();
    const { models, client, call } = await bed({ clock });
    const asked = new Asked(client, STREAM_INFER, { 'grpc-timeout': '5S' }).say(prompt('r1'));
    const first = await call(0);
    say(first, 4, 1);
    await wait('the first letter', () => asked.told.text === 'd');
    await clock.advance(5000);
    await wait('the status', () => asked.status !== undefined);
    expect(asked.status).toBe(String(STATUS.DEADLINE_EXCEEDED));
    expect(first.call.stopped.aborted).toBe(true);
    expect(models.lifecycle.inflight).toBe(0);
    // Triton's own parameter, in microseconds.
    const timed = fromBinary(ModelInferRequestSchema, wholePrompt('r2').subarray(5));
    timed.parameters.timeout = {
      $typeName: 'inference.InferParameter',
      parameterChoice: { case: 'int64Param', value: 2_000_000n },
    };
    const short = new Asked(client, INFER).end(framed(toBinary(ModelInferRequestSchema, timed)));
    const second = await call(1);
    await clock.advance(2000);
    await wait('the second status', () => short.status !== undefined);
    expect(short.status).toBe(String(STATUS.DEADLINE_EXCEEDED));
    expect(second.call.stopped.aborted).toBe(true);
  });

  it('ends a request at that time while it is held for a worker, and nothing waits for it any more', async () => {
    const clock = new VirtualClock();
    const { models, client, calls } = await bed({ clock, rememberedMs: 60_000, holds: true });
    await models.remove('text');
    const message = fromBinary(ModelInferRequestSchema, wholePrompt('r1').subarray(5));
    const unary = framed(toBinary(ModelInferRequestSchema, { ...message, modelName: 'text' }));
    const asked = [INFER, STREAM_INFER].map((path) => new Asked(client, path, { 'grpc-timeout': '5S' }).end(unary));
    await wait('both to be held', () => models.held() === 2);
    await clock.advance(4999);
    expect(asked.map(({ status }) => status)).toEqual([undefined, undefined]);
    await clock.advance(1);
    await wait('the status of both', () => asked.every(({ status }) => status === String(STATUS.DEADLINE_EXCEEDED)));
    expect([models.held(), models.lifecycle.inflight, models.bodies.length, calls.length]).toEqual([0, 0, 0, 0]);
  });

  it('ends a request at that time while it waits in the queue of the router, and the next one has its place', async () => {
    const clock = new VirtualClock();
    const { models, client, calls, call } = await bed({ clock, queues: true });
    const ask = (id: string, headers = {}) => new Asked(client, STREAM_INFER, headers).say(prompt(id));
    const running = [ask('r1'), ask('r2')];
    const first = await call(0);
    await call(1);
    const late = ask('r3', { 'grpc-timeout': '5S' });
    await wait('the third to be under way', () => models.lifecycle.inflight === 3);
    const next = ask('r4');
    await wait('the fourth to be under way', () => models.lifecycle.inflight === 4);
    await clock.advance(5000);
    await wait('the status', () => late.status === String(STATUS.DEADLINE_EXCEEDED));
    expect([calls.length, models.lifecycle.inflight]).toEqual([2, 3]);
    say(first, 4, 1); // its prompt is computed: its worker takes another
    const third = await call(2);
    finish(third, 4, 6);
    await wait('the next one to be served', () => next.told.finish === 'length');
    expect(running.map(({ told }) => told.text)).toEqual(['d', '']);
    expect(calls).toHaveLength(3);
  });

  it('starts no work for a call whose time was over while its key was looked up', async () => {
    const clock = new VirtualClock();
    let admit: (() => void) | undefined;
    const gate = {
      admit: () =>
        new Promise<never>((resolve) => {
          admit = () => resolve(grant as never);
        }),
      close: () => {},
    };
    const grant = { key: undefined, owner: '', allowsModel: () => true, spent: () => {} };
    const { models, client, calls } = await bed({ clock, gate: gate as never });
    const asked = new Asked(client, INFER, { 'grpc-timeout': '1S' }).end(wholePrompt('r1'));
    await wait('the key to be asked for', () => admit);
    await clock.advance(1000);
    await wait('the status', () => asked.status === String(STATUS.DEADLINE_EXCEEDED));
    admit?.();
    await clock.advance(10);
    expect(calls).toEqual([]);
    expect(models.lifecycle.inflight).toBe(0);
  });

  it('asks for the key before any message is read', async () => {
    const asked: string[] = [];
    const gate = {
      admit: (caller: { header(name: string): string | undefined }, need: string) => {
        asked.push(need);
        if (caller.header('x-api-key') !== 'k') throw new ServeError('invalid_api_key', 'no key');
        return { key: undefined, owner: '', allowsModel: () => true, spent: () => {} };
      },
      close: () => {},
    };
    const { client } = await bed({ gate: gate as never });
    const service = '/inference.GRPCInferenceService';
    const closed = [
      'ModelInfer',
      'ModelStreamInfer',
      'ModelReady',
      'ModelMetadata',
      'ModelConfig',
      'ModelStatistics',
      'RepositoryIndex',
    ];
    for (const rpc of closed) {
      const refused = new Asked(client, `${service}/${rpc}`); // and not a byte more
      await wait(`${rpc} to be refused`, () => refused.status === '16');
    }
    expect(asked).toHaveLength(closed.length);
    const open = [
      `${service}/ServerLive`,
      `${service}/ServerReady`,
      `${service}/ServerMetadata`,
      '/grpc.health.v1.Health/Check',
    ];
    for (const path of open) {
      const answered = new Asked(client, path).end(framed(Buffer.alloc(0)));
      await wait(`${path} to answer`, () => answered.messages.length === 1);
    }
    expect(asked).toHaveLength(closed.length);
  });
});

describe('KServe and clients that read slowly', () => {
  it('stops pulling from the worker while the client does not read, and loses nothing', async () => {
    const { models, calls } = await bed();
    const slow = new Asked(connectTo(models, { initialWindowSize: 0 }), STREAM_INFER).end(prompt('r1', 90));
    const at = await wait('the call', () => calls[0]);
    for (let letter = 0; letter < 89; letter++) {
      say(at, 1 + (letter % 26), 1);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(slow.messages).toEqual([]);
    slow.open();
    finish(at, 26, 1);
    await wait('the end', () => slow.status !== undefined);
    const letters = Array.from({ length: 89 }, (_, letter) => String.fromCharCode(97 + (letter % 26))).join('');
    expect(slow.told).toMatchObject({ text: `${letters}z`, finish: 'length' });
  });
});

describe('KServe that drains', () => {
  it('lets the request of a stream end, takes no other, and ends idle streams at once', async () => {
    const { models, client, call } = await bed();
    const asked = new Asked(client, STREAM_INFER).say(prompt('r1'));
    const idle = new Asked(client, STREAM_INFER);
    const first = await call(0);
    await drain(models);
    await wait('the idle stream to end', () => idle.status === String(STATUS.UNAVAILABLE));
    const closed = models.server.close(60_000);
    finish(first, 4, 6);
    await wait('the busy stream to end', () => asked.status !== undefined);
    expect(asked.told).toMatchObject({ text: 'defghi', finish: 'length' });
    expect(asked.status).toBe(String(STATUS.UNAVAILABLE));
    await closed;
    expect(client.closed).toBe(true); // it was asked to go
  });

  it('tells a client that has said all that its stream ended well', async () => {
    const { models, client, call } = await bed();
    const asked = new Asked(client, STREAM_INFER).end(prompt('r1'));
    const first = await call(0);
    await drain(models);
    finish(first, 4, 6);
    await wait('the end', () => asked.status !== undefined);
    expect(asked.status).toBe('0');
  });
});

async function drain({ lifecycle, service }: ScriptedKserve): Promise<void> {
  lifecycle.drain();
  service.shutDown();
}

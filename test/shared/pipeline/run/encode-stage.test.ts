import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { type ServeError, workerError } from '../../../../shared/errors/index.ts';
import { ResponseAssembler } from '../../../../shared/pipeline/answer/response-assembler.ts';
import type { Worker } from '../../../../shared/pipeline/index.ts';
import { passThrough } from '../../../../shared/pipeline/prompt/preprocess.ts';
import { EncodeStage } from '../../../../shared/pipeline/run/encode-stage.ts';
import { RequestRun } from '../../../../shared/pipeline/run/run.ts';
import { decodeEngineRequest, type GenerationRequest } from '../../../../shared/protocol/index.ts';
import { Inhibition, SimpleRouter } from '../../../../shared/scheduler/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import {
  HandPlane,
  idleMeter,
  letterModel,
  model,
  RecordingSink,
  request,
  type SeenCall,
  worker,
} from '../fixtures.ts';

const IMAGE = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } };
const MESSAGES = [{ role: 'user', content: [{ type: 'text', text: 'look' }, IMAGE] }];
const RESULT = { ec_transfer_params: { hash0: { port: 1 } } };

interface Setup {
  readonly encoders?: readonly Worker[];
  readonly workers?: readonly Worker[];
  readonly stalled?: readonly string[];
  readonly asked?: Partial<GenerationRequest>;
}

const taking = (id: string): Worker => ({ ...worker(id), routesToEncoder: true });

/** Requests to a model that takes text, as those with media do. */
function fleet({
  encoders = [worker('e1'), worker('e2')],
  workers = [taking('w1'), taking('w2')],
  stalled = [],
}: Setup = {}) {
  const clock = new VirtualClock();
  const plane = new HandPlane();
  const inline: (ServeError | undefined)[] = [];
  const card = { ...model().card, model_input: 'Text' } as ReturnType<typeof model>['card'];
  const served = model({ card, workers, encoders });
  const ignore = () => {};
  const observer = {
    stage: ignore,
    template: ignore,
    tokenize: ignore,
    tokenizerCache: ignore,
    migrated: ignore,
    migrationTooLong: ignore,
    encodedInline: (_model: string, failure?: ServeError) => void inline.push(failure),
  };
  const stalledIds = new Set(stalled);
  const stalledWorkers = { size: stalledIds.size, has: ({ id }: Worker) => stalledIds.has(id) };
  const failedWorkers = new Inhibition(clock, 5000);
  const router = new SimpleRouter<Worker>({ mode: 'round-robin', random: seededRandom(1), inhibition: failedWorkers });
  router.setWorkers(served.pool, workers);
  const shared = { plane, clock, observer, stalledWorkers };
  const context = {
    ...shared,
    router,
    streamWatch: undefined,
    failedWorkers,
    fullWorkers: new Inhibition(clock, 1000),
    encode: new EncodeStage({ ...shared, modelNow: () => served }),
    migrationLimit: 3,
    migrationTokensMax: undefined,
    hold: undefined,
    busyOf: () => undefined,
    poolOf: () => ({ pool: served.pool, workers }),
  };
  const ask = (asked: Partial<GenerationRequest> = {}, isTokens = false) => {
    const sink = new RecordingSink();
    const client = new AbortController();
    const body = { messages: MESSAGES, stream: true };
    const prompt = { kind: 'chat', messages: MESSAGES } as unknown as GenerationRequest['prompt'];
    const asking = request({ endpoint: 'chat_completions', prompt, body, ...asked });
    const ready = passThrough(asking, served);
    const input = { kind: 'tokens', tokenIds: Uint32Array.of(1, 2, 3) } as const;
    const prepared = isTokens ? { ...ready, request: { ...ready.request, input } } : ready;
    const answer = new ResponseAssembler(asking, prepared, isTokens ? letterModel : undefined, sink, idleMeter);
    new RequestRun(context, asking, served, prepared, answer, sink, client.signal).start();
    return { sink, client };
  };
  return { plane, clock, inline, ask };
}

function to({ transport }: SeenCall): string {
  return 'memory' in transport ? transport.memory : '';
}

function read({ request: { id, body, tokenIds } }: SeenCall) {
  return decodeEngineRequest(id, body as Record<string, unknown>, tokenIds);
}

function encoded({ sink }: SeenCall, result: unknown = RESULT): void {
  sink.output({ index: 0, finish_reason: 'stop', encoder_result: result });
  sink.end();
}

describe('a request with media whose workers hand media to encode workers', () => {
  it('has them encoded first, and its worker gets the result beside the media', async () => {
    const { plane, ask, inline } = fleet();
    ask();
    const first = await plane.seen(1);
    expect(to(first)).toBe('e1');
    expect(read(first).input).toMatchObject({ kind: 'text', body: { messages: MESSAGES } });
    encoded(first);
    const second = await plane.seen(2);
    expect(to(second)).toBe('w1');
    expect(read(second)).toMatchObject({ encoderResult: RESULT, input: { body: { messages: MESSAGES } } });
    expect(inline).toEqual([]);
  });

  it('takes turns over the encode workers that are not silent', async () => {
    const { plane, ask } = fleet({ encoders: ['e1', 'e2', 'e3'].map(worker), stalled: ['e2'] });
    for (const id of ['r1', 'r2', 'r3']) ask({ id });
    await plane.seen(3);
    expect(plane.calls.map(to)).toEqual(['e1', 'e3', 'e1']);
  });

  it('keeps its result when it moves to another worker', async () => {
    const { plane, ask } = fleet();
    ask({}, true); // a text cannot move
    encoded(await plane.seen(1));
    (await plane.seen(2)).sink.fail(workerError('Disconnected', 'gone'));
    const third = await plane.seen(3);
    expect(to(third)).toBe('w2');
    expect(read(third).encoderResult).toEqual(RESULT);
  });

  it.each<[string, Setup]>([
    ['no encode worker lives', { encoders: [] }],
    ['every encode worker is silent', { encoders: [worker('e1')], stalled: ['e1'] }],
  ])('goes to its worker at once when %s', async (_why, setup) => {
    const { plane, ask, inline } = fleet(setup);
    ask();
    const first = await plane.seen(1);
    expect(to(first)).toBe('w1');
    expect(read(first).encoderResult).toBeUndefined();
    expect(inline).toEqual([undefined]);
  });

  it.each<[string, (call: SeenCall) => void]>([
    ['is lost', ({ sink }) => sink.fail(workerError('Disconnected', 'gone'))],
    ['fails', ({ sink }) => sink.fail(workerError('Internal', 'out of memory'))],
    ['says nothing', ({ sink }) => sink.end()],
    ['gives no object', (call) => encoded(call, 'no object')],
    [
      'ends with an error',
      ({ sink }) => {
        sink.output({ finish_reason: { error: 'bad' }, encoder_result: RESULT });
        sink.end();
      },
    ],
  ])('has them encoded by its own worker when the encode worker %s', async (_what, end) => {
    const { plane, ask, inline } = fleet();
    ask();
    end(await plane.seen(1));
    const second = await plane.seen(2);
    expect(to(second)).toBe('w1');
    expect(read(second).encoderResult).toBeUndefined();
    expect(inline).toHaveLength(1);
  });

  it('waits for an encode worker no longer than 30 s', async () => {
    const { plane, clock, ask } = fleet();
    ask();
    const { log } = await plane.seen(1);
    await clock.advance(29_999);
    expect(plane.calls).toHaveLength(1);
    await clock.advance(1);
    expect(to(await plane.seen(2))).toBe('w1');
    expect(log).toEqual(['kill']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('fails when the encode worker says that the client is at fault', async () => {
    const { plane, ask } = fleet();
    const { sink } = ask();
    const fault = workerError('InvalidArgument', 'a media URL answered 404', { param: 'messages[0]' });
    (await plane.seen(1)).sink.fail(fault);
    await new Promise((resolve) => setImmediate(resolve));
    expect(sink.failure).toMatchObject({ code: 'invalid_value', param: 'messages[0]' });
    expect(plane.calls).toHaveLength(1);
  });

  it('ends at the encode worker when the client leaves, and goes nowhere else', async () => {
    const { plane, clock, ask, inline } = fleet();
    const { client, sink } = ask();
    const { log } = await plane.seen(1);
    client.abort(new Error('left'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(log).toEqual(['kill']);
    expect(plane.calls).toHaveLength(1);
    expect(sink.failure).toBeUndefined();
    expect(inline).toEqual([]);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('a request that goes past encode workers', () => {
  it('has no media', async () => {
    const { plane, ask } = fleet();
    ask({ prompt: { kind: 'chat', messages: [{ role: 'user', content: 'hello' }] } });
    expect(to(await plane.seen(1))).toBe('w1');
  });

  it('has workers that do not ask for it', async () => {
    const { plane, ask, inline } = fleet({ workers: [worker('w1')] });
    ask();
    expect(to(await plane.seen(1))).toBe('w1');
    expect(inline).toEqual([]);
  });
});

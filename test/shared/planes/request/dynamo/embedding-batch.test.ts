import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { workerError } from '../../../../../shared/errors/index.ts';
import type { DynamoPlane } from '../../../../../shared/planes/request/dynamo/plane.ts';
import { DynamoPlaneServer } from '../../../../../shared/planes/request/dynamo/server.ts';
import type { IncomingCall, PlaneHandler } from '../../../../../shared/planes/request/types.ts';
import { RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../../../support/index.ts';
import { openCaller, servingSettings } from './serving.ts';

const PATH = '2a/dynamo/backend/generate';
let server: DynamoPlaneServer;
let caller: DynamoPlane;
beforeEach(async () => {
  server = await DynamoPlaneServer.listen(servingSettings());
  caller = openCaller();
});
afterEach(async () => {
  await caller.close();
  await server.close();
});

/** Asks for the embeddings of prompts as a frontend of Dynamo does. */
function ask(handler: PlaneHandler, prompts: readonly (readonly number[])[]) {
  const sink = new RecordingSink();
  const body = { model: 'm', token_ids: prompts, dimensions: 8 };
  const request = { id: 'r1', headers: {}, body, isVerbatim: true };
  return { sink, call: caller.call(server.handle(PATH, handler), request, sink) };
}

/** Answers with a vector that is the first token of the prompt. */
function embed(call: IncomingCall): void {
  const { tokenIds } = call;
  const count = tokenIds?.length ?? 0;
  const record = { embeddings: [`vector ${tokenIds?.[0]}`], prompt_tokens: count, total_tokens: count };
  call.output({ body: record, finish_reason: 'stop' });
  call.end();
}

const PROMPTS = Array.from({ length: 100 }, (_, at) => [at, at]);

describe("several prompts in one request for embeddings of Dynamo's frontends", () => {
  it('get one answer, in their order, whatever order the engine takes', async () => {
    const waiting: IncomingCall[] = [];
    const { sink } = ask((call) => {
      waiting.push(call);
      if (waiting.length % 4 === 0) for (const each of waiting.splice(0).reverse()) setImmediate(() => embed(each));
    }, PROMPTS);
    await sink.closed();
    const embeddings = PROMPTS.map(([first]) => `vector ${first}`);
    expect(sink.events.flatMap((event) => (event.kind === 'output' ? [event.output.body] : []))).toEqual([
      { embeddings, prompt_tokens: 200, total_tokens: 200 },
    ]);
  });

  it('have the same options, and are not all computed at once', async () => {
    const calls: IncomingCall[] = [];
    const { sink } = ask((call) => void calls.push(call), PROMPTS);
    await waitUntil(() => calls.length === 16);
    expect(calls.map(({ body }) => body)).toEqual(Array(16).fill(calls[0]?.body));
    expect(calls[0]?.body).toMatchObject({ model: 'm', embedding: { dimensions: 8 } });
    expect(new Set(calls.map(({ id }) => id)).size).toBe(16);
    expect(sink.events.filter(({ kind }) => kind === 'output')).toEqual([]);
  });

  it('fail together with the first of them, and the engine drops the others', async () => {
    const calls: IncomingCall[] = [];
    const { sink } = ask((call) => void calls.push(call), PROMPTS);
    await waitUntil(() => calls.length === 16);
    calls[3]?.fail(workerError('InvalidArgument', 'too long'));
    expect(await sink.closed()).toMatchObject({ kind: 'fail', error: { worker: 'InvalidArgument' } });
    expect(calls[0]?.signal.aborted).toBe(true);
    expect(calls).toHaveLength(16);
  });

  it('are dropped if the caller leaves', async () => {
    const calls: IncomingCall[] = [];
    const { sink, call } = ask((each) => void calls.push(each), PROMPTS);
    await waitUntil(() => calls.length === 16);
    calls[0]?.accept();
    await waitUntil(() => sink.events.length > 0);
    call.kill();
    await waitUntil(() => calls.every(({ signal }) => signal.aborted));
    await waitUntil(() => server.activeStreams === 0);
    expect(calls).toHaveLength(16);
  });
});

import { describe, expect, it } from 'vitest';
import { workerError } from '../../../../shared/errors/index.ts';
import { routedRequest } from '../../../../shared/pipeline/run/run-context.ts';
import { WorkerChoice } from '../../../../shared/pipeline/run/worker-choice.ts';
import { decodeEngineRequest } from '../../../../shared/protocol/index.ts';
import { letterModel, model, preprocessNow, request } from '../fixtures.ts';
import { accept, finish, say, start, streamOf } from './start-run.ts';

const lost = () => workerError('Disconnected', 'socket closed');
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('a request at its worker', () => {
  it('sends the prompt as raw ids with filled stop conditions', async () => {
    const { plane } = start({ stop: { max_tokens: 500 }, sampling: { temperature: 0.5, n: 1 } });
    const { request: sent } = await plane.seen(1);
    const engine = decodeEngineRequest(sent.id, sent.body as Record<string, unknown>, sent.tokenIds);
    expect(engine.input).toEqual({ kind: 'tokens', tokenIds: Uint32Array.of(1, 2, 3) });
    expect(engine.stop).toEqual({ max_tokens: 97, stop_token_ids_hidden: [0] });
    expect(engine.sampling).toEqual({ temperature: 0.5 });
  });

  it('gives up its place at the worker if the report of its dispatch fails', async () => {
    const { context, router, sink } = start();
    const places: string[] = [];
    const choose = router.choose.bind(router);
    router.choose = async (route, signal) => {
      const reservation = await choose(route, signal);
      const release = (): void => {
        places.push('released');
        reservation.release();
      };
      return Object.assign(Object.create(reservation), { release });
    };
    const sent = (): never => {
      throw new Error('no room for the report');
    };
    Object.assign(context.observer, { sent });
    await settled();
    expect(sink.failure).toMatchObject({ code: 'internal_error' });
    expect(places).toEqual(['released']);
  });

  it('passes trace context, request id and metadata beside the request', async () => {
    const { plane } = start({
      trace: { traceparent: '00-x', tracestate: 'a=b', requestId: 'mine' },
      metadata: { 'x-dynamo-meta-team': 'red' },
    });
    expect((await plane.seen(1)).request.headers).toEqual({
      traceparent: '00-x',
      tracestate: 'a=b',
      'x-request-id': 'mine',
      'x-dynamo-meta-team': 'red',
      'x-stator-moves': '1', // can be asked to have another worker go on
    });
  });

  it('passes the trace of its client to routers, where no spans are made', async () => {
    const { context, served } = start();
    const { signal } = new AbortController();
    const asked: (string | undefined)[] = [];
    const choose: typeof context.router.choose = (route, until) => {
      asked.push(route.traceparent);
      return context.router.choose(route, until);
    };
    const spied = { ...context, router: Object.assign(Object.create(context.router), { choose }) };
    for (const trace of [{ traceparent: '00-x' }, {}]) {
      const choice = new WorkerChoice(spied, routedRequest(request({ trace }), served, signal), {}, true);
      await choice.choose(preprocessedRequest(), undefined);
    }
    expect(asked).toEqual(['00-x', undefined]);
  });

  it('shows one piece of text for each engine output and counts every token', async () => {
    const { plane, sink } = start();
    const call = await plane.seen(1);
    say(call, 'he');
    say(call, 'llo');
    finish(call);
    expect(sink.pieces).toEqual(['he', 'llo']);
    expect(sink.finished).toMatchObject({ reason: 'length', text: '' });
    expect(sink.ended).toEqual({ usage: { promptTokens: 3, completionTokens: 5 }, finished: true });
  });

  it("counts the end token, hides it, and tells the worker's count of the prompt and of its cache", async () => {
    const { plane, sink } = start();
    const call = await plane.seen(1);
    call.sink.output({
      token_ids: [8, 9, 0],
      finish_reason: 'eos',
      completion_usage: { prompt_tokens: 9, completion_tokens: 99, prompt_tokens_details: { cached_tokens: 12 } },
    });
    call.sink.end();
    expect(sink.events).toMatchObject([{ kind: 'finish', text: 'hi' }]);
    expect(sink.ended?.usage).toEqual({ promptTokens: 9, completionTokens: 3, cachedTokens: 9 });
  });

  it('counts the prompt itself for a worker that counted none', async () => {
    const { plane, sink } = start();
    const call = await plane.seen(1);
    call.sink.output({ finish_reason: 'stop', completion_usage: { prompt_tokens: 0, completion_tokens: 0 } });
    call.sink.end();
    expect(sink.ended?.usage.promptTokens).toBe(3);
  });

  it('ends, and stops the worker, at the end token, not at what the worker says next', async () => {
    const plain = start();
    const call = await plain.plane.seen(1);
    call.sink.tokens(0, [8, 0, 9], 0, 3);
    expect([plain.sink.finished, plain.sink.ended]).toMatchObject([
      { text: 'h', reason: 'stop' },
      { usage: { completionTokens: 2 }, finished: true },
    ]);
    expect(call.log).toContain('stop');

    const asked = start({ stop: { stop_token_ids: [9] }, output: { logprobs: 0 } });
    const second = await asked.plane.seen(1);
    second.sink.output({ token_ids: [8, 9], log_probs: [-1, -2] });
    expect(asked.sink.finished).toMatchObject({ text: 'h', reason: 'stop', stopReason: 9, logprobs: [{}, {}] });
    expect(second.log).toContain('stop');
  });

  it('leaves the worker alone while another choice goes on behind an end token', async () => {
    const { plane, sink } = start({ sampling: { n: 2 } });
    const call = await plane.seen(1);
    call.sink.tokens(0, [8, 0], 0, 2);
    expect([sink.finished, sink.ended, call.log]).toMatchObject([{ choice: 0 }, undefined, []]);
    call.sink.tokens(1, [0], 0, 1);
    expect([sink.ended?.usage.completionTokens, call.log]).toEqual([3, ['resume', 'stop']]);
  });

  it('says so when the worker ends without any reason', async () => {
    const { plane, sink } = start();
    const call = await plane.seen(1);
    say(call, 'hi');
    call.sink.end();
    expect(sink.ended).toMatchObject({ finished: false });
  });

  it('stops the worker at a stop string and ignores the rest', async () => {
    const { plane, sink } = start({ stop: { stop: ['end'] } });
    const call = await plane.seen(1);
    say(call, 'soe');
    say(call, 'ndless');
    expect(sink.shown).toBe('so');
    expect(sink.finished).toMatchObject({ reason: 'stop', stopReason: 'end' });
    expect(call.log).toContain('stop');
    say(call, 'more');
    call.sink.end();
    expect(sink.ended?.usage.completionTokens).toBe(5);
  });

  it('waits for every choice', async () => {
    const { plane, sink } = start({ sampling: { n: 2 } });
    const call = await plane.seen(1);
    say(call, 'a', 1);
    call.sink.output({ index: 1, finish_reason: 'length' });
    say(call, 'b', 0);
    call.sink.output({ index: 0, finish_reason: 'stop' });
    expect(sink.ended).toBeUndefined();
    call.sink.end();
    expect(sink.events.map((event) => event.kind === 'finish' && [event.choice, event.reason])).toEqual([
      [1, 'length'],
      [0, 'stop'],
    ]);
  });

  it('refuses output for a choice that was not asked for', async () => {
    const { plane, sink } = start();
    const call = await plane.seen(1);
    say(call, 'a', 5);
    expect(sink.failure).toMatchObject({ code: 'bad_worker_response' });
    expect(call.log).toContain('kill');
  });

  it('turns an error finish into a failure', async () => {
    const { plane, sink } = start();
    const call = await plane.seen(1);
    call.sink.output({ finish_reason: { error: 'CUDA out of memory at 0x1' } });
    expect(sink.failure).toMatchObject({ code: 'internal_error', message: 'Internal server error' });
  });

  it.each(['error', 'exhausted', ''])('takes the finish reason %j for a failure, not for a success', async (word) => {
    const { plane, sink } = start();
    const call = await plane.seen(1);
    say(call, 'a');
    call.sink.output({ finish_reason: word as 'stop' }); // what a worker of another make may send
    expect(sink.failure).toMatchObject({ code: 'internal_error', message: 'Internal server error' });
    expect([sink.finished, call.log]).toEqual([undefined, ['kill']]);
  });

  it.each([
    ['eos', 'stop'],
    ['repetition', 'length'],
    ['tool_calls', 'stop'],
    ['abort', 'stop'],
    ['cancelled', 'stop'],
    ['length', 'length'],
    ['content_filter', 'content_filter'],
  ])('tells the finish reason %s as %s', async (word, told) => {
    const { plane, sink } = start();
    (await plane.seen(1)).sink.output({ finish_reason: word as 'stop' });
    expect(sink.finished).toMatchObject({ reason: told });
  });

  it('names log probabilities, and appends the sampled token when the worker left it out', async () => {
    const { plane, sink } = start({ output: { logprobs: 1 } });
    const call = await plane.seen(1);
    call.sink.output({ token_ids: [8], log_probs: [-0.5], top_logprobs: [[{ rank: 0, token_id: 9, logprob: -0.1 }]] });
    const own = { tokenId: 8, token: 'h', bytes: [104], logprob: -0.5 };
    expect(sink.events).toEqual([
      {
        kind: 'delta',
        choice: 0,
        text: 'h',
        tokenIds: [],
        logprobs: [{ ...own, top: [{ tokenId: 9, token: 'i', bytes: [105], logprob: -0.1 }, own] }],
      },
    ]);
  });

  it('shows token ids and the worker to a client that asked for them', async () => {
    const { plane, sink } = start({ extraFields: ['completion_token_ids', 'worker_id'] });
    const call = await plane.seen(1);
    say(call, 'hi');
    finish(call);
    expect(sink.events).toMatchObject([
      { kind: 'worker', decodeWorkerId: 'a', prefillWorkerId: 'a' },
      { kind: 'delta', tokenIds: [8, 9] },
      { kind: 'finish', tokenIds: [] },
    ]);
  });
});

describe('a client that leaves', () => {
  it('kills the call and hears nothing more', async () => {
    const { plane, sink, client } = start();
    const call = await plane.seen(1);
    say(call, 'a');
    client.abort();
    say(call, 'b');
    call.sink.fail(lost());
    expect([call.log, sink.shown, sink.failure, sink.ended]).toEqual([['kill'], 'a', undefined, undefined]);
  });

  it('never reaches a worker when it left before one was chosen', async () => {
    const { plane, sink, client } = start();
    client.abort();
    await settled();
    expect([plane.calls.length, sink.failure]).toEqual([0, undefined]);
  });

  it('gets no more than the window while it reads slowly, and everything in the end', async () => {
    const { plane, sink } = start();
    const call = await plane.seen(1);
    sink.blocked = true;
    say(call, 'a');
    say(call, 'b');
    expect(call.log).toEqual(['pause']);
    sink.unblock();
    expect(call.log).toEqual(['pause', 'resume']);
    finish(call);
    expect(sink.shown).toBe('ab');
  });
});

describe('a worker that fails', () => {
  it('before the first token: the request goes to another one, unnoticed', async () => {
    const { plane, sink, moves } = start();
    (await plane.seen(1)).sink.fail(workerError('CannotConnect'));
    const second = await plane.seen(2);
    expect(second.transport).not.toEqual({ memory: 'a' });
    say(second, 'hi');
    finish(second);
    expect([sink.shown, moves]).toEqual(['hi', ['new_request']]);
  });

  it('is reported as unreachable only if no connection to it could be made', async () => {
    const { plane, unreachable } = start();
    const first = await plane.seen(1);
    first.sink.fail(workerError('CannotConnect'));
    (await plane.seen(2)).sink.fail(lost());
    await plane.seen(3);
    expect(unreachable.map((id) => ({ memory: id }))).toEqual([first.transport]);
  });

  it('mid-stream: another one goes on after the tokens so far', async () => {
    const { plane, sink, moves } = start({ stop: { max_tokens: 10, min_tokens: 6 } });
    const first = await plane.seen(1);
    say(first, 'hell');
    first.sink.fail(lost());
    const second = await plane.seen(2);
    expect([...(second.request.tokenIds ?? [])]).toEqual([1, 2, 3, 8, 5, 12, 12]);
    expect(second.request.body).toMatchObject({ stop_conditions: { max_tokens: 6, min_tokens: 2 } });
    say(second, 'o');
    finish(second);
    expect([sink.shown, moves]).toEqual(['hello', ['ongoing_request']]);
    expect(sink.ended?.usage).toEqual({ promptTokens: 3, completionTokens: 5 });
  });

  it("mid-stream: the next one's count of the prompt is not the client's, whose answer it holds as well", async () => {
    const { plane, sink } = start();
    const usage = { prompt_tokens: 9, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 2 } };
    const first = await plane.seen(1);
    say(first, 'hell');
    first.sink.output({ completion_usage: usage });
    first.sink.fail(lost());
    const second = await plane.seen(2);
    second.sink.output({ finish_reason: 'length', completion_usage: { prompt_tokens: 13, completion_tokens: 0 } });
    second.sink.end();
    expect(sink.ended?.usage).toEqual({ promptTokens: 3, completionTokens: 4, cachedTokens: 2 });
  });

  it("before the first token: the next one's count of the prompt is as good as the first one's", async () => {
    const { plane, sink } = start();
    (await plane.seen(1)).sink.fail(lost());
    const second = await plane.seen(2);
    second.sink.output({ finish_reason: 'length', completion_usage: { prompt_tokens: 13, completion_tokens: 0 } });
    second.sink.end();
    expect(sink.ended?.usage.promptTokens).toBe(13);
  });

  it('with the budget spent: the answer ends at its length', async () => {
    const { plane, sink } = start({ stop: { max_tokens: 2 } });
    const first = await plane.seen(1);
    say(first, 'hi');
    first.sink.fail(lost());
    await settled();
    expect(plane.calls).toHaveLength(1);
    expect(sink.finished).toMatchObject({ reason: 'length' });
    expect(sink.ended).toBeDefined();
  });

  it('after everything was said: the answer is complete', async () => {
    const { plane, sink } = start();
    const call = await plane.seen(1);
    say(call, 'hi');
    call.sink.output({ finish_reason: 'stop' });
    call.sink.fail(lost());
    expect(sink.ended).toMatchObject({ finished: true });
  });

  it('every time: the client gets the failure once the limit is reached', async () => {
    const { plane, sink, moves } = start({}, { limit: 1 });
    (await plane.seen(1)).sink.fail(lost());
    const second = await plane.seen(2);
    accept(second);
    second.sink.fail(lost());
    expect([sink.failure?.code, moves.length]).toEqual(['worker_lost', 1]);
  });

  it('and no other is left: the client gets the first failure, not the search for a second worker', async () => {
    const { plane, sink } = start({}, { workers: 1 });
    (await plane.seen(1)).sink.fail(lost());
    await settled();
    expect(sink.failure?.code).toBe('worker_lost');
  });

  it('is passed over by the next request', async () => {
    const { plane, router, served } = start();
    const { pool } = served;
    (await plane.seen(1)).sink.fail(lost());
    await plane.seen(2);
    const chosen = await Promise.all(
      [1, 2, 3].map(
        async () =>
          (
            await router.choose(
              { id: 'x', pool, routing: {}, override: undefined, tokenIds: undefined, excluded: new Set() },
              new AbortController().signal,
            )
          ).worker.id,
      ),
    );
    expect(chosen).not.toContain('a');
  });

  it('for a reason that no other worker can mend: the client gets the error', async () => {
    const { plane, sink } = start();
    (await plane.seen(1)).sink.fail(workerError('InvalidArgument', 'top_k must be positive'));
    expect(sink.failure).toMatchObject({ code: 'invalid_value', message: 'top_k must be positive' });
    expect(plane.calls).toHaveLength(1);
  });

  it('is the only one for guided, pinned and several choices', async () => {
    for (const fixed of [
      { sampling: { n: 2 } },
      { sampling: { guided_decoding: { regex: 'a' } } },
      { routing: { backend_instance_id: 'a' } },
    ]) {
      const { plane, sink } = start(fixed);
      (await plane.seen(1)).sink.fail(lost());
      expect(sink.failure?.code).toBe('worker_lost');
    }
  });

  it('is the last one once prompt and output exceed the limit', async () => {
    const { plane, sink, moves } = start({}, { tokensMax: 4 });
    const first = await plane.seen(1);
    say(first, 'hi');
    first.sink.fail(lost());
    expect([sink.failure?.code, moves]).toEqual(['worker_lost', ['too long']]);
  });

  it('by silence: its call is killed and another one goes on', async () => {
    const { plane, sink, clock } = start({}, { silenceMs: 1000 });
    const first = await plane.seen(1);
    say(first, 'a');
    await clock.advance(900);
    say(first, 'b');
    await clock.advance(900);
    expect(first.log).toEqual([]);
    await clock.advance(500);
    expect(first.log).toEqual(['kill']);
    const second = await plane.seen(2);
    say(second, 'c');
    finish(second);
    expect(sink.shown).toBe('abc');
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('a request whose worker is stalled', () => {
  it('moves on, away from every stalled worker, and goes on with what it has', async () => {
    const { plane, sink, stalled } = start();
    const first = await plane.seen(1);
    say(first, 'a');
    stalled.add('a').add('b');
    streamOf(first).stalled();
    expect(first.log).toEqual(['kill']);
    const second = await plane.seen(2);
    expect(second.transport).toEqual({ memory: 'c' });
    say(second, 'b');
    finish(second);
    expect(sink.shown).toBe('ab');
  });

  it.each([
    { name: 'no other worker could take it', asked: {}, setup: { workers: 1 } },
    { name: 'it is too long to move', asked: {}, setup: { tokensMax: 1 } },
    { name: 'it has no move left', asked: {}, setup: { limit: 0 } },
    { name: 'it is one of several choices', asked: { sampling: { n: 2 } }, setup: {} },
  ])('stays, and may still end well, if $name', async ({ asked, setup }) => {
    const { plane, sink, stalled } = start(asked, setup);
    const first = await plane.seen(1);
    stalled.add('a');
    streamOf(first).stalled();
    expect(first.log).toEqual([]);
    say(first, 'abc');
    expect(sink.shown).toBe('abc');
    expect(sink.failure).toBeUndefined();
  });

  it('is not sent to one, and fails with 503 where there is no other', async () => {
    const { plane, sink, stalled } = start({}, { workers: 1, isStalled: true });
    await settled();
    expect(stalled.size).toBe(1);
    expect(plane.calls).toEqual([]);
    expect(sink.failure).toMatchObject({ code: 'service_unavailable', status: 503 });
  });
});

describe('a worker that takes the body untouched', () => {
  it('has its chunks passed on, and is left to end by itself after its usage', async () => {
    const { plane, sink } = start({ body: { model: 'letters' } });
    const call = await plane.seen(1);
    call.sink.output({ body: { choices: [{ index: 0, delta: { content: 'hi' } }] }, index: 0 });
    call.sink.output({ body: { choices: [{ index: 0, finish_reason: 'stop' }] }, index: 0, finish_reason: 'stop' });
    call.sink.output({
      body: { choices: [], usage: {} },
      completion_usage: { prompt_tokens: 3, completion_tokens: 1 },
    });
    expect(sink.ended).toBeUndefined();
    call.sink.end();
    expect(sink.events.map(({ kind }) => kind)).toEqual(['body', 'body']);
    expect(sink.ended?.usage).toMatchObject({ promptTokens: 3, completionTokens: 1 });
    expect([sink.ended?.finished, call.log]).toEqual([true, []]);
  });

  it.each(['error', 'abort', 'tired'])('fails with the finish reason %s', async (finish_reason) => {
    const { plane, sink } = start({ body: { model: 'letters' } });
    const call = await plane.seen(1);
    call.sink.output({ body: { choices: [{ index: 0, text: 'a' }] } });
    expect(sink.events).toHaveLength(1);
    call.sink.output({ body: { choices: [{ index: 0, text: '', finish_reason }] } });
    expect([sink.events.length, sink.failure?.code, call.log]).toEqual([1, 'internal_error', ['kill']]);
  });
});

describe('a worker that is full', () => {
  const full = () => workerError('WorkerOverloaded', 'Server overloaded: worker at capacity');

  it.each([
    ['of tokens', {}],
    ['of several choices', { sampling: { n: 2 } }],
    ['that is guided', { sampling: { guided_decoding: { regex: 'a' } } }],
  ])('loses a request %s to another worker, and gets no new one until it has reported', async (_, asked) => {
    const { plane, sink, context, served, clock } = start(asked);
    const first = await plane.seen(1);
    first.sink.fail(full());
    const second = await plane.seen(2);
    expect(second.transport).not.toEqual(first.transport);
    expect(sink.failure).toBeUndefined();
    const choice = new WorkerChoice(context, routedRequest(request(), served, new AbortController().signal), {}, true);
    const chosen = async (): Promise<Set<string>> => {
      const ids = new Set<string>();
      for (let at = 0; at < 6; at++) ids.add((await choice.choose(preprocessedRequest(), undefined)).worker.id);
      return ids;
    };
    const names = served.workers.map(({ id }) => id);
    const rest = names.filter((id) => id !== (first.transport as { readonly memory: string }).memory);
    expect([...(await chosen())].sort()).toEqual(rest);
    await clock.advance(1001);
    expect([...(await chosen())].sort()).toEqual(names);
  });

  it('fails it as overloaded when every other one is full too, or when it is pinned', async () => {
    const { plane, sink } = start();
    for (let at = 1; at <= 3; at++) (await plane.seen(at)).sink.fail(full());
    await settled();
    expect(sink.failure).toMatchObject({ code: 'server_overloaded', status: 503 });
    const pinned = start({ routing: { backend_instance_id: 'a' } });
    (await pinned.plane.seen(1)).sink.fail(full());
    await settled();
    expect(pinned.sink.failure).toMatchObject({ code: 'server_overloaded' });
    expect(pinned.plane.calls).toHaveLength(1);
  });

  it('keeps what cannot move once it has answered', async () => {
    const { plane, sink } = start({ sampling: { n: 2 } });
    const call = await plane.seen(1);
    say(call, 'a');
    call.sink.fail(lost());
    await settled();
    expect([sink.failure?.code, plane.calls.length]).toEqual(['worker_lost', 1]);
  });
});

describe('a stream of a worker that makes text itself', () => {
  it('counts as begun with its first words, so that its silence puts the worker in doubt', async () => {
    const { plane, stalledWorkers, context, served, clock } = start({}, { stallMs: 10_000 });
    const call = await plane.seen(1);
    call.sink.accepted();
    expect(streamOf(call).hasBegun).toBe(false);
    call.sink.output({ completion_usage: { prompt_tokens: 3, completion_tokens: 0 } });
    expect(streamOf(call).hasBegun).toBe(false);
    call.sink.output({ body: { choices: [{ delta: { content: 'he' } }] } });
    expect(streamOf(call).hasBegun).toBe(true);
    const mover = { showedLife: true, isPaused: false, hasBegun: true, promptTokens: 1, timedOut() {}, stalled() {} };
    context.streamWatch?.add(mover, served.workers[0]!, served); // another stream of the same worker goes on
    for (let second = 0; second < 13; second++) {
      mover.showedLife = true;
      await clock.advance(1000);
    }
    expect([...stalledWorkers.ids]).toEqual(['a']);
  });
});

function preprocessedRequest() {
  return preprocessNow(request(), model(), letterModel).request;
}

import { describe, expect, it } from 'vitest';
import { RequestNames } from '../../../../shared/access/index.ts';
import { systemClock } from '../../../../shared/clock/index.ts';
import { workerError } from '../../../../shared/errors/index.ts';
import type { ChatMessage } from '../../../../shared/protocol/index.ts';
import { MemoryResponseStore, type ResponseStore, ResponseStoreError } from '../../../../shared/responses/index.ts';
import type { JsonObject } from '../../../support/dynamo-http/records.ts';
import { waitUntil } from '../../../support/wait-until.ts';
import { args, type Bed, call, eventsOf, openBed, say, stop } from './responses-bed.ts';

function messagesOf(bed: Bed, index: number): readonly ChatMessage[] {
  const prompt = bed.pipeline.calls[index]?.request.prompt;
  return prompt?.kind === 'chat' ? prompt.messages : [];
}

const chatting = (): Bed =>
  openBed(({ sink }) => {
    say(sink, 'Hello!');
    stop(sink);
  });

const failing = (): ResponseStore => ({
  put: async () => {
    throw new ResponseStoreError('unavailable', 'no table');
  },
  get: async () => {
    throw new ResponseStoreError('unavailable', 'no table');
  },
  delete: async () => false,
  close: () => {},
});

describe('a stored response', () => {
  it('is found again by its id, until it is deleted', async () => {
    const bed = chatting();
    const body = await bed.object();
    const path = `/v1/responses/${String(body.id)}`;
    expect(body.store).toBe(true);
    expect(await (await bed.send('GET', path)).json()).toEqual(body);
    expect(await (await bed.send('DELETE', path)).json()).toEqual({ id: body.id, object: 'response', deleted: true });
    const gone = await bed.send('GET', path);
    expect(gone.status).toBe(404);
    expect(await gone.json()).toMatchObject({ error: { code: 'not_found', type: 'invalid_request_error' } });
    expect((await bed.send('DELETE', path)).status).toBe(404);
  });

  it('is found again when it was streamed', async () => {
    const bed = chatting();
    const events = await bed.events();
    const last = events.at(-1)?.response as JsonObject;
    expect(await (await bed.send('GET', `/v1/responses/${String(last.id)}`)).json()).toEqual(last);
  });

  it('is not kept when the client or the operator says so', async () => {
    const bed = chatting();
    const body = await bed.object({ store: false });
    expect(body.store).toBe(false);
    expect((await bed.send('GET', `/v1/responses/${String(body.id)}`)).status).toBe(404);
    const off = openBed(({ sink }) => stop(sink), { responseStore: null });
    expect((await off.object({ store: true })).store).toBe(false);
    const onRequest = openBed(({ sink }) => stop(sink), { settings: { responseStore: 'on-request' } });
    expect((await onRequest.object()).store).toBe(false);
    expect((await onRequest.object({ store: true })).store).toBe(true);
  });

  it('goes on: a follow-up is asked with all that was said before, without the old instructions', async () => {
    const bed = chatting();
    const first = await bed.object({ input: 'I am Ann.', instructions: 'old' });
    const second = await bed.object({ input: 'Who am I?', previous_response_id: first.id, instructions: 'new' });
    expect(messagesOf(bed, 1)).toEqual([
      { role: 'system', content: 'new' },
      { role: 'user', content: 'I am Ann.' },
      { role: 'assistant', content: 'Hello!' },
      { role: 'user', content: 'Who am I?' },
    ]);
    expect(second.previous_response_id).toBe(first.id);
    await bed.send('DELETE', `/v1/responses/${String(first.id)}`);
    await bed.object({ input: 'And now?', previous_response_id: second.id });
    expect(messagesOf(bed, 2).map(({ content }) => content)).toEqual([
      'I am Ann.',
      'Hello!',
      'Who am I?',
      'Hello!',
      'And now?',
    ]);
  });

  it('brings calls and their results back as one turn of the model', async () => {
    const bed = openBed(({ sink, request }) => {
      const hasResult = request.prompt.kind === 'chat' && request.prompt.messages.some(({ role }) => role === 'tool');
      if (hasResult) say(sink, 'It is noon.');
      else {
        say(sink, 'Let me look.');
        call(sink, 0, 'get_time');
        args(sink, 0, '{}');
      }
      stop(sink);
    });
    const tools = [{ type: 'function', name: 'get_time', parameters: { type: 'object' } }];
    const first = await bed.object({ tools });
    const output = { type: 'function_call_output', call_id: 'call_0', output: 'noon' };
    const second = await bed.object({ tools, previous_response_id: first.id, input: [output] });
    expect(messagesOf(bed, 1).slice(1)).toEqual([
      {
        role: 'assistant',
        content: 'Let me look.',
        tool_calls: [{ id: 'call_0', type: 'function', function: { name: 'get_time', arguments: '{}' } }],
      },
      { role: 'tool', content: 'noon', tool_call_id: 'call_0' },
    ]);
    expect(second.output).toMatchObject([{ content: [{ text: 'It is noon.' }] }]);
  });

  it('gives its items to references, and tells of those that are gone', async () => {
    const bed = chatting();
    const first = await bed.object();
    const [item] = first.output as readonly JsonObject[];
    const reference = { type: 'item_reference', id: item?.id };
    await bed.object({ input: [{ role: 'user', content: 'hi' }, reference, { role: 'user', content: 'more' }] });
    expect(messagesOf(bed, 1).map(({ content }) => content)).toEqual(['hi', 'Hello!', 'more']);
    await bed.send('DELETE', `/v1/responses/${String(first.id)}`);
    const gone = await bed.create({ input: [reference] });
    expect(gone.status).toBe(404);
    expect(await gone.json()).toMatchObject({ error: { param: 'input[0].id' } });
    const later = await bed.create({ input: [reference, { role: 'user', content: 'more' }] });
    expect(later.status).toBe(200);
    expect(later.headers.get('warning')).toContain('item_reference');
    expect(messagesOf(bed, 2).map(({ content }) => content)).toEqual(['more']);
  });

  it('tells when the one before is not there', async () => {
    const bed = chatting();
    const response = await bed.create({ previous_response_id: 'resp_none' });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({
      error: { code: 'previous_response_not_found', param: 'previous_response_id' },
    });
  });

  it('lists its input, newest first, page by page', async () => {
    const bed = chatting();
    const first = await bed.object({ input: 'one' });
    const second = await bed.object({ input: [{ role: 'user', content: 'two' }], previous_response_id: first.id });
    const path = `/v1/responses/${String(second.id)}/input_items`;
    const list = async (query = '') => (await (await bed.send('GET', path + query)).json()) as JsonObject;
    const textsOf = ({ data }: JsonObject) =>
      (data as readonly JsonObject[]).map((item) => (item.content as readonly JsonObject[])[0]?.text);
    const whole = await list('?order=asc');
    expect(textsOf(whole)).toEqual(['one', 'Hello!', 'two']);
    expect(whole).toMatchObject({ object: 'list', has_more: false });
    const page = await list('?limit=2');
    expect(textsOf(page)).toEqual(['two', 'Hello!']);
    expect(page.has_more).toBe(true);
    expect(textsOf(await list(`?limit=2&after=${String(page.last_id)}`))).toEqual(['one']);
    for (const query of ['?limit=0', '?limit=x', '?order=up', '?after=none']) {
      expect((await bed.send('GET', path + query)).status).toBe(400);
    }
  });

  it('costs the answer nothing but its name when the store is away', async () => {
    const bed = openBed(
      ({ sink }) => {
        say(sink, 'Hello!');
        stop(sink);
      },
      { responseStore: failing() },
    );
    const body = await bed.object();
    expect(body).toMatchObject({ status: 'completed', store: false });
    expect(bed.test.lines.some(({ message }) => message === 'response could not be stored')).toBe(true);
    const next = await bed.create({ previous_response_id: body.id });
    expect(next.status).toBe(503);
    expect(next.headers.get('retry-after')).toBe('1');
  });
});

describe('a response that is being made', () => {
  it('can be looked at and cancelled by its id, and is kept as cancelled', async () => {
    const bed = openBed(({ sink }) => say(sink, 'Once upon'));
    const stream = await bed.create({ stream: true });
    const { request, options } = await bed.pipeline.call(0);
    const path = `/v1/responses/resp_${request.id.replaceAll('-', '')}`;
    expect(await (await bed.send('GET', path)).json()).toMatchObject({
      status: 'in_progress',
      output: [{ content: [{ text: 'Once upon' }] }],
    });
    const cancelled = (await (await bed.send('POST', `${path}/cancel`)).json()) as JsonObject;
    expect(cancelled).toMatchObject({ status: 'cancelled', output: [{ status: 'incomplete' }] });
    expect(options.signal.aborted).toBe(true);
    const events = eventsOf(await stream.text());
    expect(events.at(-1)).toMatchObject({ type: 'response.incomplete', response: cancelled });
    expect(await (await bed.send('GET', path)).json()).toEqual(cancelled);
    expect(await (await bed.send('POST', `${path}/cancel`)).json()).toEqual(cancelled);
  });

  it('answers a unary caller with what there is when another client cancels the response', async () => {
    const bed = openBed(({ sink }) => say(sink, 'Once'));
    const answer = bed.create({ store: false });
    const { request } = await bed.pipeline.call(0);
    const path = `/v1/responses/resp_${request.id.replaceAll('-', '')}`;
    await bed.send('POST', `${path}/cancel`);
    expect(await (await answer).json()).toMatchObject({
      status: 'cancelled',
      output: [{ content: [{ text: 'Once' }] }],
    });
    expect((await bed.send('GET', path)).status).toBe(404);
    expect((await bed.send('POST', `${path}/cancel`)).status).toBe(404);
  });
});

describe('a response that is being made at another edge', () => {
  /** Two edges over one store; the worker behind the first ends a request at the second's wish. */
  function edges(responseStore: ResponseStore | null) {
    const names = new RequestNames('shared by both');
    const first = openBed(({ sink }) => say(sink, 'Once'), { responseStore, names });
    const cancel = async () => {
      const { sink } = await first.pipeline.call(0);
      sink.fail(workerError('CancelledByClient'));
      return { isCancelled: true, silent: 0 };
    };
    return { first, second: openBed(() => {}, { responseStore, names, canceller: { cancel } }) };
  }

  it('is cancelled, and given as its own edge has stored it', async () => {
    const { first, second } = edges(new MemoryResponseStore({ clock: systemClock, ttlMs: 60_000, bytesMax: 10_000 }));
    const stream = await begun(first);
    const cancelled = await (await second.send('POST', `/v1/responses/${stream.id}/cancel`)).json();
    expect(cancelled).toMatchObject({ id: stream.id, status: 'cancelled', output: [{ content: [{ text: 'Once' }] }] });
    expect(eventsOf(await stream.whole()).at(-1)).toMatchObject({ type: 'response.incomplete', response: cancelled });
  });

  it('is cancelled without its text where nothing is stored', async () => {
    const { first, second } = edges(null);
    const { id, whole } = await begun(first);
    const cancelled = await second.send('POST', `/v1/responses/${id}/cancel`);
    expect(await cancelled.json()).toEqual({ id, object: 'response', status: 'cancelled', output: [] });
    expect(eventsOf(await whole()).at(-1)).toMatchObject({ response: { id, status: 'cancelled' } });
  });

  it('is not known there by what an edge has not made', async () => {
    const { first, second } = edges(null);
    const { id } = await begun(first);
    for (const made of [id.slice(0, 37), `${id.slice(0, -1)}${id.endsWith('0') ? 1 : 0}`]) {
      expect((await second.send('POST', `/v1/responses/${made}/cancel`)).status).toBe(404);
    }
  });

  /** A stream of which the first events were read. */
  async function begun(bed: ReturnType<typeof openBed>) {
    const stream = await bed.create({ stream: true });
    const reader = stream.body!.getReader();
    const decoder = new TextDecoder();
    const head = decoder.decode((await reader.read()).value);
    const id = /"id":"(resp_\w+)"/.exec(head)?.[1] ?? head;
    /** All of it, with what was read already. */
    const whole = async (): Promise<string> => {
      let text = head;
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return text;
        text += decoder.decode(value, { stream: true });
      }
    };
    return { id, whole };
  }
});

describe('a request whose client leaves while the store is asked', () => {
  it('is counted as left, and never reaches a worker', async () => {
    let asked = (): void => {};
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const responseStore: ResponseStore = {
      ...failing(),
      get: (_id, _owner, signal) => {
        asked();
        return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
      },
    };
    const bed = openBed(() => {}, { responseStore });
    const leaving = new AbortController();
    const answer = bed.test.app.fetch(
      new Request('http://localhost/v1/responses', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', input: 'hi', previous_response_id: 'resp_1' }),
        signal: leaving.signal,
      }),
    );
    await isAsked;
    leaving.abort();
    await answer;
    await waitUntil(() => bed.test.lines.some(({ message }) => message === 'request completed'));
    expect(bed.pipeline.calls).toHaveLength(0);
    expect(bed.test.lines.at(-1)?.fields).toMatchObject({ status: 499, error_type: 'cancelled' });
  });
});

describe('what a request refers to', () => {
  const LIMIT_BYTES = 100_000;
  const TOO_MUCH = { error: { code: 'request_too_large' } };
  const open = (answer: string): Bed =>
    openBed(
      ({ sink }) => {
        say(sink, answer);
        stop(sink);
      },
      { settings: { bodyLimitBytes: LIMIT_BYTES } },
    );

  it('may be as large as a body, each item as often as it is named', async () => {
    const bed = open('x'.repeat(10_000));
    const { output } = await bed.object();
    const [item] = output as readonly JsonObject[];
    const references = (times: number) => Array(times).fill({ type: 'item_reference', id: item?.id });
    expect((await bed.create({ input: references(9) })).status).toBe(200);
    const refused = await bed.create({ input: references(1000) });
    expect(refused.status).toBe(413);
    expect(await refused.json()).toMatchObject({ error: { ...TOO_MUCH.error, param: 'input[9].id' } });
    expect(bed.pipeline.calls).toHaveLength(2);
  });

  it('counts what was said before', async () => {
    const bed = open('x'.repeat(40_000));
    let last = await bed.object();
    for (let turn = 2; turn <= 3; turn++) last = await bed.object({ previous_response_id: last.id });
    const refused = await bed.create({ previous_response_id: last.id });
    expect(refused.status).toBe(413);
    expect(await refused.json()).toMatchObject({ error: { ...TOO_MUCH.error, param: 'previous_response_id' } });
  });
});

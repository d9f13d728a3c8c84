import { afterEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../support/dynamo-http/records.ts';
import { faultsOf, faultsOfEvents, responseRules } from '../../../support/open-responses.ts';
import { waitUntil } from '../../../support/wait-until.ts';
import { closeServers, idOf, openServer, SocketClient } from './socket-bed.ts';

/* What the OpenResponses compliance suite asks of a server over WebSocket, and of what responses hold. */

afterEach(closeServers);

const TYPES = [
  'response.created',
  'response.in_progress',
  'response.output_item.added',
  'response.content_part.added',
  'response.output_text.delta',
  'response.output_text.delta',
  'response.output_text.done',
  'response.content_part.done',
  'response.output_item.done',
  'response.completed',
];
const CREATE = { type: 'response.create', model: 'm' };
const NOT_STORED = { ...CREATE, store: false };
const MISSING = { type: 'error', status: 400, error: { code: 'previous_response_not_found' } };

function message(role: string, type: string, text: string): JsonObject {
  return { type: 'message', role, content: [{ type, text }] };
}

function expectWhole(end: JsonObject): void {
  expect(end).toMatchObject({ type: 'response.completed', response: { object: 'response', status: 'completed' } });
  expect(faultsOf(responseRules, end.response)).toEqual([]);
}

describe('a server of Open Responses', () => {
  async function open() {
    const bed = await openServer();
    return { ...bed, connect: () => new SocketClient(bed.server.port).opened() };
  }

  it('answers over a WebSocket with the events of a stream', async () => {
    const client = await (await open()).connect();
    client.send({ ...CREATE, input: [{ type: 'message', role: 'user', content: 'Count from 1 to 3.' }] });
    await waitUntil(() => client.events.some(({ type }) => type === 'response.completed'));
    expect(client.events.map(({ type }) => type)).toEqual(TYPES);
    expect(faultsOfEvents(client.events)).toEqual([]);
    expectWhole(client.events.at(-1)!);
  });

  it('answers one after the other on one connection', async () => {
    const client = await (await open()).connect();
    const ends = [
      await client.ask({ ...NOT_STORED, input: 'Reply with exactly: first' }),
      await client.ask({ ...NOT_STORED, input: 'Reply with exactly: second' }),
    ];
    for (const end of ends) expectWhole(end);
    expect(new Set(ends.map(idOf)).size).toBe(2);
  });

  it('goes on from a response that is not stored, with the new input alone', async () => {
    const { connect, pipeline } = await open();
    const client = await connect();
    const first = await client.ask({ ...NOT_STORED, input: 'Remember the code word: cobalt.' });
    const second = await client.ask({
      ...NOT_STORED,
      previous_response_id: idOf(first),
      input: 'What is the code word?',
    });
    expectWhole(second);
    expect((second.response as JsonObject).previous_response_id).toBe(idOf(first));
    expect(JSON.stringify(pipeline.calls[1]?.request.prompt)).toMatch(/cobalt.*What is the code word/);
  });

  it('knows it no more on another connection, which goes on with a new one', async () => {
    const { connect } = await open();
    const first = await (await connect()).ask({ ...NOT_STORED, input: 'Remember the code word: copper.' });
    const client = await connect();
    const next = { ...NOT_STORED, previous_response_id: idOf(first), input: 'Try to continue after reconnect.' };
    expect(await client.ask(next)).toMatchObject(MISSING);
    expectWhole(await client.ask({ ...NOT_STORED, input: [message('user', 'input_text', 'Start anew.')] }));
  });

  it('says that a response was never there', async () => {
    const client = await (await open()).connect();
    const next = { ...NOT_STORED, previous_response_id: 'resp_openresponses_missing_1', input: 'This should fail.' };
    expect(await client.ask(next)).toMatchObject(MISSING);
  });

  it('refuses the result of a call that the response has not made, and forgets the response', async () => {
    const client = await (await open()).connect();
    const first = await client.ask({ ...NOT_STORED, input: 'Remember the code word: ember.' });
    const next = { ...NOT_STORED, previous_response_id: idOf(first) };
    const result = { type: 'function_call_output', call_id: 'call_missing', output: 'No such call.' };
    expect(await client.ask({ ...next, input: [result] })).toMatchObject({
      type: 'error',
      status: 400,
      error: { code: 'invalid_value', param: 'input', message: expect.stringContaining('call_missing') },
    });
    expect(await client.ask({ ...next, input: 'Try to continue.' })).toMatchObject(MISSING);
  });

  it('begins a chain with a conversation that was compacted', async () => {
    const { connect, server } = await open();
    const input = [
      message('user', 'input_text', 'Remember the compaction code word: slate.'),
      message('assistant', 'output_text', 'OK.'),
      message('user', 'input_text', 'Compress this conversation.'),
    ];
    const compacted = await fetch(`${server.url}/v1/responses/compact`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', input }),
    });
    expect(compacted.status).toBe(200);
    const { output } = (await compacted.json()) as { output: readonly JsonObject[] };
    const client = await connect();
    const go = { type: 'message', role: 'user', content: 'Continue from here.' };
    expectWhole(await client.ask({ ...NOT_STORED, input: [...output, go], tools: [] }));
  });

  it('refuses the result of a call that the response has not made over HTTP, too', async () => {
    const { server } = await open();
    const post = async (body: object) => {
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${server.url}/v1/responses`, { method: 'POST', headers, body: JSON.stringify(body) });
      return { status: answer.status, body: (await answer.json()) as JsonObject };
    };
    const first = await post({ model: 'm', input: 'hi', store: true });
    const result = { type: 'function_call_output', call_id: 'call_missing', output: 'No such call.' };
    const next = { model: 'm', previous_response_id: first.body.id, input: [result] };
    expect(await post(next)).toMatchObject({ status: 400, body: { error: { code: 'invalid_value', param: 'input' } } });
    const call = { type: 'function_call', call_id: 'call_missing', name: 'f', arguments: '{}' };
    expect(await post({ ...next, input: [call, result] })).toMatchObject({ status: 200 });
    expect(await post({ ...next, previous_response_id: undefined })).toMatchObject({ status: 200 }); // a history is data
  });
});

import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { ChatMessage } from '../../../../shared/protocol/index.ts';
import type { JsonObject } from '../../../support/dynamo-http/records.ts';
import { type Bed, brief, call, openBed, say, stop, think, USAGE } from './responses-bed.ts';

const CONVERSATION = [
  { role: 'developer', content: 'Be terse.' },
  { role: 'user', content: 'My name is Ann.' },
  { role: 'assistant', content: 'Noted.' },
  { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
  { type: 'function_call_output', call_id: 'c1', output: '42' },
];

const summing = (): Bed =>
  openBed(({ sink }) => {
    think(sink, 'What matters?');
    say(sink, 'The user is ');
    say(sink, 'called Ann.');
    stop(sink);
  });

const compact = async (bed: Bed, body: object): Promise<JsonObject> =>
  (await (await bed.send('POST', '/v1/responses/compact', body)).json()) as JsonObject;

function messagesOf(bed: Bed, index: number): readonly ChatMessage[] {
  const prompt = bed.pipeline.calls[index]?.request.prompt;
  return prompt?.kind === 'chat' ? prompt.messages : [];
}

describe('a conversation that is compacted', () => {
  it('becomes what the user said and a summary, in the published shape', async () => {
    const bed = summing();
    expect(await compact(bed, { model: 'm', input: CONVERSATION, instructions: 'Be kind.' })).toEqual({
      id: expect.stringMatching(/^resp_[0-9a-f]{32}$/),
      object: 'response.compaction',
      created_at: expect.any(Number),
      output: [
        {
          type: 'message',
          role: 'user',
          id: expect.stringMatching(/^msg_/),
          status: 'completed',
          content: [{ type: 'input_text', text: 'My name is Ann.' }],
        },
        { type: 'compaction', id: expect.stringMatching(/^cmp_/), encrypted_content: expect.any(String) },
      ],
      usage: {
        input_tokens: USAGE.promptTokens,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: USAGE.completionTokens,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: USAGE.promptTokens + USAGE.completionTokens,
      },
    });
    const asked = messagesOf(bed, 0);
    expect(asked.slice(0, -1).map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'tool']);
    expect(asked.at(-1)).toMatchObject({ role: 'user', content: expect.stringContaining('summary') });
  });

  it('is no response that can be looked at while it is made', async () => {
    const bed = openBed(({ sink }) => say(sink, 'The user'));
    const made = compact(bed, { model: 'm', input: CONVERSATION });
    const { request, sink } = await bed.pipeline.call(0);
    const path = `/v1/responses/resp_${request.id.replaceAll('-', '')}`;
    expect((await bed.send('GET', path)).status).toBe(404);
    expect((await bed.send('GET', `${path}?stream=true`)).status).toBe(404);
    stop(sink);
    expect(await made).toMatchObject({ object: 'response.compaction' });
  });

  it('is gone on from with its output as input', async () => {
    const bed = summing();
    const { output } = await compact(bed, { model: 'm', input: CONVERSATION });
    await bed.object({ input: [...(output as readonly object[]), { role: 'user', content: 'Who am I?' }] });
    expect(messagesOf(bed, 1)).toEqual([
      { role: 'user', content: 'My name is Ann.' },
      { role: 'user', content: expect.stringMatching(/^Summary of .*:\n\nThe user is called Ann\.$/s) },
      { role: 'user', content: 'Who am I?' },
    ]);
  });

  it('may be a stored one, whose model is asked again', async () => {
    const bed = summing();
    const { id } = await bed.object({ input: 'My name is Ann.' });
    const { output } = await compact(bed, { previous_response_id: id });
    expect((output as readonly JsonObject[]).map(({ type }) => type)).toEqual(['message', 'compaction']);
    expect(bed.pipeline.calls[1]?.request.model).toBe('m');
    expect(messagesOf(bed, 1)[0]).toEqual({ role: 'user', content: 'My name is Ann.' });
  });

  it.each([
    ['a missing model, even if only one chats', { input: 'hi' }, 400, 'missing_required_parameter', 'model'],
    ['nothing to compact', { model: 'm' }, 400, 'missing_required_parameter', 'input'],
    ['an unknown model', { model: 'zzz', input: 'hi' }, 404, 'model_not_found', 'model'],
    [
      'an unknown response',
      { previous_response_id: `resp_${'0'.repeat(32)}` },
      404,
      'previous_response_not_found',
      'previous_response_id',
    ],
    ['a wrong type', { model: 'm', input: 5 }, 400, 'invalid_value', 'input'],
  ])('is refused for %s', async (_what, body, status, code, param) => {
    const refusal = await summing().send('POST', '/v1/responses/compact', body);
    expect(refusal.status).toBe(status);
    expect(await refusal.json()).toMatchObject({ error: { code, param } });
  });

  it('is a failure when the model has nothing to say', async () => {
    const bed = openBed(({ sink }) => {
      call(sink, 0, 'f');
      stop(sink);
    });
    const refusal = await bed.send('POST', '/v1/responses/compact', { model: 'm', input: 'hi' });
    expect(refusal.status).toBe(502);
    expect(await refusal.json()).toMatchObject({ error: { code: 'bad_worker_response' } });
  });

  it('reaches the official client', async () => {
    const bed = summing();
    const fetch = async (url: string | URL | Request, init?: RequestInit) => bed.test.app.fetch(new Request(url, init));
    const client = new OpenAI({ baseURL: 'http://localhost/v1', apiKey: 'none', fetch });
    const { output } = await client.responses.compact({ model: 'm', input: 'hello' });
    expect(output.at(-1)?.type).toBe('compaction');
  });
});

describe('a request that ends in a compaction_trigger', () => {
  const input = [...CONVERSATION, { type: 'compaction_trigger' }];

  it('streams one item, the summary', async () => {
    const bed = summing();
    const events = await bed.events({ input, tools: [{ type: 'function', name: 'f', parameters: {} }] });
    expect(events.map(brief)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.output_item.done',
      'response.completed',
    ]);
    expect((events.at(-1)!.response as JsonObject).output).toEqual([events[3]?.item]);
    expect(events[3]?.item).toMatchObject({ type: 'compaction' });
  });

  it('is followed by its id: the summary stands for what went before', async () => {
    const bed = summing();
    const { id } = await bed.object({ input });
    await bed.object({ previous_response_id: id, input: 'Who am I?' });
    expect(messagesOf(bed, 1).map(({ role }) => role)).toEqual(['user', 'user', 'user']);
    expect(messagesOf(bed, 1)[1]?.content).toContain('called Ann');
  });

  it('is refused when something stands behind it; a summary of another server is left out', async () => {
    const bed = summing();
    const early = await bed.create({ input: [{ type: 'compaction_trigger' }, ...CONVERSATION] });
    expect(await early.json()).toMatchObject({ error: { code: 'invalid_value', param: 'input[0]' } });
    const foreign = await bed.create({ input: [{ type: 'compaction', encrypted_content: 'gAAAA' }, ...CONVERSATION] });
    expect(foreign.status).toBe(200);
    expect(foreign.headers.get('warning')).toContain('compaction');
  });
});

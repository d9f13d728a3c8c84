import OpenAI, { APIUserAbortError, NotFoundError } from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Deployment, startDeployment } from '../../../support/dynamo-http/deployments.ts';
import { FIXTURES } from '../../../support/dynamo-http/records.ts';
import type { WorkerScript } from '../../../support/scripted-engine.ts';
import { waitUntil } from '../../../support/wait-until.ts';

const SCRIPTS = new Map<string, WorkerScript>([
  ['hello', { steps: [{ t: 'Hello' }, { t: ' there' }], finish: 'eos' }],
  ['json', { steps: [{ t: '{"city":' }, { t: '"Rome"}' }], finish: 'eos' }],
  ['slow', { steps: Array.from({ length: 200 }, () => ({ t: 'x' })), sleep: 0.02, finish: 'eos' }],
  [
    'call',
    {
      steps: [
        { t: 'One moment. <tool_call>\n{"name": "get_time", "argu' },
        { t: 'ments": {"tz": ' },
        { t: '"UTC"}}\n</tool_call>' },
      ],
      finish: 'eos',
    },
  ],
  [
    'patch',
    {
      steps: [{ t: '<tool_call>\n{"name": "patch", "arguments": {"input": "+ a' }, { t: '\\nb"}}\n</tool_call>' }],
      finish: 'eos',
    },
  ],
]);
const GET_TIME = {
  type: 'function' as const,
  name: 'get_time',
  strict: false,
  parameters: { type: 'object', properties: { tz: { type: 'string' } } },
};

let deployment: Deployment;
let client: OpenAI;

beforeAll(async () => {
  deployment = await startDeployment('default', FIXTURES, SCRIPTS);
  client = new OpenAI({ baseURL: `http://127.0.0.1:${deployment.port}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => deployment.close());

describe('the official client of the Responses API', () => {
  it('reads an answer, and goes on from it by its id', async () => {
    const first = await client.responses.create({ model: 'plain', input: 'I am Ann. [[s:hello]]' });
    expect(first.output_text).toBe('Hello there');
    expect(first.status).toBe('completed');
    await client.responses.create({
      model: 'plain',
      input: 'Who am I? [[s:hello]]',
      previous_response_id: first.id,
    });
    const prompt = deployment.engine.seen.at(-1)?.prompt ?? '';
    expect(prompt.indexOf('I am Ann.')).toBeLessThan(prompt.indexOf('Hello there'));
    expect(prompt.indexOf('Hello there')).toBeLessThan(prompt.indexOf('Who am I?'));
  });

  it('follows a stream to the same response that it can retrieve, list and delete', async () => {
    const stream = client.responses.stream({ model: 'plain', input: 'Hi [[s:hello]]' });
    const deltas: string[] = [];
    stream.on('response.output_text.delta', ({ delta }) => deltas.push(delta));
    const final = await stream.finalResponse();
    expect(deltas).toEqual(['Hello', ' there']);
    expect(final.output_text).toBe('Hello there');
    const stored = await client.responses.retrieve(final.id);
    expect(stored.usage).toEqual(final.usage);
    expect(stored.output_text).toBe('Hello there');
    const items = [];
    for await (const item of client.responses.inputItems.list(final.id)) items.push(item);
    expect(items).toMatchObject([{ type: 'message', role: 'user', content: [{ type: 'input_text' }] }]);
    await client.responses.delete(final.id);
    await expect(client.responses.retrieve(final.id)).rejects.toThrow(NotFoundError);
  });

  it('makes a round trip with a function: call, result, answer', async () => {
    const stream = client.responses.stream({ model: 't.hermes', input: 'Time? [[s:call]]', tools: [GET_TIME] });
    const first = await stream.finalResponse();
    const [said, called] = first.output;
    expect(said).toMatchObject({ type: 'message', content: [{ text: 'One moment. ' }] });
    if (called?.type !== 'function_call') throw new Error('no call');
    expect(JSON.parse(called.arguments)).toEqual({ tz: 'UTC' });
    const second = await client.responses.create({
      model: 't.hermes',
      tools: [GET_TIME],
      previous_response_id: first.id,
      input: [
        { type: 'function_call_output', call_id: called.call_id, output: 'noon' },
        { role: 'user', content: '[[s:hello]]' },
      ],
    });
    expect(second.output_text).toBe('Hello there');
    expect(deployment.engine.seen.at(-1)?.prompt).toContain('<call>get_time');
    expect(deployment.engine.seen.at(-1)?.prompt).toContain('<|im_start|>tool\nnoon');
  });

  it('makes the same round trip with its own output as input, and nothing stored', async () => {
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: 'Time? [[s:call]]' }];
    const request = { model: 't.hermes', tools: [GET_TIME], store: false };
    const first = await client.responses.create({ ...request, input });
    input.push(...(first.output as OpenAI.Responses.ResponseInputItem[]));
    const called = first.output.find((item) => item.type === 'function_call');
    input.push({ type: 'function_call_output', call_id: called?.call_id ?? '', output: 'noon' });
    input.push({ role: 'user', content: '[[s:hello]]' });
    const second = await client.responses.create({ ...request, input });
    expect(second.output_text).toBe('Hello there');
    await expect(client.responses.retrieve(second.id)).rejects.toThrow(NotFoundError);
  });

  it('reads the input of a custom tool', async () => {
    const tools = [{ type: 'custom' as const, name: 'patch', description: 'Applies a patch.' }];
    const stream = client.responses.stream({ model: 't.hermes', input: 'Go [[s:patch]]', tools });
    const deltas: string[] = [];
    stream.on('response.custom_tool_call_input.delta', ({ delta }) => deltas.push(delta));
    const { output } = await stream.finalResponse();
    expect(output).toMatchObject([{ type: 'custom_tool_call', name: 'patch', input: '+ a\nb' }]);
    expect(deltas.join('')).toBe('+ a\nb');
  });

  it('parses structured output', async () => {
    const schema = { type: 'object', properties: { city: { type: 'string' } } };
    const parsed = await client.responses.parse({
      model: 'plain',
      input: 'Where? [[s:json]]',
      text: { format: { type: 'json_schema', name: 'place', schema } },
    });
    expect(JSON.parse(parsed.output_text)).toEqual({ city: 'Rome' });
    const { sampling } = deployment.engine.seen.at(-1)!.request;
    expect(sampling.guided_decoding).toEqual({ json: schema });
  });

  it('reads typed errors', async () => {
    const asked = client.responses.create({ model: 'plain', input: 'x', previous_response_id: 'resp_gone' });
    await expect(asked).rejects.toMatchObject({ status: 404, code: 'previous_response_not_found' });
    const background = client.responses.create({ model: 'plain', input: 'x', background: true });
    await expect(background).rejects.toMatchObject({ status: 400, code: 'unsupported_parameter', param: 'background' });
  });

  it('ends the work of the engine by leaving', async () => {
    const stream = await client.responses.create({ model: 'plain', input: 'Go [[s:slow]]', stream: true });
    for await (const event of stream) if (event.type === 'response.output_text.delta') break;
    const leaving = new AbortController();
    const unary = client.responses.create({ model: 'plain', input: 'Go [[s:slow]]' }, { signal: leaving.signal });
    const slow = () => deployment.engine.seen.filter(({ prompt }) => prompt.includes('[[s:slow]]'));
    await waitUntil(() => slow().length === 2, { what: 'both began' });
    leaving.abort();
    await expect(unary).rejects.toThrow(APIUserAbortError);
    await waitUntil(() => slow().every((seen) => seen.wasCancelled), { what: 'both ended' });
  });

  it('ends the work of the engine by a cancel of the id, and reads the end of the stream', async () => {
    const stream = await client.responses.create({ model: 'plain', input: 'Go [[s:slow]]', stream: true });
    let id = '';
    let last: OpenAI.Responses.ResponseStreamEvent | undefined;
    for await (const event of stream) {
      if (event.type === 'response.created') id = event.response.id;
      if (event.type === 'response.output_text.delta' && last?.type !== event.type) await client.responses.cancel(id);
      last = event;
    }
    expect(last).toMatchObject({ type: 'response.incomplete', response: { id, status: 'cancelled' } });
    await waitUntil(() => deployment.engine.seen.at(-1)?.wasCancelled === true, { what: 'the worker was told' });
  });
});

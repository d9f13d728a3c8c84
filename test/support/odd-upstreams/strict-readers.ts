import { expect } from 'vitest';
import { parseFrames } from '../dynamo-http/wire-answer.ts';

type Json = Readonly<Record<string, unknown>>;

/** Content of an answer, in any API. */
export interface Said {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly (readonly [name: string, text: string])[];
  readonly finish: string;
  /** Prompt and completion tokens, or undefined if a stream was not asked for usage. */
  readonly usage: readonly [prompt: number, completion: number] | undefined;
}

/** A failure as its client reads it: from the status, or from a stream of status 200. */
export interface Failed {
  readonly status: number;
  readonly message: string;
  /** Whether the error says that the prompt is too long. */
  readonly isTooLong?: boolean;
}

/** Reads answers as strictly as the published schema. Throws for anything else. */
export interface StrictReader {
  readonly path: string;
  body(prompt: string, stream: boolean): Json;
  whole(body: Json): Said;
  stream(text: string): Said | Failed;
  failure(body: Json): string;
}

const TOOLS = ['get_weather', 'get_time'];
const PARAMETERS = { type: 'object', properties: {} };

const FINISHES = new Set(['stop', 'length', 'tool_calls', 'content_filter']);

function requireNames(body: Json, object: string, prefix: string): void {
  expect(body).toMatchObject({ object, model: 'hosted', id: expect.stringMatching(`^${prefix}`) });
  expect(Number.isInteger(body.created)).toBe(true);
  if ('system_fingerprint' in body) expect(typeof body.system_fingerprint).toBe('string');
}

function usageOf(usage: unknown): readonly [number, number] {
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage as Record<string, number>;
  for (const count of [prompt, completion, total]) expect(Number.isInteger(count)).toBe(true);
  expect(total).toBe(prompt! + completion!);
  return [prompt!, completion!];
}

function requireLogprobs(logprobs: unknown): void {
  if (logprobs === null) return;
  const { content, refusal } = logprobs as { readonly content: readonly Json[] | null; readonly refusal: unknown };
  expect(refusal === null || Array.isArray(refusal)).toBe(true);
  for (const entry of content ?? []) {
    expect(entry).toMatchObject({
      token: expect.any(String),
      logprob: expect.any(Number),
      top_logprobs: expect.any(Array),
    });
    expect(entry.bytes === null || Array.isArray(entry.bytes)).toBe(true);
  }
}

/** Returns the data of each event of a stream that ends with one `[DONE]`. */
function dataUntilDone(text: string): readonly Json[] {
  const data = parseFrames(text).flatMap(({ data: one }) => (one === undefined ? [] : [one]));
  expect(data.indexOf('[DONE]')).toBe(data.length - 1);
  return data.slice(0, -1) as readonly Json[];
}

interface Call {
  name: string;
  text: string;
}

function chatStream(text: string): Said | Failed {
  const said = { text: '', reasoning: '', finish: '' };
  const calls: Call[] = [];
  const ids = new Set<unknown>();
  let hasRole = false;
  let usage: Said['usage'];
  for (const chunk of dataUntilDone(text)) {
    if (chunk.error !== undefined) return { status: 200, message: errorOf(chunk) };
    expect(usage).toBeUndefined(); // usage is the last chunk
    requireNames(chunk, 'chat.completion.chunk', 'chatcmpl-');
    ids.add(chunk.id);
    const choices = chunk.choices as readonly Json[];
    if (choices.length === 0) {
      usage = usageOf(chunk.usage);
      continue;
    }
    expect(chunk.usage).toBeNull(); // the request asked for usage
    for (const { index, delta, finish_reason: finish, logprobs } of choices) {
      expect([index, said.finish]).toEqual([0, '']);
      requireLogprobs(logprobs);
      const { role, content, reasoning_content: reasoning, tool_calls: parts = [] } = delta as Json;
      if (role !== undefined) expect([role, hasRole]).toEqual(['assistant', false]);
      else expect(hasRole).toBe(true);
      hasRole = true;
      if (content !== undefined && content !== null) said.text += requireText(content);
      if (reasoning !== undefined) said.reasoning += requireText(reasoning);
      for (const part of parts as readonly Json[]) readCall(calls, ids, part);
      if (finish === null) continue;
      expect(FINISHES).toContain(finish);
      said.finish = String(finish);
    }
  }
  expect(said.finish).not.toBe('');
  return { ...said, calls: calls.map(({ name, text: all }) => [name, all] as const), usage };
}

function readCall(calls: Call[], ids: Set<unknown>, { index, id, type, function: called }: Json): void {
  const { name, arguments: text } = called as Json;
  const at = Number(index);
  if (calls[at] === undefined) {
    expect([at, type]).toEqual([calls.length, 'function']);
    expect(requireText(id)).not.toBe('');
    expect(ids.has(id)).toBe(false);
    ids.add(id);
    calls.push({ name: requireText(name), text: requireText(text) });
  } else {
    expect([id, type, name]).toEqual([undefined, undefined, undefined]);
    calls[at].text += requireText(text);
  }
}

function requireText(value: unknown): string {
  expect(typeof value).toBe('string');
  return String(value);
}

function errorOf(body: Json): string {
  const { message, type, param, code } = body.error as Json;
  expect([typeof message, typeof type, typeof code, param === null || typeof param === 'string']).toEqual([
    'string',
    'string',
    'string',
    true,
  ]);
  return String(message);
}

export const CHAT: StrictReader = {
  path: '/v1/chat/completions',
  body: (prompt, stream) => ({
    messages: [{ role: 'user', content: prompt }],
    tools: TOOLS.map((name) => ({ type: 'function', function: { name, parameters: PARAMETERS } })),
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  }),
  whole: (body) => {
    requireNames(body, 'chat.completion', 'chatcmpl-');
    const [choice, ...others] = body.choices as readonly Json[];
    expect(others).toEqual([]);
    const { index, message, finish_reason: finish, logprobs } = choice!;
    expect(index).toBe(0);
    expect(FINISHES).toContain(finish);
    requireLogprobs(logprobs);
    const { role, content, refusal, tool_calls: calls = [], reasoning_content: reasoning = '' } = message as Json;
    expect([role, refusal === null || typeof refusal === 'string']).toEqual(['assistant', true]);
    for (const call of calls as readonly Json[]) expect([call.type, 'index' in call]).toEqual(['function', false]);
    return {
      text: content === null ? '' : requireText(content),
      reasoning: requireText(reasoning),
      calls: (calls as readonly Json[]).map(({ function: called }) => {
        const { name, arguments: text } = called as Json;
        return [requireText(name), requireText(text)];
      }),
      finish: String(finish),
      usage: usageOf(body.usage),
    };
  },
  stream: chatStream,
  failure: errorOf,
};

export const COMPLETIONS: StrictReader = {
  path: '/v1/completions',
  body: (prompt, stream) => ({ prompt, ...(stream ? { stream_options: { include_usage: true } } : {}) }),
  whole: (body) => {
    requireNames(body, 'text_completion', 'cmpl-');
    const [choice] = body.choices as readonly Json[];
    expect(choice).toMatchObject({ index: 0, text: expect.any(String), finish_reason: expect.any(String) });
    expect(choice).toHaveProperty('logprobs');
    const { text, finish_reason: finish } = choice!;
    return { text: String(text), reasoning: '', calls: [], finish: String(finish), usage: usageOf(body.usage) };
  },
  stream: (text) => {
    const said = { text: '', finish: '' };
    let usage: Said['usage'];
    for (const chunk of dataUntilDone(text)) {
      if (chunk.error !== undefined) return { status: 200, message: errorOf(chunk) };
      requireNames(chunk, 'text_completion', 'cmpl-');
      const [choice] = chunk.choices as readonly Json[];
      if (choice === undefined) {
        usage = usageOf(chunk.usage);
        continue;
      }
      expect([choice.index, said.finish, 'logprobs' in choice]).toEqual([0, '', true]);
      said.text += requireText(choice.text);
      said.finish = String(choice.finish_reason ?? '');
    }
    expect(FINISHES).toContain(said.finish);
    return { ...said, reasoning: '', calls: [], usage };
  },
  failure: errorOf,
};

function responseSaid(response: Json): Said {
  const { object, status, output, usage, incomplete_details: cut } = response;
  expect([object, typeof response.id]).toEqual(['response', 'string']);
  const said = { text: '', reasoning: '' };
  const calls: (readonly [string, string])[] = [];
  for (const item of output as readonly Json[]) {
    if (item.type === 'message') {
      for (const part of item.content as readonly Json[]) {
        expect(part).toMatchObject({ type: 'output_text', annotations: [] });
        said.text += requireText(part.text);
      }
    } else if (item.type === 'reasoning') {
      for (const part of item.content as readonly Json[]) said.reasoning += requireText(part.text);
    } else {
      expect(item).toMatchObject({ type: 'function_call', call_id: expect.any(String) });
      calls.push([requireText(item.name), requireText(item.arguments)]);
    }
  }
  const reason = (cut as Json | null)?.reason;
  const ended = calls.length > 0 ? 'tool_calls' : 'stop';
  const { input_tokens: input, output_tokens: made, total_tokens: total } = usage as Record<string, number>;
  expect(usage).toMatchObject({
    input_tokens_details: { cached_tokens: expect.any(Number) },
    output_tokens_details: { reasoning_tokens: expect.any(Number) },
  });
  expect(total).toBe(input! + made!);
  const finish = status === 'completed' ? ended : reason === 'max_output_tokens' ? 'length' : String(reason);
  return { ...said, calls, finish, usage: [input!, made!] };
}

export const RESPONSES: StrictReader = {
  path: '/v1/responses',
  body: (prompt) => ({
    input: prompt,
    tools: TOOLS.map((name) => ({ type: 'function', name, parameters: PARAMETERS, strict: false })),
  }),
  whole: responseSaid,
  stream: (text) => {
    const events = dataUntilDone(text);
    expect(events.map(({ sequence_number: at }) => at)).toEqual(events.map((_, at) => at));
    const opened: unknown[] = [];
    for (const { type, output_index: at } of events) {
      if (type === 'response.output_item.added') opened.push(at);
      if (type === 'response.output_item.done') expect(opened.splice(0)).toEqual([at]);
    }
    const { type, response } = events.at(-1) as { readonly type: string; readonly response: Json };
    if (type === 'response.failed') return { status: 200, message: String((response.error as Json).message) };
    expect(type).toBe(`response.${response.status}`);
    return responseSaid(response);
  },
  failure: errorOf,
};

const STOPS: Readonly<Record<string, string>> = {
  end_turn: 'stop',
  max_tokens: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
};

function messageSaid(content: readonly Json[], stop: unknown, usage: Json): Said {
  const all = (type: string, key: string): string =>
    content.flatMap((block) => (block.type === type ? requireText(block[key]) : [])).join('');
  const calls = content.filter(({ type }) => type === 'tool_use');
  for (const { id } of calls) expect(id).toMatch(/^toolu_/);
  const counts = [usage.input_tokens, usage.output_tokens].map(Number) as [number, number];
  for (const count of counts) expect(Number.isInteger(count)).toBe(true);
  return {
    text: all('text', 'text'),
    reasoning: all('thinking', 'thinking'),
    calls: calls.map(({ name, input }) => [String(name), typeof input === 'string' ? input : JSON.stringify(input)]),
    finish: STOPS[String(stop)] ?? String(stop),
    usage: counts,
  };
}

export const MESSAGES: StrictReader = {
  path: '/v1/messages',
  body: (prompt) => ({
    max_tokens: 100,
    messages: [{ role: 'user', content: prompt }],
    tools: TOOLS.map((name) => ({ name, input_schema: PARAMETERS })),
  }),
  whole: (body) => {
    expect(body).toMatchObject({ type: 'message', role: 'assistant', model: 'hosted', stop_sequence: null });
    return messageSaid(body.content as readonly Json[], body.stop_reason, body.usage as Json);
  },
  stream: (text) => {
    const blocks: Record<string, unknown>[] = [];
    let open = -1;
    let ending: Json | undefined;
    const events = parseFrames(text).flatMap(({ data }) => (data === undefined ? [] : [data as Json]));
    for (const event of events) {
      const index = Number(event.index);
      const delta = (event.delta ?? {}) as Json;
      if (event.type === 'error') return { status: 200, message: String((event.error as Json).message) };
      if (event.type === 'content_block_start') {
        expect([open, index]).toEqual([-1, blocks.length]);
        open = index;
        blocks.push({ ...(event.content_block as Json), input: '' });
      } else if (event.type === 'content_block_delta') {
        expect(index).toBe(open);
        const block = blocks[index]!;
        if (delta.type === 'text_delta') block.text = `${block.text}${delta.text}`;
        if (delta.type === 'thinking_delta') block.thinking = `${block.thinking}${delta.thinking}`;
        if (delta.type === 'input_json_delta') block.input = `${block.input}${delta.partial_json}`;
      } else if (event.type === 'content_block_stop') {
        expect(index).toBe(open);
        open = -1;
      } else if (event.type === 'message_delta') ending = event;
    }
    expect([open, events[0]?.type, events.at(-1)?.type]).toEqual([-1, 'message_start', 'message_stop']);
    const { delta: last, usage } = ending as { readonly delta: Json; readonly usage: Json };
    return messageSaid(blocks, last.stop_reason, usage);
  },
  failure: (body) => {
    expect(body).toMatchObject({ type: 'error', error: { type: expect.any(String), message: expect.any(String) } });
    return String((body.error as Json).message);
  },
};

import { describe, expect, it } from 'vitest';
import type { ServeError } from '../../../shared/errors/index.ts';
import { decodeChat, parseChatBody, parseJsonBody } from '../../../shared/protocol/index.ts';
import { contextWith } from './decode-context.ts';

const MESSAGES = [{ role: 'user', content: 'hi' }];

function decode(fields: object, headers = {}, settings = {}) {
  const text = JSON.stringify({ model: 'm', messages: MESSAGES, ...fields });
  return decodeChat(parseChatBody(parseJsonBody(Buffer.from(text))), contextWith(headers, settings));
}

function refusal(fields: object, settings = {}): Pick<ServeError, 'code' | 'message' | 'param' | 'limit'> {
  try {
    decode(fields, {}, settings);
  } catch (error) {
    const { code, message, param, limit } = error as ServeError;
    return { code, message, param, limit };
  }
  throw new Error('the body was accepted');
}

describe('bounds of a chat body', () => {
  it.each([
    [{ temperature: 0 }, { temperature: 2 }, { temperature: 2.01 }, 'temperature'],
    [{ temperature: 1 }, { temperature: 0 }, { temperature: -0.1 }, 'temperature'],
    [{ top_p: 0 }, { top_p: 1 }, { top_p: 1.1 }, 'top_p'],
    [{ frequency_penalty: -2 }, { frequency_penalty: 2 }, { frequency_penalty: 2.1 }, 'frequency_penalty'],
    [{ presence_penalty: -2 }, { presence_penalty: 2 }, { presence_penalty: -2.1 }, 'presence_penalty'],
    [
      { logit_bias: { 0: -100 } },
      { logit_bias: { 4294967295: 100 } },
      { logit_bias: { 4294967296: 1 } },
      'logit_bias.4294967296',
    ],
    [{ logprobs: true, top_logprobs: 0 }, { logprobs: true, top_logprobs: 20 }, { top_logprobs: 21 }, 'top_logprobs'],
    [{ max_tokens: 1 }, { max_tokens: 4294967295 }, { max_tokens: 0 }, 'max_tokens'],
    [{ max_completion_tokens: 1 }, { max_completion_tokens: 9 }, { max_completion_tokens: 0 }, 'max_completion_tokens'],
    [{ n: 1 }, { n: 128 }, { n: 0 }, 'n'],
    [{ n: 2, temperature: 0 }, { n: 128 }, { n: 129 }, 'n'],
    [{ stop: 'a' }, { stop: Array(32).fill('a') }, { stop: Array(33).fill('a') }, 'stop'],
    [{ stop: ['a'] }, { stop: [1, 2] }, { stop: ['a', ''] }, 'stop[1]'],
    [{ seed: -1 }, { seed: 2 ** 63 }, { seed: 1.5 }, 'seed'],
    [{ top_k: -1 }, { top_k: 5 }, { top_k: -2 }, 'top_k'],
    [{ min_p: 0 }, { min_p: 1 }, { min_p: 1.1 }, 'min_p'],
    [{ repetition_penalty: 0.01 }, { repetition_penalty: 2 }, { repetition_penalty: 0 }, 'repetition_penalty'],
    [{ user: 'u' }, { user: null }, { user: ' ' }, 'user'],
    [{ thinking: true }, { thinking: { type: 'adaptive' } }, { thinking: 'yes' }, 'thinking'],
    [{ stop_token_ids: [1] }, { stop_token_ids: null }, { stop_token_ids: [-1] }, 'stop_token_ids'],
    [{ bad_words_token_ids: [[1]] }, { bad_words_token_ids: [] }, { bad_words_token_ids: [1] }, 'bad_words_token_ids'],
    [{ nvext: { token_data: [1] } }, { nvext: {} }, { nvext: { agent_hints: { foo: 1 } } }, 'nvext.agent_hints.foo'],
  ])('accepts %j and %j but not %j', (low, high, beyond, param) => {
    expect(() => decode(low)).not.toThrow();
    expect(() => decode(high)).not.toThrow();
    expect(refusal(beyond).param).toBe(param);
  });

  it('takes null for every optional field', () => {
    const optional = ['stream', 'stop', 'temperature', 'tools', 'tool_choice', 'response_format', 'nvext', 'seed'];
    expect(() => decode(Object.fromEntries(optional.map((key) => [key, null])))).not.toThrow();
  });
});

describe('nvext.cache_control', () => {
  it.each([
    [{}, 300_000],
    [{ type: 'ephemeral', ttl: '1h' }, 3_600_000],
    [{ ttl: '90s' }, 90_000],
    [{ ttl: 600 }, 600_000],
    [{ ttl: '600' }, 600_000],
  ])('%j tells routers for how long the prompt is of use, and workers as it came', (given, ms) => {
    const { routing, extraArgs } = decode({ nvext: { cache_control: given } }).request;
    expect(routing.cache_ttl_ms).toBe(ms);
    expect(extraArgs).toEqual({ nvext: { cache_control: { type: 'ephemeral', ...given } } });
  });
});

describe('the error of a body that is refused', () => {
  it.each([
    [{ messages: [] }, 'invalid_value', 'messages'],
    [{ messages: undefined }, 'missing_required_parameter', 'messages'],
    [{ messages: [{ role: 'bogus', content: 'x' }] }, 'invalid_value', 'messages[0].role'],
    [{ messages: [{ role: 'user', content: [{ type: 'files' }] }] }, 'invalid_value', 'messages[0].content[0].type'],
    [
      { messages: [{ role: 'user', content: [{ type: 'file' }] }] },
      'missing_required_parameter',
      'messages[0].content[0].file',
    ],
    [{ model: '  ' }, 'invalid_value', 'model'],
    [{ stream_options: { include_usage: true } }, 'invalid_value', 'stream_options'],
    [{ foo: 1, bar: 2 }, 'unknown_parameter', 'foo'],
    [{ best_of: 2 }, 'unknown_parameter', 'best_of'],
    [{ nvext: { foo: 1 } }, 'unknown_parameter', 'nvext.foo'],
    [{ nvext: { cache_control: { ttl: '5 weeks' } } }, 'invalid_value', 'nvext.cache_control.ttl'],
    [{ nvext: { cache_control: { ttl: '25h' } } }, 'invalid_value', 'nvext.cache_control.ttl'],
    [{ nvext: { cache_control: { type: 'lasting' } } }, 'invalid_value', 'nvext.cache_control.type'],
    [{ functions: [{ name: 'f', parameters: {} }] }, 'unsupported_parameter', 'functions'],
    [{ function_call: 'auto' }, 'unsupported_parameter', 'function_call'],
    [{ guided_regex: 'a', guided_json: {} }, 'invalid_value', 'guided_regex'],
    [{ tool_choice: 'required' }, 'invalid_value', 'tool_choice'],
    [{ tools: [] }, 'invalid_value', 'tools'],
    [{ chat_template_args: { chat_template: 'x' } }, 'invalid_value', 'chat_template_args.chat_template'],
    [{ chat_template_kwargs: { messages: [] } }, 'invalid_value', 'chat_template_kwargs.messages'],
    [{ chat_template_kwargs: { a: 1, bos_token: 'x' } }, 'invalid_value', 'chat_template_kwargs.bos_token'],
    [{ chat_template_args: { tools: [] } }, 'invalid_value', 'chat_template_args.tools'],
    [{ continue_final_message: true }, 'invalid_value', 'continue_final_message'],
    [
      { response_format: { type: 'json_schema', json_schema: { name: 'a' } } },
      'missing_required_parameter',
      'response_format.json_schema.schema',
    ],
    [{ n: 2, nvext: { extra_fields: ['completion_token_ids'] } }, 'invalid_value', 'nvext.extra_fields'],
    [{ nvext: { dp_rank: 0 } }, 'invalid_value', 'nvext.dp_rank'],
  ])('%j is %s at %s', (fields, code, param) => {
    expect(refusal(fields)).toMatchObject({ code, param });
  });

  it('tells the first mistake in the order of the contract', () => {
    expect(refusal({ functions: [], messages: [], temperature: 9 }).param).toBe('functions');
    expect(refusal({ messages: [], temperature: 9, foo: 1 }).param).toBe('messages');
    expect(refusal({ stream_options: {}, foo: 1 }).param).toBe('stream_options');
    expect(refusal({ foo: 1, model: '' }).param).toBe('foo');
    expect(refusal({ model: '', temperature: 9 }).param).toBe('model');
  });

  it.each(['5.0', '5e0', '50E-1', '0.5e1'])('takes the whole number that is written %s', (written) => {
    const text = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":${written}}`;
    expect(parseChatBody(parseJsonBody(Buffer.from(text))).max_tokens).toBe(5);
  });

  it.each(['5.5', '5e-1', '1e400'])('names a field that takes whole numbers, and was given %s', (written) => {
    const text = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":${written}}`;
    expect(() => parseChatBody(parseJsonBody(Buffer.from(text)))).toThrow(/max_tokens/);
  });
});

describe('unknown root keys', () => {
  it('are dropped where the deployment says so', () => {
    expect(() => decode({ foo: 1 }, {}, { ignoresUnknownKeys: true })).not.toThrow();
  });

  it.each(['verbosity', 'safety_identifier', 'store', 'metadata', 'prediction', 'web_search_options'])(
    "%s is OpenAI's own and accepted",
    (key) => {
      expect(() =>
        decode({ [key]: key === 'store' ? true : key === 'verbosity' || key === 'safety_identifier' ? 'x' : {} }),
      ).not.toThrow();
    },
  );
});

describe('the request made from a chat body', () => {
  it('carries sampling, stop and output options under their own names', () => {
    const { request } = decode({
      temperature: 0.5,
      top_p: 0.9,
      top_k: 0,
      seed: 7,
      max_tokens: 5,
      max_completion_tokens: 3,
      stop: [32, 33],
      stop_token_ids: [1],
      min_tokens: 2,
      ignore_eos: true,
      logprobs: true,
      skip_special_tokens: false,
      logit_bias: { 5: 1 },
    });
    expect(request.sampling).toEqual({ temperature: 0.5, top_p: 0.9, top_k: -1, seed: 7, logit_bias: { 5: 1 } });
    expect(request.stop).toEqual({ max_tokens: 3, stop_token_ids: [32, 33], min_tokens: 2, ignore_eos: true });
    expect(request.output).toEqual({ logprobs: 1, skip_special_tokens: false });
  });

  it('bounds reasoning, unless the bound is -1', () => {
    expect(decode({ thinking_token_budget: 0 }).request.stop).toEqual({ max_thinking_tokens: 0 });
    expect(decode({ thinking_token_budget: -1 }).request.stop).toEqual({});
    expect(() => decode({ thinking_token_budget: -2 })).toThrow();
  });

  it('asks for greedy sampling when top_p is 0 or nvext says so', () => {
    expect(decode({ top_p: 0, temperature: 1 }).request.sampling).toEqual({ temperature: 0 });
    expect(decode({ top_p: 0.5, nvext: { greed_sampling: true } }).request.sampling).toEqual({ temperature: 0 });
  });

  it('puts reasoning into template arguments', () => {
    const { request } = decode({ reasoning_effort: 'none', chat_template_kwargs: { a: 1 } });
    expect(request.reasoning).toEqual({ effort: 'none' });
    expect(request.prompt).toMatchObject({ templateArgs: { a: 1, reasoning_effort: 'none', enable_thinking: false } });
    expect(decode({ thinking: { type: 'adaptive' } }).request.prompt).toMatchObject({
      templateArgs: { thinking_mode: 'adaptive' },
    });
    expect(decode({ thinking: true, chat_template_args: { enable_thinking: false } }).request.prompt).toMatchObject({
      templateArgs: { thinking: true, thinking_mode: 'enabled', enable_thinking: false },
    });
    const off = { thinking: false, thinking_mode: 'disabled', enable_thinking: false };
    expect(decode({ enable_thinking: false }).request.prompt).toMatchObject({ templateArgs: off });
    expect(decode({ enable_thinking: true, thinking: { type: 'disabled' } }).request.prompt).toMatchObject({
      templateArgs: off,
    });
  });

  it('constrains the output for a forced tool choice, and refuses another constraint beside it', () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }];
    const named = decode({ tools, tool_choice: { type: 'function', function: { name: 'f' } } }).request;
    expect(named.sampling.guided_decoding).toEqual({ json: { type: 'object' } });
    expect(named.prompt).toMatchObject({ toolChoice: { name: 'f' } });
    expect(decode({ tools, tool_choice: 'required' }).request.sampling.guided_decoding?.json).toMatchObject({
      type: 'array',
    });
    expect(refusal({ tools, tool_choice: 'required', guided_regex: 'a' }).message).toBe('Invalid request');
  });

  it('reads moved nvext fields with a warning, the root value winning', () => {
    const context = contextWith();
    const text = JSON.stringify({ model: 'm', messages: MESSAGES, top_k: 3, nvext: { top_k: 5, ignore_eos: true } });
    const { request } = decodeChat(parseChatBody(parseJsonBody(Buffer.from(text))), context);
    expect(request.sampling.top_k).toBe(3);
    expect(request.stop.ignore_eos).toBe(true);
    expect(context.warnings).toHaveLength(2);
  });

  it('reports usage as asked, and always where the deployment says so', () => {
    expect(decode({ stream: true })).toMatchObject({ includesUsage: false, isContinuous: false });
    const options = { include_usage: true, continuous_usage_stats: true };
    expect(decode({ stream: true, stream_options: options })).toMatchObject({
      includesUsage: true,
      isContinuous: true,
    });
    expect(decode({ stream: true, stream_options: { continuous_usage_stats: true } })).toMatchObject({
      includesUsage: false,
      isContinuous: false,
    });
    expect(decode({ stream: true }, {}, { forcesUsage: true }).includesUsage).toBe(true);
    expect(decode({}, {}, { forcesUsage: true }).includesUsage).toBe(false);
  });
});

describe('headers of a request', () => {
  const routing = (headers: object, nvext: object = {}, settings = {}) =>
    decode({ nvext }, headers, settings).request.routing;

  it('beat nvext, the prefixed name beats its alias', () => {
    const nvext = {
      backend_instance_id: 1,
      dp_rank: 1,
      agent_hints: { priority: 1, strict_priority: 1 },
      cache_salt: 'b',
    };
    const headers = {
      'x-dynamo-worker-instance-id': '12345',
      'x-worker-instance-id': '9',
      'x-dp-rank': '2',
      'x-dynamo-request-priority': '-7',
      'x-dynamo-request-strict-priority': '3',
      'x-tenant-id': 't',
    };
    expect(routing(headers, nvext)).toEqual({
      backend_instance_id: '3039',
      decode_worker_id: '3039',
      dp_rank: 2,
      priority: -7,
      priority_jump: 0,
      strict_priority: 3,
      cache_salt: 't',
    });
  });

  it('take ids as logs and metrics write them, behind 0x', () => {
    const headers = { 'x-dynamo-worker-instance-id': '0xD80c0727b968c', 'x-prefill-instance-id': '0x1' };
    expect(routing(headers, {})).toMatchObject({
      backend_instance_id: 'd80c0727b968c',
      decode_worker_id: 'd80c0727b968c',
      prefill_worker_id: '1',
    });
    expect(routing({ 'x-worker-instance-id': `0x${'f'.repeat(17)}` })).not.toHaveProperty('decode_worker_id');
  });

  it('are ignored when they do not parse', () => {
    const headers = {
      'x-dynamo-worker-instance-id': 'x',
      'x-dynamo-dp-rank': '-1',
      'x-dynamo-request-priority': '1.5',
    };
    expect(routing(headers)).toEqual({});
  });

  it('are ignored, like nvext apart from its salt, where the deployment says so', () => {
    const headers = { 'x-dynamo-request-priority': '7' };
    const nvext = { agent_hints: { priority: 3 }, cache_salt: 's', annotations: ['request_id'] };
    expect(routing(headers, nvext, { isNvextDisabled: true })).toEqual({ cache_salt: 's' });
    expect(decode({ nvext }, headers, { isNvextDisabled: true }).request.annotations).toEqual([]);
  });

  it('are refused with a salt that is longer than any name', () => {
    expect(routing({}, { cache_salt: 's'.repeat(4096) }).cache_salt).toHaveLength(4096);
    expect(refusal({ cache_salt: 's'.repeat(4097) })).toMatchObject({
      ...{ code: 'invalid_value', param: 'cache_salt', limit: 'salt_characters' },
    });
  });

  it('keep ids of 64 bits exact', () => {
    expect(routing({ 'x-dynamo-prefill-instance-id': '18446744073709551615' })).toEqual({
      prefill_worker_id: 'ffffffffffffffff',
    });
  });

  it('give the request its id and continue its trace', () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const { request } = decode(
      {},
      {
        'x-dynamo-request-id': 'F47AC10B-58CC-4372-A567-0E02B2C3D479',
        'x-request-id': 'mine',
        traceparent,
        tracestate: 'a=b',
      },
    );
    expect(request.id).toBe('f47ac10b-58cc-4372-a567-0e02b2c3d479');
    expect(request.trace).toMatchObject({ requestId: 'mine', tracestate: 'a=b' });
    expect(request.trace.traceparent).toMatch(
      /^00-0af7651916cd43dd8448eb211c80319c-(?!b7ad6b7169203331)[0-9a-f]{16}-01$/,
    );
    const unusable = decode({}, { 'x-dynamo-request-id': 'zz', traceparent: 'zz', tracestate: 'a=b' }).request.trace;
    expect(unusable).toEqual({ traceparent: expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/) });
  });

  it('become metadata under their prefix, within limits', () => {
    const { request } = decode({}, { 'x-dynamo-meta-a': ' v ', 'x-dynamo-meta-': 'e', other: 'x' });
    expect(request.metadata).toEqual({ a: 'v', '': 'e' });
    const many = Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`x-dynamo-meta-k${at}`, 'v']));
    expect(() => decode({}, many)).toThrow('metadata headers exceed the limit of 64 entries');
    expect(() => decode({}, { 'x-dynamo-meta-k': 'v'.repeat(65_536) })).toThrow('of 65536 bytes');
    expect(decode({}, { 'x-mine-a': 'v' }, { metadataHeaderPrefix: 'x-mine-' }).request.metadata).toEqual({ a: 'v' });
  });
});

describe('the session of a request', () => {
  const sessionOf = (headers: object, fields: object = {}) => {
    const { request } = decode(fields, headers);
    return { context: request.agentContext, routed: request.routing.session_id };
  };

  it.each([
    ['Dynamo', { 'x-dynamo-session-id': 's', 'x-dynamo-parent-session-id': 'p', 'x-session-id': 'other' }, 's', 'p'],
    ['Claude Code', { 'x-claude-code-session-id': 's' }, 's', undefined],
    ['an agent of Claude Code', { 'x-claude-code-session-id': 's', 'x-claude-code-agent-id': 'a' }, 'a', 's'],
    [
      'an agent of an agent of Claude Code',
      { 'x-claude-code-session-id': 's', 'x-claude-code-agent-id': 'a', 'x-claude-code-parent-agent-id': 'b' },
      'a',
      'b',
    ],
    ['Codex', { 'thread-id': 's', 'x-codex-parent-thread-id': 'p' }, 's', 'p'],
    ['OpenCode', { 'x-session-id': 's', 'x-parent-session-id': 'p' }, 's', 'p'],
  ])('is the one that %s names in headers', (_who, headers, session, parent) => {
    const { context, routed } = sessionOf(headers);
    expect(routed).toBe(session);
    expect(context).toEqual({
      session_id: session,
      ...(parent === undefined ? {} : { parent_session_id: parent }),
      input_trigger: 'user_message',
    });
  });

  it('stands over what nvext says, and ends where the client says so', () => {
    const headers = { 'x-dynamo-session-id': 's', 'x-dynamo-session-final': 'true' };
    const nvext = { agent_context: { session_id: 'n', kind: 'research' }, session_control: { session_id: 'n' } };
    expect(sessionOf(headers, { nvext })).toEqual({
      routed: 's',
      context: { session_id: 's', kind: 'research', session_final: true, input_trigger: 'user_message' },
    });
    expect(sessionOf({}, { nvext })).toEqual({ routed: 'n', context: nvext.agent_context });
  });

  it.each(['', '   ', 'x'.repeat(257)])('is nothing for an invalid id', (id) => {
    expect(sessionOf({ 'x-dynamo-session-id': id })).toEqual({ context: undefined, routed: undefined });
  });

  it('says what made the model speak', () => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } };
    const messages = [
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c', content: '1' },
    ];
    const trigger = (fields: object) => sessionOf({ 'x-dynamo-session-id': 's' }, fields).context?.input_trigger;
    expect(trigger({ messages })).toBe('tool_result');
    expect(trigger({ messages: messages.slice(0, 1) })).toBe('other');
  });
});

describe('the constraint of a forced tool call', () => {
  const tool = (name: string, parameters?: object) => ({ type: 'function', function: { name, parameters } });
  const guided = (fields: object) => decode(fields).request.sampling.guided_decoding;

  it('is a list of calls of the tools, and one call where others are not wanted', () => {
    const tools = [tool('a'), tool('b', { type: 'object', properties: { n: { type: 'integer' } } })];
    const one = { tools, tool_choice: 'required', parallel_tool_calls: false };
    expect(guided({ tools, tool_choice: 'required' })?.json).toMatchObject({
      type: 'array',
      minItems: 1,
      items: { anyOf: [{ properties: { name: { enum: ['a'] } } }, { properties: { name: { enum: ['b'] } } }] },
    });
    expect(guided({ tools, tool_choice: 'required' })?.json).not.toHaveProperty('maxItems');
    expect(guided(one)?.json).toHaveProperty('maxItems', 1);
  });

  it('takes the definitions of a schema to the root, and its references after them', () => {
    const foreign = { $id: 'urn:x', $ref: '#/y' };
    const parameters = {
      type: 'object',
      properties: { p: { $ref: '#/$defs/P' }, self: { $ref: '#' }, foreign },
      $defs: { P: { type: 'array', items: { $ref: '#/$defs/P' } } },
    };
    expect(guided({ tools: [tool('a'), tool('b', parameters)], tool_choice: 'required' })?.json).toMatchObject({
      items: { anyOf: [{}, { properties: { parameters: { $ref: '#/$defs/tool_1' } } }] },
      $defs: {
        tool_1: {
          properties: { p: { $ref: '#/$defs/tool_1/$defs/P' }, self: { $ref: '#/$defs/tool_1' }, foreign },
          $defs: { P: { items: { $ref: '#/$defs/tool_1/$defs/P' } } },
        },
      },
    });
  });

  it('is an empty object for a named tool that takes nothing', () => {
    const named = (parameters: object) =>
      guided({ tools: [tool('a', parameters)], tool_choice: { type: 'function', function: { name: 'a' } } });
    expect(named({ type: 'object', properties: {}, additionalProperties: false })).toEqual({ regex: '\\{\\}' });
    expect(named({ type: 'object', properties: {} })).toEqual({ json: { type: 'object', properties: {} } });
  });
});

import type { ServerResponse } from 'node:http';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import type { Failed, Said } from './strict-readers.ts';

/** A server whose answers no published API describes, and what a client still reads from them. */
export interface OddUpstream {
  readonly name: string;
  readonly answer: (response: ServerResponse) => void;
  /** Fields that differ from the default: no text, no reasoning, no calls, `stop`. */
  readonly said?: Partial<Said>;
  readonly fails?: Failed;
  /** Whether it fails late: inside a stream whose status is 200. @default false */
  readonly isLate?: boolean;
}

type Json = Readonly<Record<string, unknown>>;
const HEAD = { id: 'theirs', object: 'chat.completion.chunk', created: 1, model: 'their-model' };

function d(delta: unknown, finish: unknown = null, more: Json = {}): Json {
  return { ...HEAD, choices: [{ index: 0, delta, finish_reason: finish }], ...more };
}

function c(...tool_calls: readonly Json[]): Json {
  return d({ tool_calls });
}

function f(name: string | undefined, text?: unknown, more: Json = {}): Json {
  return {
    ...more,
    function: { ...(name === undefined ? {} : { name }), ...(text === undefined ? {} : { arguments: text }) },
  };
}

function lines(events: readonly unknown[], tail = 'data: [DONE]\n\n'): string {
  return events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('') + tail;
}

function raw(text: string | Buffer, type = 'text/event-stream', status = 200, headers: Json = {}) {
  return (response: ServerResponse): void => {
    response.writeHead(status, { 'content-type': type, ...headers } as Record<string, string>).end(text);
  };
}

const sse = (events: readonly unknown[], tail?: string) => raw(lines(events, tail));
const json = (body: unknown, status = 200) => raw(JSON.stringify(body), 'application/json', status);
const whole = (message: unknown, finish: unknown = 'stop', more: Json = {}) =>
  json({ ...HEAD, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: finish }], ...more });

/** Writes, then cuts the connection or leaves it open until the client closes it. */
function unended(text: string, isCut: boolean) {
  return (response: ServerResponse): void => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(text, () => isCut && response.socket?.destroy());
  };
}

const NYC = ['get_weather', '{"city":"NYC"}'] as const;
const EST = ['get_time', '{"zone":"EST"}'] as const;
const CALLED = { calls: [NYC], finish: 'tool_calls' } as const;
const CALLED_TWICE = { calls: [NYC, EST], finish: 'tool_calls' } as const;
const HI = { text: 'Hello there' } as const;
const hello = [d({ content: 'Hello' }), d({ content: ' there' })];
const done = d({}, 'stop');
const called = [c(f('get_weather', NYC[1], { index: 0, id: 'a' })), d({}, 'tool_calls')];
const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };
const SPENT = { ...HI, usage: [11, 7] } as const;
const weather = (more: Json = {}) => f('get_weather', NYC[1], more);
const time = (more: Json = {}) => f('get_time', EST[1], more);

/** Servers that answer. The prompt of a test names one of them. */
const SAYING: readonly (readonly [name: string, answer: OddUpstream['answer'], said: Partial<Said>])[] = [
  // framing
  ['usual', sse([...hello, done]), HI],
  ['unasked JSON', whole({ role: 'assistant', content: 'Hello there' }), HI],
  ['CRLF', raw(lines([...hello, done]).replaceAll('\n', '\r\n')), HI],
  ['CR alone', raw(lines([...hello, done]).replaceAll('\n', '\r')), HI],
  ['byte order mark', raw(`\ufeff${lines([...hello, done])}`), HI],
  [
    'comments and pings',
    raw(`: hi\n\nevent: ping\ndata: {"type":"ping"}\n\nevent: ping\ndata: x\n\ndata:\n\n${lines([...hello, done])}`),
    HI,
  ],
  [
    'data in several lines',
    raw(
      `data: ${JSON.stringify(d({ content: 'Hello there' })).replace('"choices"', '\ndata: "choices"')}\n\n${lines([done])}`,
    ),
    HI,
  ],
  ['no space behind data', raw(lines([...hello, done]).replaceAll('data: ', 'data:')), HI],
  ['no final newline', sse([...hello, done], 'data: [DONE]'), HI],
  ['no [DONE]', sse([...hello, done], ''), HI],
  ['[DONE] twice', sse([...hello, done], 'data: [DONE]\n\ndata: [DONE]\n\n'), HI],
  ['data after [DONE]', sse([...hello, done], `data: [DONE]\n\n${lines([d({ content: 'more' })])}`), HI],
  ['gzip', raw(gzipSync(lines([...hello, done])), 'text/event-stream', 200, { 'content-encoding': 'gzip' }), HI],
  [
    'brotli',
    raw(brotliCompressSync(lines([...hello, done])), 'text/event-stream', 200, { 'content-encoding': 'br' }),
    HI,
  ],
  [
    'gzip of JSON',
    raw(gzipSync(JSON.stringify(d({ content: 'Hello there' }, 'stop'))), 'application/json', 200, {
      'content-encoding': 'gzip',
    }),
    HI,
  ],
  ['events as text/plain', raw(lines([...hello, done]), 'text/plain'), HI],
  ['events as JSON', raw(lines([...hello, done]), 'application/json'), HI],
  ['JSON as events', raw(JSON.stringify(d({ content: 'Hello there' }, 'stop'))), HI],
  ['a line each', raw([...hello, done].map((event) => JSON.stringify(event)).join('\n'), 'application/x-ndjson'), HI],
  ['spaces before JSON', raw(`  \n\n${JSON.stringify(d({ content: 'Hello there' }, 'stop'))}`, 'application/json'), HI],
  ['cut after its end', unended(lines([...hello, done], ''), true), HI],
  [
    'numbers of Python',
    raw(
      `data: ${JSON.stringify({ ...d({ content: 'Hello there' }, 'stop'), score: 1 }).replace(':1}', ':-Infinity}')}\n\ndata: [DONE]\n\n`,
    ),
    HI,
  ],
  // kinds of chunks
  ['choices [] first', sse([{ ...HEAD, object: '', choices: [], prompt_filter_results: [] }, ...hello, done]), HI],
  [
    'odd heads',
    sse([
      { ...hello[0], id: '', object: '', created: 1.5, model: null },
      { ...hello[1], id: 'other', created: '7', object: 'chat.completion' },
      done,
    ]),
    HI,
  ],
  ['null deltas', sse([d(null), ...hello, d(null), d(null, 'stop')]), HI],
  [
    'message in chunks',
    sse([
      { choices: [{ message: { content: 'Hello' } }] },
      { choices: [{ message: { content: ' there' }, finish_reason: 'stop' }] },
    ]),
    HI,
  ],
  [
    'message once more',
    sse([...hello, { ...HEAD, choices: [{ index: 0, message: { content: 'Hello there' }, finish_reason: 'stop' }] }]),
    HI,
  ],
  [
    'text in chunks',
    sse([
      { choices: [{ index: 0, text: 'Hello' }] },
      { choices: [{ index: 0, text: ' there', finish_reason: 'stop' }] },
    ]),
    HI,
  ],
  [
    'roles',
    sse([
      d({ role: '', content: '' }),
      ...hello.map(({ choices }) => ({
        choices: [
          { ...(choices as Json[])[0], delta: { role: 'assistant', ...((choices as Json[])[0]!.delta as Json) } },
        ],
      })),
      done,
    ]),
    HI,
  ],
  ['index as text', sse([{ choices: [{ index: '0', delta: { content: 'Hello there' } }] }, done]), HI],
  ['no index', sse([{ choices: [{ delta: { content: 'Hello there' }, finish_reason: 'stop' }] }]), HI],
  ['content in parts', sse([d({ content: [{ type: 'text', text: 'Hello' }, ' there'] }), done]), HI],
  [
    'whole content in parts',
    whole({
      content: [
        { type: 'thinking', thinking: [{ type: 'text', text: 'so' }] },
        { type: 'text', text: 'Hello there' },
      ],
    }),
    { ...HI, reasoning: 'so' },
  ],
  [
    'logprobs by column',
    sse([
      {
        choices: [
          {
            index: 0,
            delta: { content: 'Hello there' },
            logprobs: { tokens: ['Hello there'], token_logprobs: [null], top_logprobs: [{ x: -1 }], text_offset: [0] },
          },
        ],
      },
      done,
    ]),
    HI,
  ],
  [
    'logprobs without bytes',
    sse([
      {
        choices: [
          {
            index: 0,
            delta: { content: 'Hello there' },
            logprobs: { content: [{ token: 'Hello there', logprob: -1, top_logprobs: null }] },
          },
        ],
      },
      done,
    ]),
    HI,
  ],
  ['fingerprint and tier', sse([{ ...hello[0], system_fingerprint: null, service_tier: 'gold' }, hello[1], done]), HI],
  // endings
  ['no reason', sse(hello), HI],
  ['no reason in whole', whole({ content: 'Hello there' }, null), HI],
  ['an empty reason', sse([d({ content: 'Hello there' }, ''), d({}, '')]), HI],
  ['reason before the last text', sse([d({ content: 'Hello' }, 'stop'), d({ content: ' there' })]), HI],
  ['reason beside each text', sse([d({ content: 'Hello' }, 'stop'), d({ content: ' there' }, 'stop')]), HI],
  ['two reasons', sse([...hello, done, d({}, 'length')]), { ...HI, finish: 'length' }],
  ['end of another API', sse([...hello, d({}, 'MAX_TOKENS')]), { ...HI, finish: 'length' }],
  ['content filter', sse([...hello, d({}, 'content_filter')]), { ...HI, finish: 'content_filter' }],
  ['calls without reason', sse([called[0]]), CALLED],
  ['calls that stop', sse([called[0], done]), CALLED],
  ['tool_calls without calls', sse([...hello, d({}, 'tool_calls')]), HI],
  ['nothing but an end', sse([d({ role: 'assistant' }), done]), {}],
  // calls
  [
    'one index for two',
    sse([c(weather({ index: 0, id: 'a' })), c(time({ index: 0, id: 'b' })), d({}, 'tool_calls')]),
    CALLED_TWICE,
  ],
  [
    'one index, in pieces',
    sse([
      c(f('get_weather', '', { index: 0, id: 'a' })),
      c(f(undefined, '{"city":', { index: 0 })),
      c(f(undefined, '"NYC"}', { index: 0 })),
      c(f('get_time', '', { index: 0, id: 'b' })),
      c(f(undefined, EST[1], { index: 0 })),
      done,
    ]),
    CALLED_TWICE,
  ],
  ['no index, two chunks', sse([c(weather({ id: 'a' })), c(time({ id: 'b' })), done]), CALLED_TWICE],
  ['no index, one chunk', sse([c(weather(), time()), done]), CALLED_TWICE],
  ['one index, one chunk', sse([c(weather({ index: 0 }), time({ index: 0 })), done]), CALLED_TWICE],
  [
    'the same function twice',
    sse([c(weather({ index: 0, id: 'a' }), weather({ index: 0, id: 'b' })), done]),
    { calls: [NYC, NYC], finish: 'tool_calls' },
  ],
  ['index from one', sse([c(weather({ index: 1, id: 'a' })), c(time({ index: 2, id: 'b' })), done]), CALLED_TWICE],
  ['one id for all', sse([c(weather({ index: 0, id: 'a' })), c(time({ index: 1, id: 'a' })), done]), CALLED_TWICE],
  [
    'ids in each chunk',
    sse([
      c(f('get_weather', '', { index: 0, id: 'a' })),
      c(f(undefined, '{"city":', { index: 0, id: 'a' })),
      c(f('', '"NYC"}', { index: 0, id: 'a' })),
      done,
    ]),
    CALLED,
  ],
  [
    'no ids',
    sse([c(f('get_weather', '', { index: 0 })), c(f(null as never, NYC[1], { index: 0, id: null })), done]),
    CALLED,
  ],
  ['empty ids', sse([c(weather({ index: 0, id: '' })), c(time({ index: 1, id: '' })), done]), CALLED_TWICE],
  [
    'new ids for each piece',
    sse([
      c(f('get_weather', '{"city":', { index: 0, id: 'a' })),
      c(f('get_weather', '"NYC"}', { index: 0, id: 'b' })),
      done,
    ]),
    CALLED,
  ],
  [
    'names repeated',
    sse([c(f('get_weather', '{"city":', { index: 0 })), c(f('get_weather', '"NYC"}', { index: 0 })), done]),
    CALLED,
  ],
  [
    'a name in pieces',
    sse([
      c(f('get_', '', { index: 0, id: 'a' })),
      c(f('weather', '', { index: 0 })),
      c(f(undefined, NYC[1], { index: 0 })),
      done,
    ]),
    CALLED,
  ],
  ['arguments as an object', sse([c(f('get_weather', { city: 'NYC' }, { index: 0 })), done]), CALLED],
  [
    'arguments in a string',
    sse([
      c(f('get_weather', JSON.stringify(NYC[1]).slice(0, 9), { index: 0 })),
      c(f(undefined, JSON.stringify(NYC[1]).slice(9), { index: 0 })),
      done,
    ]),
    CALLED,
  ],
  [
    'no arguments',
    sse([c(f('get_time', '', { index: 0 })), done]),
    { calls: [['get_time', '{}']], finish: 'tool_calls' },
  ],
  [
    'arguments null',
    whole({ content: null, tool_calls: [f('get_time', null)] }),
    { calls: [['get_time', '{}']], finish: 'tool_calls' },
  ],
  [
    'flat calls',
    whole({ content: null, tool_calls: [{ id: 'a', name: 'get_weather', arguments: { city: 'NYC' } }] }),
    CALLED,
  ],
  [
    'function_call',
    sse([
      d({ function_call: { name: 'get_weather', arguments: '' } }),
      d({ function_call: { arguments: NYC[1] } }),
      d({}, 'function_call'),
    ]),
    CALLED,
  ],
  [
    'whole function_call',
    whole({ content: null, function_call: { name: 'get_weather', arguments: NYC[1] } }, 'function_call'),
    CALLED,
  ],
  [
    'calls mixed',
    sse([
      c(f('get_weather', '{"city"', { index: 0, id: 'a' })),
      c(f('get_time', '{"zone":', { index: 1, id: 'b' })),
      c(f(undefined, ':"NYC"}', { index: 0 })),
      c(f(undefined, '"EST"}', { index: 1 })),
      done,
    ]),
    CALLED_TWICE,
  ],
  // reasoning
  ...['reasoning', 'reasoning_content', 'thinking'].map(
    (name) => [`reasoning as ${name}`, sse([d({ [name]: 'so' }), ...hello, done]), { ...HI, reasoning: 'so' }] as const,
  ),
  [
    'reasoning under two names',
    sse([d({ reasoning_content: '', reasoning: 'so' }), d({ reasoning: 'A', reasoning_content: 'A' }), ...hello, done]),
    { ...HI, reasoning: 'soA' },
  ],
  [
    'reasoning_details',
    sse([d({ reasoning: null, reasoning_details: [{ type: 'reasoning.text', text: 'so' }] }), ...hello, done]),
    { ...HI, reasoning: 'so' },
  ],
  // usage
  ['usage in the last text', sse([hello[0], { ...d({ content: ' there' }, 'stop'), usage: USAGE }]), SPENT],
  [
    'usage in each chunk',
    sse([
      { ...hello[0], usage: { prompt_tokens: 11, completion_tokens: 1, total_tokens: 12 } },
      { ...hello[1], usage: USAGE },
      { ...done, usage: USAGE },
    ]),
    SPENT,
  ],
  ['usage after all', sse([...hello, done, { ...HEAD, choices: [], usage: USAGE }]), SPENT],
  [
    'usage in text',
    sse([...hello, done, { choices: [], usage: { prompt_tokens: '11', completion_tokens: '7' } }]),
    SPENT,
  ],
  [
    'usage of another API',
    sse([...hello, done, { choices: [], usage: { input_tokens: 11, output_tokens: 7 } }]),
    SPENT,
  ],
  ['usage of Groq', sse([...hello, { ...done, x_groq: { usage: USAGE } }]), SPENT],
  ['usage null', sse([...hello.map((chunk) => ({ ...chunk, usage: null })), { ...done, usage: null }]), HI],
  [
    'usage without total',
    whole({ content: 'Hello there' }, 'stop', {
      usage: { prompt_tokens: 11, completion_tokens: 7, prompt_tokens_details: null },
    }),
    SPENT,
  ],
  [
    'odd usage',
    sse([
      ...hello,
      done,
      {
        choices: [],
        usage: { prompt_tokens: -1, completion_tokens: 1.5, prompt_tokens_details: { cached_tokens: 'x' } },
      },
    ]),
    HI,
  ],
];

const WORDS = 'their own words';

const FAILING: readonly (readonly [name: string, answer: OddUpstream['answer'], fails: Failed, isLate?: boolean])[] = [
  ...['abort', 'error', 'banana'].map(
    (reason) =>
      [
        `reason ${reason}`,
        sse([...hello, d({}, reason)]),
        { status: 500, message: 'Internal server error' },
        true,
      ] as const,
  ),
  ['object error', sse([{ object: 'error', message: WORDS, code: 400 }]), { status: 400, message: WORDS }],
  [
    'object error by its type',
    sse([{ object: 'error', message: WORDS, type: 'BadRequestError' }]),
    { status: 400, message: WORDS },
  ],
  ['detail', sse([{ detail: WORDS }]), { status: 400, message: WORDS }],
  ['error in words', sse([{ error: WORDS }]), { status: 500, message: 'Internal server error' }],
  [
    'error of too long a prompt',
    sse([{ error: "exceeds the model's context length" }]),
    { status: 400, message: "exceeds the model's context length", isTooLong: true },
  ],
  [
    'error event',
    raw(`event: error\ndata: ${JSON.stringify({ message: WORDS, code: 400 })}\n\n`),
    { status: 400, message: WORDS },
  ],
  ['error event in words', raw('event: error\ndata: it broke\n\n'), { status: 500, message: 'Internal server error' }],
  ['flat error', sse([{ message: WORDS, type: 'invalid_request_error', code: null }]), { status: 400, message: WORDS }],
  [
    'error of Anthropic',
    sse([{ type: 'error', error: { type: 'invalid_request_error', message: WORDS } }]),
    { status: 400, message: WORDS },
  ],
  ['error with a code in text', sse([{ error: { message: WORDS, code: '400' } }]), { status: 400, message: WORDS }],
  ['late error', sse([...hello, { error: { message: WORDS, code: 400 } }]), { status: 400, message: WORDS }, true],
  ['late detail', sse([...hello, { detail: WORDS }]), { status: 400, message: WORDS }, true],
  [
    'error inside a choice',
    sse([
      { choices: [{ index: 0, delta: { content: '' }, finish_reason: 'error', error: { code: 400, message: WORDS } }] },
    ]),
    { status: 400, message: WORDS },
  ],
  [
    'error of status 200',
    json({ error: { message: WORDS, type: 'invalid_request_error' } }),
    { status: 400, message: WORDS },
  ],
  [
    'FastAPI',
    json({ detail: [{ loc: ['body', 'messages'], msg: 'field required', type: 'missing' }] }, 422),
    { status: 400, message: 'messages: field required' },
  ],
  ['FastAPI in words', json({ detail: WORDS }, 400), { status: 400, message: WORDS }],
  ['TGI', json({ error: WORDS, error_type: 'validation' }, 422), { status: 400, message: WORDS }],
  ['Ollama', json({ error: WORDS }, 400), { status: 400, message: WORDS }],
  [
    'Azure',
    json(
      { error: { message: WORDS, type: null, param: 'prompt', code: 'content_filter', status: 400, innererror: {} } },
      400,
    ),
    { status: 400, message: WORDS },
  ],
  ['AWS', json({ Message: WORDS }, 400), { status: 400, message: WORDS }],
  [
    'Google',
    json([{ error: { code: 400, message: WORDS, status: 'INVALID_ARGUMENT' } }], 400),
    { status: 400, message: WORDS },
  ],
  [
    'litellm',
    json({ error: { message: WORDS, type: null, param: null, code: '400' } }, 400),
    { status: 400, message: WORDS },
  ],
  [
    'problem details',
    json({ type: 'about:blank', title: 'Bad', status: 400, detail: WORDS }, 400),
    { status: 400, message: WORDS },
  ],
  ['plain text', raw(WORDS, 'text/plain', 400), { status: 400, message: WORDS }],
  [
    'a page',
    raw('<html><head><title>400 Bad Request</title></head></html>', 'text/html', 400),
    { status: 400, message: '400 Bad Request' },
  ],
  ['no words', raw('', 'text/plain', 400), { status: 400, message: 'Bad Request' }],
  [
    'nginx 502',
    raw('<html><title>502 Bad Gateway</title></html>', 'text/html', 502),
    { status: 503, message: 'Service temporarily unavailable' },
  ],
  ['to be paid', json({ error: { message: 'Insufficient Balance' } }, 402), { status: 502, message: 'Bad gateway' }],
  ['elsewhere', raw('', 'text/plain', 307, { location: 'https://elsewhere' }), { status: 502, message: 'Bad gateway' }],
  ['204', raw('', 'text/plain', 204), { status: 502, message: 'Bad gateway' }],
  ['empty', raw('', 'application/json'), { status: 502, message: 'Bad gateway' }],
  ['a page of status 200', raw('<html>log in</html>', 'text/html'), { status: 502, message: 'Bad gateway' }],
  ['no choices', json({ ...HEAD, choices: [] }), { status: 502, message: 'Bad gateway' }],
  ['[DONE] alone', sse([]), { status: 502, message: 'Bad gateway' }],
  ['no JSON', raw('data: {"choices":\0\n\n'), { status: 502, message: 'Bad gateway' }],
  [
    '10 MB in a line',
    raw(`data: {"x":"${'x'.repeat(10 * 1024 * 1024)}"}\n\n`),
    { status: 502, message: 'Bad gateway' },
  ],
  [
    'an unknown coding',
    raw('x', 'text/event-stream', 200, { 'content-encoding': 'zstd9' }),
    { status: 502, message: 'Bad gateway' },
  ],
  [
    'choice of nobody',
    sse([{ choices: [{ index: 7, delta: { content: 'x' } }] }]),
    { status: 502, message: 'Bad gateway' },
  ],
];

export const ODD_UPSTREAMS: readonly OddUpstream[] = [
  ...SAYING.map(([name, answer, said]) => ({ name, answer, said })),
  ...FAILING.map(([name, answer, fails, isLate = false]) => ({ name, answer, fails, isLate })),
];

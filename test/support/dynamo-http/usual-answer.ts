import type { Expectation } from './expectation.ts';
import { type Body, isChat, isCompletions, isMessages, isResponses, requestBody, tokensOf } from './fields.ts';
import { anything } from './match.ts';
import type { RecordedRow } from './records.ts';

/** The text of a worker without a script, and its tokens with the end token. */
const TEXT = 'Hello world!';
const TOKENS = 13;

/**
 * Turns the expectation into the answer of a worker without a script, for requests that 1.6.1 refuses and this product
 * accepts. The requests are short, unary and of text only. Fields that the request does not determine match anything.
 */
export function succeed(expected: Expectation, row: RecordedRow): void {
  expected.status = 200;
  expected.headers = { 'content-type': 'application/json' };
  delete expected.text;
  delete expected.frames;
  const body = requestBody(row);
  const prompt = promptOf(row, body);
  const count = typeof body.n === 'number' ? body.n : 1;
  const usage = {
    prompt: typeof prompt === 'string' ? tokensOf(prompt) : anything,
    completion: TOKENS * count,
    total: typeof prompt === 'string' ? tokensOf(prompt) + TOKENS * count : anything,
  };
  expected.body = bodyOf(row, body, count, usage);
  expected.worker = [usualRequest(row)];
}

/** Returns the request that a worker receives in that case, without the bound of its tokens. */
export function usualRequest(row: RecordedRow): Body {
  const body = requestBody(row);
  return {
    prompt: promptOf(row, body),
    ...(isMessages(row) ? { multi_modal_data: picturesOf(body) } : {}),
    stop_conditions: stopOf(body),
    sampling_options: samplingOf(body),
    output_options: {},
    routing: {},
  };
}

interface Spent {
  readonly prompt: unknown;
  readonly completion: number;
  readonly total: unknown;
}

function bodyOf(row: RecordedRow, body: Body, count: number, { prompt, completion, total }: Spent): Body {
  const indices = Array.from({ length: count }, (_, index) => index);
  const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total };
  const { model } = body;
  if (isChat(row)) {
    const message = { content: TEXT, refusal: null, role: 'assistant' };
    const choices = indices.map((index) => ({ index, message, finish_reason: 'stop', logprobs: null }));
    return { id: 'chatcmpl-UUID', choices, created: 0, model, object: 'chat.completion', usage };
  }
  if (isCompletions(row)) {
    const choices = indices.map((index) => ({ text: TEXT, index, finish_reason: 'stop' }));
    return { id: 'cmpl-UUID', choices, created: 0, model, system_fingerprint: null, object: 'text_completion', usage };
  }
  if (isMessages(row)) return messageOf(model, prompt);
  if (isResponses(row)) return responseOf(model, { prompt, completion, total });
  throw new Error(`${row.id}: no usual answer of ${row.request.path} is known`);
}

function messageOf(model: unknown, prompt: unknown): Body {
  return {
    id: 'msg_ID',
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: TEXT }],
    model,
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: prompt, output_tokens: TOKENS, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
  };
}

const NULLS = [
  'billing',
  'conversation',
  'error',
  'incomplete_details',
  'instructions',
  'max_output_tokens',
  'max_tool_calls',
  'previous_response_id',
  'prompt',
  'prompt_cache_key',
  'prompt_cache_retention',
  'reasoning',
  'safety_identifier',
];

function responseOf(model: unknown, { prompt, completion, total }: Spent): Body {
  const part = { type: 'output_text', annotations: [], logprobs: [], text: TEXT };
  return {
    ...Object.fromEntries(NULLS.map((key) => [key, null])),
    background: false,
    created_at: 0,
    completed_at: 0,
    id: 'resp_ID',
    metadata: {},
    model,
    object: 'response',
    output: [{ type: 'message', content: [part], id: 'msg_ID', role: 'assistant', status: 'completed' }],
    parallel_tool_calls: true,
    service_tier: 'auto',
    status: 'completed',
    temperature: 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_logprobs: 0,
    top_p: 1,
    truncation: 'disabled',
    usage: {
      input_tokens: prompt,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: completion,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: total,
    },
    presence_penalty: 0,
    frequency_penalty: 0,
    store: true,
  };
}

/** Renders the prompt with the template of the fixture. Matches anything if the prompt has parts that are not text. */
export function promptOf(row: RecordedRow, body: Body): unknown {
  if (isCompletions(row)) return typeof body.prompt === 'string' ? body.prompt : anything;
  const input = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : body.input;
  const asked = (isResponses(row) ? input : body.messages) as readonly Body[] | undefined;
  if (!Array.isArray(asked)) return anything;
  const system = body.system ?? body.instructions;
  const messages = system === undefined ? asked : [{ role: 'system', content: system }, ...asked];
  const turns = messages.map(({ role, content }) => {
    const text = contentText(content);
    return text === undefined ? undefined : `<|im_start|>${role}\n${text}<|im_end|>\n`;
  });
  const tools = toolsText(body.tools);
  if (turns.includes(undefined) || tools === undefined) return anything;
  return `${tools}${turns.join('')}<|im_start|>assistant\n`;
}

/** Returns the pictures that Anthropic's messages name by their address. */
function picturesOf({ messages }: Body): unknown {
  const blocks = (messages as readonly Body[]).flatMap(({ content }) =>
    Array.isArray(content) ? (content as Body[]) : [],
  );
  const urls = blocks.map(({ source }) => (source as Body | undefined)?.url).filter((url) => url !== undefined);
  return urls.length === 0 ? undefined : { image_url: urls.map((url) => ({ Url: url })) };
}

function contentText(content: unknown): string | undefined {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return undefined;
  const parts = (content as readonly Body[]).map((part) => {
    if (typeof part.text === 'string') return part.text;
    return part.type === 'image' ? '<image>' : undefined;
  });
  return parts.includes(undefined) ? undefined : parts.join('');
}

/** Lists tools as the template does, from Anthropic's shape, without hosted tools. */
function toolsText(tools: unknown): string | undefined {
  const listed = (Array.isArray(tools) ? (tools as readonly Body[]) : []).filter(
    ({ name }) => typeof name === 'string',
  );
  if (listed.length === 0) return '';
  if (listed.some(({ input_schema }) => input_schema === undefined)) return undefined;
  const functions = listed.map(({ name, description, input_schema: parameters }) => ({
    type: 'function',
    function: { name, ...(description === undefined ? {} : { description }), parameters },
  }));
  const text = JSON.stringify(functions).replaceAll(/"(?:[^"\\]|\\.)*"|[:,]/g, (part) =>
    part.length > 1 ? part : `${part} `,
  );
  return `<|im_start|>tools\n${text}<|im_end|>\n`;
}

function stopOf(body: Body): Body {
  const nvext = (body.nvext ?? {}) as Body;
  const isEndless = body.ignore_eos ?? nvext.ignore_eos;
  const most = body.max_completion_tokens ?? body.max_tokens ?? body.max_output_tokens;
  return {
    ...(isEndless === true ? { ignore_eos: true } : { stop_token_ids_hidden: [258, 256] }),
    ...(most === undefined ? {} : { max_tokens: most }),
  };
}

const SAMPLING = [
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'seed',
] as const;
const GUIDED = ['json', 'regex', 'grammar', 'choice'] as const;

function samplingOf(body: Body): Body {
  const nvext = (body.nvext ?? {}) as Body;
  const given = (key: string): unknown => body[key] ?? nvext[key];
  const guided = GUIDED.filter((kind) => given(`guided_${kind}`) !== undefined);
  return {
    ...Object.fromEntries(SAMPLING.filter((key) => given(key) !== undefined).map((key) => [key, given(key)])),
    ...(body.top_p === 0 ? { top_p: undefined, temperature: 0 } : {}),
    ...(Number(body.n ?? 1) > 1 ? { n: body.n } : {}),
    ...(guided.length === 0
      ? {}
      : { guided_decoding: Object.fromEntries(guided.map((kind) => [kind, given(`guided_${kind}`)])) }),
  };
}

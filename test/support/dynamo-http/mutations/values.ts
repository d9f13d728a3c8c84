import type { Exchange } from '../exchange.ts';
import type { Body } from '../fields.ts';
import { anyObject, type Mutation, ofAnswer, put } from './edit.ts';

/** Makes a mutation of every object of the answer that `change` changes. */
function ofObjects(name: string, change: (object: Body) => boolean): Mutation {
  return ofAnswer(name, (answer) => (answer.body?.openapi === undefined ? anyObject(answer, change) : false));
}

/** Makes a mutation that adds one to every number under `keys`. */
function oneMore(name: string, keys: readonly string[]): Mutation {
  return ofObjects(name, (object) =>
    keys.map((key) => typeof object[key] === 'number' && put(object, key, Number(object[key]) + 1)).some(Boolean),
  );
}

/** Makes a mutation that writes `value` under each of `keys` that an object has. */
function replaced(name: string, keys: readonly string[], value: unknown): Mutation {
  return ofObjects(name, (object) => keys.map((key) => object[key] != null && put(object, key, value)).some(Boolean));
}

const TIMES = ['created', 'created_at', 'completed_at'] as const;
const WORKER_IDS = ['prefill_worker_id', 'decode_worker_id', 'instance_id'] as const;
const REASONS: Readonly<Record<string, string>> = {
  stop: 'length',
  length: 'stop',
  tool_calls: 'stop',
  content_filter: 'stop',
};

/** Answers with a wrong value. */
export const VALUES: readonly Mutation[] = [
  replaced('times set to text', TIMES, 'garbage'),
  ofObjects('times an hour late', (object) =>
    TIMES.map((key) => typeof object[key] === 'number' && put(object, key, Number(object[key]) + 3600)).some(Boolean),
  ),
  ofAnswer('a different time on every chunk', ({ frames }) => {
    const chunks = (frames ?? []).map(({ data }) => data as Body).filter((data) => typeof data?.created === 'number');
    for (const [at, chunk] of chunks.entries()) chunk.created = Number(chunk.created) - (at % 2);
    return chunks.length > 1;
  }),
  ofObjects('nvext.timing garbage', (object) =>
    Object.keys(object)
      .map((key) => key.endsWith('_ms') && put(object, key, 'garbage'))
      .some(Boolean),
  ),
  ofObjects('nvext.timing negative', (object) => typeof object.ttft_ms === 'number' && put(object, 'ttft_ms', -1)),
  replaced('worker ids wrong', WORKER_IDS, 'wrong'),
  replaced('worker ids of another worker', WORKER_IDS, '123456789012345'),
  ofAnswer('a different id on every chunk', ({ frames }) => {
    const chunks = (frames ?? []).map(({ data }) => data as Body).filter((data) => typeof data?.id === 'string');
    const changes = chunks.map((chunk, at) =>
      put(chunk, 'id', String(chunk.id).replace(/[0-9a-f]{12}/, at.toString(16).padStart(12, '0'))),
    );
    return chunks.length > 1 && changes.some(Boolean);
  }),
  ofObjects(
    'ids that are not UUIDs',
    (object) => typeof object.id === 'string' && /-[0-9a-f]{12}/.test(object.id) && put(object, 'id', 'chatcmpl-1'),
  ),
  ofObjects(
    'item ids of other items',
    (object) =>
      typeof object.item_id === 'string' &&
      put(object, 'item_id', object.item_id.replace(/[0-9a-f]{32}/, '0'.repeat(32))),
  ),
  ofObjects('two calls with one id', ({ tool_calls: calls }) => {
    const [first, second] = Array.isArray(calls) ? (calls as Body[]) : [];
    return second !== undefined && put(second, 'id', first?.id);
  }),
  oneMore('prompt tokens off by one', ['prompt_tokens', 'input_tokens']),
  oneMore('completion tokens off by one', ['completion_tokens', 'output_tokens']),
  oneMore('total tokens off by one', ['total_tokens']),
  oneMore('reasoning tokens off by one', ['reasoning_tokens']),
  oneMore('cached tokens off by one', ['cached_tokens', 'cache_read_input_tokens']),
  oneMore('index off by one', ['index', 'output_index', 'content_index']),
  ofObjects(
    'tool-call index wrong',
    ({ tool_calls: calls }) =>
      Array.isArray(calls) &&
      (calls as Body[])
        .map((call) => typeof call.index === 'number' && put(call, 'index', Number(call.index) + 1))
        .some(Boolean),
  ),
  ofObjects(
    'finish reason swapped',
    (object) =>
      typeof object.finish_reason === 'string' && put(object, 'finish_reason', REASONS[object.finish_reason] ?? 'stop'),
  ),
  ofObjects(
    'stop reason swapped',
    (object) =>
      typeof object.stop_reason === 'string' &&
      put(object, 'stop_reason', object.stop_reason === 'end_turn' ? 'max_tokens' : 'end_turn'),
  ),
  ofObjects(
    'status of a response swapped',
    (object) =>
      object.object === 'response' && put(object, 'status', object.status === 'completed' ? 'incomplete' : 'completed'),
  ),
  ofObjects('text changed', (object) =>
    ['content', 'text', 'delta', 'reasoning_content', 'arguments', 'thinking', 'partial_json']
      .map((key) => typeof object[key] === 'string' && object[key] !== '' && put(object, key, `${object[key]}~`))
      .some(Boolean),
  ),
  ofObjects(
    'log probabilities of an answer missing',
    (object) => object.message !== undefined && object.logprobs != null && put(object, 'logprobs', null),
  ),
  ofObjects(
    'log probabilities off',
    (object) => typeof object.logprob === 'number' && put(object, 'logprob', object.logprob - 0.5),
  ),
  ofObjects('bytes of tokens wrong', (object) => Array.isArray(object.bytes) && put(object, 'bytes', [1, 2])),
  ofObjects(
    'model name wrong',
    (object) => typeof object.model === 'string' && put(object, 'model', `${object.model}-x`),
  ),
  ofObjects('object name wrong', (object) => typeof object.object === 'string' && put(object, 'object', 'zzz')),
  ofObjects(
    'address of an instance is not a text',
    (object) => object.transport !== undefined && put(object, 'transport', 5),
  ),
  ofAnswer('a 200 body replaced by nonsense', (answer) => {
    if (answer.status !== 200 || answer.body === undefined) return false;
    answer.body = { nonsense: true };
    return true;
  }),
  ofAnswer('a key more', (answer) => {
    if (answer.body === undefined || answer.body.openapi !== undefined || Array.isArray(answer.body)) return false;
    return put(answer.body, 'zzz', 1);
  }),
  ofAnswer(
    'usage missing',
    (answer) => answer.body?.usage !== undefined && answer.body.usage !== null && delete answer.body.usage,
  ),
  ofAnswer('text cut short', (answer) => {
    if (answer.text === undefined || answer.text.length < 2) return false;
    answer.text = answer.text.slice(0, answer.text.length > 200 ? 50 : -1);
    return true;
  }),
  ofWorker('a refused request reached a worker', ({ worker }) =>
    worker.length > 0
      ? undefined
      : [{ prompt: 'x', stop_conditions: {}, sampling_options: {}, output_options: {}, routing: {} }],
  ),
  ofWorker('the worker was asked twice', ({ worker }) => (worker.length === 0 ? undefined : [...worker, ...worker])),
  ofWorker('the worker was not asked', ({ worker }) => (worker.length === 0 ? undefined : [])),
  ofWorker('the worker got another prompt', ({ worker }) =>
    changed(worker, 'prompt', (prompt) => (typeof prompt === 'string' && prompt !== '' ? `${prompt}x` : undefined)),
  ),
  ofWorker('the worker may make one token more', ({ worker }) =>
    changed(worker, 'stop_conditions', (stop) => {
      const { max_tokens: most } = (stop ?? {}) as Body;
      return most === undefined ? undefined : { ...(stop as Body), max_tokens: Number(most) + 1 };
    }),
  ),
  ofWorker('the worker samples differently', ({ worker }) =>
    changed(worker, 'sampling_options', (sampling) => sampling && { ...(sampling as Body), temperature: 1.9 }),
  ),
  {
    name: 'the worker continued without its client',
    apply: (exchange) => (exchange.row.worker_cancelled === true ? { ...exchange, wasCancelled: false } : undefined),
  },
];

/** Makes a mutation of the requests that the workers saw. */
function ofWorker(name: string, edit: (exchange: Exchange) => Exchange['worker'] | undefined): Mutation {
  return {
    name,
    apply: (exchange) => {
      const worker = edit(exchange);
      return worker === undefined ? undefined : { ...exchange, worker };
    },
  };
}

/** Returns the workers' requests with a changed value under `key`, or undefined if `change` returns none. */
function changed(
  worker: Exchange['worker'],
  key: string,
  change: (value: unknown) => unknown,
): Exchange['worker'] | undefined {
  const values = worker.map((seen) => change(seen[key]));
  return values.some((value) => value !== undefined)
    ? worker.map((seen, at) => ({ ...seen, [key]: values[at] ?? seen[key] }))
    : undefined;
}

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Conformance } from '../support/dynamo-http/conformance.ts';
import { type Answer, FIXTURES, type Json, type RecordedRow } from '../support/dynamo-http/records.ts';
import { spawnProgram } from '../support/index.ts';

const SCRIPT = fileURLToPath(new URL('./published_shapes.py', import.meta.url));
const PYTHON = process.env.STATOR_TEST_PYTHON ?? '';

/** One object of ours and the published model that it should be one of. */
interface Claim {
  readonly row: string;
  readonly shape: string;
  readonly value: Json;
}

/** The models of a route: of its whole answer, and of an event where it streams. */
const SHAPES: Readonly<Record<string, { readonly whole: string; readonly event?: string }>> = {
  'POST /v1/chat/completions': {
    whole: 'openai.types.chat.ChatCompletion',
    event: 'openai.types.chat.ChatCompletionChunk',
  },
  'POST /v1/completions': { whole: 'openai.types.Completion', event: 'openai.types.Completion' },
  'POST /v1/embeddings': { whole: 'openai.types.CreateEmbeddingResponse' },
  'POST /v1/responses': {
    whole: 'openai.types.responses.Response',
    event: 'openai.types.responses.ResponseStreamEvent',
  },
  'POST /v1/responses/input_tokens': { whole: 'openai.types.responses.InputTokenCountResponse' },
  'POST /v1/images/generations': { whole: 'openai.types.ImagesResponse' },
  'POST /v1/messages': { whole: 'anthropic.types.Message', event: 'anthropic.types.RawMessageStreamEvent' },
  'POST /v1/messages/count_tokens': { whole: 'anthropic.types.MessageTokensCount' },
};

/** Where answers are not what the clients' models say, and who decided that. Everything else fails the test. */
const DECIDED: readonly { readonly what: RegExp; readonly authority: string }[] = [
  { what: /reasoning_content: unknown$/, authority: 'reasoning of chats has no published place' },
  { what: /nvext: unknown$/, authority: 'only where a request asks for it' },
  { what: /logprobs\.content\.token_id: unknown$/, authority: 'as Dynamo 1.6.1 answers' },
  {
    what: /^openai\.types\.Completion: choices\.finish_reason: Field required$/,
    authority: 'as Dynamo 1.6.1 answers: left out until a choice has finished',
  },
  {
    what: /usage\.input_tokens_details\.cache_write_tokens: Field required$/,
    authority: 'as Dynamo 1.6.1 answers; newer than the record, and no engine reports it',
  },
  {
    what: /^openai\.types\.responses\.\w+: response\.(billing|frequency_penalty|presence_penalty|store): unknown$/,
    authority: 'as Dynamo 1.6.1 answers; the service sends them, its models leave them out',
  },
  {
    what: /^openai\.types\.responses\.ResponseStreamEvent: name: unknown$/,
    authority: 'as Dynamo 1.6.1 answers: the end of a call names its function',
  },
  { what: /^openai\.types\.Model: context_window: unknown$/, authority: 'as Dynamo 1.6.1 answers' },
  { what: /^openai\.types\.Model: (max_model_len|root|parent): unknown$/, authority: 'as vLLM answers' },
  {
    what: /^anthropic\.types\.ModelInfo: lifecycle: Field required$/,
    authority: 'as Dynamo 1.6.1 answers; models of ours have no dates of retirement',
  },
  {
    what: /^anthropic\.types\.ErrorResponse: error: request_too_large$/,
    authority: 'a published type of error (413) that the models leave out',
  },
];

describe.runIf(PYTHON !== '')('answers to the recorded requests', () => {
  const conformance = new Conformance(FIXTURES);
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stator-shapes-'));
  });
  afterAll(async () => {
    await conformance.close();
    await rm(folder, { recursive: true });
  });

  it('are what the official clients publish as their response models', async () => {
    const claims: Claim[] = [];
    for (const row of conformance.rows.filter(isPlayed)) claims.push(...claimsOf(row, await conformance.answer(row)));
    claims.push(...(await claimsOfStored(conformance)), ...(await claimsOfModels(conformance)));
    const file = join(folder, 'answers.jsonl');
    await writeFile(file, claims.map((claim) => `${JSON.stringify(claim)}\n`).join(''));
    const script = spawnProgram(PYTHON, [SCRIPT, file]);
    expect(await script.exited, script.stderr()).toBe(0);
    const problems = JSON.parse(script.stdout()) as readonly (readonly string[])[];
    expect(problems).toHaveLength(claims.length);
    const found = new Map<string, string>(); // the last row that shows it
    for (const [at, { row, shape }] of claims.entries()) {
      for (const problem of problems[at] ?? []) found.set(`${shape}: ${problem}`, row);
    }
    expect([...found].filter(([problem]) => !DECIDED.some(({ what }) => what.test(problem)))).toEqual([]);
    const unused = DECIDED.filter(({ what }) => ![...found.keys()].some((problem) => what.test(problem)));
    expect(unused.map(({ authority }) => authority)).toEqual([]);
  });
});

/** Rows whose answer is the default server's to a client of the API, in full. */
function isPlayed(row: RecordedRow): boolean {
  const isApi = row.request.path.startsWith('/v1/');
  return isApi && row.server === 'default' && row.connection === undefined;
}

/** A stored response read again, and the input that it had. */
async function claimsOfStored(conformance: Conformance): Promise<readonly Claim[]> {
  const input = [
    { role: 'user', content: 'Weather?' },
    { type: 'function_call', call_id: 'c1', name: 'get_weather', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c1', output: '21 degrees' },
  ];
  const made = await conformance.answer(rowOf('POST', '/v1/responses', { model: 'plain', input }));
  const { id } = made.body as { readonly id: string };
  const read = await conformance.answer(rowOf('GET', `/v1/responses/${id}`));
  const items = await conformance.answer(rowOf('GET', `/v1/responses/${id}/input_items`));
  expect([made.status, read.status, items.status]).toEqual([200, 200, 200]);
  return [
    { row: 'stored', shape: 'openai.types.responses.Response', value: read.body ?? null },
    ...claimsOfList('stored items', 'openai.types.responses.ResponseItem', items),
  ];
}

async function claimsOfModels(conformance: Conformance): Promise<readonly Claim[]> {
  const list = await conformance.answer(rowOf('GET', '/v1/models'));
  const one = await conformance.answer(rowOf('GET', '/v1/models/plain'));
  const theirs = { ...rowOf('GET', '/v1/models').request, headers: [['anthropic-version', '2023-06-01']] as const };
  const theirList = await conformance.answer({ ...rowOf('GET', '/v1/models'), request: theirs });
  return [
    ...claimsOfList('models', 'openai.types.Model', list),
    { row: 'model', shape: 'openai.types.Model', value: one.body ?? null },
    ...claimsOfList('models of Anthropic', 'anthropic.types.ModelInfo', theirList),
  ];
}

function claimsOfList(row: string, shape: string, { body }: Answer): readonly Claim[] {
  const { data } = body as { readonly data: readonly Json[] };
  expect(data.length).toBeGreaterThan(0);
  return data.map((value) => ({ row, shape, value }));
}

function rowOf(method: string, path: string, body?: Json): RecordedRow {
  const request = { method, path, ...(body === undefined ? {} : { body }) };
  return { id: path, group: 'made here', server: 'default', request, status: 200, headers: {} };
}

function claimsOf(row: RecordedRow, answer: Answer): readonly Claim[] {
  const route = `${row.request.method} ${row.request.path}`;
  const isAnthropic = row.request.path.startsWith('/v1/messages');
  const claim = (shape: string, value: Json): Claim => ({ row: row.id, shape, value });
  const failure = (body: Json): Claim =>
    isAnthropic
      ? claim('anthropic.types.ErrorResponse', body)
      : claim('openai.types.shared.ErrorObject', (body as { readonly error: Json }).error);
  if (answer.status !== null && answer.status >= 400) return answer.body === undefined ? [] : [failure(answer.body)];
  const shapes = SHAPES[route];
  if (shapes === undefined) return [];
  if (answer.body !== undefined) return [claim(shapes.whole, answer.body)];
  return (answer.frames ?? []).flatMap(({ event, data }) => {
    if (data === undefined || data === '[DONE]' || event === 'ping') return [];
    const isFailure = event === 'error' || (data as { readonly error?: Json }).error !== undefined;
    return isFailure ? [failure(data)] : [claim(shapes.event ?? 'no events', data)];
  });
}

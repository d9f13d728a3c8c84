import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { GenerationSink } from '../../../../shared/protocol/index.ts';
import type { JsonObject } from '../../../support/dynamo-http/records.ts';
import { args, call, openBed, say, stop, think, USAGE } from './responses-bed.ts';

const TOOLS = [
  { type: 'function', name: 'f', parameters: { type: 'object' } },
  { type: 'custom', name: 'c' },
];

describe('a response object', () => {
  it('says every published key, with the defaults', async () => {
    const bed = openBed(({ sink }) => {
      say(sink, 'Hi');
      stop(sink);
    });
    const body = await bed.object({ store: false });
    const id = String(body.id);
    expect(body).toEqual({
      background: false,
      billing: null,
      conversation: null,
      created_at: expect.any(Number),
      completed_at: expect.any(Number),
      error: null,
      id: expect.stringMatching(/^resp_[0-9a-f]{32}$/),
      incomplete_details: null,
      instructions: null,
      max_output_tokens: null,
      max_tool_calls: null,
      metadata: {},
      model: 'm',
      object: 'response',
      output: [
        {
          type: 'message',
          id: `${id.replace('resp', 'msg')}10000`,
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'output_text', annotations: [], logprobs: [], text: 'Hi' }],
        },
      ],
      parallel_tool_calls: true,
      previous_response_id: null,
      prompt: null,
      prompt_cache_key: null,
      prompt_cache_retention: null,
      reasoning: null,
      safety_identifier: null,
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
        input_tokens: 3,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 2,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 5,
      },
      presence_penalty: 0,
      frequency_penalty: 0,
      store: false,
    });
  });

  it('repeats what was asked for', async () => {
    const bed = openBed(({ sink }) => stop(sink));
    const asked = {
      instructions: 'be brief',
      metadata: { a: 'b' },
      temperature: 0.5,
      text: { format: { type: 'json_schema', name: 'n', schema: { type: 'object' } }, verbosity: 'low' },
      reasoning: { effort: 'low', summary: null },
      truncation: 'auto',
      max_output_tokens: 7,
      parallel_tool_calls: false,
    };
    expect(await bed.object(asked)).toMatchObject(asked);
  });

  it('has an empty message when nothing was said, and fails when the worker only ended', async () => {
    const silent = openBed(({ sink }) => stop(sink));
    expect((await silent.object()).output).toMatchObject([{ type: 'message', content: [{ text: '' }] }]);
    const broken = openBed(({ sink }) => sink.end(USAGE, false));
    expect((await broken.create()).status).toBe(500);
  });

  it('is incomplete when the worker ended without a reason in the middle of a text', async () => {
    const bed = openBed(({ sink }) => {
      say(sink, 'a');
      sink.end(USAGE, false);
    });
    expect(await bed.object()).toMatchObject({ status: 'incomplete', incomplete_details: null, completed_at: null });
  });

  it('warns of hosted tools that it dropped', async () => {
    const bed = openBed(({ sink }) => stop(sink));
    const response = await bed.create({ tools: [{ type: 'web_search' }, ...TOOLS] });
    expect(response.headers.get('warning')).toContain('web_search');
    const { tools } = (await response.json()) as { tools: readonly JsonObject[] };
    expect(tools.map((tool) => tool.type)).toEqual(['function', 'custom']);
  });

  it('has the output of the stream, whatever the worker says in whatever pieces', async () => {
    const piece = fc.oneof(
      fc.record({ kind: fc.constant('say'), text: fc.string({ maxLength: 5, unit: 'grapheme' }) }),
      fc.record({ kind: fc.constant('think'), text: fc.string({ maxLength: 5 }) }),
      fc.record({ kind: fc.constantFrom('f', 'c'), text: fc.string({ maxLength: 9 }) }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(piece, { minLength: 1, maxLength: 8 }),
        fc.constantFrom('stop', 'length'),
        (said, reason) => agree(said, reason as 'stop' | 'length'),
      ),
      { numRuns: 60, seed: 11 },
    );
  });
});

interface Piece {
  readonly kind: string;
  readonly text: string;
}

async function agree(said: readonly Piece[], reason: 'stop' | 'length'): Promise<void> {
  const bed = openBed(({ sink }) => {
    for (const [at, piece] of said.entries()) play(sink, piece, at);
    stop(sink, reason);
  });
  const fields = { tools: TOOLS, reasoning: { summary: 'auto' } };
  const events = await bed.events(fields);
  const streamed = (events.at(-1)!.response as JsonObject).output as readonly JsonObject[];
  const whole = ((await bed.object(fields)).output as readonly JsonObject[]).map(withoutId);
  const isSilent = streamed.length === 0; // only the object has its empty message then
  expect(isSilent ? whole.length : whole).toEqual(isSilent ? 1 : streamed.map(withoutId));
  const done = events.filter((event) => event.type === 'response.output_item.done').map((event) => event.item);
  expect(done).toEqual(streamed);
  expect(textOf(events, 'response.output_text.delta')).toBe(
    said.map(({ kind, text }) => (kind === 'say' ? text : '')).join(''),
  );
}

function play(sink: GenerationSink, { kind, text }: Piece, index: number): void {
  if (kind === 'say') say(sink, text);
  else if (kind === 'think') think(sink, text);
  else {
    call(sink, index, kind);
    for (const character of JSON.stringify({ input: text })) args(sink, index, character);
  }
}

const withoutId = ({ id: _id, ...rest }: JsonObject): JsonObject => rest;
const textOf = (events: readonly JsonObject[], type: string): string =>
  events.map((event) => (event.type === type ? event.delta : '')).join('');

describe('unknown root keys', () => {
  it('are ignored, and counted by names of a closed list', async () => {
    const bed = openBed(({ sink }) => {
      say(sink, 'x');
      stop(sink);
    });
    const body = await bed.object({ client_metadata: { a: 'b' }, max_tokens: 5, zzz: 1, ['y'.repeat(50)]: 2 });
    expect(body.status).toBe('completed');
    await bed.object({ zzz: 1 });
    const metrics = await bed.test.deps.metrics.render();
    const counted = metrics.split('\n').filter((line) => line.startsWith('stator_frontend_ignored_keys_total{'));
    expect(counted.sort()).toEqual([
      'stator_frontend_ignored_keys_total{endpoint="responses",key="max_tokens"} 1',
      'stator_frontend_ignored_keys_total{endpoint="responses",key="other"} 2',
    ]);
  });
});

import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { endOfTurn } from '../../../../shared/concurrency/index.ts';
import type { GenerationSink } from '../../../../shared/protocol/index.ts';
import { MemoryResponseStore } from '../../../../shared/responses/index.ts';
import { countTurns } from '../../../support/count-turns.ts';
import type { JsonObject } from '../../../support/dynamo-http/records.ts';
import { args, type Bed, call, eventsOf, openBed, say, stop, think } from './responses-bed.ts';

const TOOLS = [
  { type: 'function', name: 'f', parameters: {} },
  { type: 'custom', name: 'c' },
  { type: 'namespace', name: 'space', description: '', tools: [{ type: 'function', name: 'g', parameters: {} }] },
  { type: 'tool_search', execution: 'client', parameters: {} },
];

const PLAYS: Readonly<Record<string, (sink: GenerationSink) => void>> = {
  'a text': (sink) => {
    for (const text of ['Hel', 'lo ', '\u{1f600}', '"quoted"\n']) say(sink, text);
    stop(sink);
  },
  'reasoning, a text and calls of every kind': (sink) => {
    for (const text of ['Hm', ', well']) think(sink, text);
    say(sink, 'Calling.');
    call(sink, 0, 'f');
    for (const text of ['{"a"', ':1}']) args(sink, 0, text);
    call(sink, 1, 'c');
    for (const text of ['{"inp', 'ut":"a\\', 'nb"}']) args(sink, 1, text);
    call(sink, 2, 'space__g');
    args(sink, 2, '{}');
    call(sink, 3, 'tool_search');
    for (const text of ['{"query"', ':"x"}']) args(sink, 3, text);
    stop(sink, 'tool_calls');
  },
  'an answer that was cut': (sink) => {
    say(sink, 'Once upon');
    stop(sink, 'length');
  },
  'an answer without a word': (sink) => stop(sink),
};

async function streamed(bed: Bed, fields: object): Promise<{ readonly text: string; readonly id: string }> {
  const text = await (await bed.create({ stream: true, tools: TOOLS, ...fields })).text();
  return { text, id: String((eventsOf(text)[0]!.response as JsonObject).id) };
}

describe('the events of a stored response', () => {
  it.each(Object.keys(PLAYS))('are those of its stream: %s', async (name) => {
    const bed = openBed(({ sink }) => PLAYS[name]!(sink));
    for (const fields of [{}, { reasoning: { summary: 'auto' } }]) {
      const { text, id } = await streamed(bed, fields);
      const replay = await bed.send('GET', `/v1/responses/${id}?stream=true`);
      expect(replay.headers.get('content-type')).toBe('text/event-stream');
      expect(await replay.text()).toBe(text);
    }
  });

  it('are written in several turns when there is much of them, and so is a follow-up', async () => {
    const responseStore = new MemoryResponseStore({ clock: systemClock, ttlMs: 60_000, bytesMax: 64 * 1024 * 1024 });
    const long = 'It was "so" \u{1f600}. '.repeat(50_000);
    const bed = openBed(
      ({ sink }) => {
        think(sink, long);
        say(sink, long);
        stop(sink);
      },
      { responseStore },
    );
    const { text, id } = await streamed(bed, { reasoning: { summary: 'auto' } });
    const { turns, result } = await countTurns(
      bed.send('GET', `/v1/responses/${id}?stream=true`).then((response) => response.text()),
    );
    expect(result === text).toBe(true);
    expect(turns).toBeGreaterThan(text.length / 200_000);
    const followed = bed.create({ previous_response_id: id, store: false });
    expect((await countTurns(bed.pipeline.call(1))).turns).toBeGreaterThan(20);
    expect((await followed).status).toBe(200);
  });

  it('go on behind the last one that a client has seen', async () => {
    const bed = openBed(({ sink }) => PLAYS['reasoning, a text and calls of every kind']!(sink));
    const { text, id } = await streamed(bed, {});
    const frames = text.split(/(?<=\n\n)/);
    expect(frames.pop()).toBe('data: [DONE]\n\n');
    for (const after of [0, 3, frames.length - 2, frames.length - 1, frames.length + 5]) {
      const rest = await bed.send('GET', `/v1/responses/${id}?stream=true&starting_after=${after}`);
      expect(await rest.text()).toBe(`${frames.slice(after + 1).join('')}data: [DONE]\n\n`);
      expect(rest.headers.get('x-accel-buffering')).toBe('no');
    }
  });

  it('tell an answer that was not streamed in one piece an item', async () => {
    const bed = openBed(({ sink }) => PLAYS['a text']!(sink));
    const whole = await bed.object();
    const events = eventsOf(await (await bed.send('GET', `/v1/responses/${String(whole.id)}?stream=true`)).text());
    expect(events.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta)).toEqual([
      'Hello \u{1f600}"quoted"\n',
    ]);
    expect(events.at(-1)).toMatchObject({ type: 'response.completed', response: whole });
  });

  it('are those of a response that is still being made, once it is complete', async () => {
    let sink: GenerationSink | undefined;
    const bed = openBed((made) => {
      sink = made.sink;
      say(made.sink, 'Hel');
    });
    await bed.send('GET', '/v1/responses/resp_none'); // the first request of a route loads its code
    const first = await bed.create({ stream: true });
    const reader = first.body!.getReader();
    const head = new TextDecoder().decode((await reader.read()).value);
    const id = /"id":"(resp_\w+)"/.exec(head)?.[1];
    const replay = bed.send('GET', `/v1/responses/${id}?stream=true`);
    await endOfTurn(); // it has come by then
    say(sink!, 'lo');
    stop(sink!);
    const events = eventsOf(await (await replay).text());
    expect(events.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta)).toEqual([
      'Hel',
      'lo',
    ]);
    expect(events.at(-1)?.type).toBe('response.completed');
  });

  it.each([
    ['stream=maybe', 'stream'],
    ['starting_after=1', 'starting_after'],
    ['stream=true&starting_after=x', 'starting_after'],
    ['stream=true&starting_after=-1', 'starting_after'],
  ])('are refused for %s', async (query, param) => {
    const bed = openBed(({ sink }) => PLAYS['a text']!(sink));
    const { id } = await bed.object();
    const refusal = await bed.send('GET', `/v1/responses/${String(id)}?${query}`);
    expect(refusal.status).toBe(400);
    expect(await refusal.json()).toMatchObject({ error: { code: 'invalid_value', param } });
  });

  it('are not found where there is no such response', async () => {
    const bed = openBed(({ sink }) => stop(sink));
    expect((await bed.send('GET', `/v1/responses/resp_${'0'.repeat(32)}?stream=true`)).status).toBe(404);
  });

  it('reach the official client', async () => {
    const bed = openBed(({ sink }) => PLAYS['a text']!(sink));
    const { id } = await bed.object();
    const fetch = async (url: string | URL | Request, init?: RequestInit) => bed.test.app.fetch(new Request(url, init));
    const client = new OpenAI({ baseURL: 'http://localhost/v1', apiKey: 'none', fetch });
    const stream = await client.responses.retrieve(String(id), { stream: true });
    let text = '';
    for await (const event of stream) if (event.type === 'response.output_text.delta') text += event.delta;
    expect(text).toBe('Hello \u{1f600}"quoted"\n');
  });
});

import { describe, expect, it } from 'vitest';
import { workerError } from '../../../shared/errors/index.ts';
import type { GenerationSink } from '../../../shared/protocol/index.ts';
import type { JsonObject } from '../../support/dynamo-http/records.ts';
import { parseFrames } from '../../support/dynamo-http/wire-answer.ts';
import { tell } from '../../support/generation-events.ts';
import { createTestApp } from '../../support/http-app.ts';
import { type ScriptedCall, ScriptedPipeline } from '../../support/scripted-pipeline.ts';

async function answer(fields: object, play: (call: ScriptedCall) => void) {
  const pipeline = new ScriptedPipeline().onGenerate(play);
  const test = createTestApp({ pipeline });
  const request = new Request('http://localhost/v1/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', prompt: 'p', ...fields }),
  });
  const response = await test.app.fetch(request);
  const text = await response.text();
  const frames = parseFrames(text).map((frame) => frame.data);
  return { ...test, pipeline, status: response.status, text, frames: frames as readonly JsonObject[] };
}

function end(sink: GenerationSink, choices = 1, promptTokens = 1): void {
  for (let choice = 0; choice < choices; choice++) {
    tell(sink, { kind: 'finish', choice, text: '', tokenIds: [], reason: 'stop' });
  }
  sink.end({ promptTokens, completionTokens: 2, cachedTokens: 1 }, true);
}

const PROMPTS = ['a', 'b', 'c'];

describe('engine data of a completions stream', () => {
  const told = async (play: (call: ScriptedCall) => void) => {
    const nvext = { extra_fields: ['engine_data'] };
    const { frames } = await answer({ stream: true, nvext, prompt: PROMPTS.slice(0, 2), n: 2 }, play);
    return frames.filter((frame) => frame.nvext !== undefined);
  };

  it('waits for a text when none is shown yet', async () => {
    const seen = await told(({ sink }) => {
      tell(sink, { kind: 'engine-data', data: { x: 1 } });
      sink.text(0, '', 0); // a part of a character
      sink.text(0, 'a', 1);
      end(sink);
    });
    const data = { nvext: { engine_data: { x: 1 } } };
    expect(seen).toMatchObject([
      { choices: [{ text: 'a', index: 0 }], ...data },
      { choices: [{ text: 'a', index: 2 }], ...data },
    ]);
  });

  it('comes in a chunk of its own where nothing follows', async () => {
    const seen = await told(({ sink }) => {
      sink.text(0, 'a', 1);
      tell(sink, { kind: 'finish', choice: 0, text: '', tokenIds: [], reason: 'stop' });
      tell(sink, { kind: 'engine-data', data: { x: 1 } });
      sink.end({ promptTokens: 1, completionTokens: 2 }, true);
    });
    expect(seen.map(({ choices }) => choices)).toEqual([
      [{ text: '', index: 0, logprobs: null }],
      [{ text: '', index: 2, logprobs: null }],
    ]);
  });
});

/** A worker that takes bodies untouched and tells its usage apart. */
function tellUsage({ sink }: ScriptedCall): void {
  tell(sink, { kind: 'body', body: { choices: [{ index: 0, text: 'x', finish_reason: 'stop' }], usage: null } });
  tell(sink, { kind: 'body', body: { choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } } });
  sink.end({ promptTokens: 1, completionTokens: 2 }, true);
}

describe("a text worker's usage on a stream", () => {
  const usages = async (fields: object) => {
    const { frames } = await answer({ stream: true, ...fields }, tellUsage);
    return frames.slice(0, -1).flatMap((frame) => (frame.usage == null ? [] : [frame.usage]));
  };
  const ASKED = { stream_options: { include_usage: true } };

  it('is shown only to clients that asked, and of several prompts as one sum', async () => {
    expect(await usages({})).toEqual([]);
    expect(await usages({ prompt: PROMPTS })).toEqual([]);
    expect(await usages(ASKED)).toEqual([{ prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }]);
    expect(await usages({ ...ASKED, prompt: PROMPTS })).toEqual([
      { prompt_tokens: 3, completion_tokens: 6, total_tokens: 9 },
    ]);
  });
});

/** A worker that takes bodies untouched: one choice that repeats the prompt. */
function repeat({ sink, request }: ScriptedCall): void {
  const text = JSON.stringify(request.body?.prompt);
  const choices = [{ index: 0, text, finish_reason: 'stop' }];
  tell(sink, { kind: 'body', body: { id: 'theirs', choices, usage: { prompt_tokens: 1, completion_tokens: 2 } } });
  sink.end({ promptTokens: 1, completionTokens: 2 }, true);
}

describe('a batch of prompts', () => {
  it('goes to a worker that takes bodies one prompt at a time, and comes back as one answer', async () => {
    const { text } = await answer({ prompt: PROMPTS }, repeat);
    expect(JSON.parse(text)).toMatchObject({
      id: expect.stringMatching(/^cmpl-/),
      choices: [
        { index: 0, text: '"a"' },
        { index: 1, text: '"b"' },
        { index: 2, text: '"c"' },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 6, total_tokens: 9 },
    });
    const { frames } = await answer({ prompt: PROMPTS, stream: true }, repeat);
    const choices = frames.slice(0, -1).flatMap((frame) => frame.choices as readonly JsonObject[]);
    expect(choices.map(({ index, text: said }) => [index, said])).toEqual([
      [0, '"a"'],
      [1, '"b"'],
      [2, '"c"'],
    ]);
  });

  it('numbers choices by prompt and choice, and sums usage', async () => {
    const { text } = await answer({ prompt: PROMPTS, n: 2 }, ({ sink, request }) => {
      const prompt = request.prompt.kind === 'raw' ? request.prompt.text : '';
      sink.text(1, `${prompt}1`, 1);
      sink.text(0, `${prompt}0`, 1);
      end(sink, 2);
    });
    const body = JSON.parse(text);
    expect(body.choices.map((choice: { index: number; text: string }) => [choice.index, choice.text])).toEqual([
      [0, 'a0'],
      [1, 'a1'],
      [2, 'b0'],
      [3, 'b1'],
      [4, 'c0'],
      [5, 'c1'],
    ]);
    expect(body.usage).toEqual({
      prompt_tokens: 3,
      completion_tokens: 6,
      total_tokens: 9,
      prompt_tokens_details: { cached_tokens: 3 },
    });
  });

  it('streams under ids of its own prompts and ends with one usage chunk', async () => {
    const fields = { prompt: PROMPTS, stream: true, stream_options: { include_usage: true } };
    const { frames } = await answer(fields, ({ sink }) => {
      sink.text(0, 'x', 1);
      end(sink);
    });
    const usages = frames.filter((frame) => frame.usage !== null && frame.usage !== undefined);
    expect(usages).toHaveLength(1);
    expect(usages[0]).toMatchObject({
      choices: [],
      usage: { total_tokens: 9 },
      id: expect.stringMatching(/[0-9a-f]{12}$/),
    });
    const ids = new Set(frames.map((frame) => /-\d$/.exec(String(frame.id))?.[0]).filter((id) => id !== undefined));
    expect(ids).toEqual(new Set(['-0', '-1', '-2']));
    expect(frames.at(-1)).toBe('[DONE]');
  });

  it.each([true, false])('ends as a whole with the first failure (stream: %s)', async (stream) => {
    const { status, pipeline, lifecycle } = await answer({ prompt: PROMPTS, stream }, ({ sink, request }) => {
      if (request.id.endsWith('-1')) sink.fail(workerError('RateLimited'));
    });
    expect(status).toBe(429);
    expect(pipeline.calls).toHaveLength(2);
    expect(pipeline.calls.every((call) => call.options.signal.aborted)).toBe(true);
    expect(lifecycle.inflight).toBe(0);
  });
});

describe('a completions stream', () => {
  it('has null usage, no role and a reason only at the end', async () => {
    const { text } = await answer({ stream: true }, ({ sink }) => {
      sink.text(0, 'x', 1);
      sink.text(0, '', 1);
      end(sink);
    });
    const masked = text.replaceAll(/cmpl-[0-9a-f-]+/g, 'ID').replaceAll(/"created":\d+/g, '"created":0');
    const frame = (choice: string) =>
      `data: {"id":"ID","choices":[${choice}],"created":0,"model":"m",` +
      '"object":"text_completion","usage":null}\n\n';
    expect(masked).toBe(
      `${frame('{"text":"x","index":0,"logprobs":null}')}${frame('{"text":"","index":0,"logprobs":null,"finish_reason":"stop"}')}data: [DONE]\n\n`,
    );
  });

  it.each([true, false])(
    'repeats a prompt of token ids as the text that they stand for (stream: %s)',
    async (stream) => {
      const { text } = await answer({ prompt: [[1, 2], [3]], stream, echo: true }, ({ sink }) => {
        sink.text(0, 'x', 1);
        end(sink);
      });
      expect(text).toContain('"<1 2>x"');
      expect(text).toContain('"<3>x"');
    },
  );

  it('repeats the prompt once a choice when asked to echo', async () => {
    const { frames } = await answer({ stream: true, echo: true, n: 2 }, ({ sink }) => {
      sink.text(0, 'x', 1);
      sink.text(1, 'y', 1);
      sink.text(0, 'z', 1);
      end(sink, 2);
    });
    const texts = frames.slice(0, -1).map((frame) => (frame.choices as readonly JsonObject[])[0]?.text);
    expect(texts).toEqual(['px', 'py', 'z', '', '']);
  });
});

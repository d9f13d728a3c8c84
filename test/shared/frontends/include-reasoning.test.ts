import { describe, expect, it } from 'vitest';
import type { GenerationSink } from '../../../shared/protocol/index.ts';
import { createTestApp } from '../../support/http-app.ts';
import { ScriptedPipeline } from '../../support/scripted-pipeline.ts';

async function chat(fields: object, play: (sink: GenerationSink) => void) {
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => play(sink));
  const { app } = createTestApp({ pipeline });
  const response = await app.fetch(
    new Request('http://localhost/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], ...fields }),
    }),
  );
  return { status: response.status, text: await response.text(), request: pipeline.calls[0]?.request };
}

const end = (sink: GenerationSink) => sink.end({ promptTokens: 3, completionTokens: 9 }, true);

const WORKERS: Readonly<Record<string, (sink: GenerationSink) => void>> = {
  tokens: (sink) => {
    sink.reasoning(0, 'deep thought');
    sink.text(0, 'fine', 1);
    sink.finish({ choice: 0, text: '', tokenIds: [], reason: 'stop' });
    end(sink);
  },
  chunks: (sink) => {
    const tell = (delta: object, finish_reason: string | null = null) =>
      sink.body({ choices: [{ index: 0, delta, finish_reason, logprobs: null }] });
    tell({ role: 'assistant', content: '', reasoning_content: 'deep' });
    tell({ reasoning_content: ' thought' });
    tell({ content: 'fine' });
    tell({}, 'stop');
    end(sink);
  },
};

describe.each(Object.entries(WORKERS))('the reasoning of a worker of %s', (_what, play) => {
  it.each([false, true])('is left out if the client wants none, streamed: %s', async (stream) => {
    for (const include_reasoning of [undefined, null, true, false]) {
      const { status, text } = await chat({ stream, include_reasoning }, play);
      expect(status).toBe(200);
      expect(text).toContain('"content":"fine"');
      expect(text).toContain('"finish_reason":"stop"');
      expect(text.includes('deep')).toBe(include_reasoning !== false);
      expect(text.includes('reasoning')).toBe(include_reasoning !== false);
    }
  });
});

it('gives documents to the template, under the name that templates have for them', async () => {
  const documents = [{ title: 'a', text: 'b' }];
  const { request } = await chat({ documents, chat_template_kwargs: { x: 1 } }, end);
  expect(request?.prompt).toMatchObject({ templateArgs: { documents, x: 1 } });
  expect(request?.body).toMatchObject({ documents });
});

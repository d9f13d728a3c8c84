import { describe, expect, it } from 'vitest';
import type { GenerationSink } from '../../../shared/protocol/index.ts';
import { createTestApp } from '../../support/http-app.ts';
import { playTexts, ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';

const PICTURE_URL = 'data:image/png;base64,iVBORw0KGgo=';
const PICTURE = { type: 'image_url', image_url: { url: PICTURE_URL } };

/** Sends a body to a frontend whose workers take bodies, and tells the answer and the body that they get. */
async function ask(
  path: string,
  body: object,
  play: (sink: GenerationSink) => void = (sink) => playTexts(sink, ['a']),
) {
  const known = servedModel('m');
  const model = servedModel('m', { card: { ...known.card, model_input: 'Text' } });
  const pipeline = new ScriptedPipeline([model]).onGenerate(({ sink }) => play(sink));
  const { app } = createTestApp({ pipeline, settings: { anthropic: { isEnabled: true, stripsPreamble: false } } });
  const response = await app.fetch(
    new Request(`http://localhost${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify({ model: 'm', ...body }),
    }),
  );
  const text = await response.text();
  return {
    status: response.status,
    text,
    warning: response.headers.get('warning'),
    messages: pipeline.calls[0]?.request.body?.messages as readonly object[] | undefined,
  };
}

const CALL = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } };

/** One conversation with a picture of the user and one of a tool, by the route that it is sent to. */
const SHOWN: Readonly<Record<string, object>> = {
  '/v1/chat/completions': {
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'look' }, PICTURE] },
      { role: 'assistant', tool_calls: [CALL] },
      { role: 'tool', tool_call_id: 'c', content: [{ type: 'text', text: 'seen' }, PICTURE] },
      { role: 'user', content: 'so?' },
    ],
  },
  '/v1/responses': {
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'look' },
          { type: 'input_image', image_url: PICTURE_URL },
        ],
      },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      {
        type: 'function_call_output',
        call_id: 'c',
        output: [
          { type: 'input_text', text: 'seen' },
          { type: 'input_image', image_url: PICTURE_URL },
        ],
      },
      { role: 'user', content: 'so?' },
    ],
  },
  '/v1/messages': {
    max_tokens: 9,
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'look' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
        ],
      },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'c',
            content: [
              { type: 'text', text: 'seen' },
              { type: 'image', source: { type: 'url', url: PICTURE_URL } },
            ],
          },
          { type: 'text', text: 'so?' },
        ],
      },
    ],
  },
};

describe('a conversation with pictures', () => {
  it.each(Object.entries(SHOWN))(
    'is handed on whole to workers that read chats, in the published shape: %s',
    async (path, body) => {
      for (const stream of [false, true]) {
        const { status, warning, messages } = await ask(path, { ...body, stream });
        expect([status, warning]).toEqual([200, null]);
        expect(messages).toEqual([
          { role: 'user', content: [{ type: 'text', text: 'look' }, PICTURE] },
          { role: 'assistant', content: null, tool_calls: [CALL] },
          { role: 'tool', tool_call_id: 'c', content: 'seen' },
          { role: 'user', content: [PICTURE, { type: 'text', text: 'so?' }] },
        ]);
      }
    },
  );
});

interface Delta {
  readonly content: string | readonly object[];
  readonly images?: readonly object[];
}

/** Answers in parts, chunk by chunk, and what they are as text. */
const ANSWERS: readonly (readonly [what: string, deltas: readonly Delta[], text: string])[] = [
  [
    'text',
    [
      {
        content: [
          { type: 'text', text: 'one ' },
          { type: 'text', text: 'two' },
        ],
      },
    ],
    'one two',
  ],
  ['a picture', [{ content: [{ type: 'text', text: 'see ' }, PICTURE] }], `see ![image](${PICTURE_URL})`],
  [
    'a picture behind text',
    [{ content: 'see ' }, { content: [PICTURE] }, { content: '!' }],
    `see ![image](${PICTURE_URL})!`,
  ],
  ['a picture beside text', [{ content: 'see ', images: [PICTURE] }], `see ![image](${PICTURE_URL})`],
  [
    'a sound',
    [{ content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] }],
    '[audio](data:audio/wav;base64,AAAA)',
  ],
  [
    'a video',
    [{ content: [{ type: 'video_url', video_url: { url: 'https://a/b.mp4' } }] }],
    '[video](https://a/b.mp4)',
  ],
  ['an unknown part', [{ content: [{ type: 'image', of: 'x' }] }], '{"type":"image","of":"x"}'],
];

const play = (deltas: readonly object[]) => (sink: GenerationSink) => {
  for (const delta of deltas) sink.body({ choices: [{ index: 0, delta, finish_reason: null, logprobs: null }] });
  sink.body({ choices: [{ index: 0, delta: {}, finish_reason: 'stop', logprobs: null }] });
  sink.end({ promptTokens: 3, completionTokens: 9 }, true);
};

describe.each(ANSWERS)('an answer in parts: %s', (_what, deltas, text) => {
  it.each([
    ['/v1/responses', { input: 'hi' }, (said: string) => ({ output: [{ content: [{ text: said }] }] })],
    [
      '/v1/messages',
      { max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] },
      (said: string) => ({ content: [{ text: said }] }),
    ],
  ])('is text where the answer has no parts of its kind: %s', async (path, body, shape) => {
    const whole = await ask(path, body, play(deltas));
    expect(JSON.parse(whole.text)).toMatchObject(shape(text));
    const streamed = await ask(path, { ...body, stream: true }, play(deltas));
    const pieces = streamed.text.matchAll(
      /"delta":(?:("(?:[^"\\]|\\.)*")|\{"type":"text_delta","text":("(?:[^"\\]|\\.)*")\})/g,
    );
    expect(Array.from(pieces, ([, one, other]) => JSON.parse(one ?? other ?? '""')).join('')).toBe(text);
  });

  it('is all there in a chat', async () => {
    const { text: whole } = await ask(
      '/v1/chat/completions',
      { messages: [{ role: 'user', content: 'hi' }] },
      play(deltas),
    );
    const { content, images } = JSON.parse(whole).choices[0].message;
    const given = deltas.flatMap(({ content: said, images: shown }) => [
      ...(typeof said === 'string' ? [{ type: 'text', text: said }] : said),
      ...(shown ?? []),
    ]);
    const told = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    expect([...told, ...(images ?? [])]).toEqual(given);
  });
});

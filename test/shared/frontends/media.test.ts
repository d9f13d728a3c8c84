import { describe, expect, it } from 'vitest';
import { workerError } from '../../../shared/errors/index.ts';
import { parseFrames } from '../../support/dynamo-http/wire-answer.ts';
import { tell } from '../../support/generation-events.ts';
import { createTestApp } from '../../support/http-app.ts';
import { type ScriptedCall, ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';

const { card } = servedModel('x');
const MODELS = [
  servedModel('diffusion', { card: { ...card, model_type: ['Images'], model_input: 'Text' } }),
  servedModel('vid', { card: { ...card, model_type: ['Videos'], model_input: 'Text' } }),
];
const NO_TOKENS = { promptTokens: 0, completionTokens: 0 };

async function ask(path: string, body: object, play: (call: ScriptedCall) => void) {
  const pipeline = new ScriptedPipeline(MODELS).onGenerate(play);
  const test = createTestApp({ pipeline });
  const request = new Request(`http://localhost${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-request-id': 'r' },
    body: JSON.stringify(body),
  });
  const response = await test.app.fetch(request);
  const bytes = Buffer.from(await response.arrayBuffer());
  const isJson = response.headers.get('content-type') === 'application/json';
  return { ...test, pipeline, response, bytes, body: isJson ? JSON.parse(bytes.toString()) : undefined };
}

/** Sends each of `bodies` as one output of the worker. */
const sends =
  (...bodies: readonly unknown[]) =>
  ({ sink }: ScriptedCall): void => {
    for (const body of bodies) tell(sink, { kind: 'body', body });
    sink.end(NO_TOKENS, false);
  };

const picture = (text: string) => ({ data: [{ b64_json: Buffer.from(text).toString('base64') }] });

describe('POST /v1/images/generations', () => {
  it('takes the default model, passes on what it does not know apart from the rest, and joins the parts', async () => {
    const fields = { prompt: 'a cat', n: 2, user: null, steps: 4, extra_args: { a: 1 } };
    const parts = [
      { data: [{ url: 'u' }] },
      { created: 9, size: '1x1', data: [{ b64_json: 'AA==', revised_prompt: 'c' }] },
    ];
    const { pipeline, body } = await ask('/v1/images/generations', fields, sends(...parts));
    expect(pipeline.calls[0]?.request).toMatchObject({ model: 'diffusion', endpoint: 'images', stream: false });
    expect(pipeline.calls[0]?.request.body).toEqual({
      model: 'diffusion',
      prompt: 'a cat',
      n: 2,
      extra_args: { media_passthrough: { steps: 4, extra_args: { a: 1 } } },
    });
    expect(body).toEqual({
      created: 9,
      data: [
        { url: 'u', revised_prompt: null },
        { b64_json: 'AA==', revised_prompt: 'c' },
      ],
      background: null,
      output_format: null,
      size: '1x1',
      quality: null,
      usage: null,
    });
  });

  it.each([0, 11])('refuses %i pictures', async (n) => {
    const { response, body } = await ask('/v1/images/generations', { prompt: 'x', n }, sends({}));
    expect(response.status).toBe(400);
    expect(body.error.param).toBe('n');
  });

  it('is an internal error when the worker sends nothing', async () => {
    const { response } = await ask('/v1/images/generations', { prompt: 'x' }, sends());
    expect(response.status).toBe(500);
  });

  it('edits only with a picture to start from', async () => {
    const { body } = await ask('/v1/images/edits', { prompt: 'x' }, sends({}));
    expect(body.error).toMatchObject({ param: 'input_reference', code: 'missing_required_parameter' });
  });
});

describe('POST /v1/videos/generations', () => {
  it.each(['/v1/videos/generations', '/v1/videos'])('answers %s with one complete object', async (path) => {
    const parts = [picture('a'), { ...picture('b'), error: null, inference_time_s: 2 }];
    const { body } = await ask(path, { model: 'vid', prompt: 'x' }, sends(...parts));
    expect(body).toEqual({
      id: expect.stringMatching(/^video_/),
      object: 'video',
      model: 'vid',
      status: 'completed',
      progress: 100,
      created: expect.any(Number),
      data: [{ b64_json: 'YQ==' }, { b64_json: 'Yg==' }],
      inference_time_s: 2,
    });
  });

  it('streams an event for each object', async () => {
    const { response, bytes } = await ask(
      '/v1/videos',
      { model: 'vid', prompt: 'x', stream: true },
      sends(picture('a'), picture('b')),
    );
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    expect(parseFrames(bytes.toString())).toMatchObject([
      { data: { object: 'video', data: [{ b64_json: 'YQ==' }] } },
      { data: { object: 'video', data: [{ b64_json: 'Yg==' }] } },
      { data: '[DONE]' },
    ]);
  });

  it('ends a stream that fails in the middle with an error event', async () => {
    const { bytes } = await ask('/v1/videos', { model: 'vid', prompt: 'x', stream: true }, ({ sink }) => {
      tell(sink, { kind: 'body', body: picture('a') });
      sink.fail(workerError('Unavailable'));
    });
    expect(parseFrames(bytes.toString()).slice(1)).toMatchObject([
      { data: { error: { code: 'service_unavailable' } } },
      { data: '[DONE]' },
    ]);
  });
});

describe('POST /v1/images/edits as a form', () => {
  const PNG = Buffer.from('89504e470d0a1a0a00', 'hex');
  const JPEG = Buffer.from('ffd8ffe000', 'hex');
  const url = (type: string, bytes: Buffer) => `data:${type};base64,${bytes.toString('base64')}`;
  const file = (bytes: Buffer, name = 'a.bin', type = '') => new File([new Uint8Array(bytes)], name, { type });

  async function edit(fields: readonly (readonly [string, string | File])[], bodyLimitBytes = 1_000_000) {
    const form = new FormData();
    for (const [name, value] of fields) typeof value === 'string' ? form.append(name, value) : form.append(name, value);
    const pipeline = new ScriptedPipeline(MODELS).onGenerate(sends(picture('out')));
    const { app } = createTestApp({ pipeline, settings: { bodyLimitBytes } });
    const request = new Request('http://localhost/v1/images/edits', { method: 'POST', body: form });
    const response = await app.fetch(request);
    return { status: response.status, body: await response.json(), sent: pipeline.calls[0]?.request.body };
  }

  it('is the JSON body that says the same, with pictures as data URLs', async () => {
    const { status, sent } = await edit([
      ['prompt', 'a hat'],
      ['n', '2'],
      ['size', '256x256'],
      ['stream', 'false'],
      ['image', file(PNG)],
      ['mask', file(JPEG, 'm.png', 'image/png')],
    ]);
    expect(status).toBe(200);
    expect(sent).toEqual({
      model: 'diffusion',
      prompt: 'a hat',
      n: 2,
      size: '256x256',
      stream: false,
      input_reference: url('image/png', PNG),
      extra_args: { media_passthrough: { mask: url('image/jpeg', JPEG) } },
    });
  });

  it('may hold several pictures, also large ones', async () => {
    const large = Buffer.concat([PNG, Buffer.alloc(2_000_000, 7)]);
    const fields = [
      ['prompt', 'x'],
      ['image[]', file(large)],
      ['image[]', file(JPEG)],
    ] as const;
    const { sent } = await edit(fields, 4_000_000);
    expect(sent?.input_reference).toBe(url('image/png', large));
    expect(sent?.extra_args).toEqual({
      media_passthrough: { image: [url('image/png', large), url('image/jpeg', JPEG)] },
    });
  });

  it.each([
    [
      'text in place of a number',
      [
        ['prompt', 'x'],
        ['n', 'two'],
        ['image', file(PNG)],
      ],
      400,
      'n',
    ],
    [
      'a number out of range',
      [
        ['prompt', 'x'],
        ['n', '11'],
        ['image', file(PNG)],
      ],
      400,
      'n',
    ],
    [
      'a field twice',
      [
        ['prompt', 'x'],
        ['prompt', 'y'],
        ['image', file(PNG)],
      ],
      400,
      'prompt',
    ],
    [
      'a file that is no picture',
      [
        ['prompt', 'x'],
        ['image', file(Buffer.from('%PDF'))],
      ],
      400,
      'image',
    ],
    [
      'seventeen pictures',
      [['prompt', 'x'], ...Array.from({ length: 17 }, () => ['image[]', file(PNG)])],
      400,
      'image',
    ],
    ['no picture', [['prompt', 'x']], 400, 'input_reference'],
    ['no prompt', [['image', file(PNG)]], 400, 'prompt'],
    ['more bytes than a body may have', [['prompt', 'x'.repeat(1_000_001)]], 413, null],
  ] as [string, [string, string | File][], number, string | null][])(
    'is refused with %s',
    async (_what, fields, status, param) => {
      const answered = await edit(fields);
      expect([answered.status, (answered.body as { error: { param: unknown } }).error.param]).toEqual([status, param]);
      expect(answered.sent).toBeUndefined();
    },
  );

  it.each(['multipart/form-data', 'multipart/form-data; boundary=other'])(
    'is refused when it is not a valid form: %s',
    async (type) => {
      const { app } = createTestApp({ pipeline: new ScriptedPipeline(MODELS) });
      const init = { method: 'POST', headers: { 'content-type': type }, body: '--x\r\n\r\n' };
      const response = await app.fetch(new Request('http://localhost/v1/images/edits', init));
      expect(response.status).toBe(400);
    },
  );
});

describe('POST /v1/videos/generations/stream', () => {
  const path = '/v1/videos/generations/stream';
  const part = (text: string) =>
    `--frame\r\nContent-Type: image/jpeg\r\nContent-Length: ${text.length}\r\n\r\n${text}\r\n`;

  it.each([path, '/v1/videos/stream'])(
    '%s writes each picture as a part and skips what is not a picture',
    async (at) => {
      const bodies = [picture('one'), { data: [{ b64_json: '%' }] }, { data: [] }, picture('two')];
      const { response, bytes } = await ask(at, { model: 'vid', prompt: 'x' }, sends(...bodies));
      expect(response.headers.get('content-type')).toBe('multipart/x-mixed-replace; boundary=frame');
      expect(response.headers.get('x-accel-buffering')).toBe('no');
      expect(response.headers.get('x-request-id')).toBe('r');
      expect(bytes.toString()).toBe(part('one') + part('two'));
    },
  );

  it.each([
    ['a URL', { data: [{ url: 'https://a.example/b.mp4' }] }, 'holds no picture'],
    ['nothing', { data: [] }, 'holds no picture'],
    ['a whole video', picture('\0\0\0\x18ftypisom'), 'holds a whole video and no pictures'],
  ])('is 502 where the worker answers with %s', async (_, answer, says) => {
    const { response, body, lines } = await ask(path, { model: 'vid', prompt: 'x' }, sends(answer));
    expect(response.status).toBe(502);
    expect(body.error).toMatchObject({ code: 'bad_worker_response' });
    expect(body.error.message).toContain(`${says} to stream: ask for \`response_format\` \`b64_json\`, or without`);
    expect(lines.at(-1)?.fields).toMatchObject({ status: 502 });
  });

  it('refuses clients that want a URL before the work', async () => {
    const refused = await ask(path, { model: 'vid', prompt: 'x', response_format: 'url' }, sends(picture('one')));
    expect(refused.response.status).toBe(400);
    expect(refused.body.error).toMatchObject({ code: 'invalid_value', param: 'response_format' });
    expect(refused.pipeline.calls).toHaveLength(0);
  });

  it('fails with a status before the first picture and just ends after it', async () => {
    const early = await ask(path, { model: 'vid', prompt: 'x' }, ({ sink }) => sink.fail(workerError('Unavailable')));
    expect(early.response.status).toBe(503);
    const late = await ask(path, { model: 'vid', prompt: 'x' }, ({ sink }) => {
      tell(sink, { kind: 'body', body: picture('one') });
      sink.fail(workerError('Unavailable'));
    });
    expect(late.bytes.toString()).toBe(part('one'));
    expect(late.lines.at(-1)?.fields).toMatchObject({ status: 200, endpoint: 'videos', error_type: 'unavailable' });
  });
});

describe('media routes', () => {
  it('do not exist without a model of their kind', async () => {
    const test = createTestApp();
    for (const path of ['/v1/images/generations', '/v1/videos', '/v1/videos/stream']) {
      const response = await test.app.fetch(new Request(`http://localhost${path}`, { method: 'POST', body: '{' }));
      expect(response.status).toBe(404);
    }
  });
});

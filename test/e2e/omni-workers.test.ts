import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import OpenAI, { toFile } from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { postJson, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const FAKE = fileURLToPath(new URL('../shared/engines/omni/fake-omni.mjs', import.meta.url));
const ENGINE = ['--engine=vllm', `--engine-command=${process.execPath} ${FAKE}`];
const PNG = Buffer.from('89504e470d0a1a0a00', 'hex');
const PNG_URL = `data:image/png;base64,${PNG.toString('base64')}`;

interface Seen {
  readonly args: readonly string[];
  readonly received: readonly Readonly<Record<string, unknown>>[];
}

const urlOf = async (worker: StatorProcess): Promise<string> =>
  `http://127.0.0.1:${(await worker.waitForOutput(/--port (\d+)/))[1]}`;
const seenBy = async (worker: StatorProcess): Promise<Seen> =>
  (await (await fetch(`${await urlOf(worker)}/received`)).json()) as Seen;

describe('workers that start vLLM-Omni', () => {
  const fleet = useFleet();
  let frontend: StatorProcess;
  let painter: StatorProcess;
  let filmer: StatorProcess;
  let client: OpenAI;

  beforeAll(async () => {
    const stages = join(fleet.temporary, 'stages.yaml');
    writeFileSync(stages, 'stages: []\n');
    const env = { DYN_VLLM_OMNI: '1', DYN_OMNI_ULYSSES_DEGREE: '2', DYN_OMNI_VAE_USE_TILING: 'true' };
    [frontend, painter, filmer] = await Promise.all([
      fleet.frontend(),
      fleet.worker(
        [...ENGINE, '--model=org/painter', '--output-modalities=image', `--stage-configs-path=${stages}`],
        env,
      ),
      fleet.worker([...ENGINE, '--model=org/filmer', '--omni'], {
        DYN_OUTPUT_MODALITIES: 'video',
        DYN_OMNI_DEFAULT_VIDEO_FPS: '16',
        DYN_TCP_MAX_MESSAGE_SIZE: '200000',
      }),
    ]);
    await fleet.untilWorkers(frontend, 1, 'org/painter');
    await fleet.untilWorkers(frontend, 1, 'org/filmer');
    client = new OpenAI({ baseURL: `${frontend.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });

  const drawn = (base64: string | undefined): unknown => JSON.parse(Buffer.from(base64 ?? '', 'base64').toString());

  it('start it with what they were given', async () => {
    const { args } = await seenBy(painter);
    const line = args.join(' ');
    expect(line).toMatch(/^serve org\/painter --omni --host 127\.0\.0\.1 --port \d+ --served-model-name org\/painter/);
    expect(line).toMatch(/--stage-configs-path \S+stages\.yaml/);
    expect(line).toContain('--vae-use-tiling');
    expect(line).toContain('--ulysses-degree 2');
    expect(line).not.toContain('--max-num-seqs');
  });

  it('make pictures', async () => {
    const images = await client.images.generate({ model: 'org/painter', prompt: 'a cat', n: 2, size: 'auto' });
    expect(images.data).toHaveLength(2);
    expect(drawn(images.data?.[0]?.b64_json)).toEqual({
      fields: { model: 'org/painter', prompt: 'a cat', n: 2 },
      files: [],
    });
    const nvext = { negative_prompt: 'dogs', seed: 7 };
    const body = { model: 'org/painter', prompt: 'a cat', size: '64x64', nvext, true_cfg_scale: 4, quality: 'high' };
    const answer = await postJson(`${frontend.url}/v1/images/generations`, body);
    const { data, size } = (await answer.json()) as { data: { b64_json: string }[]; size: string };
    expect(size).toBe('64x64');
    expect(drawn(data[0]?.b64_json)).toMatchObject({ fields: { negative_prompt: 'dogs', seed: 7, true_cfg_scale: 4 } });
  });

  it('make pictures of pictures, which the engine gets as files', async () => {
    const image = await toFile(PNG, 'cat.png', { type: 'image/png' });
    const edited = await client.images.edit({
      model: 'org/painter',
      prompt: 'a hat',
      image: [image, image],
      mask: image,
    });
    const file = (field: string) => ({ field, type: 'image/png', text: PNG.toString('latin1') });
    expect(drawn(edited.data?.[0]?.b64_json)).toEqual({
      fields: { model: 'org/painter', prompt: 'a hat' },
      files: [file('image'), file('image'), file('mask_image')],
    });
  });

  it('make videos', async () => {
    const body = { model: 'org/filmer', prompt: 'waves', seconds: 2, input_reference: PNG_URL, num_frames: 8 };
    const answer = await postJson(`${frontend.url}/v1/videos/generations`, body);
    const video = (await answer.json()) as {
      data: { b64_json: string; output_format: string }[];
      inference_time_s: number;
    };
    expect(video).toMatchObject({
      status: 'completed',
      model: 'org/filmer',
      inference_time_s: 1.5,
      data: [{ output_format: 'mp4' }],
    });
    const bytes = Buffer.from(video.data[0]?.b64_json ?? '', 'base64');
    expect(bytes.toString('latin1')).toBe('\0\0\0\x18ftypisom\xffwaves'); // a byte that is no text among them
    expect((await seenBy(filmer)).received.at(-1)).toEqual({
      fields: { model: 'org/filmer', prompt: 'waves', seconds: '2', num_frames: '8', fps: '16' },
      files: [{ field: 'input_reference', type: 'image/png', text: PNG.toString('latin1') }],
    });
    const streamed = await postJson(`${frontend.url}/v1/videos/generations/stream`, body);
    expect(streamed.status).toBe(502);
  });

  it('tell a client whose video is too large to be answered what to do, once', async () => {
    const before = (await seenBy(filmer)).received.length;
    const body = { model: 'org/filmer', prompt: 'x'.repeat(150_000) };
    const answer = await postJson(`${frontend.url}/v1/videos/generations`, body);
    expect(answer.status).toBe(502);
    const message = expect.stringMatching(
      /^the video has \d+ bytes in base64; an answer has at most 200000: ask for less$/,
    );
    expect(await answer.json()).toMatchObject({ error: { code: 'bad_worker_response', message } });
    expect((await seenBy(filmer)).received.length).toBe(before + 1);
  });

  it('answer chats with pictures', async () => {
    const body = { model: 'org/painter', messages: [{ role: 'user', content: 'a cat' }] };
    const answer = await postJson(`${frontend.url}/v1/chat/completions`, body);
    expect(await answer.json()).toMatchObject({
      choices: [{ message: { content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] } }],
    });
    const refused = await postJson(`${frontend.url}/v1/chat/completions`, { ...body, model: 'org/filmer' });
    expect(refused.status).toBe(404);
    expect(await refused.json()).toMatchObject({
      error: { message: expect.stringContaining('It takes no chat requests') },
    });
  });

  it.each([
    ['images', { size: 'huge' }, 'size must be WIDTHxHEIGHT'],
    ['images', { response_format: 'url' }, 'response_format must be b64_json'],
    ['images', { lora: { path: '/etc' } }, 'lora is not passed on to vLLM-Omni'],
    ['images', { input_reference: 'http://127.0.0.1:1/a.png' }, 'is on an internal address'],
    ['videos', { frame_interpolation_model_path: 'org/code' }, 'frame_interpolation_model_path is not passed on'],
  ])('refuse for %s %j: what a client sends never makes the engine load or fetch', async (route, fields, says) => {
    const model = route === 'images' ? 'org/painter' : 'org/filmer';
    const edits = 'input_reference' in fields ? 'edits' : 'generations';
    const answer = await postJson(`${frontend.url}/v1/${route}/${edits}`, { model, prompt: 'x', ...fields });
    expect(answer.status).toBe(400);
    expect(JSON.stringify(await answer.json())).toContain(says);
  });

  it('leave discovery when the engine says that it is dead', async () => {
    await fetch(`${await urlOf(filmer)}/die`, { method: 'POST' });
    await fleet.untilWorkers(frontend, 0, 'org/filmer');
    await waitUntil(() => /engine is down/.test(filmer.stdout() + filmer.stderr()));
  });

  it.each([
    [['--engine=mocker'], 'DYN_VLLM_OMNI needs --engine vllm'],
    [['--engine=vllm', '--model=m', '--disaggregation-mode=decode'], 'needs --disaggregation-mode agg'],
    [['--engine=vllm', '--model=m', '--output-modalities=audio'], 'text, image, video'],
    [['--engine=vllm', '--model=m', '--no-omni', '--output-modalities=image'], '--output-modalities needs --omni'],
  ])('are never ordinary workers in silence: %j', async (flags, says) => {
    const child = fleet.spawn(['worker', ...flags], { DYN_VLLM_OMNI: '1' });
    expect(await child.exited).toBe(2);
    expect(child.stderr()).toContain(says);
  });
});

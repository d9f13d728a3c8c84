import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postJson, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';
import { VisionEngine, writeSeeingModel } from './vision-engine.ts';

const MODEL = 'eyes';
const KV = ['--router-mode=kv'];

interface Answer {
  readonly usage: {
    readonly prompt_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens: number };
  };
}

interface Explained {
  readonly blocks: number;
  readonly candidates: readonly { readonly overlap: { readonly device: number } }[];
}

/** A picture of its own size for each name. */
function picture(name: string): string {
  return `data:image/png;base64,${Buffer.from(name.repeat(20 + name.length)).toString('base64')}`;
}

function chatAbout(url: string, question = 'What is this?') {
  const content = [
    { type: 'image_url', image_url: { url } },
    { type: 'text', text: question },
  ];
  return { model: MODEL, max_tokens: 4, messages: [{ role: 'user', content }] };
}

describe('a model that sees, in mode kv', () => {
  const fleet = useFleet({ DYN_MM_ALLOW_INTERNAL: 'true' });
  const engines = [new VisionEngine(), new VisionEngine()];
  let frontend: StatorProcess;
  let folder: string;

  beforeAll(async () => {
    folder = join(fleet.temporary, 'eyes');
    writeSeeingModel(folder);
    const urls = await Promise.all(engines.map((engine) => engine.start(folder)));
    const sees = ['--engine=vllm', '--enable-multimodal', `--model-path=${folder}`, `--served-model-name=${MODEL}`];
    [frontend] = await Promise.all([
      fleet.frontend(KV),
      ...urls.map((url) => fleet.worker([...sees, `--engine-url=${url}`])),
    ]);
    await fleet.untilWorkers(frontend, 2, MODEL);
  });

  afterAll(() => {
    for (const engine of engines) engine.stop();
  });

  const asked = (): number => engines.reduce((sum, engine) => sum + engine.asked.length, 0);

  async function cachedShare(at: StatorProcess, chat: object): Promise<number> {
    const response = await postJson(`${at.url}/v1/chat/completions`, chat);
    expect(response.status).toBe(200);
    const { usage } = (await response.json()) as Answer;
    return (usage.prompt_tokens_details?.cached_tokens ?? 0) / usage.prompt_tokens;
  }

  /** Blocks of the chat that its best worker is known to hold, of those that it is known to have. */
  async function known(at: StatorProcess, chat: object): Promise<{ held: number; blocks: number }> {
    const response = await postJson(`${at.url}/router/explain`, chat);
    const { blocks, candidates } = (await response.json()) as Explained;
    return { blocks, held: Math.max(...candidates.map(({ overlap }) => overlap.device)) };
  }

  /** Waits until the whole chat is known to be cached somewhere. */
  function untilKnown(at: StatorProcess, chat: object): Promise<unknown> {
    const isKnown = ({ held, blocks }: { held: number; blocks: number }): boolean => blocks > 6 && held === blocks;
    return waitUntil(async () => isKnown(await known(at, chat)), { what: 'the picture in the index' });
  }

  it('finds a picture again where it is cached, every time', async () => {
    let found = 0;
    for (let at = 0; at < 6; at++) {
      const chat = chatAbout(picture(`picture ${at}`));
      expect(await cachedShare(frontend, chat)).toBeLessThan(0.2);
      await untilKnown(frontend, chat);
      if ((await cachedShare(frontend, chat)) > 0.8) found++;
      expect(await cachedShare(frontend, chatAbout(picture(`picture ${at}`), 'Whose is it?'))).toBeGreaterThan(0.6);
    }
    expect(found).toBe(6);
  });

  it('counts nothing of another picture in the same place', async () => {
    await cachedShare(frontend, chatAbout(picture('a cat')));
    await untilKnown(frontend, chatAbout(picture('a cat')));
    expect((await known(frontend, chatAbout(picture('a dog')))).held).toBe(0);
    expect(await cachedShare(frontend, chatAbout(picture('a cow')))).toBe(0); // of the same size: its tokens are the same
    await untilKnown(frontend, chatAbout(picture('a cow')));
    expect(await cachedShare(frontend, chatAbout(picture('a cow')))).toBeGreaterThan(0.8);
  });

  it('finds a picture that is named by its address, and keeps what the engine is asked for from the client', async () => {
    const [first] = engines as [VisionEngine, VisionEngine];
    first.pictures.set('/cat.png', Buffer.from('a cat far away'.repeat(30)));
    const chat = { ...chatAbout(`${first.url}/cat.png`), stream: true };
    const response = await postJson(`${frontend.url}/v1/chat/completions`, chat);
    const told = await response.text();
    expect(told).toContain('a cat');
    expect(told).not.toContain('token_ids');
    await untilKnown(frontend, chat);
    expect(await cachedShare(frontend, chatAbout(`${first.url}/cat.png`))).toBeGreaterThan(0.8);
  });

  it('has a home for a picture that a frontend does not know', async () => {
    const second = await fleet.frontend(KV);
    await fleet.untilWorkers(second, 2, MODEL);
    for (let at = 0; at < 6; at++) {
      const chat = chatAbout(picture(`unseen ${at}`));
      await cachedShare(frontend, chat);
      expect(await cachedShare(second, chat)).toBeGreaterThan(0.8);
    }
  });

  it('routes text by what is cached of it, in tokens, and serves completions', async () => {
    const before = asked();
    const sentence = 'parts meet where their edges fit; ';
    for (let at = 0; at < 6; at++) {
      const chat = {
        model: MODEL,
        max_tokens: 2,
        messages: [{ role: 'user', content: `${at}: ${sentence.repeat(20)}` }],
      };
      expect(await cachedShare(frontend, chat)).toBeLessThan(0.2);
      await untilKnown(frontend, chat);
      expect(await cachedShare(frontend, chat)).toBeGreaterThan(0.8);
    }
    const completion = { model: MODEL, prompt: sentence.repeat(20), max_tokens: 1 };
    expect((await postJson(`${frontend.url}/v1/completions`, completion)).status).toBe(200);
    const paths = engines.flatMap((engine) => engine.asked.map(({ path }) => path));
    expect(paths.filter((path) => path === '/v1/completions').length).toBeGreaterThanOrEqual(asked() - before);
  });
});

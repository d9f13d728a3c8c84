import { beforeEach, describe, expect, it } from 'vitest';
import { EventNormaliser } from '../../../../shared/engines/kv-stream/event-normaliser.ts';
import type { MediaPrompt } from '../../../../shared/pipeline/prompt/media-prompt.ts';
import { preprocess } from '../../../../shared/pipeline/prompt/preprocess.ts';
import type { GenerationRequest } from '../../../../shared/protocol/index.ts';
import { type LoadedModel, mediaIdentity } from '../../../../shared/tokens/index.ts';
import { letterModel, model, promptTools, request } from '../fixtures.ts';

const BLOCK = 4;
const PAD = 26;
const CAT = 'data:image/png;base64,Y2F0';
const DOG = 'data:image/png;base64,ZG9n';
const served = model({ pool: { key: 'sum', role: 'aggregated', blockSizeTokens: BLOCK } });
const seeing = {
  ...served,
  card: { ...served.card, runtime_config: { media_chats: true } },
};

/** Writes texts as they are, and `z` for a picture. */
const loaded = {
  ...letterModel,
  chatTemplate: {
    render: ({ messages }: { messages: readonly { content: readonly { type: string; text?: string }[] | string }[] }) =>
      messages
        .flatMap(({ content }) => (typeof content === 'string' ? content : content.map((part) => part.text ?? 'z')))
        .join(''),
  },
} as unknown as LoadedModel;

let tools = promptTools();

function chat(...parts: readonly string[]): GenerationRequest {
  const content = parts.map((part) =>
    /:/.test(part) ? { type: 'image_url', image_url: { url: part } } : { type: 'text', text: part },
  );
  const messages = [{ role: 'user', content }];
  return request({
    endpoint: 'chat_completions',
    prompt: { kind: 'chat', messages },
    body: { model: 'letters', messages },
  });
}

async function mediaOf(asked: GenerationRequest): Promise<MediaPrompt> {
  const { media } = await preprocess(asked, seeing, loaded, tools);
  if (media === undefined) throw new Error('no media');
  return media;
}

function hashesOf(media: MediaPrompt, routing = {}): readonly number[] {
  return [...media.hashedFor(seeing.pool, routing).hashes.local];
}

interface Placed {
  readonly id: string;
  readonly start: number;
  readonly end: number;
}

/** The same blocks as an engine's events name them. */
function told(tokens: readonly number[], pictures: readonly Placed[], loraName?: string): readonly number[] {
  const count = Math.floor(tokens.length / BLOCK);
  const normaliser = new EventNormaliser({ dpRank: 0, blockSizeTokens: BLOCK, onUnusable: () => {} });
  const event = normaliser.apply({
    kind: 'stored',
    blockHashes: Uint32Array.from({ length: 2 * count }, (_, at) => at),
    parentHash: undefined,
    tokenIds: Uint32Array.from(tokens.slice(0, BLOCK * count)),
    blockSizeTokens: BLOCK,
    extraKeys: Array.from({ length: count }, (_, block) => {
      const [start, end] = [block * BLOCK, (block + 1) * BLOCK];
      const inside = pictures.filter((each) => each.start < end && each.end > start);
      const keys = inside.map(({ id, start: begun }) => [
        loraName === undefined ? id : `${loraName}:${id}`,
        begun - start,
      ]);
      return loraName === undefined ? keys : [loraName, ...keys];
    }),
    loraId: loraName === undefined ? undefined : 1,
    loraName,
    cacheSalt: undefined,
    medium: 'GPU',
    group: 0,
    cacheKind: undefined,
  });
  return event?.kind === 'stored' ? [...event.tokensHashes] : [];
}

const letters = (text: string): readonly number[] => Array.from(text, (letter) => letter.charCodeAt(0) - 96);
const pads = (count: number): readonly number[] => new Array<number>(count).fill(PAD);

/** Asks once about `url` and learns that it takes `count` tokens. */
async function learn(url: string, count: number, id = mediaIdentity(url)): Promise<void> {
  const media = await mediaOf(chat('abc', url, 'de'));
  media.learn({ ids: [id], token_ids: [...letters('abc'), ...pads(count), ...letters('de')] });
}

describe('a chat with media', () => {
  beforeEach(() => {
    tools = promptTools();
  });

  it('goes to its worker as the client wrote it, which is asked what it made of what is not known', async () => {
    const asked = chat('abc', CAT);
    const first = await preprocess(asked, seeing, loaded, tools);
    expect(first.request).toMatchObject({
      input: { kind: 'text', endpoint: 'chat_completions', body: asked.body },
      mmRoutingInfo: { wants_tokens: true },
    });
    await learn(CAT, 9);
    const second = await preprocess(asked, seeing, loaded, tools);
    expect(second.request.mmRoutingInfo).toEqual({ wants_tokens: false });
    const text = await preprocess(chat('abc'), seeing, loaded, tools);
    expect([text.request.input.kind, text.media]).toEqual(['tokens', undefined]);
  });

  it('has the blocks that its engine tells of, once it is known what that makes of its media', async () => {
    await learn(CAT, 9);
    await learn(DOG, 6);
    const [cat, dog] = [mediaIdentity(CAT), mediaIdentity(DOG)];
    const media = await mediaOf(chat('ab', CAT, 'cdefg', DOG, 'hi'));
    const tokens = [...letters('ab'), ...pads(9), ...letters('cdefg'), ...pads(6), ...letters('hi')];
    const pictures = [
      { id: cat, start: 2, end: 11 },
      { id: dog, start: 16, end: 22 },
    ];
    expect(hashesOf(media)).toEqual(told(tokens, pictures));
    expect(hashesOf(media, { lora_name: 'tuned' })).toEqual(told(tokens, pictures, 'tuned'));
    expect(media.hashedFor(seeing.pool, {}).tokens).toBe(tokens.length);
    expect(media.home).toBeUndefined();
  });

  it('shares no block with the same chat about another picture of the same size', async () => {
    await learn(CAT, 9);
    await learn(DOG, 9);
    const [cat, dog] = [await mediaOf(chat('abcd', CAT)), await mediaOf(chat('abcd', DOG))].map((media) =>
      hashesOf(media),
    );
    expect(dog?.slice(0, 2)).toEqual(cat?.slice(0, 2)); // the text before it
    expect(dog?.slice(2)).not.toEqual(cat?.slice(2));
    expect(dog?.[2]).not.toBe(cat?.[2]);
  });

  it('is known up to a picture that is not, for which it has a home; no other picture is taken for that', async () => {
    await learn(CAT, 9); // so that the placeholder is known
    const [dog, cow] = [await mediaOf(chat('abcd', DOG, 'e')), await mediaOf(chat('abcd', `${DOG}AA`, 'e'))];
    const text = told([...letters('abcd'), ...pads(4)], []);
    expect(hashesOf(dog).slice(0, 2)).toEqual(text.slice(0, 2));
    expect(dog.home?.key).not.toEqual(cow.home?.key);
    expect((await mediaOf(chat('xy', DOG))).home?.key).toEqual(dog.home?.key);
    expect(dog.hashedFor(seeing.pool, {}).tokens).toBeGreaterThan(100);
    const seven = (picture: string): GenerationRequest => chat('abcd', picture, 'efg');
    expect(hashesOf(await mediaOf(seven(DOG)))).not.toEqual(hashesOf(await mediaOf(seven(`${DOG}AA`))));
  });

  it('is known up to its first picture also where nothing was ever learned of the model', async () => {
    const text = told([...letters('abcdefgh'), ...pads(4)], []);
    const [dog, cow] = [await mediaOf(chat('abcdefghij', DOG, 'klm')), await mediaOf(chat('abcdefghij', CAT, 'klm'))];
    expect(hashesOf(dog).slice(0, 4)).toEqual(text.slice(0, 4));
    expect(hashesOf(dog).slice(4)).not.toEqual(hashesOf(cow).slice(4));
  });

  it('learns by its address what the worker read there, and again when that has changed', async () => {
    const url = 'https://pictures/1.png';
    await learn(url, 9, 'a'.repeat(64));
    const media = await mediaOf(chat('ab', url));
    const expected = (id: string) => told([...letters('ab'), ...pads(9)], [{ id, start: 2, end: 11 }]);
    expect(hashesOf(media)).toEqual(expected('a'.repeat(64)));
    media.learn({ ids: ['b'.repeat(64)] });
    const changed = await mediaOf(chat('ab', url));
    expect(changed.asksForTokens).toBe(true);
  });

  it('is not predicted if the request says how to read media, or if its template has no place for media', async () => {
    await learn(CAT, 9);
    const asked = chat('abcd', CAT);
    const read = await mediaOf({ ...asked, body: { ...asked.body, mm_processor_kwargs: { max_pixels: 1 } } });
    expect([read.asksForTokens, read.home === undefined]).toEqual([false, false]);
    read.learn({ ids: [mediaIdentity(CAT)], token_ids: [...letters('abcd'), ...pads(2)] });
    expect((await mediaOf(asked)).hashedFor(seeing.pool, {}).tokens).toBe(13);
    const { media } = await preprocess(asked, seeing, letterModel, tools);
    expect([media?.asksForTokens, media?.hashedFor(seeing.pool, {}).hashes.local.length]).toEqual([false, 0]);
    expect(media?.home).toBeDefined();
  });

  it('learns nothing from an answer that does not fit', async () => {
    const media = await mediaOf(chat('abc', CAT, 'de'));
    media.learn({ ids: [], token_ids: [1] });
    media.learn({ ids: [''], token_ids: [...letters('abc'), ...pads(4), ...letters('de')] }); // its engine names it otherwise
    media.learn({ ids: ['x'], token_ids: [...letters('other'), ...pads(4), ...letters('de')] });
    expect((await mediaOf(chat('abc', CAT, 'de'))).asksForTokens).toBe(true);
  });
});
